//! Receive side scaling: whether the device spreads flows over the queues.

use std::fmt;

/// Whether and how received packets are spread over a port's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// There is one queue.
    NotNeeded,
    /// The device spreads packets by these fields.
    On {
        /// Which kinds of packet are spread by what.
        types: RssTypes,
    },
    /// The kernel spreads packets over the sockets behind the queues, by a hash of the flow
    /// (`af_packet`'s fanout): there is nothing that the device could do.
    ByKernel,
    /// There are several queues, but the device does not offer to spread packets. What sends to it
    /// may do so (a ring a queue); otherwise one worker gets everything.
    Missing,
    /// The device offered to spread packets and was told to, but says that it spreads none: one
    /// worker gets everything.
    NotTaken,
}

impl Rss {
    /// What is true after the start of a port that was told `self`: `taken` is what the device says
    /// it spreads by, `None` if it cannot say.
    pub(super) fn after_start(self, taken: Option<u64>) -> Self {
        match (self, taken) {
            (Self::On { types }, Some(taken)) if types.0 & taken == 0 => Self::NotTaken,
            (Self::On { types }, Some(taken)) => Self::On { types: RssTypes(types.0 & taken) },
            (told, _) => told,
        }
    }
}

/// How a device chooses a queue: the Toeplitz hash of a packet under the key, taken modulo the table's
/// length, is a place in the table, and what is there is the queue.
///
/// Finding a flow's owner never depends on it (design decision 10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RssLayout {
    /// The hash key; empty if the device does not tell it.
    pub key: Vec<u8>,
    /// Queue by place; empty if the device does not tell it.
    pub table: Vec<u16>,
}

/// The longest key of any driver, in bytes.
const KEY_CAP: usize = 64;
/// `RTE_ETH_RETA_GROUP_SIZE`
const GROUP_LEN: u16 = 64;

impl RssLayout {
    /// Asks a started port, whose redirection table has `reta_len` entries.
    pub(super) fn read(port: u16, key_len: u8, reta_len: u16) -> Self {
        Self { key: read_key(port, key_len), table: read_table(port, reta_len) }
    }
}

fn read_key(port: u16, len: u8) -> Vec<u8> {
    let mut key = [0_u8; KEY_CAP];
    if usize::from(len) > KEY_CAP {
        return Vec::new();
    }
    let mut conf = dpdk_sys::rte_eth_rss_conf {
        rss_key: key.as_mut_ptr(),
        rss_key_len: len,
        ..dpdk_sys::rte_eth_rss_conf::default()
    };
    // SAFETY: the port exists, `conf` is writable, and its key has room for more than the length says.
    let status = unsafe { dpdk_sys::rte_eth_dev_rss_hash_conf_get(port, &raw mut conf) };
    if status == 0 { key.iter().take(usize::from(len)).copied().collect() } else { Vec::new() }
}

fn read_table(port: u16, len: u16) -> Vec<u16> {
    let group_count = usize::from(len.div_ceil(GROUP_LEN));
    let mut groups = vec![dpdk_sys::rte_eth_rss_reta_entry64::default(); group_count];
    for group in &mut groups {
        // Every entry of it is asked for.
        group.mask = u64::MAX;
    }
    if groups.is_empty() {
        return Vec::new();
    }
    // SAFETY: the port exists, and there are groups for `len` entries.
    let status = unsafe { dpdk_sys::rte_eth_dev_rss_reta_query(port, groups.as_mut_ptr(), len) };
    if status != 0 {
        return Vec::new();
    }
    groups.iter().flat_map(|group| group.reta).take(usize::from(len)).collect()
}

/// The kinds of packet that a device spreads (`RTE_ETH_RSS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssTypes(pub(super) u64);

