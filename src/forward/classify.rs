//! First stage: whose is this frame, and which service does it ask for?

use std::net::IpAddr;

use super::local;
use super::tables::{PortRecord, Tables};
use super::verdict::{DropReason, Verdict};
use crate::id::{ServiceId, VipId};
use crate::packet::{FlowKey, IpPacket, Link, Network, PacketBuf, ParseError, parse};

/// A packet to a VIP, with the service that has its port.
#[derive(Clone, Copy, Debug)]
pub(super) struct VipPacket {
    pub ip: IpPacket,
    pub vip: VipId,
    pub service: ServiceId,
}

/// What the first stage made of a frame.
pub(super) enum Class {
    /// A backend is to be found for it.
    Vip(VipPacket),
    /// It needs no backend.
    Done(Verdict),
}

/// Classifies one frame that came in by `port`. A frame that is answered is rewritten.
#[inline]
pub(super) fn classify<B: PacketBuf>(tables: &Tables, port: &PortRecord, buf: &mut B) -> Class {
    match vip_packet(tables, port, buf) {
        Ok(Ok(packet)) => Class::Vip(packet),
        Ok(Err(other)) => Class::Done(local::handle(tables, port, buf, &other)),
        Err(reason) => Class::Done(Verdict::Drop(reason)),
    }
}

/// A sound frame that is for the port, but not for a service.
pub(super) struct NotForService {
    pub link: Link,
    /// The packet and why no service has it; `None` is ARP.
    pub packet: Option<(IpPacket, DropReason)>,
}

#[inline]
fn vip_packet<B: PacketBuf>(
    tables: &Tables,
    port: &PortRecord,
    buf: &B,
) -> Result<Result<VipPacket, NotForService>, DropReason> {
    if !buf.is_linear() {
        return Err(DropReason::NotLinear);
    }
    let frame = buf.bytes();
    let link = parse::link(frame)?;
    if link.destination != port.mac && !link.destination.is_group() {
        return Err(DropReason::NotForPort);
    }
    if link.vlan != port.vlan {
        return Err(DropReason::WrongVlan);
    }
    let ip = match parse::network(frame, &link)? {
        Network::Ip(ip) => ip,
        Network::Arp => return Ok(Err(NotForService { link, packet: None })),
    };
    let reason = match service_of(tables, &ip.flow) {
        // RFC 1122 §3.3.6: a unicast packet in a group frame is not answered, and not carried.
        Ok(_) | Err(DropReason::NotVipPort) if link.destination.is_group() => {
            DropReason::NotForPort
        }
        Ok((vip, service)) => return Ok(Ok(VipPacket { ip, vip, service })),
        Err(reason) => reason,
    };
    Ok(Err(NotForService { link, packet: Some((ip, reason)) }))
}

/// The VIP that a flow goes to, and the service that has its port.
#[inline]
pub(super) fn service_of(
    tables: &Tables,
    flow: &FlowKey,
) -> Result<(VipId, ServiceId), DropReason> {
    let entry = match *flow {
        FlowKey::V4 { destination, protocol, .. } => tables.vips.ipv4(destination, protocol),
        FlowKey::V6 { destination, protocol, .. } => tables.vips.ipv6(destination, protocol),
    };
    match entry {
        Some(entry) => match entry.service(flow.destination_port()) {
            Some(service) => Ok((entry.id, service)),
            None => Err(DropReason::NotVipPort),
        },
        None => Err(absent_vip(tables, flow.destination())),
    }
}

#[cold]
fn absent_vip(tables: &Tables, destination: IpAddr) -> DropReason {
    if tables.vips.has_address(destination) {
        DropReason::UnsupportedProtocol
    } else {
        DropReason::NotVip
    }
}

impl From<ParseError> for DropReason {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Truncated => Self::Truncated,
            ParseError::UnknownEthertype => Self::UnknownEthertype,
            ParseError::BadIpv4Header => Self::BadIpv4Header,
            ParseError::BadIpv4Checksum => Self::BadIpv4Checksum,
            ParseError::BadIpv6Header => Self::BadIpv6Header,
            ParseError::TtlExpired => Self::TtlExpired,
            ParseError::Fragment => Self::Fragment,
            ParseError::BadSource => Self::BadSource,
            ParseError::BadL4Header => Self::BadL4Header,
        }
    }
}
