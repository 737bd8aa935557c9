//! Management: the desired state, what makes tables of it, and who may change it.
//!
//! [`State`] is what is wanted and known; [`Compiler`] makes tables of it; [`Management`] is the
//! loop around both. Nothing here sees a packet buffer: frames of neighbours come and go by value.

pub mod admin;
mod adoption;
mod alarms;
mod audit;
mod backend_slots;
mod baselines;
mod change;
mod compile;
mod conflicts;
mod difference;
mod digest;
mod drains;
mod edits;
pub mod events;
pub mod explain;
mod flush;
pub mod guard;
mod jobs;
mod laggards;
mod links;
mod management;
pub mod metrics;
pub mod neighbours;
mod ports;
pub mod protocol;
mod pulse;
mod record;
mod restarts;
mod route;
mod show;
mod stable_ids;
mod standing;
mod state;
mod traffic;
mod vip_ids;

#[cfg(test)]
mod tests;

pub use alarms::{Alarm, AlarmKind};
pub use baselines::{Baselines, Since};
pub use compile::{Compiler, Links};
pub use digest::Digests;
pub use management::{LogLeftOut, Management, ManagementError, ManagementParts, Stopper};
pub use ports::{PortNews, PortState, Ports, WorkerRemote};
pub use pulse::{Notice, Pulse, STALL_LIMIT, Stall};
pub use route::{Route, route};
pub use standing::{StandingBackend, StandingPool, StandingService};
pub use state::{Applied, ApplyError, BACKEND_CAP, SERVICE_CAP, State};
