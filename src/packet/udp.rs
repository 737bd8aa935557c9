//! The UDP header (RFC 768).

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a UDP header, in bytes.
pub const UDP_LEN: usize = size_of::<UdpHeader>();

/// A UDP header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub source_port: U16,
    /// Destination port.
    pub destination_port: U16,
    /// Length of header and payload, in bytes.
    pub length: U16,
    /// Over pseudo header, header and payload; 0 over IPv4 means none was computed.
    pub checksum: U16,
}

const _: () = assert!(UDP_LEN == 8);
