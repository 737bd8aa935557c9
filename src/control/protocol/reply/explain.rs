//! Every decision about a flow, with its numbers.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::Protocol;

/// Every decision about a flow (HP-02, OPS-02). Absent members were not reached: `drop` in
/// `first_packet` says where it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainReply {
    /// The client's address.
    pub source: IpAddr,
    /// The client's port.
    pub source_port: u16,
    /// The destination's address.
    pub destination: IpAddr,
    /// The destination's port.
    pub destination_port: u16,
    /// The protocol.
    pub protocol: Protocol,
    /// The generation of the tables that decided.
    pub generation: u64,
    /// The entry point that the destination is.
    pub vip: Option<VipMatch>,
    /// What the hash is made of.
    pub affinity: Option<AffinityInput>,
    /// The flow hash, 64 bits in hex: the high half is for level 1, the low half for level 2.
    pub hash: Option<String>,
    /// Which pool, and why.
    pub level1: Option<Level1Choice>,
    /// Which backend of the pool, and why.
    pub level2: Option<Level2Choice>,
    /// The flow's entry in each worker's connection table that has one.
    pub tracked: Vec<Tracked>,
    /// Workers that did not say whether they track it, since they do not poll.
    pub silent_workers: Vec<u16>,
    /// What happens to a packet that opens the flow: a TCP SYN, or any without an entry.
    pub first_packet: Outcome,
    /// What happens to a packet that follows, on a worker that tracks the flow; as
    /// `first_packet` if none does.
    pub later_packet: Outcome,
}

/// An entry point and its service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VipMatch {
    /// Its number in connection entries.
    pub vip: u16,
    /// The ports of this service there: `any`, or ports and ranges.
    pub ports: String,
    /// The service.
    pub service: String,
}

/// What the flow hash is made of (`docs/flow-hash.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AffinityInput {
    /// The affinity, as in the configuration.
    pub kind: String,
    /// The fields that count, as text.
    pub fields: Vec<String>,
}

/// Level 1: the service's flow to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level1Choice {
    /// The pool.
    pub pool: String,
    /// Slots of the table; 0 if one pool takes all, without a table.
    pub slots: u32,
    /// The slot that the hash points to.
    pub slot: Option<u32>,
    /// Why this pool: a sentence.
    pub reason: String,
}

/// Level 2: the pool's flow to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Level2Choice {
    /// Slots of the pool's table.
    pub slots: u32,
    /// The slot that the hash points to.
    pub slot: u32,
    /// The backend that owns it now, as `pool/name`.
    pub current: String,
    /// Why this backend: a sentence.
    pub reason: String,
}

/// A flow's entry in a worker's connection table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tracked {
    /// The worker.
    pub worker: u16,
    /// The backend as `pool/name`; absent if it was removed.
    pub backend: Option<String>,
    /// `half-open`, `unverified`, `established` or `closing`.
    pub state: String,
    /// Milliseconds until it is forgotten if it stays silent.
    pub expires_in_ms: u64,
    /// Whether the flow may stay where the entry says.
    pub stays: bool,
    /// Why, or why not (persistence): a sentence.
    pub reason: String,
}

/// What happens to a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Who decides: `tables`, or `entry` in the connection table.
    pub basis: String,
    /// The backend as `pool/name`; absent if there is none.
    pub backend: Option<String>,
    /// The drop reason, if the packet is dropped.
    pub drop: Option<String>,
    /// How it leaves; absent if it is dropped.
    pub encapsulation: Option<Encapsulated>,
}

/// How a packet leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Encapsulated {
    /// `ipip`.
    pub kind: String,
    /// The port that sends it.
    pub port: String,
    /// Whose link-layer address it gets: the backend, or a gateway.
    pub next_hop: IpAddr,
    /// That address.
    pub next_hop_mac: String,
    /// Source of the outer header.
    pub outer_source: IpAddr,
    /// Destination of the outer header.
    pub outer_destination: IpAddr,
    /// All outer headers in hex, as in front of a packet of `inner_len` bytes with DSCP and ECN 0.
    pub header: String,
    /// The length that `header` was made for: a packet without payload.
    pub inner_len: u32,
    /// The longest packet of the flow that fits the port's MTU.
    pub longest_inner_len: u32,
}
