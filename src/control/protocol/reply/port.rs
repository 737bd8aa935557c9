//! Ports and neighbours.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortsReply {
    /// In the configuration's order.
    pub ports: Vec<PortDetail>,
    /// Packet buffers that something holds: queues, workers, packets on their way.
    pub buffers_in_use: u32,
    /// All packet buffers.
    pub buffers: u32,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortDetail {
    /// Its name in the configuration.
    pub name: String,
    /// The DPDK device.
    pub device: String,
    /// The driver that runs it.
    pub driver: String,
    /// Its link-layer address, `02:00:00:00:00:01`.
    pub mac: String,
    /// Its addresses with the prefix of their network.
    pub addresses: Vec<String>,
    /// The longest IP packet in bytes.
    pub mtu: u16,
    /// The 802.1Q VLAN of its frames.
    pub vlan: Option<u16>,
    /// Whether the link is up.
    pub link_up: bool,
    /// Its speed in Mbit/s; absent if the device does not know.
    pub speed_mbps: Option<u32>,
    /// Receive and transmit queues, one of each a worker.
    pub queues: u16,
    /// How received packets are spread over the queues: `not needed`, `on (…)`,
    /// `by the kernel`, `missing`, `not taken`.
    pub rss: String,
    /// The hash key of RSS in hexadecimal; absent without RSS, or if the device does not tell it.
    pub rss_key: Option<String>,
    /// The redirection table of RSS: the queue by place; empty without RSS.
    pub rss_table: Vec<u16>,
    /// Frames received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the device dropped since no worker fetched them in time.
    pub rx_missed: u64,
    /// Frames that the device found broken.
    pub rx_errors: u64,
    /// Frames lost since there was no buffer for them.
    pub rx_no_buffer: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that the device took and did not send.
    pub tx_errors: u64,
    /// How often its link went up or down since start.
    pub link_changes: u64,
    /// How often its device was reset since start.
    pub resets: u64,
    /// What the device does, what the worker does in its place, and what is missing.
    pub features: Vec<PortFeature>,
}

/// One function of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortFeature {
    /// What it is, as in `rss`, `vlan-filter`, `receive-checksum`.
    pub name: String,
    /// Who does it.
    pub done_by: DoneBy,
    /// Numbers and reasons, for people.
    pub detail: String,
}

/// Who does something that a port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DoneBy {
    /// The device.
    Device,
    /// The worker.
    Software,
    /// Nobody: the port works otherwise than it could.
    Missing,
    /// It is not needed as the port is configured.
    NotNeeded,
}

/// Every next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighboursReply {
    /// By port, then by address.
    pub neighbours: Vec<NeighbourEntry>,
}

/// One next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourEntry {
    /// The port that leads to it.
    pub port: String,
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address; absent while it is unresolved.
    pub mac: Option<String>,
    /// `incomplete`, `reachable`, `probing` or `stale`.
    pub state: String,
    /// Milliseconds since it was last heard; absent if it never was.
    pub heard_ms: Option<u64>,
}
