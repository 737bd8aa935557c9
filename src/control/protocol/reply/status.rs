//! The appliance at a glance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The appliance at a glance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What appliances compare.
    pub digests: Digests,
    /// The configuration file that `reload` reads.
    pub config_path: String,
    /// Changes made at run time that the file does not have; `config.diff` lists them.
    pub unsaved_changes: u32,
    /// By worker.
    pub workers: Vec<WorkerStatus>,
    /// In the configuration's order.
    pub ports: Vec<PortStatus>,
    /// In the configuration's order.
    pub services: Vec<ServiceSummary>,
    /// The management core.
    pub management: ManagementStatus,
    /// What an operator should look at, one sentence each.
    pub alarms: Vec<String>,
}

/// Three digests in hex. Appliances of a cluster that agree have equal ones; where they differ, the
/// first that differs tells why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Digests {
    /// Of the configuration that a cluster shares.
    pub configuration: String,
    /// Of what the tables follow from beside it: health, and quotas.
    pub inputs: String,
    /// Of the tables: equal on appliances that choose equally.
    pub tables: String,
}

/// One worker in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortStatus {
    /// Its name in the configuration.
    pub name: String,
    /// The DPDK device.
    pub device: String,
    /// Its link-layer address, `02:00:00:00:00:01`.
    pub mac: String,
    /// Whether the link is up.
    pub link_up: bool,
    /// How received packets are spread over the queues: `not needed`, `on (…)`, `missing` or
    /// `not taken`.
    pub rss: String,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSummary {
    /// Its name.
    pub name: String,
    /// Its pools, in order of preference.
    pub pools: Vec<PoolSummary>,
}

/// One pool of a service in `status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSummary {
    /// Its name.
    pub name: String,
    /// Backends that are up and enabled with a weight above 0.
    pub healthy: u32,
    /// All its backends.
    pub total: u32,
}

/// The management core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManagementStatus {
    /// The CPU core it runs on.
    pub core: u32,
    /// How often it started again after a panic.
    pub restarts: u32,
}
