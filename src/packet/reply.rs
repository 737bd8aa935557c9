//! Answers that are made in place of what asked for them.
//!
//! The caller has decided that the question is for the port; these functions decide whether it is
//! sound, and leave the frame as it was if not. A VLAN tag stays.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, IntoBytes};

use super::arp::{self, Arp, Operation};
use super::buffer::PacketBuf;
use super::checksum::{self, Sum};
use super::encapsulation::DEFAULT_TTL;
use super::ethernet::EthernetHeader;
use super::icmp::{self, EchoHeader};
use super::ipv4::{IPV4_LEN, Ipv4Header};
use super::ipv6::{IPV6_LEN, Ipv6Header};
use super::ndp::{self, NeighbourPacket};
use super::parse::{self, IpPacket, Network};
use super::{ALL_NODES, FlowKey, MacAddress, icmpv6, protocol};

/// Why a frame was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It is not a sound question of the expected kind.
    #[error("the frame is not a sound request")]
    Malformed,
    /// The answer is longer than the question, and the buffer has no room in front.
    #[error("no room in front of the frame for the longer answer")]
    NoHeadroom,
}

/// Turns an ARP request into the reply that its target address is at `our_mac` (RFC 826). A probe is
/// answered as well (RFC 5227 §2.1.1).
///
/// # Errors
/// [`ReplyError::Malformed`] if the frame is not a sound ARP request.
pub fn arp(frame: &mut [u8], our_mac: MacAddress) -> Result<(), ReplyError> {
    let malformed = ReplyError::Malformed;
    let link = parse::link(frame).map_err(|_| malformed)?;
    if link.ethertype != parse::Ethertype::Arp {
        return Err(malformed);
    }
    let packet = frame.get_mut(link.l3_offset..).ok_or(malformed)?;
    let request = arp::parse(packet).map_err(|_| malformed)?;
    if request.operation != Operation::Request {
        return Err(malformed);
    }
    let reply = Arp {
        operation: Operation::Reply,
        sender_mac: our_mac,
        sender: request.target,
        target_mac: request.sender_mac,
        target: request.sender,
    };
    reply.header().write_to_prefix(packet).map_err(|_| malformed)?;
    turn_around(frame, request.sender_mac, our_mac)
}

/// Turns a neighbour solicitation into the advertisement that its target is at `our_mac` (RFC 4861
/// §7.2.4): solicited and to the asker, or to all nodes if the asker has no address yet.
///
/// The advertisement always says where the target is; it is 8 bytes longer than a solicitation
/// without options, which it takes from the buffer's headroom.
///
/// # Errors
/// [`ReplyError::Malformed`] if the frame is not a valid solicitation, [`ReplyError::NoHeadroom`].
pub fn neighbour_advertisement(
    buf: &mut impl PacketBuf,
    our_mac: MacAddress,
) -> Result<(), ReplyError> {
    let malformed = ReplyError::Malformed;
    let parsed = parse::parse(buf.bytes()).map_err(|_| malformed)?;
    let Network::Ip(packet) = parsed.network else { return Err(malformed) };
    let request = ndp::solicitation(&packet, buf.bytes()).map_err(|_| malformed)?;
    if parsed.link.source.is_group() {
        return Err(malformed);
    }
    // A probe comes from `::`, and its answer goes to everyone.
    let probe = request.source.is_unspecified();
    let (destination, destination_mac) = if probe {
        (ALL_NODES, MacAddress::for_ipv6_multicast(ALL_NODES))
    } else {
        (request.source, request.source_mac.unwrap_or(parsed.link.source))
    };
    let l3_offset = parsed.link.l3_offset;
    // The longest link-layer header is 18 bytes; it is kept while the frame changes its length.
    let mut link = [0; 18];
    let link = link.get_mut(..l3_offset).ok_or(malformed)?;
    link.copy_from_slice(buf.bytes().get(..l3_offset).ok_or(malformed)?);

    let advertisement =
        NeighbourPacket::advertisement(request.target, destination, our_mac, !probe);
    let old_len = buf.bytes().len();
    let frame = buf
        .replace_front(old_len, l3_offset + size_of::<NeighbourPacket>())
        .ok_or(ReplyError::NoHeadroom)?;
    let (link_out, rest) = frame.split_at_mut_checked(l3_offset).ok_or(malformed)?;
    link_out.copy_from_slice(link);
    advertisement.write_to(rest).map_err(|_| malformed)?;
    turn_around(frame, destination_mac, our_mac)
}

