//! Health: is a backend fit to take new flows?
//!
//! One task a target ([`Supervisor`]) probes over the kernel's management network (one file a
//! protocol: [`tcp`], [`http`]), damps what it sees by rise and fall ([`Damping`]) and reports to
//! management, which decides what that means for the tables.
//!
//! From the moment a backend dies, at most interval × fall + timeout pass until the report of its
//! going down is sent: probes start at most an interval apart, and each has its answer or its
//! failure within the timeout.

mod cause;
mod damping;
pub mod http;
mod jitter;
mod probe;
mod supervisor;
mod target;
pub mod tcp;
#[cfg(test)]
mod tests;

pub use cause::Cause;
pub use damping::{Damping, HISTORY, Outcome, ProbeResult, Transition};
pub use jitter::Jitter;
pub use probe::{Network, Prober};
pub use supervisor::{Report, Supervisor};
pub use target::Target;
