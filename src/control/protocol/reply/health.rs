//! What the monitors found.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::state::Health;

/// Every backend's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReply {
    /// In the configuration's order.
    pub backends: Vec<BackendHealth>,
}

/// One backend's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackendHealth {
    /// The backend as `pool/name`.
    pub backend: String,
    /// Its monitor; absent if the pool has none, and the backend is always up.
    pub monitor: Option<String>,
    /// Where probes go.
    pub address: IpAddr,
    /// What its monitor says.
    pub health: Health,
    /// Milliseconds since it became so; absent if it has been so since the daemon started.
    pub since_ms: Option<u64>,
    /// Why the last probe that failed did so; absent if none of the last ten failed.
    pub cause: Option<String>,
    /// The last ten probes, oldest first (OPS-05).
    pub probes: Vec<ProbeResult>,
}

/// One probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeResult {
    /// Milliseconds between its end and this answer.
    pub age_ms: u64,
    /// Milliseconds it took.
    pub took_ms: u64,
    /// Why it failed: `refused`, `timeout`, `bad status 503` and the like; absent if it passed.
    pub failure: Option<String>,
}
