//! The IPv6 header (RFC 8200) and its extension headers, as far as they must be skipped.

use std::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::protocol;

/// Length of an IPv6 header, in bytes.
pub const IPV6_LEN: usize = size_of::<Ipv6Header>();
/// How many extension headers [`skip_extensions`] passes before it gives up.
pub const EXTENSION_CAP: usize = 8;

/// An IPv6 header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub version_class_label: U32,
    /// Length of what follows this header, extension headers among it, in bytes.
    pub payload_length: U16,
    /// What follows this header.
    pub next_header: u8,
    /// How many more routers may forward it.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

impl Ipv6Header {
    /// 6, or the header is none.
    #[must_use]
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_class_label.to_bytes()[0] >> 4
    }

    /// DSCP (6 bits) and ECN (2 bits).
    #[must_use]
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        let [first, second, _, _] = self.version_class_label.to_bytes();
        first << 4 | second >> 4
    }

    /// The flow label, 20 bits.
    #[must_use]
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_label.get() & 0x000f_ffff
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub const fn source(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.source)
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub const fn destination(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.destination)
    }
}

/// Whether `next_header` is an extension header that must be passed to find the upper layer.
#[must_use]
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
    )
}

/// Where a chain of extension headers led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extensions {
    /// To an upper layer: its protocol, and the length of all extension headers in bytes.
    End {
        /// Protocol number of the upper layer; 59 if there is none.
        protocol: u8,
        /// How many bytes to skip.
        len: usize,
    },
    /// To a fragment header. Even an atomic fragment counts (RFC 6946 describes them; nobody needs
    /// to send them since RFC 8021).
    Fragment,
    /// Nowhere: a header runs over the payload's end, hop-by-hop options are not first (RFC 8200
    /// §4.1), or there are more than [`EXTENSION_CAP`] headers.
    Bad,
}

/// Passes the extension headers at the front of `payload`, the first of which is `next_header`.
#[must_use]
pub fn skip_extensions(next_header: u8, payload: &[u8]) -> Extensions {
    let mut next = next_header;
    let mut len = 0;
    for place in 0..=EXTENSION_CAP {
        if !is_extension(next) {
            return Extensions::End { protocol: next, len };
        }
        if next == protocol::FRAGMENT {
            return Extensions::Fragment;
        }
        if place == EXTENSION_CAP || (next == protocol::HOP_BY_HOP && place > 0) {
            return Extensions::Bad;
        }
        let Some(&[following, units]) = payload.get(len..).and_then(|rest| rest.first_chunk::<2>())
        else {
            return Extensions::Bad;
        };
        // RFC 4302 §2.2: AH counts 4-byte units less 2; RFC 8200 §4: the others 8-byte units less 1.
        len += match next {
            protocol::AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        if len > payload.len() {
            return Extensions::Bad;
        }
        next = following;
    }
    Extensions::Bad
}

const _: () = assert!(IPV6_LEN == 40);
