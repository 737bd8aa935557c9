//! Services and pools.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::{AdminState, Protocol};

/// Every service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServicesReply {
    /// In the configuration's order.
    pub services: Vec<ServiceState>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceState {
    /// Its name.
    pub name: String,
    /// What the operator wants of it.
    pub admin_state: AdminState,
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
    /// What it has carried.
    pub traffic: ServiceTraffic,
}

/// What a service has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceTraffic {
    /// Packets sent to its backends.
    pub packets: u64,
    /// Their bytes: IP packets of clients, without the outer headers.
    pub bytes: u64,
    /// Flows that were decided.
    pub new_flows: u64,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VipState {
    /// The virtual IP.
    pub address: IpAddr,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
    /// `any`, or ports and ranges: `80,443,8000-8999`.
    pub ports: String,
}

/// One pool of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolState {
    /// Its name.
    pub name: String,
    /// Backends that are up and enabled with a weight above 0.
    pub healthy: u32,
    /// All its backends.
    pub total: u32,
    /// With fewer healthy backends it yields to the next pool of a service.
    pub threshold: u32,
    /// Its share of the service's new flows, 0..=1.
    pub share: f64,
}

/// Every pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsReply {
    /// In the configuration's order.
    pub pools: Vec<PoolDetail>,
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolDetail {
    /// Its name.
    pub name: String,
    /// What the operator wants of it.
    pub admin_state: AdminState,
    /// Where it stands.
    pub region: Option<String>,
    /// Where it stands.
    pub zone: Option<String>,
    /// Its monitor; absent if its backends are always up.
    pub monitor: Option<String>,
    /// Backends that are up and enabled with a weight above 0.
    pub healthy: u32,
    /// All its backends.
    pub total: u32,
    /// With fewer healthy backends it yields to the next pool of a service.
    pub threshold: u32,
    /// Which backends its table has: `ready` (enabled, up, of weight above 0), `last-resort` (none
    /// is up, so all that are enabled) or `nobody`.
    pub basis: String,
    /// Services that use it.
    pub services: Vec<String>,
    /// Packets sent to its backends.
    pub packets: u64,
    /// Their bytes: IP packets of clients, without the outer headers.
    pub bytes: u64,
    /// Flows that its backends were chosen for.
    pub new_flows: u64,
    /// Flows to its backends that are tracked now.
    pub flows: u64,
}
