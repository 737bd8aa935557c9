//! What a flow is: its 5-tuple, and the keyed hash of it.

use std::net::{Ipv4Addr, Ipv6Addr};

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

/// The 128-bit key of the flow hash; all appliances of a cluster share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowHashKey(pub [u8; 16]);

impl std::fmt::Debug for FlowHashKey {
    /// The key is a secret: who knows it can aim flows at one backend.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowHashKey(..)")
    }
}
