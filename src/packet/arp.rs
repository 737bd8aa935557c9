//! ARP for IPv4 over Ethernet (RFC 826), with the probes and announcements of RFC 5227.

use std::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::MacAddress;
use super::ethernet::ethertype;

/// Length of an ARP packet, in bytes.
pub const ARP_LEN: usize = size_of::<ArpHeader>();

/// An ARP packet as it is on the wire.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ArpHeader {
    /// 1: Ethernet.
    pub hardware: U16,
    /// The ethertype of the protocol: IPv4.
    pub protocol: U16,
    /// 6.
    pub hardware_len: u8,
    /// 4.
    pub protocol_len: u8,
    /// 1 asks, 2 answers.
    pub operation: U16,
    /// Who speaks.
    pub sender_mac: MacAddress,
    /// Who speaks; 0.0.0.0 in a probe.
    pub sender_address: [u8; 4],
    /// Who is spoken to; without meaning in a request.
    pub target_mac: MacAddress,
    /// Who is spoken to.
    pub target_address: [u8; 4],
}

/// Whether a packet asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has the target address?
    Request,
    /// The sender has the sender address.
    Reply,
}

/// A sound ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it asks or answers.
    pub operation: Operation,
    /// The sender's link-layer address; never a group's.
    pub sender_mac: MacAddress,
    /// The sender's address; unspecified in a probe.
    pub sender: Ipv4Addr,
    /// The link-layer address of whom it is for; without meaning in a request.
    pub target_mac: MacAddress,
    /// Whom it asks for, or answers.
    pub target: Ipv4Addr,
}

/// The packet is not ARP for IPv4 over Ethernet, or claims what no host may claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArpError {
    /// It ends early.
    #[error("the ARP packet ends early")]
    Truncated,
    /// Another hardware, protocol or operation.
    #[error("the packet is not an ARP request or reply for IPv4 over Ethernet")]
    Unsupported,
    /// The sender claims a group, loopback or broadcast address.
    #[error("the ARP sender claims an address that no host can have")]
    BadSender,
}

impl Arp {
    /// Whether the sender asks if the target address is taken (RFC 5227 §1.1).
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.operation, Operation::Request) && self.sender.is_unspecified()
    }

    /// Whether the sender announces its own address, with either operation (RFC 5227 §1.1, §3).
    #[must_use]
    pub fn is_announcement(&self) -> bool {
        !self.sender.is_unspecified() && self.sender == self.target
    }
}

/// Parses an ARP packet; `bytes` begins at [`Link::l3_offset`](super::parse::Link::l3_offset), and
/// may be longer than the packet.
///
/// # Errors
/// It ends early, is for other protocols, or its sender is impossible.
pub fn parse(bytes: &[u8]) -> Result<Arp, ArpError> {
    let (header, _) = ArpHeader::ref_from_prefix(bytes).map_err(|_| ArpError::Truncated)?;
    if header.hardware.get() != 1
        || header.protocol.get() != ethertype::IPV4
        || (header.hardware_len, header.protocol_len) != (6, 4)
    {
        return Err(ArpError::Unsupported);
    }
    let operation = match header.operation.get() {
        1 => Operation::Request,
        2 => Operation::Reply,
        _ => return Err(ArpError::Unsupported),
    };
    let sender = Ipv4Addr::from(header.sender_address);
    if header.sender_mac.is_group()
        || sender.is_multicast()
        || sender.is_broadcast()
        || sender.is_loopback()
        || (sender.is_unspecified() && operation == Operation::Reply)
    {
        return Err(ArpError::BadSender);
    }
    Ok(Arp {
        operation,
        sender_mac: header.sender_mac,
        sender,
        target_mac: header.target_mac,
        target: Ipv4Addr::from(header.target_address),
    })
}

impl Arp {
    /// The packet as it is on the wire.
    #[must_use]
    pub fn header(&self) -> ArpHeader {
        ArpHeader {
            hardware: 1.into(),
            protocol: ethertype::IPV4.into(),
            hardware_len: 6,
            protocol_len: 4,
            operation: match self.operation {
                Operation::Request => 1.into(),
                Operation::Reply => 2.into(),
            },
            sender_mac: self.sender_mac,
            sender_address: self.sender.octets(),
            target_mac: self.target_mac,
            target_address: self.target.octets(),
        }
    }
}

const _: () = assert!(ARP_LEN == 28);
