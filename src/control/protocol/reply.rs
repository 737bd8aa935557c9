//! The answers. Counters count from the daemon's start and never go back; shares are fractions of
//! 1. New members may be added; members here keep their name, unit and meaning.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Any answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// To `status`.
    Status(Box<StatusReply>),
    /// To `show.services`.
    Services(ServicesReply),
    /// To `show.backends`.
    Backends(BackendsReply),
    /// To `show.workers`.
    Workers(WorkersReply),
    /// To `show.drops`.
    Drops(DropsReply),
    /// To `show.conntrack`.
    Conntrack(ConntrackReply),
    /// To `backend.drain`, `backend.enable`, `backend.disable` and `reload`.
    Change(ChangeReply),
}

macro_rules! reply_from {
    ($($variant:ident($reply:ident)),* $(,)?) => {
        $(impl From<$reply> for Reply {
            fn from(reply: $reply) -> Self {
                Self::$variant(reply)
            }
        })*
    };
}

reply_from! {
    Services(ServicesReply), Backends(BackendsReply), Workers(WorkersReply), Drops(DropsReply),
    Conntrack(ConntrackReply), Change(ChangeReply),
}

impl From<StatusReply> for Reply {
    fn from(reply: StatusReply) -> Self {
        Self::Status(Box::new(reply))
    }
}

/// The appliance at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReply {
    /// The appliance's name in its configuration.
    pub name: String,
    /// Version of the product.
    pub version: String,
    /// Commit it was built from.
    pub commit: String,
    /// Version of DPDK.
    pub dpdk: String,
    /// Seconds since the daemon started.
    pub uptime_seconds: u64,
    /// The newest published generation of the tables.
    pub generation: u64,
    /// Digest of the tables, in hex: equal on appliances that choose equally.
    pub tables_digest: String,
    /// The configuration file that `reload` reads.
    pub config_path: String,
    /// By worker.
    pub workers: Vec<WorkerStatus>,
    /// In the configuration's order.
    pub ports: Vec<PortStatus>,
    /// In the configuration's order.
    pub services: Vec<ServiceSummary>,
    /// What an operator should look at, one sentence each.
    pub alarms: Vec<String>,
}

/// One worker in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its number.
    pub worker: u16,
    /// The CPU core it runs on.
    pub core: u32,
    /// The generation it runs.
    pub generation: u64,
    /// Whether it did not adopt the newest generation within a second.
    pub lagging: bool,
}

/// One port in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The DPDK device.
    pub device: String,
    /// Its link-layer address, `02:00:00:00:00:01`.
    pub mac: String,
    /// Whether the link is up.
    pub link_up: bool,
    /// Whether the device spreads flows over its queues.
    pub rss: bool,
    /// The longest IP packet in bytes.
    pub mtu: u16,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Frames that the device dropped since no worker fetched them in time.
    pub rx_missed: u64,
}

/// One service in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSummary {
    /// Its name.
    pub name: String,
    /// Its pools, in order of preference.
    pub pools: Vec<PoolSummary>,
}

/// One pool of a service in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSummary {
    /// Its name.
    pub name: String,
    /// Backends that are up and enabled.
    pub healthy: u32,
    /// All its backends.
    pub total: u32,
}

/// Every service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServicesReply {
    /// In the configuration's order.
    pub services: Vec<ServiceState>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceState {
    /// Its name.
    pub name: String,
    /// Its entry points.
    pub vips: Vec<VipState>,
    /// How its pool is chosen, as in the configuration.
    pub steering: String,
    /// Which packet fields choose the backend, as in the configuration.
    pub affinity: String,
    /// How long an established flow may be silent, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Its pools, in order of preference.
    pub pools: Vec<PoolState>,
    /// Why new flows go where they go: one sentence.
    pub reason: String,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VipState {
    /// The virtual IP.
    pub address: IpAddr,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// `any`, or ports and ranges: `80,443,8000-8999`.
    pub ports: String,
}

/// One pool of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    /// Its name.
    pub name: String,
    /// Backends that are up and enabled.
    pub healthy: u32,
    /// All its backends.
    pub total: u32,
    /// With fewer healthy backends it takes no new flows.
    pub threshold: u32,
    /// Its share of the service's new flows, 0..=1.
    pub share: f64,
}

