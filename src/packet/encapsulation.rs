//! IP in IP: the outer headers that carry a packet to its backend (RFC 2003, RFC 2473, RFC 4213).
//!
//! Management makes one [`OuterTemplate`] a backend; a worker copies it and fills in what depends
//! on the packet. Policy:
//!
//! - **IPv4**: DF is set and the identification is 0, an atomic datagram (RFC 6864 §4.1). Nothing on
//!   the way may cut it up, so its length is checked against the port's MTU before.
//! - **TTL, hop limit**: the template's, [`DEFAULT_TTL`] as a rule. The inner one stays as it came.
//! - **DSCP and ECN** are the inner packet's (RFC 2983 §3.1 uniform model; RFC 6040 §4.1 normal
//!   mode), so that a backend sees congestion that its own tunnel met.
//! - **IPv6 flow label**: 20 bits of the flow hash (RFC 6438 §3), so that routers on the way can
//!   spread flows.
//! - **Lengths** come from the inner IP header, never from the frame.

use std::net::IpAddr;

use zerocopy::{FromBytes, IntoBytes};

use super::buffer::PacketBuf;
use super::checksum::Sum;
use super::ethernet::{ETHERNET_LEN, EthernetHeader, VLAN_TAG_LEN, VlanTag, ethertype};
use super::ipv4::{DONT_FRAGMENT, IPV4_LEN, Ipv4Header};
use super::ipv6::{IPV6_LEN, Ipv6Header};
use super::parse::{self, IpPacket, Network, ParseError, Parsed};
use super::{FlowHash, MacAddress, protocol};

/// Room for the longest outer header: Ethernet, 802.1Q, IPv6.
pub const OUTER_CAP: usize = ETHERNET_LEN + VLAN_TAG_LEN + IPV6_LEN;

/// The outer TTL and hop limit that fit nearly everywhere (RFC 1700's default).
pub const DEFAULT_TTL: u8 = 64;

/// What the outer headers of one backend have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterConfig {
    /// The port's link-layer address.
    pub source_mac: MacAddress,
    /// The next hop's link-layer address.
    pub destination_mac: MacAddress,
    /// The port's VLAN (1..=4094), if its frames carry a tag.
    pub vlan: Option<u16>,
    /// The tunnel's near end: an address of the port.
    pub source: IpAddr,
    /// The tunnel's far end: the backend.
    pub destination: IpAddr,
    /// TTL or hop limit (1..=255), as a rule [`DEFAULT_TTL`].
    pub ttl: u8,
}

/// Which headers a template consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterShape {
    /// It has an 802.1Q tag.
    pub vlan: bool,
    /// Its IP header is IPv6, else IPv4.
    pub ipv6: bool,
}

impl OuterShape {
    /// Length of the link-layer header, in bytes.
    #[must_use]
    #[inline]
    pub const fn l2_len(self) -> usize {
        if self.vlan { ETHERNET_LEN + VLAN_TAG_LEN } else { ETHERNET_LEN }
    }

    /// Length of the outer IP header, in bytes: what encapsulation adds to an IP packet.
    #[must_use]
    #[inline]
    pub const fn ip_header_len(self) -> usize {
        if self.ipv6 { IPV6_LEN } else { IPV4_LEN }
    }

    /// Length of all outer headers, in bytes.
    #[must_use]
    #[inline]
    pub const fn header_len(self) -> usize {
        self.l2_len() + self.ip_header_len()
    }
}

/// Outer headers ready to copy, all constant fields written.
///
/// The IPv4 checksum field holds the folded sum of the constant fields, not complemented; length,
/// TOS and protocol are added per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterTemplate {
    /// The headers; bytes behind [`OuterShape::header_len`] are 0.
    pub bytes: [u8; OUTER_CAP],
    /// Which headers they are.
    pub shape: OuterShape,
}

/// The configuration of an outer header that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OuterConfigError {
    /// The tunnel's ends are of two families.
    #[error(
        "a tunnel cannot lead from {source_address} to {destination}: give the port an address of the backend's family"
    )]
    MixedFamilies {
        /// The near end.
        source_address: IpAddr,
        /// The far end.
        destination: IpAddr,
    },
    /// Not a VLAN's number.
    #[error("{0} is not a VLAN id; use 1 to 4094")]
    Vlan(u16),
}

/// The part of an inner packet that its outer header depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The inner packet is IPv6, else IPv4.
    pub ipv6: bool,
    /// Its length by its own IP header, in bytes.
    pub ip_len: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow's hash.
    pub flow_hash: FlowHash,
}

