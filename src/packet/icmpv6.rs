//! ICMPv6 (RFC 4443): message types and the checksum.

use std::net::Ipv6Addr;

use super::checksum::pseudo_header_ipv6;
use super::protocol;

/// A request to be answered with the same data.
pub const ECHO_REQUEST: u8 = 128;
/// An answer to an echo request.
pub const ECHO_REPLY: u8 = 129;
/// Multicast listener query, versions 1 and 2 (RFC 2710, RFC 3810).
pub const LISTENER_QUERY: u8 = 130;
/// Who has this address? (RFC 4861 §4.3)
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// This address is here (RFC 4861 §4.4).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Multicast listener report, version 2 (RFC 3810 §5.2).
pub const LISTENER_REPORT_V2: u8 = 143;

/// The type of a message; `None` if it is empty.
#[must_use]
#[inline]
pub const fn message_type(message: &[u8]) -> Option<u8> {
    message.first().copied()
}

/// The checksum of a message whose checksum field is 0 (RFC 4443 §2.3). `None` if it is longer than
/// an IPv6 packet can be.
#[must_use]
pub fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Option<u16> {
    let len = u32::try_from(message.len()).ok()?;
    let pseudo = pseudo_header_ipv6(source, destination, protocol::ICMPV6, len);
    Some(pseudo.bytes(message).checksum())
}

/// Whether the checksum of a message is right.
#[must_use]
pub fn is_intact(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> bool {
    // Summed with its field, an intact message gives 0xffff, whose complement is 0.
    checksum(source, destination, message) == Some(0)
}
