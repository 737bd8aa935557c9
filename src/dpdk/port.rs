//! Started ports: what they are, and what they count.

use std::sync::atomic::Ordering;

use dpdk_sys::{rte_eth_link, rte_eth_stats};

use super::capability::{self, Decided};
use super::device_events::DeviceEvents;
use super::{
    Capabilities, DpdkError, Eal, Feature, NumaNode, QueuePair, Rss, RssLayout, error_text,
};
use crate::packet::MacAddress;

/// A started port. It runs until the program exits or [`Port::stop`] gets all its queues back;
/// dropping this value only forgets its name.
#[derive(Debug)]
pub struct Port {
    pub(super) id: u16,
    pub(super) name: String,
    pub(super) device: String,
    pub(super) driver: String,
    pub(super) queue_count: u16,
    pub(super) mac: MacAddress,
    pub(super) mtu: u16,
    pub(super) numa: Option<NumaNode>,
    pub(super) rss: Rss,
    pub(super) is_all_multicast: bool,
    pub(super) capabilities: Capabilities,
    pub(super) decided: Decided,
    pub(super) rss_layout: RssLayout,
    pub(super) events: DeviceEvents,
    pub(super) is_virtual_function: bool,
}

/// The state of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Whether it carries frames.
    pub is_up: bool,
    /// Its speed in Mbit/s; `None` if the device does not know.
    pub speed_mbps: Option<u32>,
}

/// What a port has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that the device dropped because no worker took them in time.
    pub rx_missed: u64,
    /// Packets that the device found broken.
    pub rx_errors: u64,
    /// Packets lost because the pool had no buffer for them.
    pub rx_no_mbuf: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that the device took and did not send.
    pub tx_errors: u64,
}

impl Port {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device, without arguments.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The driver that runs it, as in `net_virtio`.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// Its receive queues, and as many transmit queues.
    #[must_use]
    pub fn queue_count(&self) -> u16 {
        self.queue_count
    }

    /// The address that it sends from and receives for.
    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// The largest IP packet, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Where the device is attached, if it says so.
    #[must_use]
    pub fn numa(&self) -> Option<NumaNode> {
        self.numa
    }

    /// Whether the device spreads what it receives over the queues.
    #[must_use]
    pub fn rss(&self) -> Rss {
        self.rss
    }

    /// By which key and table it spreads them; empty without RSS.
    #[must_use]
    pub fn rss_layout(&self) -> &RssLayout {
        &self.rss_layout
    }

    /// Whether the device said that it lets every multicast frame in. Where it did not (many
    /// virtual devices have no filter to open), neighbour solicitations may not arrive.
    #[must_use]
    pub fn is_all_multicast(&self) -> bool {
        self.is_all_multicast
    }

    /// What its device offers, as read at the start.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What is done by the device, what by the worker, and what is missing.
    #[must_use]
    pub fn features(&self) -> Vec<Feature> {
        capability::features(&self.capabilities, &self.decided)
    }

    /// Whether the device was taken out of the machine; it never comes back as this port.
    #[must_use]
    pub fn was_removed(&self) -> bool {
        self.events.was_removed()
    }

    /// The state of its link, without waiting for the device.
    #[must_use]
    pub fn link(&self) -> LinkStatus {
        let mut link = rte_eth_link::default();
        // SAFETY: the port exists (EAL never removes one here) and `link` is writable.
        let status = unsafe { dpdk_sys::rte_eth_link_get_nowait(self.id, &raw mut link) };
        let is_up = status == 0 && link.link_status() != 0;
        // RTE_ETH_SPEED_NUM_UNKNOWN is u32::MAX, RTE_ETH_SPEED_NUM_NONE is 0.
        let is_known = is_up && link.link_speed != 0 && link.link_speed != u32::MAX;
        LinkStatus { is_up, speed_mbps: is_known.then_some(link.link_speed) }
    }

    /// Whether the link carries frames.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.link().is_up
    }

    /// What it has counted; zeros from a device that does not count.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        let mut stats = rte_eth_stats::default();
        // SAFETY: the port exists and `stats` is writable.
        let failed = unsafe { dpdk_sys::rte_eth_stats_get(self.id, &raw mut stats) } != 0;
        if failed {
            return PortStats::default();
        }
        PortStats {
            rx_packets: stats.ipackets,
            rx_bytes: stats.ibytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_no_mbuf: stats.rx_nombuf,
            tx_packets: stats.opackets,
            tx_bytes: stats.obytes,
            tx_errors: stats.oerrors,
        }
    }

    /// Stops the device and starts it with what it was configured with. Only while nobody polls a queue:
    /// `restart` sees to that.
    pub(super) fn restart_device(&self) -> Result<(), String> {
        // SAFETY: the port is started, and no queue of it is being polled.
        let status = unsafe { dpdk_sys::rte_eth_dev_stop(self.id) };
        if status != 0 {
            return Err(error_text(status));
        }
        // SAFETY: the port is configured with all its queues set up.
        let status = unsafe { dpdk_sys::rte_eth_dev_start(self.id) };
        if status == 0 { Ok(()) } else { Err(error_text(status)) }
    }

    /// Stops the port, so that its device no longer writes to memory. Who calls this holds all its
    /// queues, so nobody polls one meanwhile.
    ///
    /// # Errors
    ///
    /// A queue is missing, or the device refuses. Either way the queues are gone, and the port
    /// runs on until the program exits.
    pub fn stop(self, eal: &Eal, queues: Vec<QueuePair>) -> Result<(), DpdkError> {
        let own = |rx_port: u16, tx_port: u16| rx_port == self.id && tx_port == self.id;
        let own_count = queues.iter().filter(|(rx, tx)| own(rx.port, tx.port)).count();
        // Each pair exists once, so as many as were handed out are all of them.
        if own_count != usize::from(self.queue_count) || own_count != queues.len() {
            return Err(DpdkError::QueuesInUse { port: self.name });
        }
        drop(queues);
        // SAFETY: the port is started, and no queue of it is left to be polled.
        let status = unsafe { dpdk_sys::rte_eth_dev_stop(self.id) };
        if status != 0 {
            return Err(DpdkError::PortStop { port: self.name, reason: error_text(status) });
        }
        eal.started_ports.fetch_and(!(1 << self.id), Ordering::AcqRel);
        Ok(())
    }
}
