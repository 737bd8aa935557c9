//! Starting a port: checks first, so that what can be told is told before the device is touched.

use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;

use dpdk_sys::{rte_eth_conf, rte_eth_dev_info, rte_eth_rss_conf, rte_ether_addr};

use super::capability::{Capabilities, Decided};
use super::device::Device;
use super::device_events::DeviceEvents;
use super::mempool::{Mempool, seal_the_only_one};
use super::{
    DpdkError, Eal, NumaNode, Port, QueuePair, Rss, RssLayout, RssTypes, RxQueue, TxQueue,
    kernel_mtu, virtual_function,
};
use super::{error_text, log};
use crate::packet::MacAddress;

/// What a port is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// One of [`EalConfig::devices`](super::EalConfig::devices), with or without its arguments.
    pub device: String,
    /// Its name in the configuration, for people.
    pub name: String,
    /// Number of RX queues and of TX queues: one pair a worker.
    pub queue_count: u16,
    /// Descriptors of each queue. The device's limits go before this wish.
    pub descriptor_count: u16,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Set instead of the device's own address.
    pub mac: Option<MacAddress>,
}

impl PortConfig {
    /// Descriptors that suit most devices.
    pub const DEFAULT_DESCRIPTOR_COUNT: u16 = 1024;
}

// `Eal::started_ports` has a bit a port.
const _: () = assert!(dpdk_sys::RTE_MAX_ETHPORTS <= u32::BITS);

impl Port {
    /// Starts a port, and hands out its queues, in order.
    ///
    /// Packets are spread over the queues if there are several and the device offers it
    /// ([`Port::rss`]). Frames arrive whole, in one buffer, as they were on the wire: no checksum
    /// is trusted or completed by the device, and nothing is coalesced. Every multicast frame is
    /// let in if the device can; unicast is left to the device's filter.
    ///
    /// # Errors
    ///
    /// The device is absent or taken, or has too few queues; it or the pool cannot carry the MTU;
    /// its address cannot be set; or a step of the start fails. The port can then be tried again.
    pub fn start(
        eal: &Eal,
        config: &PortConfig,
        pool: &Mempool,
    ) -> Result<(Self, Vec<QueuePair>), DpdkError> {
        Self::start_tagged(eal, config, None, pool)
    }

    /// The same for a port whose frames carry the tag of a VLAN: a device that filters VLANs lets it in.
    ///
    /// # Errors
    ///
    /// Those of [`Self::start`], and a device that filters VLANs but does not take this one.
    pub fn start_tagged(
        eal: &Eal,
        config: &PortConfig,
        vlan: Option<u16>,
        pool: &Mempool,
    ) -> Result<(Self, Vec<QueuePair>), DpdkError> {
        let device = Device::parse(&config.device)?;
        let id = find(eal, config, device.name())?;
        let bit = 1_u32 << id;
        if eal.started_ports.fetch_or(bit, Ordering::AcqRel) & bit != 0 {
            return Err(DpdkError::DeviceTaken { device: device.name().to_owned() });
        }
        let start = Start { config, vlan, device: device.name(), id, pool: *pool };
        let (result, lines) = log::captured(|| start.run(eal));
        match result {
            Ok(port) => {
                let queues = (0..config.queue_count)
                    .map(|queue| (RxQueue::new(id, queue), TxQueue::new(id, queue)))
                    .collect();
                Ok((port, queues))
            }
            Err(error) => {
                eal.started_ports.fetch_and(!bit, Ordering::AcqRel);
                Err(with_detail(error, lines.first()))
            }
        }
    }
}

/// DPDK's number of a device.
fn find(eal: &Eal, config: &PortConfig, device: &str) -> Result<u16, DpdkError> {
    let mut id = 0;
    let status = match CString::new(device) {
        // SAFETY: EAL runs (`eal`), the name is a valid C string, and `id` is writable.
        Ok(name) => unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) },
        Err(_) => -libc::ENODEV,
    };
    if status == 0 && u32::from(id) < dpdk_sys::RTE_MAX_ETHPORTS {
        return Ok(id);
    }
    Err(DpdkError::DeviceNotFound {
        port: config.name.clone(),
        device: config.device.clone(),
        detail: eal.probe_complaint(device),
    })
}

fn with_detail(error: DpdkError, detail: Option<String>) -> DpdkError {
    match error {
        DpdkError::PortStart { port, device, step, reason, .. } => {
            DpdkError::PortStart { port, device, step, reason, detail }
        }
        other => other,
    }
}

/// A port on its way.
struct Start<'a> {
    config: &'a PortConfig,
    vlan: Option<u16>,
    device: &'a str,
    id: u16,
    pool: Mempool,
}

