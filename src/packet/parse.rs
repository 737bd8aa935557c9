//! From bytes to what the pipeline decides by.
//!
//! Every frame goes through [`parse`]. Its checks come in this order, and the first that fails is
//! the error:
//!
//! 1. Ethernet header and at most one 802.1Q tag are there (`Truncated`), and carry ARP, IPv4 or
//!    IPv6 (`UnknownEthertype`).
//! 2. The fixed IP header is there (`Truncated`), and its version and lengths are possible
//!    (`BadIpv4Header`, `BadIpv6Header`).
//! 3. The frame holds as many bytes as the IP header states (`Truncated`). What is more is padding
//!    of the link, and is never looked at again.
//! 4. The IPv4 header checksum is right (`BadIpv4Checksum`).
//! 5. TTL or hop limit is not 0 (`TtlExpired`).
//! 6. IPv6 extension headers end inside the packet (`BadIpv6Header`); the packet is not a fragment
//!    (`Fragment`).
//! 7. The source address is one that a host may send from (`BadSource`).
//! 8. The TCP or UDP header fits the packet (`BadL4Header`). Other protocols are not looked into.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::FromBytes;

use super::checksum::{self, Sum};
use super::ethernet::{ETHERNET_LEN, EthernetHeader, VLAN_TAG_LEN, VlanTag, ethertype};
use super::ipv4::{FRAGMENT_MASK, IPV4_LEN, Ipv4Header};
use super::ipv6::{self, Extensions, IPV6_LEN, Ipv6Header};
use super::tcp::{TCP_LEN, TcpFlags, TcpHeader};
use super::udp::{UDP_LEN, UdpHeader};
use super::{FlowKey, MacAddress, icmpv6, protocol};

/// Why a frame cannot be carried. Each variant is the drop reason of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The frame ends before the headers or the length that its IP header states.
    #[error("the frame ends before its headers or its stated length")]
    Truncated,
    /// Neither ARP, IPv4 nor IPv6; a second VLAN tag among them.
    #[error("the frame carries neither ARP, IPv4 nor IPv6")]
    UnknownEthertype,
    /// IPv4 version, header length or total length is impossible.
    #[error("the IPv4 version, header length or total length is impossible")]
    BadIpv4Header,
    /// The IPv4 header checksum is wrong.
    #[error("the IPv4 header checksum is wrong")]
    BadIpv4Checksum,
    /// IPv6 version is wrong, or the extension headers do not end.
    #[error("the IPv6 version is wrong, or its extension headers do not end")]
    BadIpv6Header,
    /// TTL or hop limit is 0.
    #[error("the TTL or hop limit is 0")]
    TtlExpired,
    /// A fragment: no ports to decide by.
    #[error("the packet is a fragment")]
    Fragment,
    /// The source address is one that nobody may send from.
    #[error("the source address is one that no host may send from")]
    BadSource,
    /// The TCP or UDP header is impossible.
    #[error("the TCP or UDP header is impossible")]
    BadL4Header,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ethertype {
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The link layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whom the frame is for.
    pub destination: MacAddress,
    /// Who sent it, if this is not a group address.
    pub source: MacAddress,
    /// The VLAN of its tag; `None` without a tag and with a tag that has only a priority.
    pub vlan: Option<u16>,
    /// What follows.
    pub ethertype: Ethertype,
    /// Where the ARP packet or the IP header begins: 14, or 18 behind a tag.
    pub l3_offset: usize,
}

/// An IP packet whose headers are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// Its 5-tuple.
    pub flow: FlowKey,
    /// Its length by the IP header, that header among it, in bytes.
    pub ip_len: usize,
    /// Where the IP header begins, counted from the front of the frame.
    pub l3_offset: usize,
    /// Where the upper layer begins, counted from the front of the frame.
    pub l4_offset: usize,
    /// TCP's control bits; none for another protocol.
    pub tcp_flags: TcpFlags,
    /// DSCP and ECN: the IPv4 TOS byte or the IPv6 traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit, at least 1.
    pub ttl: u8,
}

impl IpPacket {
    /// Where the packet ends and padding begins, counted from the front of the frame.
    #[must_use]
    #[inline]
    pub const fn end(&self) -> usize {
        self.l3_offset + self.ip_len
    }

    /// The IP packet in the frame it was parsed from, without padding; empty in a shorter frame.
    #[must_use]
    #[inline]
    pub fn l3<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.l3_offset..self.end()).unwrap_or_default()
    }

    /// The upper layer in the frame it was parsed from, without padding; empty in a shorter frame.
    #[must_use]
    #[inline]
    pub fn l4<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.l4_offset..self.end()).unwrap_or_default()
    }
}

/// What follows the link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// ARP, not yet looked into: [`arp::parse`](super::arp::parse).
    Arp,
    /// An IP packet.
    Ip(IpPacket),
}

