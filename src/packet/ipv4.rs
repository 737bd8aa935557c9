//! The IPv4 header (RFC 791).

use std::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of an IPv4 header without options, in bytes.
pub const IPV4_LEN: usize = size_of::<Ipv4Header>();
/// The don't-fragment bit of [`Ipv4Header::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The more-fragments bit and the offset of [`Ipv4Header::fragment`]: not 0 in a fragment.
pub const FRAGMENT_MASK: u16 = 0x3fff;

/// An IPv4 header without its options.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4 bits) and header length in 32-bit words (4 bits): 0x45 without options.
    pub version_ihl: u8,
    /// DSCP (6 bits, RFC 2474) and ECN (2 bits, RFC 3168).
    pub tos: u8,
    /// Length of header and payload, in bytes.
    pub total_length: U16,
    /// Which datagram a fragment belongs to; without meaning in an atomic datagram (RFC 6864 §4).
    pub identification: U16,
    /// Flags (3 bits) and fragment offset in 8-byte units (13 bits).
    pub fragment: U16,
    /// How many more routers may forward it.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: u8,
    /// Over the header only.
    pub checksum: U16,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

impl Ipv4Header {
    /// Source address.
    #[must_use]
    #[inline]
    pub const fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.source)
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub const fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.destination)
    }
}

const _: () = assert!(IPV4_LEN == 20);
