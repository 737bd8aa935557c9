//! Events.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use super::backend::probes;
use crate::cli::table::wrap;
use crate::control::protocol::reply::{Event, EventsReply};

/// `lodectl show events`
#[must_use]
pub fn events(reply: &EventsReply) -> String {
    if reply.events.is_empty() {
        return "nothing has happened\n".into();
    }
    reply.events.iter().map(event).collect()
}

/// One event: when (UTC), how bad, what.
#[must_use]
pub fn event(event: &Event) -> String {
    let line = format!(
        "{} {} {} {}: {}",
        clock(event.time_ms),
        event.severity,
        event.kind,
        event.subject,
        event.message
    );
    let mut text = wrap(&line, 4).trim_start().to_owned();
    if let Some(health) = &event.health {
        text += &format!("    {}\n", probes(&health.probes));
    }
    text
}

/// Milliseconds since 1970 as `2026-11-30 12:34:56.789`, UTC.
fn clock(time_ms: u64) -> String {
    let (days, of_day) = (time_ms / 86_400_000, time_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (seconds, milliseconds) = (of_day / 1000, of_day % 1000);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{milliseconds:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Days since 1970-01-01 as a date of the Gregorian calendar, counted in eras of 400 years that
/// begin on the first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + carry, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_utc_of_the_gregorian_calendar() {
        for (time, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_399_999, "2000-02-28 23:59:59.999"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (951_868_800_000, "2000-03-01 00:00:00.000"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
            (1_796_083_200_123, "2026-12-01 00:00:00.123"),
        ] {
            assert_eq!(clock(time), text);
        }
    }
}