impl Start<'_> {
    fn run(&self, eal: &Eal) -> Result<Port, DpdkError> {
        let info = self.info()?;
        self.check(&info)?;
        let rss = self.rss(&info);
        let can = Capabilities::of(&info, max_mtu(&info));
        let fast_free = self.configure(eal, &info, &can, rss)?;
        self.set_mac()?;
        let numa = self.numa();
        let descriptors = self.set_up_queues(numa)?;
        let mac = self.mac()?;
        // SAFETY: the port is configured with all its queues set up.
        self.step("starting the device", unsafe { dpdk_sys::rte_eth_dev_start(self.id) })?;
        let rss = rss.after_start(self.rss_taken());
        self.let_vlan_in(&can)?;
        self.check_mac(mac)?;
        // SAFETY: the port exists. Its failure is reported, not fatal: most devices without this
        // switch have no filter either.
        let all_multicast = unsafe { dpdk_sys::rte_eth_allmulticast_enable(self.id) };
        let decided = Decided {
            queue_count: self.config.queue_count,
            descriptors,
            mtu: self.config.mtu,
            rss,
            vlan: self.vlan,
            fast_free,
            is_all_multicast: all_multicast == 0,
        };
        Ok(Port {
            id: self.id,
            capabilities: can,
            decided,
            rss_layout: match rss {
                Rss::On { .. } => RssLayout::read(self.id, can.rss_key_len, can.reta_len),
                _ => RssLayout::default(),
            },
            events: DeviceEvents::watch(self.id),
            is_virtual_function: is_virtual_function(&driver_name(&info)),
            name: self.config.name.clone(),
            device: self.device.to_owned(),
            driver: driver_name(&info),
            queue_count: self.config.queue_count,
            mac,
            mtu: self.config.mtu,
            numa,
            rss,
            is_all_multicast: all_multicast == 0,
        })
    }

    fn info(&self) -> Result<rte_eth_dev_info, DpdkError> {
        let mut info = rte_eth_dev_info::default();
        // SAFETY: the port exists and `info` is writable.
        let status = unsafe { dpdk_sys::rte_eth_dev_info_get(self.id, &raw mut info) };
        self.step("asking the device for its limits", status)?;
        Ok(info)
    }

    fn check(&self, info: &rte_eth_dev_info) -> Result<(), DpdkError> {
        let config = self.config;
        if config.queue_count == 0 || config.descriptor_count == 0 {
            return Err(DpdkError::NoQueues { port: config.name.clone() });
        }
        if let Some(queues) = unpolled(&driver_name(info), info.max_rx_queues, config.queue_count) {
            return Err(DpdkError::UnpolledQueues {
                port: config.name.clone(),
                device: self.device.to_owned(),
                queues,
                workers: config.queue_count,
            });
        }
        let offered = info.max_rx_queues.min(info.max_tx_queues);
        if config.queue_count > offered {
            return Err(DpdkError::TooFewQueues {
                port: config.name.clone(),
                device: self.device.to_owned(),
                wanted: config.queue_count,
                offered,
            });
        }
        let max_mtu = max_mtu(info);
        if is_af_packet(info) {
            if let Some(reason) = kernel_mtu::refusal(&config.device, info.if_index, config.mtu) {
                return Err(self.mtu_refused(reason));
            }
        } else if !(info.min_mtu..=max_mtu).contains(&config.mtu) {
            let range = format!("the device takes {} to {max_mtu}", info.min_mtu);
            return Err(self.mtu_refused(range));
        }
        if config.mtu > self.pool.mtu() {
            let reason = format!("the packet pool was made for at most {}", self.pool.mtu());
            return Err(self.mtu_refused(reason));
        }
        Ok(())
    }

    fn rss(&self, info: &rte_eth_dev_info) -> Rss {
        if self.config.queue_count == 1 {
            return Rss::NotNeeded;
        }
        if is_af_packet(info) {
            return Rss::ByKernel;
        }
        let types = RssTypes::offered(info.flow_type_rss_offloads);
        if types == RssTypes::default() { Rss::Missing } else { Rss::On { types } }
    }

    /// By what the started device says it spreads packets (`RTE_ETH_RSS_*`); `None` if it does not
    /// say.
    fn rss_taken(&self) -> Option<u64> {
        // No room for a key: it is not asked for.
        let mut conf = rte_eth_rss_conf::default();
        // SAFETY: the port exists and `conf` is writable; its key pointer is null, which drivers take
        // for not wanted.
        let status = unsafe { dpdk_sys::rte_eth_dev_rss_hash_conf_get(self.id, &raw mut conf) };
        (status == 0).then_some(conf.rss_hf)
    }

    /// Returns whether sent buffers are given back in bulk.
    fn configure(
        &self,
        eal: &Eal,
        info: &rte_eth_dev_info,
        can: &Capabilities,
        rss: Rss,
    ) -> Result<bool, DpdkError> {
        // All offloads of the receive side stay off: no checksum (a host may deliver unfinished
        // ones), no coalescing, no scattering, no taking off of tags. A filter of VLANs is there in
        // some devices whether it is asked for or not; asked for, it can be told what to let in.
        let mut conf = rte_eth_conf::default();
        let is_af_packet = is_af_packet(info);
        let mtu = if is_af_packet { self.config.mtu.min(max_mtu(info)) } else { self.config.mtu };
        conf.rxmode.mtu = mtu.into();
        if let Rss::On { types } = rss {
            conf.rxmode.mq_mode = dpdk_sys::RTE_ETH_MQ_RX_RSS;
            // No key: the driver's own. Finding a flow's owner never depends on it.
            conf.rx_adv_conf.rss_conf.rss_hf = types.0;
        }
        // The promise of this offload, that all buffers are of one pool with a count of 1, is kept
        // by `Mbuf` (one owner) and by there being one pool only.
        let fast_free = can.has_fast_free() && seal_the_only_one(&eal.pools);
        if fast_free {
            conf.txmode.offloads |= u64::from(dpdk_sys::RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
        }
        if self.vlan.is_some() && can.has_vlan_filter() {
            conf.rxmode.offloads |= u64::from(dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_FILTER);
        }
        let old_mtu = self.current_mtu();
        let count = self.config.queue_count;
        // SAFETY: the port exists and is not started by us (`Eal::started_ports`); DPDK copies
        // the configuration.
        let status =
            unsafe { dpdk_sys::rte_eth_dev_configure(self.id, count, count, &raw const conf) };
        self.step("configuring the device", status)?;
        if !is_af_packet && old_mtu != Some(mtu) {
            // Drivers that set the MTU of an interface of the kernel do it only when told so.
            // SAFETY: the port exists and is configured.
            let status = unsafe { dpdk_sys::rte_eth_dev_set_mtu(self.id, mtu) };
            if status != 0 && status != -libc::ENOTSUP {
                return Err(self.mtu_refused(error_text(status)));
            }
        }
        Ok(fast_free)
    }

    fn let_vlan_in(&self, can: &Capabilities) -> Result<(), DpdkError> {
        let Some(vlan) = self.vlan.filter(|_| can.has_vlan_filter()) else { return Ok(()) };
        // SAFETY: the port exists, and was configured with the filter.
        let status = unsafe { dpdk_sys::rte_eth_dev_vlan_filter(self.id, vlan, 1) };
        if status == 0 {
            return Ok(());
        }
        let port = self.config.name.clone();
        Err(DpdkError::VlanRefused { port, vlan, reason: error_text(status) })
    }

    /// A virtual function's driver may take a refusal for an answer and say nothing of it: the physical
    /// function knows which address it lets through.
    fn check_mac(&self, mac: MacAddress) -> Result<(), DpdkError> {
        let Some(held) = virtual_function::held_mac(self.device) else { return Ok(()) };
        if held.mac == mac || held.mac == MacAddress::default() {
            return Ok(());
        }
        Err(DpdkError::MacHeld {
            port: self.config.name.clone(),
            mac,
            held: held.mac,
            physical: held.physical,
            number: held.number,
        })
    }

    fn current_mtu(&self) -> Option<u16> {
        let mut mtu = 0;
        // SAFETY: the port exists and `mtu` is writable.
        let status = unsafe { dpdk_sys::rte_eth_dev_get_mtu(self.id, &raw mut mtu) };
        (status == 0).then_some(mtu)
    }

    fn set_mac(&self) -> Result<(), DpdkError> {
        let Some(mac) = self.config.mac else { return Ok(()) };
        let mut address = rte_ether_addr { addr_bytes: mac.0 };
        // SAFETY: the port exists; DPDK reads the address and copies it.
        let status =
            unsafe { dpdk_sys::rte_eth_dev_default_mac_addr_set(self.id, &raw mut address) };
        if status == 0 {
            return Ok(());
        }
        let port = self.config.name.clone();
        Err(DpdkError::MacRefused { port, reason: error_text(status) })
    }

    fn mac(&self) -> Result<MacAddress, DpdkError> {
        let mut address = rte_ether_addr::default();
        // SAFETY: the port exists and `address` is writable.
        let status = unsafe { dpdk_sys::rte_eth_macaddr_get(self.id, &raw mut address) };
        self.step("reading the MAC address", status)?;
        Ok(MacAddress(address.addr_bytes))
    }

    fn numa(&self) -> Option<NumaNode> {
        // SAFETY: the port exists.
        let node = unsafe { dpdk_sys::rte_eth_dev_socket_id(self.id) };
        u16::try_from(node).ok().map(NumaNode)
    }

    /// Returns the descriptors of a receive and of a transmit queue.
    fn set_up_queues(&self, numa: Option<NumaNode>) -> Result<(u16, u16), DpdkError> {
        let (mut rx_count, mut tx_count) =
            (self.config.descriptor_count, self.config.descriptor_count);
        // SAFETY: the port is configured and both counts are writable.
        let status = unsafe {
            dpdk_sys::rte_eth_dev_adjust_nb_rx_tx_desc(
                self.id,
                &raw mut rx_count,
                &raw mut tx_count,
            )
        };
        self.step("choosing the number of descriptors", status)?;
        // SOCKET_ID_ANY as C passes it: an int turned unsigned.
        let socket = numa.map_or(u32::MAX, |node| node.0.into());
        for queue in 0..self.config.queue_count {
            // SAFETY: the port is configured with more than `queue` queues, a null configuration
            // stands for the driver's own, and the pool lives until exit.
            let status = unsafe {
                dpdk_sys::rte_eth_rx_queue_setup(
                    self.id,
                    queue,
                    rx_count,
                    socket,
                    std::ptr::null(),
                    self.pool.as_ptr(),
                )
            };
            self.step("setting up a receive queue", status)?;
            // SAFETY: as above.
            let status = unsafe {
                dpdk_sys::rte_eth_tx_queue_setup(self.id, queue, tx_count, socket, std::ptr::null())
            };
            self.step("setting up a transmit queue", status)?;
        }
        Ok((rx_count, tx_count))
    }

    fn step(&self, step: &'static str, status: i32) -> Result<(), DpdkError> {
        if status == 0 {
            return Ok(());
        }
        Err(DpdkError::PortStart {
            port: self.config.name.clone(),
            device: self.device.to_owned(),
            step,
            reason: error_text(status),
            detail: None,
        })
    }

    fn mtu_refused(&self, reason: String) -> DpdkError {
        DpdkError::MtuRefused { port: self.config.name.clone(), mtu: self.config.mtu, reason }
    }
}

