//! The numbers of one moment, as plain data. All times are in seconds, all sizes in bytes.

use std::net::IpAddr;

use super::tally::{Outcome, ProbeTally};
use crate::control::alarms::AlarmKind;
use crate::control::events::EventKind;
use crate::control::ports::PortState;
use crate::forward::DropReason;
use crate::id::Family;
use crate::stats::{BackendTotals, FlowTotals, Histogram, RuntimeTotals, ServiceTotals, Totals};
use crate::steer::{AdminState, Health};

/// All that a scrape tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The appliance's name.
    pub appliance: String,
    /// When the daemon started, in seconds since 1970.
    pub start_time: f64,
    /// Seconds since then.
    pub uptime: f64,
    /// The newest published generation of the tables.
    pub generation: u64,
    /// Digest of the tables.
    pub tables_digest: String,
    /// Restarts of management after a panic.
    pub management_restarts: u64,
    /// Messages that the log left out.
    pub log_left_out: u64,
    /// By [`EventKind::index`].
    pub events: [u64; EventKind::COUNT],
    /// Alarms that are raised now, by kind and subject.
    pub alarms: Vec<(AlarmKind, String)>,
    /// Admin requests by method and outcome.
    pub requests: Vec<(&'static str, Outcome, u64)>,
    /// Packet buffers that something holds, and all there are.
    pub buffers: (u32, u32),
    /// By worker.
    pub workers: Vec<WorkerObservation>,
    /// In the configuration's order.
    pub ports: Vec<PortObservation>,
    /// In the configuration's order.
    pub services: Vec<ServiceObservation>,
    /// In the configuration's order.
    pub pools: Vec<PoolObservation>,
    /// By pool, and in the configuration's order within a pool.
    pub backends: Vec<BackendObservation>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerObservation {
    /// Its number.
    pub worker: u16,
    /// Its core.
    pub core: usize,
    /// The generation that it runs.
    pub generation: u64,
    /// Whether it did not adopt the newest generation in time.
    pub lagging: bool,
    /// What it has counted.
    pub totals: Totals,
    /// What its time went into, in cycles.
    pub runtime: RuntimeTotals,
    /// How long its bursts took, in cycles.
    pub latency: Histogram,
    /// Cycles a second.
    pub cycles_per_second: u64,
    /// Frames dropped, by [`DropReason::index`].
    pub dropped: [u64; DropReason::COUNT],
    /// IPv4 and IPv6 flows.
    pub shards: [ShardObservation; 2],
}

/// The flows of one family on one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardObservation {
    /// The family.
    pub family: Family,
    /// Flows that can be tracked.
    pub capacity: u64,
    /// What was counted.
    pub flows: FlowTotals,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortObservation {
    /// Its name.
    pub name: String,
    /// How it is, and what it has counted.
    pub state: PortState,
    /// How often its link came up or went down.
    pub link_changes: u64,
}

/// One service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceObservation {
    /// Its name.
    pub name: String,
    /// What its flows were worth.
    pub totals: ServiceTotals,
    /// Each of its pools, by its place in [`Observation::pools`], and its share of the new flows.
    pub shares: Vec<(usize, f64)>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolObservation {
    /// Its name.
    pub name: String,
    /// Backends that are up and enabled with a weight above 0.
    pub healthy: u64,
    /// All its backends.
    pub backends: u64,
    /// With fewer healthy ones it takes no new flows.
    pub threshold: u64,
}

/// One backend of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendObservation {
    /// Its pool, by its place in [`Observation::pools`].
    pub pool: usize,
    /// Its name.
    pub name: String,
    /// Where its packets go.
    pub address: IpAddr,
    /// What the workers have counted for it, all together.
    pub totals: BackendTotals,
    /// What probes found.
    pub health: Health,
    /// What the operator wants.
    pub admin: AdminState,
    /// Its configured weight.
    pub weight: u32,
    /// Its share of its pool's slots, 0 to 1.
    pub slot_share: f64,
    /// Whether its next hop's link-layer address is known.
    pub resolved: bool,
    /// Its probes, if there were any.
    pub probes: Option<ProbeTally>,
}
