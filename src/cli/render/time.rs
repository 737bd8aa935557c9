//! Durations for people.

/// Milliseconds as seconds with a tenth, or more coarsely.
pub(super) fn milliseconds(milliseconds: u64) -> String {
    if milliseconds < 60_000 {
        format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
    } else {
        duration(milliseconds / 1000)
    }
}

/// Seconds in the two coarsest units that say something.
pub(super) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days} d {} h", hours % 24)
    } else if hours > 0 {
        format!("{hours} h {} min", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes} min {} s", seconds % 60)
    } else {
        format!("{seconds} s")
    }
}