/// The queues of a device that gives packets to all of them whether they are set up or not, if these
/// are more than will be polled: every socket of `net_af_packet` joins the fanout at probe. Other
/// drivers spread over what is configured.
fn unpolled(driver: &str, rx_queues: u16, polled: u16) -> Option<u16> {
    (driver == "net_af_packet" && rx_queues > polled).then_some(rx_queues)
}

/// Whether the port is an interface of the kernel, which has an MTU of its own.
fn is_af_packet(info: &rte_eth_dev_info) -> bool {
    driver_name(info) == "net_af_packet"
}

/// Whether a driver is one of virtual functions: their names end so, but for Intel's adaptive one.
fn is_virtual_function(driver: &str) -> bool {
    driver.ends_with("vf") || driver == "net_iavf"
}

/// The largest MTU of a device. Some say only how long a frame may be, and 65535 for the MTU.
fn max_mtu(info: &rte_eth_dev_info) -> u16 {
    /// Ethernet header and check sequence, as DPDK counts them for such devices.
    const OVERHEAD: u32 = 14 + 4;
    if info.max_mtu < u16::MAX || info.max_rx_pktlen == 0 {
        return info.max_mtu;
    }
    u16::try_from(info.max_rx_pktlen.saturating_sub(OVERHEAD)).unwrap_or(u16::MAX)
}

fn driver_name(info: &rte_eth_dev_info) -> String {
    if info.driver_name.is_null() {
        return String::new();
    }
    // SAFETY: not null, so it is the driver's name, a constant of its library.
    unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_of_virtual_functions_are_known_by_name() {
        for driver in ["net_e1000_igb_vf", "net_ixgbe_vf", "net_iavf"] {
            assert!(is_virtual_function(driver), "{driver}");
        }
        for driver in ["net_e1000_igb", "net_virtio", "net_af_packet"] {
            assert!(!is_virtual_function(driver), "{driver}");
        }
    }

    #[test]
    fn sockets_of_a_fanout_that_nobody_polls_are_found() {
        assert_eq!(unpolled("net_af_packet", 2, 1), Some(2));
        assert_eq!(unpolled("net_af_packet", 2, 2), None);
        assert_eq!(unpolled("net_af_packet", 1, 2), None, "too few is told elsewhere");
        assert_eq!(unpolled("net_virtio", 8, 2), None);
    }
}
