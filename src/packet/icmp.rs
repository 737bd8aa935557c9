//! The ICMP header (RFC 792), as far as echo needs it; ICMPv6's has the same shape.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An answer to an echo request.
pub const ECHO_REPLY: u8 = 0;
/// A request to be answered with the same data.
pub const ECHO_REQUEST: u8 = 8;

/// Length of the header of an echo message, in bytes.
pub const ECHO_LEN: usize = size_of::<EchoHeader>();

/// The header of an echo request or reply (RFC 792, RFC 4443 §4.1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EchoHeader {
    /// What the message is.
    pub message_type: u8,
    /// 0.
    pub code: u8,
    /// Over the message; in ICMPv6 over a pseudo header as well.
    pub checksum: U16,
    /// The asker's.
    pub identifier: U16,
    /// The asker's.
    pub sequence: U16,
}

/// The type of a message; `None` if it is empty.
#[must_use]
#[inline]
pub const fn message_type(message: &[u8]) -> Option<u8> {
    message.first().copied()
}

const _: () = assert!(ECHO_LEN == 8);
