//! What management sees of the ports and workers. The daemon implements it over DPDK, tests by hand.

use std::fmt::Debug;
use std::time::Duration;

use crate::control::protocol::reply::PortFeature;
use crate::forward::DropReason;
use crate::id::{PortId, WorkerId};
use crate::packet::MacAddress;
use crate::stats::StatsView;
use crate::worker::MailboxRemote;

/// The ports of the appliance.
pub trait Ports: Debug + Send {
    /// A port's link-layer address.
    fn mac(&self, port: PortId) -> MacAddress;

    /// Whether a port's link is up. Cheap: it is asked often.
    fn link_up(&self, port: PortId) -> bool;

    /// Packet buffers that something holds at the moment, and all there are; none where ports need
    /// no pool.
    fn buffers(&self) -> (u32, u32) {
        (0, 0)
    }

    /// A port at the moment.
    fn state(&self, port: PortId) -> PortState;

    /// Looks after the devices, and tells what happened to them. It does not wait, and is called every few
    /// milliseconds.
    fn tend(&mut self, _now: Duration) -> Vec<PortNews> {
        Vec::new()
    }
}

/// What happened to a port's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortNews {
    /// The port.
    pub port: PortId,
    /// Whether that is a trouble, or its end.
    pub is_trouble: bool,
    /// What happened, as the rest of a sentence that begins with `port NAME `.
    pub text: String,
}

/// A port at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// Whether the link is up.
    pub link_up: bool,
    /// Whether the device spreads flows over its queues.
    pub rss: bool,
    /// The driver that runs it.
    pub driver: String,
    /// Its speed in Mbit/s, if the device knows.
    pub speed_mbps: Option<u32>,
    /// Receive and transmit queues, one of each a worker.
    pub queues: u16,
    /// How received packets are spread over the queues, in words.
    pub spread: String,
    /// The key by which received packets are spread, in hexadecimal; `None` if there is none.
    pub rss_key: Option<String>,
    /// The queue by place in the redirection table; empty if there is none.
    pub rss_table: Vec<u16>,
    /// Frames received since start.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the device dropped since no worker fetched them in time.
    pub rx_missed: u64,
    /// Frames that the device found broken.
    pub rx_errors: u64,
    /// Frames lost since there was no buffer for them.
    pub rx_no_buffer: u64,
    /// Frames sent since start.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames that the device took and did not send.
    pub tx_errors: u64,
    /// How often its device was reset since start.
    pub resets: u64,
    /// What its device does, what the worker does in its place, and what is missing.
    pub features: Vec<PortFeature>,
    /// What an operator should know about it, in a sentence.
    pub alarm: Option<String>,
}

/// Management's end of one worker.
#[derive(Debug)]
pub struct WorkerRemote {
    /// The worker.
    pub id: WorkerId,
    /// Its core.
    pub core: usize,
    /// IPv4 and IPv6 flows that it can track.
    pub capacity: (usize, usize),
    /// Cycles a second of the counter by which its cycles are counted: the same for all workers.
    pub cycles_per_second: u64,
    /// Its counters.
    pub stats: StatsView<DropReason>,
    /// The frames it punts and sends, and its jobs.
    pub mailbox: MailboxRemote,
}
