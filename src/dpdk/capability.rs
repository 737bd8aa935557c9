//! What a device can do, read once, and what is made of it: each function is done by the device, done by
//! the worker, or missing.
//!
//! Checksums are never the device's work. A received L4 checksum may be unfinished (virtio hosts leave
//! it to whoever is last), and would be encapsulated so; the outer IPv4 header's is a handful of cycles in
//! a line that is being written anyway (`docs/decisions/0020`).

use dpdk_sys::rte_eth_dev_info;

use super::{Rss, RssTypes};

/// What a device offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    rx_offloads: u64,
    tx_offloads: u64,
    /// By what it spreads packets over queues.
    pub rss_types: RssTypes,
    /// Bytes of its hash key; 0 if it has none.
    pub rss_key_len: u8,
    /// Entries of its redirection table; 0 if it has none.
    pub reta_len: u16,
    /// Receive queues, at most.
    pub max_rx_queues: u16,
    /// Transmit queues, at most.
    pub max_tx_queues: u16,
    /// Descriptors of a receive queue, least and most.
    pub rx_descriptors: (u16, u16),
    /// Descriptors of a transmit queue, least and most.
    pub tx_descriptors: (u16, u16),
    /// Largest IP packet in bytes, least and most.
    pub mtu: (u16, u16),
    /// Unicast addresses that its filter lets in.
    pub max_macs: u32,
}

impl Capabilities {
    /// Those that DPDK tells; `max_mtu` is what to make of its limits.
    pub(super) fn of(info: &rte_eth_dev_info, max_mtu: u16) -> Self {
        Self {
            rx_offloads: info.rx_offload_capa,
            tx_offloads: info.tx_offload_capa,
            rss_types: RssTypes::offered(info.flow_type_rss_offloads),
            rss_key_len: info.hash_key_size,
            reta_len: info.reta_size,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            rx_descriptors: (info.rx_desc_lim.nb_min, info.rx_desc_lim.nb_max),
            tx_descriptors: (info.tx_desc_lim.nb_min, info.tx_desc_lim.nb_max),
            mtu: (info.min_mtu, max_mtu),
            max_macs: info.max_mac_addrs,
        }
    }

    /// Whether it checks the IPv4 header of what it receives.
    #[must_use]
    pub const fn has_rx_ipv4_checksum(&self) -> bool {
        self.rx_offloads & dpdk_sys::RTE_ETH_RX_OFFLOAD_IPV4_CKSUM as u64 != 0
    }

    /// Whether it fills in the IPv4 header's checksum of what it sends.
    #[must_use]
    pub const fn has_tx_ipv4_checksum(&self) -> bool {
        self.tx_offloads & dpdk_sys::RTE_ETH_TX_OFFLOAD_IPV4_CKSUM as u64 != 0
    }

    /// Whether it takes the 802.1Q tag off what it receives.
    #[must_use]
    pub const fn has_vlan_strip(&self) -> bool {
        self.rx_offloads & dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_STRIP as u64 != 0
    }

    /// Whether it lets in only the VLANs that it is told of.
    #[must_use]
    pub const fn has_vlan_filter(&self) -> bool {
        self.rx_offloads & dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_FILTER as u64 != 0
    }

    /// Whether sent buffers of one pool can be given back to it without a look at each.
    #[must_use]
    pub const fn has_fast_free(&self) -> bool {
        self.tx_offloads & dpdk_sys::RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE as u64 != 0
    }
}

/// Who does something that a port needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoneBy {
    /// The device.
    Device,
    /// The worker.
    Software,
    /// Nobody: the port works otherwise than it could.
    Missing,
    /// It is not needed as this port is configured.
    NotNeeded,
}

/// One function of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, in lower case with hyphens.
    pub name: &'static str,
    /// Who does it.
    pub done_by: DoneBy,
    /// Numbers and reasons, for people.
    pub detail: String,
}

/// What was decided about a port, as far as features depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub queue_count: u16,
    pub descriptors: (u16, u16),
    pub mtu: u16,
    pub rss: Rss,
    pub vlan: Option<u16>,
    pub fast_free: bool,
    pub is_all_multicast: bool,
}

