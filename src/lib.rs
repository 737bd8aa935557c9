//! Lodestone: a load balancer appliance on DPDK.
//!
//! Reading order: [`packet`], [`maglev`], [`forward`], [`worker`], [`snapshot`], [`control`], then
//! `dpdk`. `docs/architecture.md` has the picture.

#![deny(unsafe_code)]

pub mod cli;
pub mod config;
pub mod conntrack;
pub mod control;
pub mod cpu;
#[cfg(feature = "dpdk")]
pub mod daemon;
#[cfg(feature = "dpdk")]
#[allow(unsafe_code)]
pub mod dpdk;
pub mod forward;
pub mod health;
pub mod id;
pub mod maglev;
pub mod packet;
mod padded;
pub mod snapshot;
pub mod stats;
pub mod steer;
pub mod time;
pub mod version;
pub mod worker;