impl Inner {
    /// Of a parsed packet.
    #[must_use]
    #[inline]
    pub const fn new(packet: &IpPacket, flow_hash: FlowHash) -> Self {
        Self {
            ipv6: packet.flow.is_ipv6(),
            ip_len: packet.ip_len,
            traffic_class: packet.traffic_class,
            flow_hash,
        }
    }
}

/// Why a packet could not be encapsulated. The frame must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulationError {
    /// The outer length does not fit its 16-bit field.
    #[error("the packet is too long to be encapsulated")]
    TooBig,
    /// No room for the outer header in front of the packet.
    #[error("no room in front of the packet for the outer header")]
    NoHeadroom,
}

/// Makes the template of a backend.
///
/// # Errors
/// Source and destination are of two families, or the VLAN id is impossible.
pub fn outer_template(config: &OuterConfig) -> Result<OuterTemplate, OuterConfigError> {
    let mut bytes = [0; OUTER_CAP];
    let mut shape = OuterShape { vlan: config.vlan.is_some(), ipv6: false };
    let header = match (config.source, config.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = Ipv4Header {
                version_ihl: 0x45,
                tos: 0,
                total_length: 0.into(),
                identification: 0.into(),
                fragment: DONT_FRAGMENT.into(),
                ttl: config.ttl,
                protocol: 0,
                checksum: 0.into(),
                source: source.octets(),
                destination: destination.octets(),
            };
            header.checksum = Sum::ZERO.bytes(header.as_bytes()).fold().into();
            IpHeader::V4(header)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            shape.ipv6 = true;
            IpHeader::V6(Ipv6Header {
                version_class_label: VERSION_6.into(),
                payload_length: 0.into(),
                next_header: 0,
                hop_limit: config.ttl,
                source: source.octets(),
                destination: destination.octets(),
            })
        }
        (source_address, destination) => {
            return Err(OuterConfigError::MixedFamilies { source_address, destination });
        }
    };
    let ethertype = if shape.ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
    let ethernet = EthernetHeader {
        destination: config.destination_mac,
        source: config.source_mac,
        ethertype: if shape.vlan { ethertype::VLAN } else { ethertype }.into(),
    };
    let mut rest = put(&mut bytes, &ethernet);
    if let Some(id) = config.vlan {
        if !(1..=4094).contains(&id) {
            return Err(OuterConfigError::Vlan(id));
        }
        rest = put(rest, &VlanTag { control: id.into(), ethertype: ethertype.into() });
    }
    match header {
        IpHeader::V4(header) => put(rest, &header),
        IpHeader::V6(header) => put(rest, &header),
    };
    Ok(OuterTemplate { bytes, shape })
}

enum IpHeader {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

/// The version of an IPv6 header, with traffic class and flow label 0.
const VERSION_6: u32 = 6 << 28;

/// Writes `value` to the front of `bytes` and returns what is behind it.
fn put<'a>(bytes: &'a mut [u8], value: &(impl IntoBytes + zerocopy::Immutable)) -> &'a mut [u8] {
    // Templates have room for the longest headers: OUTER_CAP.
    let at = value.as_bytes().len().min(bytes.len());
    let (front, rest) = bytes.split_at_mut(at);
    let _ = value.write_to(front);
    rest
}

/// Replaces the link-layer header of a packet by the outer headers, and cuts off padding.
///
/// `l3_offset` is where the IP header of the packet begins. On success the frame is ready to send.
///
/// # Errors
/// The packet with its new header is too long for an IP packet, or the buffer has no room in front.
#[inline]
pub fn encapsulate(
    buf: &mut impl PacketBuf,
    l3_offset: usize,
    template: &[u8; OUTER_CAP],
    shape: OuterShape,
    inner: Inner,
) -> Result<(), EncapsulationError> {
    buf.truncate(l3_offset + inner.ip_len);
    let frame =
        buf.replace_front(l3_offset, shape.header_len()).ok_or(EncapsulationError::NoHeadroom)?;
    write_outer(template, shape, frame, inner)
}