/// Every backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendsReply {
    /// In the configuration's order.
    pub pools: Vec<PoolBackends>,
}

/// The backends of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolBackends {
    /// The pool's name.
    pub pool: String,
    /// In the configuration's order.
    pub backends: Vec<BackendState>,
}

/// One backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendState {
    /// Its name in the pool.
    pub name: String,
    /// Where encapsulated packets go.
    pub address: IpAddr,
    /// What the operator wants.
    pub admin_state: AdminState,
    /// What its monitor says.
    pub health: Health,
    /// Relative share of new flows in its pool.
    pub weight: u32,
    /// Its share of the slots of its pool's table, 0..=1.
    pub share: f64,
    /// Packets sent to it.
    pub packets: u64,
    /// Bytes sent to it: IP packets of clients, without the outer headers.
    pub bytes: u64,
    /// Flows that it was chosen for.
    pub new_flows: u64,
    /// Flows to it that are tracked now.
    pub flows: u64,
    /// Link-layer address of the next hop towards it; absent while it is unresolved.
    pub next_hop: Option<String>,
    /// The last ten probes, oldest first.
    pub probes: Vec<ProbeResult>,
}

/// What the operator wants of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdminState {
    /// It takes new flows when healthy.
    Enabled,
    /// It takes no new flows; established ones stay.
    Draining,
    /// It takes no flows at all.
    Disabled,
}

impl fmt::Display for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Enabled => "enabled",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
        })
    }
}

/// What a backend's monitor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Its probes pass.
    Up,
    /// Its probes fail.
    Down,
    /// It was not probed yet.
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Unknown => "unknown",
        })
    }
}

/// One probe (OPS-05).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Milliseconds between its end and this answer.
    pub age_ms: u64,
    /// Milliseconds it took.
    pub took_ms: u64,
    /// Why it failed: `refused`, `timeout`, `bad status 503` and the like; absent if it passed.
    pub failure: Option<String>,
}

/// Every worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkersReply {
    /// By worker.
    pub workers: Vec<WorkerState>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Its number.
    pub worker: u16,
    /// The CPU core it runs on.
    pub core: u32,
    /// The generation it runs.
    pub generation: u64,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent, replies among them.
    pub tx_packets: u64,
    /// Frames turned into an answer (ARP, neighbour advertisement, echo reply).
    pub replies: u64,
    /// Frames given to management.
    pub punted: u64,
    /// Frames dropped, for any reason.
    pub dropped: u64,
    /// Times it asked its queues for frames.
    pub polls: u64,
    /// Times they had none.
    pub empty_polls: u64,
    /// Mean number of frames of a poll that had any.
    pub packets_per_burst: f64,
}

/// Every drop reason, also those that never happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropsReply {
    /// The workers that `per_worker` counts, in its order.
    pub workers: Vec<u16>,
    /// In the order of `docs/drop-reasons.md`.
    pub reasons: Vec<DropState>,
}

/// One drop reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropState {
    /// Its name.
    pub reason: String,
    /// What it means.
    pub description: String,
    /// Frames dropped on all workers.
    pub total: u64,
    /// Frames dropped on each worker.
    pub per_worker: Vec<u64>,
}

/// Every shard of the connection tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConntrackReply {
    /// By worker, then by family.
    pub shards: Vec<ShardState>,
}

/// The flows of one family on one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardState {
    /// The worker that owns it.
    pub worker: u16,
    /// Of the client's address.
    pub family: Family,
    /// Flows tracked now.
    pub entries: u64,
    /// Flows it can track.
    pub capacity: u64,
    /// Packets whose flow was tracked.
    pub hits: u64,
    /// Flows tracked since a packet opened them.
    pub new: u64,
    /// Flows tracked from a packet in their midst.
    pub unverified: u64,
    /// Flows not tracked for want of room; they follow the tables.
    pub refused: u64,
    /// Flows forgotten after their idle timeout.
    pub expired: u64,
}

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReply {
    /// The generation that carries the change, or the current one if there was nothing to change.
    pub generation: u64,
    /// Whether anything changed.
    pub changed: bool,
    /// Workers that run this generation or a newer one: all of them, or it would be an error.
    pub workers_adopted: u16,
    /// What is allowed but worth a look, one sentence each (`reload`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
