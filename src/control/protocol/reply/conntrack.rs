//! Drops, and the connection tables.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{Family, Protocol};

/// Every drop reason, also those that never happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DropsReply {
    /// The workers that `per_worker` counts, in its order.
    pub workers: Vec<u16>,
    /// In the order of `docs/drop-reasons.md`.
    pub reasons: Vec<DropState>,
}

/// One drop reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConntrackReply {
    /// By worker, then by family.
    pub shards: Vec<ShardState>,
}

/// The flows of one family on one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Flows forgotten at the operator's wish.
    pub removed: u64,
}

/// Tracked flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowsReply {
    /// At most as many as were asked for, by worker.
    pub flows: Vec<FlowState>,
    /// How many match, shown or not.
    pub matched: u64,
    /// Buckets of the connection tables that were walked.
    pub buckets: u64,
}

/// One tracked flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowState {
    /// The worker that tracks it.
    pub worker: u16,
    /// The client's address, as it came in the packet (OPS-08).
    pub source: IpAddr,
    /// The client's port.
    pub source_port: u16,
    /// The VIP; absent if it is not configured any more.
    pub destination: Option<IpAddr>,
    /// The VIP's port.
    pub destination_port: u16,
    /// The VIP's protocol; absent if it is not configured any more.
    pub protocol: Option<Protocol>,
    /// The backend as `pool/name`; absent if it was removed.
    pub backend: Option<String>,
    /// `half-open`, `unverified`, `established` or `closing`.
    pub state: String,
    /// Milliseconds until it is forgotten if it stays silent.
    pub expires_in_ms: u64,
}