/// Writes the outer headers over the first [`OuterShape::header_len`] bytes of `frame`.
///
/// # Errors
/// The outer length does not fit its field, or `frame` is shorter than the headers.
#[inline]
pub fn write_outer(
    template: &[u8; OUTER_CAP],
    shape: OuterShape,
    frame: &mut [u8],
    inner: Inner,
) -> Result<(), EncapsulationError> {
    // One arm a shape, so that each copy has a constant length.
    match (shape.vlan, shape.ipv6) {
        (false, false) => write_ipv4::<ETHERNET_LEN>(template, frame, inner),
        (false, true) => write_ipv6::<ETHERNET_LEN>(template, frame, inner),
        (true, false) => write_ipv4::<{ ETHERNET_LEN + VLAN_TAG_LEN }>(template, frame, inner),
        (true, true) => write_ipv6::<{ ETHERNET_LEN + VLAN_TAG_LEN }>(template, frame, inner),
    }
}

/// Copies the link-layer header, and returns the IP headers of template and frame.
#[inline]
fn copy_link<'a, Ip, const L2: usize>(
    template: &[u8; OUTER_CAP],
    frame: &'a mut [u8],
) -> Option<(Ip, &'a mut Ip)>
where
    Ip: FromBytes + IntoBytes + zerocopy::KnownLayout + zerocopy::Unaligned + zerocopy::Immutable,
{
    let (link, rest) = template.split_first_chunk::<L2>()?;
    let (ip, _) = Ip::read_from_prefix(rest).ok()?;
    let (link_out, rest) = frame.split_first_chunk_mut::<L2>()?;
    let (ip_out, _) = Ip::mut_from_prefix(rest).ok()?;
    *link_out = *link;
    Some((ip, ip_out))
}

#[inline]
fn write_ipv4<const L2: usize>(
    template: &[u8; OUTER_CAP],
    frame: &mut [u8],
    inner: Inner,
) -> Result<(), EncapsulationError> {
    let total_length =
        u16::try_from(IPV4_LEN + inner.ip_len).map_err(|_| EncapsulationError::TooBig)?;
    let (mut header, out) =
        copy_link::<Ipv4Header, L2>(template, frame).ok_or(EncapsulationError::NoHeadroom)?;
    header.total_length.set(total_length);
    header.tos = inner.traffic_class;
    header.protocol = inner.protocol();
    // TOS and protocol are the low bytes of their 16-bit words.
    let sum = Sum::ZERO
        .word(header.checksum.get())
        .word(total_length)
        .word(u16::from(header.tos))
        .word(u16::from(header.protocol));
    header.checksum.set(sum.checksum());
    *out = header;
    Ok(())
}

#[inline]
fn write_ipv6<const L2: usize>(
    template: &[u8; OUTER_CAP],
    frame: &mut [u8],
    inner: Inner,
) -> Result<(), EncapsulationError> {
    let payload_length = u16::try_from(inner.ip_len).map_err(|_| EncapsulationError::TooBig)?;
    let (mut header, out) =
        copy_link::<Ipv6Header, L2>(template, frame).ok_or(EncapsulationError::NoHeadroom)?;
    let label = inner.flow_hash.level2() & 0x000f_ffff;
    header.version_class_label.set(VERSION_6 | u32::from(inner.traffic_class) << 20 | label);
    header.payload_length.set(payload_length);
    header.next_header = inner.protocol();
    *out = header;
    Ok(())
}

impl Inner {
    #[inline]
    const fn protocol(self) -> u8 {
        if self.ipv6 { protocol::IPV6 } else { protocol::IPV4 }
    }
}

/// A frame that carries IP in IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decapsulated<'a> {
    /// The frame's own headers.
    pub outer: Parsed,
    /// The outer IP packet.
    pub outer_ip: IpPacket,
    /// The inner IP packet; its offsets count from the front of the frame.
    pub inner: IpPacket,
    /// The bytes of the inner packet, from its IP header on.
    pub inner_bytes: &'a [u8],
}

/// Takes an encapsulated frame apart, as a backend does. `Ok(None)` if it carries no IP in IP.
///
/// # Errors
/// What is wrong with the outer or else the inner packet.
pub fn decapsulate(frame: &[u8]) -> Result<Option<Decapsulated<'_>>, ParseError> {
    let outer = parse::parse(frame)?;
    let Network::Ip(outer_ip) = outer.network else { return Ok(None) };
    let packet = frame.get(..outer_ip.end()).unwrap_or_default();
    let inner = match outer_ip.flow.protocol() {
        protocol::IPV4 => parse::ipv4(packet, outer_ip.l4_offset)?,
        protocol::IPV6 => parse::ipv6(packet, outer_ip.l4_offset)?,
        _ => return Ok(None),
    };
    Ok(Some(Decapsulated { outer, outer_ip, inner, inner_bytes: inner.l3(frame) }))
}
