//! The brain: which pool takes a service's new flows, and which backends of a pool take slots.
//!
//! Pure: configuration, admin states and health are arguments, and the same arguments give the
//! same answer on every appliance. No clock, no I/O, no packets.
//!
//! Two questions with different scope. A pool's table is shared by all services that use the pool,
//! so [`eligible`] looks at the pool alone. Which pools a service uses is the service's own matter:
//! [`failover`].

mod failover;
mod pool;

pub use failover::{Decision, Quota, Reason, decide, failover};
pub use pool::{
    AdminState, BackendState, Basis, Eligible, Health, Keeps, PoolState, eligible, keeps,
};