/// A frame whose headers are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its link layer.
    pub link: Link,
    /// What it carries.
    pub network: Network,
}

/// Parses a whole frame: [`link`], then [`network`].
///
/// # Errors
/// The first check of the module's list that fails.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Parsed, ParseError> {
    let link = link(frame)?;
    let network = network(frame, &link)?;
    Ok(Parsed { link, network })
}

/// Parses the link layer only, so that frames for others can be told before they are looked into.
///
/// # Errors
/// `Truncated` and `UnknownEthertype`.
#[inline]
pub fn link(frame: &[u8]) -> Result<Link, ParseError> {
    let (header, rest) =
        EthernetHeader::ref_from_prefix(frame).map_err(|_| ParseError::Truncated)?;
    let (mut carried, mut vlan, mut l3_offset) = (header.ethertype.get(), None, ETHERNET_LEN);
    if carried == ethertype::VLAN {
        let (tag, _) = VlanTag::ref_from_prefix(rest).map_err(|_| ParseError::Truncated)?;
        (carried, vlan, l3_offset) = (tag.ethertype.get(), tag.id(), ETHERNET_LEN + VLAN_TAG_LEN);
    }
    let ethertype = match carried {
        ethertype::IPV4 => Ethertype::Ipv4,
        ethertype::IPV6 => Ethertype::Ipv6,
        ethertype::ARP => Ethertype::Arp,
        _ => return Err(ParseError::UnknownEthertype),
    };
    let EthernetHeader { destination, source, .. } = *header;
    Ok(Link { destination, source, vlan, ethertype, l3_offset })
}

/// Parses what follows the link layer that was found in the same frame.
///
/// # Errors
/// The first check of the module's list that fails, from the second on.
#[inline]
pub fn network(frame: &[u8], link: &Link) -> Result<Network, ParseError> {
    match link.ethertype {
        Ethertype::Ipv4 => ipv4(frame, link.l3_offset).map(Network::Ip),
        Ethertype::Ipv6 => ipv6(frame, link.l3_offset).map(Network::Ip),
        Ethertype::Arp => Ok(Network::Arp),
    }
}

/// Parses the IPv4 packet at `l3_offset` of `frame`.
///
/// # Errors
/// The first check of the module's list that fails, from the second on.
#[inline]
pub fn ipv4(frame: &[u8], l3_offset: usize) -> Result<IpPacket, ParseError> {
    let bytes = frame.get(l3_offset..).ok_or(ParseError::Truncated)?;
    let (header_bytes, _) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
    let header: &Ipv4Header = zerocopy::transmute_ref!(header_bytes);
    let ip_len = usize::from(header.total_length.get());
    let header_len = if header.version_ihl == 0x45 {
        if ip_len < IPV4_LEN {
            return Err(ParseError::BadIpv4Header);
        }
        if ip_len > bytes.len() {
            return Err(ParseError::Truncated);
        }
        if !checksum::is_ipv4_header_intact(header_bytes) {
            return Err(ParseError::BadIpv4Checksum);
        }
        IPV4_LEN
    } else {
        ipv4_header_with_options(header, bytes)?
    };
    if header.ttl == 0 {
        return Err(ParseError::TtlExpired);
    }
    if header.fragment.get() & FRAGMENT_MASK != 0 {
        return Err(ParseError::Fragment);
    }
    let source = header.source();
    if !is_ipv4_source(source) {
        return Err(ParseError::BadSource);
    }
    let l4 = bytes.get(header_len..ip_len).ok_or(ParseError::BadIpv4Header)?;
    let transport = transport(header.protocol, l4)?;
    Ok(IpPacket {
        flow: FlowKey::V4 {
            source,
            destination: header.destination(),
            source_port: transport.source_port,
            destination_port: transport.destination_port,
            protocol: header.protocol,
        },
        ip_len,
        l3_offset,
        l4_offset: l3_offset + header_len,
        tcp_flags: transport.tcp_flags,
        traffic_class: header.tos,
        ttl: header.ttl,
    })
}

/// Checks 2 to 4 for a header that is not the usual one; returns its length.
#[cold]
fn ipv4_header_with_options(header: &Ipv4Header, bytes: &[u8]) -> Result<usize, ParseError> {
    let header_len = usize::from(header.version_ihl & 0x0f) * 4;
    let ip_len = usize::from(header.total_length.get());
    if header.version_ihl >> 4 != 4 || header_len < IPV4_LEN || ip_len < header_len {
        return Err(ParseError::BadIpv4Header);
    }
    if ip_len > bytes.len() {
        return Err(ParseError::Truncated);
    }
    let with_options = bytes.get(..header_len).ok_or(ParseError::Truncated)?;
    if !Sum::ZERO.bytes(with_options).is_intact() {
        return Err(ParseError::BadIpv4Checksum);
    }
    Ok(header_len)
}