/// Turns an echo request into its reply (RFC 792, RFC 4443 §4.2), from the address that was asked.
/// The reply has the request's data, TOS and DF, and a TTL of [`DEFAULT_TTL`].
///
/// A request with IPv4 options or IPv6 extension headers is not answered: they would have to be
/// reversed, and nobody needs them to see that the appliance is there.
///
/// # Errors
/// [`ReplyError::Malformed`] if the frame is not an echo request with a right checksum between
/// unicast addresses.
pub fn echo(frame: &mut [u8], our_mac: MacAddress) -> Result<(), ReplyError> {
    let malformed = ReplyError::Malformed;
    let parsed = parse::parse(frame).map_err(|_| malformed)?;
    let Network::Ip(packet) = parsed.network else { return Err(malformed) };
    if parsed.link.source.is_group() {
        return Err(malformed);
    }
    match packet.flow {
        FlowKey::V4 { destination, protocol: protocol::ICMP, .. } => {
            echo_ipv4(frame, &packet, destination)?;
        }
        FlowKey::V6 { source, destination, protocol: protocol::ICMPV6, .. } => {
            echo_ipv6(frame, &packet, source, destination)?;
        }
        _ => return Err(malformed),
    }
    turn_around(frame, parsed.link.source, our_mac)
}

fn echo_ipv4(frame: &mut [u8], packet: &IpPacket, destination: Ipv4Addr) -> Result<(), ReplyError> {
    let malformed = ReplyError::Malformed;
    if destination.is_multicast()
        || destination.is_broadcast()
        || packet.l4_offset != packet.l3_offset + IPV4_LEN
        || !Sum::ZERO.bytes(packet.l4(frame)).is_intact()
    {
        return Err(malformed);
    }
    let bytes = frame.get_mut(packet.l3_offset..packet.end()).ok_or(malformed)?;
    let (header, message) = Ipv4Header::mut_from_prefix(bytes).map_err(|_| malformed)?;
    answer(message, icmp::ECHO_REQUEST, icmp::ECHO_REPLY)?;
    std::mem::swap(&mut header.source, &mut header.destination);
    let old = u16::from_be_bytes([header.ttl, header.protocol]);
    header.ttl = DEFAULT_TTL;
    let new = u16::from_be_bytes([header.ttl, header.protocol]);
    header.checksum.set(checksum::update(header.checksum.get(), old, new));
    Ok(())
}

fn echo_ipv6(
    frame: &mut [u8],
    packet: &IpPacket,
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Result<(), ReplyError> {
    let malformed = ReplyError::Malformed;
    if destination.is_multicast()
        || source.is_unspecified()
        || packet.l4_offset != packet.l3_offset + IPV6_LEN
        || !icmpv6::is_intact(source, destination, packet.l4(frame))
    {
        return Err(malformed);
    }
    let bytes = frame.get_mut(packet.l3_offset..packet.end()).ok_or(malformed)?;
    let (header, message) = Ipv6Header::mut_from_prefix(bytes).map_err(|_| malformed)?;
    answer(message, icmpv6::ECHO_REQUEST, icmpv6::ECHO_REPLY)?;
    std::mem::swap(&mut header.source, &mut header.destination);
    header.hop_limit = DEFAULT_TTL;
    Ok(())
}

/// Makes an echo request a reply. Swapped addresses leave the pseudo header's sum as it was.
fn answer(message: &mut [u8], request: u8, reply: u8) -> Result<(), ReplyError> {
    let (header, _) = EchoHeader::mut_from_prefix(message).map_err(|_| ReplyError::Malformed)?;
    if (header.message_type, header.code) != (request, 0) {
        return Err(ReplyError::Malformed);
    }
    header.message_type = reply;
    let (old, new) = (u16::from_be_bytes([request, 0]), u16::from_be_bytes([reply, 0]));
    header.checksum.set(checksum::update(header.checksum.get(), old, new));
    Ok(())
}

/// Sends a frame back: the link layer's last step.
fn turn_around(
    frame: &mut [u8],
    destination: MacAddress,
    our_mac: MacAddress,
) -> Result<(), ReplyError> {
    let (header, _) = EthernetHeader::mut_from_prefix(frame).map_err(|_| ReplyError::Malformed)?;
    header.destination = destination;
    header.source = our_mac;
    Ok(())
}
