//! Frames for the appliance itself: ARP, neighbour discovery and echo are answered in place, what
//! tells about neighbours goes to management, and the rest is dropped with its reason.

use super::classify::NotForService;
use super::tables::{PortRecord, Tables};
use super::verdict::{DropReason, PuntReason, Verdict};
use crate::packet::arp::{self, ARP_LEN, Operation};
use crate::packet::ethernet::MINIMUM_FRAME_LEN;
use crate::packet::reply::{self, ReplyError};
use crate::packet::{FlowKey, IpPacket, PacketBuf, icmp, icmpv6, ndp, protocol};

/// The longest frame that management gets, in bytes: longer ones are no neighbour messages that
/// anyone needs.
pub const PUNT_CAP: usize = 256;

/// Handles a sound frame that no service has.
#[cold]
pub(super) fn handle<B: PacketBuf>(
    tables: &Tables,
    port: &PortRecord,
    buf: &mut B,
    frame: &NotForService,
) -> Verdict {
    let handled = match &frame.packet {
        None => arp(port, buf, frame.link.l3_offset),
        // RFC 1122 §3.3.6: a unicast packet in a group frame is not answered, or one frame would
        // have an answer from everyone on the link.
        Some((ip, _)) if frame.link.destination.is_group() && is_ours(port, &ip.flow) => {
            Err(DropReason::NotForPort)
        }
        Some((ip, reason)) => match ip.flow {
            FlowKey::V4 { destination, .. } if port.ipv4.binary_search(&destination).is_ok() => {
                ipv4(port, buf, ip)
            }
            FlowKey::V6 { protocol: protocol::ICMPV6, .. } => {
                icmpv6(tables, port, buf, ip, *reason)
            }
            FlowKey::V6 { destination, .. } if port.ipv6.binary_search(&destination).is_ok() => {
                Err(DropReason::NotHandled)
            }
            _ => Err(*reason),
        },
    };
    handled.unwrap_or_else(Verdict::Drop)
}

/// Whether the destination is an address that the port answers for.
fn is_ours(port: &PortRecord, flow: &FlowKey) -> bool {
    match flow {
        FlowKey::V4 { destination, .. } => port.ipv4.binary_search(destination).is_ok(),
        FlowKey::V6 { destination, .. } => {
            port.ipv6.binary_search(destination).is_ok()
                || port.neighbour_discovery.binary_search(destination).is_ok()
        }
    }
}

fn arp<B: PacketBuf>(
    port: &PortRecord,
    buf: &mut B,
    l3_offset: usize,
) -> Result<Verdict, DropReason> {
    let packet = buf.bytes().get(l3_offset..).unwrap_or_default();
    let packet = arp::parse(packet).map_err(|_| DropReason::BadArp)?;
    // What tells about a neighbour, an address conflict among them (RFC 5227 §2.4).
    if packet.is_announcement() || packet.operation == Operation::Reply {
        buf.truncate(l3_offset + ARP_LEN);
        return Ok(Verdict::Punt(PuntReason::Arp));
    }
    if port.arp.binary_search(&packet.target).is_err() {
        return Err(DropReason::ArpNotForPort);
    }
    // Its sender claims an address of ours: an answer would go to us.
    if port.arp.binary_search(&packet.sender).is_ok() {
        return Err(DropReason::BadArp);
    }
    reply::arp(buf.bytes_mut(), port.mac).map_err(|_| DropReason::BadArp)?;
    // What came behind the request is not sent back: it may be long, and it is not ours to say.
    buf.truncate((l3_offset + ARP_LEN).max(MINIMUM_FRAME_LEN));
    if let Some(padding) = buf.bytes_mut().get_mut(l3_offset + ARP_LEN..) {
        padding.fill(0);
    }
    Ok(Verdict::Reply)
}

fn ipv4<B: PacketBuf>(
    port: &PortRecord,
    buf: &mut B,
    ip: &IpPacket,
) -> Result<Verdict, DropReason> {
    let is_echo = ip.flow.protocol() == protocol::ICMP
        && icmp::message_type(ip.l4(buf.bytes())) == Some(icmp::ECHO_REQUEST);
    if !is_echo {
        return Err(DropReason::NotHandled);
    }
    echo(port, buf, ip)
}

fn echo<B: PacketBuf>(
    port: &PortRecord,
    buf: &mut B,
    ip: &IpPacket,
) -> Result<Verdict, DropReason> {
    if ip.ip_len > usize::from(port.mtu) {
        return Err(DropReason::TooBig);
    }
    reply::echo(buf.bytes_mut(), port.mac).map_err(|_| DropReason::BadIcmp)?;
    // Padding behind the request may be another frame's bytes: it is not sent back.
    buf.truncate(ip.end());
    Ok(Verdict::Reply)
}

fn icmpv6<B: PacketBuf>(
    tables: &Tables,
    port: &PortRecord,
    buf: &mut B,
    ip: &IpPacket,
    not_for_service: DropReason,
) -> Result<Verdict, DropReason> {
    let FlowKey::V6 { destination, .. } = ip.flow else { return Err(not_for_service) };
    let is_own = port.ipv6.binary_search(&destination).is_ok();
    let is_link_scope = destination.segments()[0] == 0xff02;
    let is_owned = is_own || port.neighbour_discovery.binary_search(&destination).is_ok();
    if !is_owned && !is_link_scope {
        return Err(not_for_service);
    }
    let bad = DropReason::BadNeighbourDiscovery;
    let punt = |buf: &mut B| {
        buf.truncate(ip.end());
        if buf.bytes().len() > PUNT_CAP {
            return Err(bad);
        }
        Ok(Verdict::Punt(PuntReason::NeighbourDiscovery))
    };
    match icmpv6::message_type(ip.l4(buf.bytes())) {
        Some(icmpv6::NEIGHBOUR_SOLICITATION) => {
            let request = ndp::solicitation(ip, buf.bytes()).map_err(|_| bad)?;
            if port.neighbour_discovery.binary_search(&request.target).is_err() {
                return Err(DropReason::SolicitationNotForPort);
            }
            if port.neighbour_discovery.binary_search(&request.source).is_ok() {
                return Err(bad);
            }
            reply::neighbour_advertisement(buf, port.mac).map_err(|error| match error {
                ReplyError::Malformed => bad,
                ReplyError::NoHeadroom => DropReason::NoHeadroom,
            })?;
            Ok(Verdict::Reply)
        }
        Some(icmpv6::NEIGHBOUR_ADVERTISEMENT) => {
            ndp::advertisement(ip, buf.bytes()).map_err(|_| bad)?;
            punt(buf)
        }
        Some(icmpv6::LISTENER_QUERY) => {
            ndp::listener_query(ip, buf.bytes()).map_err(|_| bad)?;
            punt(buf)
        }
        Some(icmpv6::ECHO_REQUEST) if is_own => echo(port, buf, ip),
        _ if is_owned && tables.vips.has_address(destination.into()) => {
            Err(DropReason::UnsupportedProtocol)
        }
        _ => Err(DropReason::NotHandled),
    }
}
