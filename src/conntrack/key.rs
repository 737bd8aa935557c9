//! What tells one tracked flow from another: the packed 5-tuple, as it is stored and compared.

use std::fmt;
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::native_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

use crate::id::VipId;

/// Odd, with its bits spread evenly (2^64 divided by the golden ratio): multiplying by it carries
/// every input bit into the high half of the product.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key of one family. Stored as its bytes, compared whole.
pub trait Key:
    Copy + Eq + Hash + fmt::Debug + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned
{
    /// A number that depends on the whole key. It chooses the distance from the home bucket to the
    /// alternate; it is not keyed, and needs not be: home is chosen by the keyed flow hash, and a
    /// sender that gives all its flows one distance gains no bucket that it could aim at.
    fn spread(&self) -> u32;
}

/// The key of an IPv4 flow. Destination address and protocol are in the [`VipId`].
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Key {
    /// Source address, source port, destination port, from the most significant bit.
    tuple: U64,
    vip: U16,
}

impl Ipv4Key {
    /// The key of the packets from `source` to a VIP; ports are 0 for a protocol without ports.
    #[must_use]
    #[inline]
    pub fn new(source: Ipv4Addr, source_port: u16, destination_port: u16, vip: VipId) -> Self {
        let tuple = u64::from(source.to_bits()) << 32
            | u64::from(source_port) << 16
            | u64::from(destination_port);
        Self { tuple: U64::new(tuple), vip: U16::new(vip.0) }
    }

    /// The client's address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.tuple.get() >> 32) as u32)
    }

    /// The client's port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        (self.tuple.get() >> 16 & 0xffff) as u16
    }

    /// The VIP's port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        (self.tuple.get() & 0xffff) as u16
    }

    /// The VIP.
    #[must_use]
    pub fn vip(&self) -> VipId {
        VipId(self.vip.get())
    }
}

impl Key for Ipv4Key {
    #[inline]
    fn spread(&self) -> u32 {
        high_half(self.tuple.get().wrapping_mul(SPREAD) ^ u64::from(self.vip.get()))
    }
}

impl fmt::Debug for Ipv4Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, port) = (self.source(), self.source_port());
        write!(f, "{source}:{port} to vip {} port {}", self.vip(), self.destination_port())
    }
}

/// The key of an IPv6 flow. Destination address and protocol are in the [`VipId`].
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Key {
    /// Prefix and interface identifier, in network order.
    source: [U64; 2],
    /// Source port in the high half, destination port in the low one.
    ports: U32,
    vip: U16,
}

impl Ipv6Key {
    /// The key of the packets from `source` to a VIP; ports are 0 for a protocol without ports.
    #[must_use]
    #[inline]
    pub fn new(source: Ipv6Addr, source_port: u16, destination_port: u16, vip: VipId) -> Self {
        Self {
            source: transmute!(source.octets()),
            ports: U32::new(u32::from(source_port) << 16 | u32::from(destination_port)),
            vip: U16::new(vip.0),
        }
    }

    /// The client's address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(transmute!(self.source))
    }

    /// The client's port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        (self.ports.get() >> 16) as u16
    }

    /// The VIP's port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        (self.ports.get() & 0xffff) as u16
    }

    /// The VIP.
    #[must_use]
    pub fn vip(&self) -> VipId {
        VipId(self.vip.get())
    }
}

impl Key for Ipv6Key {
    #[inline]
    fn spread(&self) -> u32 {
        let [prefix, interface] = self.source.map(U64::get);
        let rest = u64::from(self.ports.get()) << 16 | u64::from(self.vip.get());
        high_half((interface.wrapping_mul(SPREAD) ^ prefix).wrapping_mul(SPREAD) ^ rest)
    }
}

impl fmt::Debug for Ipv6Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, port) = (self.source(), self.source_port());
        write!(f, "[{source}]:{port} to vip {} port {}", self.vip(), self.destination_port())
    }
}

/// The high half of `x` times [`SPREAD`].
#[inline]
const fn high_half(x: u64) -> u32 {
    (x.wrapping_mul(SPREAD) >> 32) as u32
}
