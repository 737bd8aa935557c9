//! The packet inside: is it to the byte what was sent?

use super::violation::Violation;
use crate::frame::Filling;
use crate::stamp::{self, Layout, Stamp};
use crate::wire::{self, IpHeader};

/// A packet of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Its header.
    pub header: IpHeader,
    /// Its stamp.
    pub stamp: Stamp,
    /// Both ports, as they stand in the packet.
    pub ports: [u8; 4],
    /// TCP's control bits; 0 for UDP.
    pub flags: u8,
    /// The time stamp counter at sending, if there was room for it.
    pub sent_at: Option<u64>,
}

/// Checks a packet's lengths, checksums and bytes.
///
/// # Errors
/// What is wrong with it.
#[inline]
pub fn check(packet: &[u8], filling: &Filling, seed: u64) -> Result<Inner, Violation> {
    let header = IpHeader::read(packet).ok_or(Violation::OuterLength)?;
    if header.total_len != packet.len() {
        return Err(Violation::OuterLength);
    }
    if !header.is_ipv6 && wire::checksum(wire::sum(&packet[..header.len])) != 0 {
        return Err(Violation::InnerChecksum);
    }
    if header.is_fragment {
        return Err(Violation::NotDropped);
    }
    let layout = Layout::of(&header).ok_or(Violation::Foreign)?;
    let upper = &packet[header.len..];
    let pseudo = wire::pseudo_header(header.addresses(packet), header.protocol, upper.len());
    if wire::checksum(pseudo + wire::sum(upper)) != 0 {
        return Err(Violation::TransportChecksum);
    }
    let stamp = stamp::read(packet, layout, seed).ok_or(Violation::InnerChanged)?;
    let body = &packet[layout.body()..];
    let (sent_at, filled) = match body.split_first_chunk::<8>() {
        Some((time, rest)) => (Some(u64::from_be_bytes(*time)), rest),
        None => (None, body),
    };
    if filled != filling.first(filled.len()) {
        return Err(Violation::InnerChanged);
    }
    let flags = if layout.is_tcp { upper[13] } else { 0 };
    let ports = [upper[0], upper[1], upper[2], upper[3]];
    Ok(Inner { header, stamp, ports, flags, sent_at })
}
