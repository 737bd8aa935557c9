//! Neighbour discovery (RFC 4861): solicitations, advertisements, and what makes them valid; and
//! the multicast listener queries (RFC 3810) that come the same way.

use std::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::address::solicited_node;
use super::checksum::pseudo_header_ipv6;
use super::ipv6::Ipv6Header;
use super::parse::IpPacket;
use super::{FlowKey, MacAddress, icmpv6, protocol};

/// Length of a solicitation or advertisement without options, in bytes.
pub const NEIGHBOUR_LEN: usize = size_of::<NeighbourHeader>();
/// Length of an option with a link-layer address, in bytes.
pub const LINK_ADDRESS_OPTION_LEN: usize = size_of::<LinkAddressOption>();
/// The hop limit that proves that a message was sent on the same link.
pub const HOP_LIMIT: u8 = 255;

/// A solicitation or advertisement without its options.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NeighbourHeader {
    /// [`icmpv6::NEIGHBOUR_SOLICITATION`] or [`icmpv6::NEIGHBOUR_ADVERTISEMENT`].
    pub message_type: u8,
    /// 0.
    pub code: u8,
    /// Over pseudo header and message.
    pub checksum: U16,
    /// [`NeighbourHeader::ROUTER`], [`NeighbourHeader::SOLICITED`], [`NeighbourHeader::OVERRIDE`] in
    /// an advertisement; 0 in a solicitation.
    pub flags: U32,
    /// The address in question.
    pub target: [u8; 16],
}

impl NeighbourHeader {
    /// The sender is a router.
    pub const ROUTER: u32 = 1 << 31;
    /// The advertisement answers a solicitation.
    pub const SOLICITED: u32 = 1 << 30;
    /// The advertisement replaces what the receiver knew.
    pub const OVERRIDE: u32 = 1 << 29;
}

/// A source or target link-layer address option (RFC 4861 §4.6.1).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LinkAddressOption {
    /// [`LinkAddressOption::SOURCE`] or [`LinkAddressOption::TARGET`].
    pub option_type: u8,
    /// 1, in units of eight bytes.
    pub length: u8,
    /// The address.
    pub mac: MacAddress,
}

impl LinkAddressOption {
    /// Of who sends a solicitation.
    pub const SOURCE: u8 = 1;
    /// Of the target of an advertisement.
    pub const TARGET: u8 = 2;

    /// An option of the given type.
    #[must_use]
    pub const fn new(option_type: u8, mac: MacAddress) -> Self {
        Self { option_type, length: 1, mac }
    }
}

/// A whole solicitation or advertisement with one link-layer address option, from the IPv6 header
/// on: what the appliance sends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct NeighbourPacket {
    /// The IPv6 header.
    pub ip: Ipv6Header,
    /// The message.
    pub message: NeighbourHeader,
    /// Its only option.
    pub option: LinkAddressOption,
}

impl NeighbourPacket {
    /// An advertisement that `target` is at `mac`, sent from `target`. `solicited` says that it
    /// answers a solicitation; it always overrides what the receiver knew (RFC 4861 §7.2.4).
    #[must_use]
    pub fn advertisement(
        target: Ipv6Addr,
        destination: Ipv6Addr,
        mac: MacAddress,
        solicited: bool,
    ) -> Self {
        let solicited = if solicited { NeighbourHeader::SOLICITED } else { 0 };
        Self::new(
            (target, destination),
            (icmpv6::NEIGHBOUR_ADVERTISEMENT, solicited | NeighbourHeader::OVERRIDE, target),
            LinkAddressOption::new(LinkAddressOption::TARGET, mac),
        )
    }

    /// A solicitation by `source` at `mac` for `target`, to `destination`: the target's
    /// solicited-node group, or the target itself to see whether it is still there.
    #[must_use]
    pub fn solicitation(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        mac: MacAddress,
        target: Ipv6Addr,
    ) -> Self {
        Self::new(
            (source, destination),
            (icmpv6::NEIGHBOUR_SOLICITATION, 0, target),
            LinkAddressOption::new(LinkAddressOption::SOURCE, mac),
        )
    }

