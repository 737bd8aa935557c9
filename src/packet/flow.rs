//! What a flow is: its 5-tuple, and the value of its hash.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The 5-tuple of a packet, in host order. The two families never mix: an IPv4-mapped IPv6 address
/// is an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowKey {
    /// An IPv4 packet's.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
        /// Source port; 0 for a protocol without ports.
        source_port: u16,
        /// Destination port; 0 for a protocol without ports.
        destination_port: u16,
        /// IP protocol number.
        protocol: u8,
    },
    /// An IPv6 packet's.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
        /// Source port; 0 for a protocol without ports.
        source_port: u16,
        /// Destination port; 0 for a protocol without ports.
        destination_port: u16,
        /// Protocol number of the upper layer.
        protocol: u8,
    },
}

impl FlowKey {
    /// Source address.
    #[must_use]
    #[inline]
    pub const fn source(&self) -> IpAddr {
        match *self {
            Self::V4 { source, .. } => IpAddr::V4(source),
            Self::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub const fn destination(&self) -> IpAddr {
        match *self {
            Self::V4 { destination, .. } => IpAddr::V4(destination),
            Self::V6 { destination, .. } => IpAddr::V6(destination),
        }
    }

    /// Source port; 0 for a protocol without ports.
    #[must_use]
    #[inline]
    pub const fn source_port(&self) -> u16 {
        match *self {
            Self::V4 { source_port, .. } | Self::V6 { source_port, .. } => source_port,
        }
    }

    /// Destination port; 0 for a protocol without ports.
    #[must_use]
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        match *self {
            Self::V4 { destination_port, .. } | Self::V6 { destination_port, .. } => {
                destination_port
            }
        }
    }

    /// IP protocol number; of the upper layer in IPv6.
    #[must_use]
    #[inline]
    pub const fn protocol(&self) -> u8 {
        match *self {
            Self::V4 { protocol, .. } | Self::V6 { protocol, .. } => protocol,
        }
    }

    /// Whether the packet is IPv6.
    #[must_use]
    #[inline]
    pub const fn is_ipv6(&self) -> bool {
        matches!(self, Self::V6 { .. })
    }
}

/// The keyed hash of a flow (SipHash-1-3; `docs/flow-hash.md`). High half for level 1, low half
/// for level 2 of the tables. It has nothing to do with the port's RSS hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowHash(pub u64);

impl FlowHash {
    /// The half that chooses the pool.
    #[must_use]
    #[inline]
    pub const fn level1(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The half that chooses the backend inside the pool.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
    pub const fn level2(self) -> u32 {
        self.0 as u32
    }
}