/// Whether a host may send from this address: not 0.0.0.0/8 nor 127.0.0.0/8 (RFC 1122 §3.2.1.3),
/// not multicast, not the limited broadcast.
#[inline]
fn is_ipv4_source(source: Ipv4Addr) -> bool {
    match source.octets()[0] {
        0 | 127 | 224..=239 => false,
        255 => !source.is_broadcast(),
        _ => true,
    }
}

/// Parses the IPv6 packet at `l3_offset` of `frame`.
///
/// # Errors
/// The first check of the module's list that fails, from the second on.
#[inline]
pub fn ipv6(frame: &[u8], l3_offset: usize) -> Result<IpPacket, ParseError> {
    let bytes = frame.get(l3_offset..).ok_or(ParseError::Truncated)?;
    let (header, rest) = Ipv6Header::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
    if header.version() != 6 {
        return Err(ParseError::BadIpv6Header);
    }
    // RFC 2675 §3: a jumbogram states 0. Its hop-by-hop options then find no room, and it is bad.
    let payload_len = usize::from(header.payload_length.get());
    let payload = rest.get(..payload_len).ok_or(ParseError::Truncated)?;
    if header.hop_limit == 0 {
        return Err(ParseError::TtlExpired);
    }
    let (protocol, l4) = if ipv6::is_extension(header.next_header) {
        behind_extensions(header.next_header, payload)?
    } else {
        (header.next_header, payload)
    };
    let source = header.source();
    if !is_ipv6_source(source) && !is_address_probe(source, protocol, l4) {
        return Err(ParseError::BadSource);
    }
    let transport = transport(protocol, l4)?;
    Ok(IpPacket {
        flow: FlowKey::V6 {
            source,
            destination: header.destination(),
            source_port: transport.source_port,
            destination_port: transport.destination_port,
            protocol,
        },
        ip_len: IPV6_LEN + payload_len,
        l3_offset,
        l4_offset: l3_offset + IPV6_LEN + payload_len - l4.len(),
        tcp_flags: transport.tcp_flags,
        traffic_class: header.traffic_class(),
        ttl: header.hop_limit,
    })
}

#[cold]
fn behind_extensions(next_header: u8, payload: &[u8]) -> Result<(u8, &[u8]), ParseError> {
    match ipv6::skip_extensions(next_header, payload) {
        Extensions::End { protocol, len } => {
            let l4 = payload.get(len..).ok_or(ParseError::BadIpv6Header)?;
            Ok((protocol, l4))
        }
        Extensions::Fragment => Err(ParseError::Fragment),
        Extensions::Bad => Err(ParseError::BadIpv6Header),
    }
}

/// Whether a host may send from this address: neither multicast, nor `::`, nor `::1` (RFC 4291
/// §2.5.2, §2.5.3, §2.7).
#[inline]
fn is_ipv6_source(source: Ipv6Addr) -> bool {
    let bits = u128::from(source);
    bits > 1 && bits >> 120 != 0xff
}

/// A neighbour solicitation that asks whether an address is taken comes from `::` (RFC 4862
/// §5.4.2).
#[cold]
fn is_address_probe(source: Ipv6Addr, protocol: u8, l4: &[u8]) -> bool {
    source.is_unspecified()
        && protocol == protocol::ICMPV6
        && icmpv6::message_type(l4) == Some(icmpv6::NEIGHBOUR_SOLICITATION)
}

/// What the pipeline needs of the upper layer.
struct Transport {
    source_port: u16,
    destination_port: u16,
    tcp_flags: TcpFlags,
}

#[inline]
fn transport(protocol: u8, l4: &[u8]) -> Result<Transport, ParseError> {
    match protocol {
        protocol::TCP => {
            let (header, _) =
                TcpHeader::ref_from_prefix(l4).map_err(|_| ParseError::BadL4Header)?;
            let header_len = header.header_len();
            if header_len < TCP_LEN || header_len > l4.len() {
                return Err(ParseError::BadL4Header);
            }
            Ok(Transport {
                source_port: header.source_port.get(),
                destination_port: header.destination_port.get(),
                tcp_flags: header.flags,
            })
        }
        protocol::UDP => {
            let (header, _) =
                UdpHeader::ref_from_prefix(l4).map_err(|_| ParseError::BadL4Header)?;
            // A length of 0 means a jumbogram (RFC 2675 §4), which was refused before.
            let len = usize::from(header.length.get());
            if len < UDP_LEN || len > l4.len() {
                return Err(ParseError::BadL4Header);
            }
            Ok(Transport {
                source_port: header.source_port.get(),
                destination_port: header.destination_port.get(),
                tcp_flags: TcpFlags::NONE,
            })
        }
        _ => Ok(Transport { source_port: 0, destination_port: 0, tcp_flags: TcpFlags::NONE }),
    }
}