    fn new(
        (source, destination): (Ipv6Addr, Ipv6Addr),
        (message_type, flags, target): (u8, u32, Ipv6Addr),
        option: LinkAddressOption,
    ) -> Self {
        let message = NeighbourHeader {
            message_type,
            code: 0,
            checksum: 0.into(),
            flags: flags.into(),
            target: target.octets(),
        };
        let mut packet = Self {
            ip: Ipv6Header {
                version_class_label: (6 << 28).into(),
                payload_length: MESSAGE_LEN.into(),
                next_header: protocol::ICMPV6,
                hop_limit: HOP_LIMIT,
                source: source.octets(),
                destination: destination.octets(),
            },
            message,
            option,
        };
        let sum = pseudo_header_ipv6(source, destination, protocol::ICMPV6, MESSAGE_LEN.into());
        let sum = sum.bytes(packet.message.as_bytes()).bytes(packet.option.as_bytes());
        packet.message.checksum.set(sum.checksum());
        packet
    }
}

/// Length of a message with one link-layer address option, in bytes.
const MESSAGE_LEN: u16 = 32;

/// The message breaks a rule of RFC 4861 §7.1 (or RFC 3810 for a query).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NdpError {
    /// Not the expected ICMPv6 message.
    #[error("the packet is another message than expected")]
    Unexpected,
    /// It crossed a router, or pretends so.
    #[error("the hop limit is not that of a message from the same link")]
    HopLimit,
    /// The ICMPv6 checksum is wrong.
    #[error("the ICMPv6 checksum is wrong")]
    Checksum,
    /// The code is not 0.
    #[error("the ICMPv6 code is not 0")]
    Code,
    /// The message ends early.
    #[error("the message ends early")]
    Truncated,
    /// An option has no length, or runs over the end.
    #[error("an option has no length or runs over the end of the message")]
    Option,
    /// The target is a multicast address.
    #[error("the target is a multicast address")]
    Target,
    /// A solicitation from `::` that is not to the target's solicited-node group, or has a source
    /// address option; a solicited advertisement to a group; a query from an address that is not
    /// link-local.
    #[error("source, destination and options do not fit each other")]
    Addresses,
}

/// A valid neighbour solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSolicitation {
    /// Who asks; unspecified if it wants to know whether the target is taken.
    pub source: Ipv6Addr,
    /// The address in question; not multicast.
    pub target: Ipv6Addr,
    /// The asker's link-layer address, if it told.
    pub source_mac: Option<MacAddress>,
}

/// A valid neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourAdvertisement {
    /// Who says so.
    pub source: Ipv6Addr,
    /// The address in question; not multicast.
    pub target: Ipv6Addr,
    /// Where it is, if the message tells.
    pub target_mac: Option<MacAddress>,
    /// Its owner is a router.
    pub router: bool,
    /// It answers a solicitation.
    pub solicited: bool,
    /// It replaces what the receiver knew.
    pub overrides: bool,
}

/// A valid multicast listener query of version 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerQuery {
    /// The group that is asked for; unspecified asks for all.
    pub group: Ipv6Addr,
}

/// Parses and validates a solicitation (RFC 4861 §7.1.1); `packet` was parsed from `frame`.
///
/// # Errors
/// The rule that it breaks.
pub fn solicitation(packet: &IpPacket, frame: &[u8]) -> Result<NeighbourSolicitation, NdpError> {
    let message = validate(packet, frame, icmpv6::NEIGHBOUR_SOLICITATION, HOP_LIMIT)?;
    let (header, options) = neighbour(message.bytes)?;
    let target = Ipv6Addr::from(header.target);
    let source_mac = link_address(options, LinkAddressOption::SOURCE)?;
    if message.source.is_unspecified()
        && (source_mac.is_some() || message.destination != solicited_node(target))
    {
        return Err(NdpError::Addresses);
    }
    Ok(NeighbourSolicitation { source: message.source, target, source_mac })
}

