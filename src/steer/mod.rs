//! (written next)

/// What the monitors say of a backend. What an operator wants of it is kept apart from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It passes its probes, or has no monitor.
    Up,
    /// It fails its probes.
    Down,
    /// No probe has ended yet.
    Unknown,
}