const IPV4: u64 = bits(&[
    dpdk_sys::RTE_ETH_RSS_IPV4,
    dpdk_sys::RTE_ETH_RSS_FRAG_IPV4,
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV4_OTHER,
]);
const IPV6: u64 = bits(&[
    dpdk_sys::RTE_ETH_RSS_IPV6,
    dpdk_sys::RTE_ETH_RSS_FRAG_IPV6,
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV6_OTHER,
    dpdk_sys::RTE_ETH_RSS_IPV6_EX,
]);
const TCP: u64 = bits(&[
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV4_TCP,
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV6_TCP,
    dpdk_sys::RTE_ETH_RSS_IPV6_TCP_EX,
]);
const UDP: u64 = bits(&[
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV4_UDP,
    dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV6_UDP,
    dpdk_sys::RTE_ETH_RSS_IPV6_UDP_EX,
]);

/// Or of all; the constants that are used fit 32 bits.
const fn bits(list: &[u32]) -> u64 {
    let mut all = 0;
    let mut rest = list;
    while let [first, tail @ ..] = rest {
        all |= *first as u64;
        rest = tail;
    }
    all
}

impl RssTypes {
    /// What is asked for: addresses of every IP packet, and ports of TCP and UDP.
    pub(super) const WANTED: Self = Self(IPV4 | IPV6 | TCP | UDP);

    /// What of `WANTED` a device offers.
    pub(super) const fn offered(capability: u64) -> Self {
        Self(Self::WANTED.0 & capability)
    }

    /// Whether IPv4 packets are spread by address.
    #[must_use]
    pub const fn has_ipv4(self) -> bool {
        self.0 & IPV4 != 0
    }

    /// Whether IPv6 packets are spread by address.
    #[must_use]
    pub const fn has_ipv6(self) -> bool {
        self.0 & IPV6 != 0
    }

    /// Whether the ports of TCP count.
    #[must_use]
    pub const fn has_tcp(self) -> bool {
        self.0 & TCP != 0
    }

    /// Whether the ports of UDP count.
    #[must_use]
    pub const fn has_udp(self) -> bool {
        self.0 & UDP != 0
    }
}

impl fmt::Display for RssTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("ipv4", self.has_ipv4()),
            ("ipv6", self.has_ipv6()),
            ("tcp", self.has_tcp()),
            ("udp", self.has_udp()),
        ];
        let mut separator = "";
        for (name, _) in kinds.iter().filter(|(_, has)| *has) {
            write!(f, "{separator}{name}")?;
            separator = "+";
        }
        Ok(())
    }
}

impl fmt::Display for Rss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("not needed"),
            Self::On { types } => write!(f, "on ({types})"),
            Self::ByKernel => f.write_str("by the kernel"),
            Self::Missing => f.write_str("missing"),
            Self::NotTaken => f.write_str("not taken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_says_after_its_start_goes_before_what_it_was_told() {
        let told = Rss::On { types: RssTypes::WANTED };
        assert_eq!(told.after_start(None), told, "it cannot say");
        assert_eq!(told.after_start(Some(u64::MAX)), told);
        assert_eq!(told.after_start(Some(0)), Rss::NotTaken);
        // RTE_ETH_RSS_L2_PAYLOAD spreads no flows.
        assert_eq!(told.after_start(Some(1 << 14)), Rss::NotTaken);
        let some = told.after_start(Some(IPV4));
        assert_eq!(some.to_string(), "on (ipv4)");
        assert_eq!(Rss::Missing.after_start(Some(0)), Rss::Missing);
        assert_eq!(Rss::NotNeeded.after_start(Some(0)), Rss::NotNeeded);
        assert_eq!(Rss::ByKernel.after_start(Some(0)), Rss::ByKernel);
    }

    #[test]
    fn only_what_is_wanted_and_offered_is_on() {
        let everything = RssTypes::offered(u64::MAX);
        assert_eq!(everything, RssTypes::WANTED);
        assert_eq!(Rss::On { types: everything }.to_string(), "on (ipv4+ipv6+tcp+udp)");
        let tcp_over_ipv4 = RssTypes::offered(dpdk_sys::RTE_ETH_RSS_NONFRAG_IPV4_TCP.into());
        assert_eq!(tcp_over_ipv4.to_string(), "tcp");
        // RTE_ETH_RSS_L2_PAYLOAD is of no use to us.
        assert_eq!(RssTypes::offered(1 << 14), RssTypes::default());
    }
}