/// Parses and validates an advertisement (RFC 4861 §7.1.2); `packet` was parsed from `frame`.
///
/// # Errors
/// The rule that it breaks.
pub fn advertisement(packet: &IpPacket, frame: &[u8]) -> Result<NeighbourAdvertisement, NdpError> {
    let message = validate(packet, frame, icmpv6::NEIGHBOUR_ADVERTISEMENT, HOP_LIMIT)?;
    let (header, options) = neighbour(message.bytes)?;
    let target_mac = link_address(options, LinkAddressOption::TARGET)?;
    let flags = header.flags.get();
    let solicited = flags & NeighbourHeader::SOLICITED != 0;
    if solicited && message.destination.is_multicast() {
        return Err(NdpError::Addresses);
    }
    Ok(NeighbourAdvertisement {
        source: message.source,
        target: Ipv6Addr::from(header.target),
        target_mac,
        router: flags & NeighbourHeader::ROUTER != 0,
        solicited,
        overrides: flags & NeighbourHeader::OVERRIDE != 0,
    })
}

/// Parses and validates a multicast listener query (RFC 3810 §5.1, §6.2); `packet` was parsed from
/// `frame`.
///
/// # Errors
/// The rule that it breaks.
pub fn listener_query(packet: &IpPacket, frame: &[u8]) -> Result<ListenerQuery, NdpError> {
    let message = validate(packet, frame, icmpv6::LISTENER_QUERY, 1)?;
    if !message.source.is_unicast_link_local() {
        return Err(NdpError::Addresses);
    }
    let group = message.bytes.get(8..24).and_then(|group| group.first_chunk::<16>());
    Ok(ListenerQuery { group: Ipv6Addr::from(*group.ok_or(NdpError::Truncated)?) })
}

struct Message<'a> {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    bytes: &'a [u8],
}

/// The rules that all these messages share.
fn validate<'a>(
    packet: &IpPacket,
    frame: &'a [u8],
    message_type: u8,
    hop_limit: u8,
) -> Result<Message<'a>, NdpError> {
    let FlowKey::V6 { source, destination, protocol: protocol::ICMPV6, .. } = packet.flow else {
        return Err(NdpError::Unexpected);
    };
    let bytes = packet.l4(frame);
    if icmpv6::message_type(bytes) != Some(message_type) {
        return Err(NdpError::Unexpected);
    }
    if packet.ttl != hop_limit {
        return Err(NdpError::HopLimit);
    }
    if !icmpv6::is_intact(source, destination, bytes) {
        return Err(NdpError::Checksum);
    }
    match bytes.get(1) {
        Some(0) => Ok(Message { source, destination, bytes }),
        Some(_) => Err(NdpError::Code),
        None => Err(NdpError::Truncated),
    }
}

fn neighbour(message: &[u8]) -> Result<(&NeighbourHeader, &[u8]), NdpError> {
    let (header, options) =
        NeighbourHeader::ref_from_prefix(message).map_err(|_| NdpError::Truncated)?;
    if Ipv6Addr::from(header.target).is_multicast() {
        return Err(NdpError::Target);
    }
    Ok((header, options))
}

/// The link-layer address of the first option of `wanted` type. All options are looked at: one
/// without a length spoils the message (RFC 4861 §4.6).
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<MacAddress>, NdpError> {
    let mut found = None;
    while let Some(&[option_type, units]) = options.first_chunk::<2>() {
        let len = usize::from(units) * 8;
        let option = options.get(..len).filter(|option| !option.is_empty());
        let option = option.ok_or(NdpError::Option)?;
        if option_type == wanted && found.is_none() {
            let option = LinkAddressOption::ref_from_bytes(option).map_err(|_| NdpError::Option)?;
            if option.mac.is_group() {
                return Err(NdpError::Option);
            }
            found = Some(option.mac);
        }
        options = options.get(len..).unwrap_or_default();
    }
    if options.is_empty() { Ok(found) } else { Err(NdpError::Option) }
}

const _: () = assert!(NEIGHBOUR_LEN == 24);
const _: () = assert!(NEIGHBOUR_LEN + LINK_ADDRESS_OPTION_LEN == MESSAGE_LEN as usize);
const _: () = assert!(LINK_ADDRESS_OPTION_LEN == 8);