/// Every function of a port, in a fixed order.
pub(super) fn features(can: &Capabilities, is: &Decided) -> Vec<Feature> {
    let feature = |name, done_by, detail| Feature { name, done_by, detail };
    let offers = |offered: bool| if offered { "the device could" } else { "the device cannot" };
    let spread = match is.rss {
        Rss::NotNeeded => DoneBy::NotNeeded,
        Rss::On { .. } => DoneBy::Device,
        Rss::ByKernel => DoneBy::Software,
        Rss::Missing | Rss::NotTaken => DoneBy::Missing,
    };
    let rss_detail = if is.rss == Rss::ByKernel {
        "the kernel spreads flows over its sockets".to_owned()
    } else if can.rss_types == RssTypes::default() {
        "the device cannot".to_owned()
    } else {
        format!("{}; key {} bytes, table {}", can.rss_types, can.rss_key_len, can.reta_len)
    };
    let filter = match (is.vlan, can.has_vlan_filter()) {
        (Some(_), true) => DoneBy::Device,
        (Some(_), false) => DoneBy::Software,
        (None, _) => DoneBy::NotNeeded,
    };
    let tag = if is.vlan.is_some() { DoneBy::Software } else { DoneBy::NotNeeded };
    vec![
        feature(
            "queues",
            DoneBy::Device,
            format!("{} of {}", is.queue_count, can.max_rx_queues.min(can.max_tx_queues)),
        ),
        feature(
            "descriptors",
            DoneBy::Device,
            format!(
                "{} in (of {}), {} out (of {})",
                is.descriptors.0, can.rx_descriptors.1, is.descriptors.1, can.tx_descriptors.1
            ),
        ),
        feature("mtu", DoneBy::Device, format!("{} of {}", is.mtu, can.mtu.1)),
        feature("rss", spread, rss_detail),
        feature(
            "receive-checksum",
            DoneBy::Software,
            format!("IPv4 header; {}", offers(can.has_rx_ipv4_checksum())),
        ),
        feature(
            "transmit-checksum",
            DoneBy::Software,
            format!("outer IPv4 header; {}", offers(can.has_tx_ipv4_checksum())),
        ),
        feature("vlan-tag", tag, offers(can.has_vlan_strip()).to_owned()),
        feature("vlan-filter", filter, offers(can.has_vlan_filter()).to_owned()),
        feature(
            "buffer-return",
            if is.fast_free { DoneBy::Device } else { DoneBy::Software },
            if is.fast_free { "in bulk" } else { "one by one" }.to_owned(),
        ),
        feature(
            "multicast",
            if is.is_all_multicast { DoneBy::Device } else { DoneBy::Missing },
            if is.is_all_multicast { "every group" } else { "the device has no switch for it" }
                .to_owned(),
        ),
        feature("mac-addresses", DoneBy::Device, format!("1 of {}", can.max_macs)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided() -> Decided {
        Decided {
            queue_count: 2,
            descriptors: (512, 256),
            mtu: 1600,
            rss: Rss::Missing,
            vlan: None,
            fast_free: false,
            is_all_multicast: true,
        }
    }

    fn of(name: &str, features: &[Feature]) -> (DoneBy, String) {
        let feature = features.iter().find(|feature| feature.name == name).unwrap();
        (feature.done_by, feature.detail.clone())
    }

    #[test]
    fn each_bit_decides_one_thing() {
        let nothing = Capabilities::default();
        let told = features(&nothing, &decided());
        assert_eq!(of("rss", &told).0, DoneBy::Missing);
        assert_eq!(of("vlan-filter", &told).0, DoneBy::NotNeeded);
        assert_eq!(of("buffer-return", &told).0, DoneBy::Software);
        for (bit, name, word) in [
            (dpdk_sys::RTE_ETH_RX_OFFLOAD_IPV4_CKSUM, "receive-checksum", "could"),
            (dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_STRIP, "vlan-tag", "could"),
            (dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_FILTER, "vlan-filter", "could"),
        ] {
            let one = Capabilities { rx_offloads: bit.into(), ..nothing };
            let changed: Vec<_> = features(&one, &decided())
                .into_iter()
                .zip(&told)
                .filter(|(new, old)| &new != old)
                .map(|(new, _)| new)
                .collect();
            assert_eq!(changed.len(), 1, "{name}: {changed:?}");
            assert!(changed[0].name == name && changed[0].detail.contains(word), "{changed:?}");
        }
    }

    #[test]
    fn a_tagged_port_needs_the_filter_where_there_is_one() {
        let tagged = Decided { vlan: Some(7), ..decided() };
        let filter = dpdk_sys::RTE_ETH_RX_OFFLOAD_VLAN_FILTER.into();
        let with = Capabilities { rx_offloads: filter, ..Capabilities::default() };
        assert_eq!(of("vlan-filter", &features(&with, &tagged)).0, DoneBy::Device);
        let without = features(&Capabilities::default(), &tagged);
        assert_eq!(of("vlan-filter", &without).0, DoneBy::Software);
        assert_eq!(of("vlan-tag", &without).0, DoneBy::Software);
    }

    #[test]
    fn limits_are_told_with_what_is_used_of_them() {
        let can = Capabilities {
            max_rx_queues: 8,
            max_tx_queues: 4,
            rx_descriptors: (32, 4096),
            tx_descriptors: (32, 1024),
            mtu: (68, 9100),
            ..Capabilities::default()
        };
        let told = features(&can, &decided());
        assert_eq!(of("queues", &told).1, "2 of 4");
        assert_eq!(of("descriptors", &told).1, "512 in (of 4096), 256 out (of 1024)");
        assert_eq!(of("mtu", &told).1, "1600 of 9100");
    }
}
