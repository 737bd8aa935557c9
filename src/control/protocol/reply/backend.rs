//! Backends, and those that drain.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::health::ProbeResult;
use super::state::{AdminState, Health};

/// Every backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackendsReply {
    /// In the configuration's order.
    pub pools: Vec<PoolBackends>,
}

/// The backends of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolBackends {
    /// The pool's name.
    pub pool: String,
    /// In the configuration's order.
    pub backends: Vec<BackendState>,
}

/// One backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackendState {
    /// Its name in the pool.
    pub name: String,
    /// Where encapsulated packets go.
    pub address: IpAddr,
    /// What the operator wants: the more restrictive of its own and its pool's admin state.
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

/// What drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainsReply {
    /// In the configuration's order.
    pub drains: Vec<DrainState>,
}

/// A backend that drains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainState {
    /// The backend as `pool/name`.
    pub backend: String,
    /// What was drained: `backend`, `pool`.
    pub by: String,
    /// Milliseconds since it began to drain, as far as this daemon knows.
    pub since_ms: u64,
    /// Flows to it that were tracked when it began.
    pub flows_at_start: u64,
    /// Flows to it that are tracked now. At 0 the drain is done.
    pub flows: u64,
    /// Packets sent to it since it began to drain.
    pub packets: u64,
}
