//! What the pipeline says about a frame.

use std::fmt;

use crate::id::{PortId, WorkerId};
use crate::stats::{self, WorkerCounters};

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was encapsulated; send it on this port.
    Transmit(PortId),
    /// It was turned into an answer (ARP, neighbour advertisement, echo reply); send it on the port
    /// it came from.
    Reply,
    /// Another worker owns what is needed to decide. It gets the packet as it is.
    Handoff(WorkerId, Errand),
    /// Management gets a copy.
    Punt(PuntReason),
    /// It is freed and counted.
    Drop(DropReason),
}

/// What another worker is to do with a packet (design.md §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Decide and transmit: it owns what the packet belongs to. For fragments, whose datagram lives
    /// at one worker.
    Packet,
    /// Decide, and send the packet back with the decision: it owns the session, but the flow's own
    /// worker keeps an entry and transmits, so that the flow's next packets need not travel.
    Question,
    /// Look for the flow that an ICMP error is about; if it is not there, the next worker looks.
    Relay,
}

/// Why management gets a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// An ARP reply, or an announcement.
    Arp,
    /// A neighbour advertisement, or a multicast listener query.
    NeighbourDiscovery,
}

/// Why a frame was dropped. Each reason is a counter, a line of `lodectl show drops` and a line of
/// `docs/drop-reasons.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// The frame is in several segments.
    NotLinear,
    /// The frame ends before the headers or the length that its IP header states.
    Truncated,
    /// The destination MAC is another host's.
    NotForPort,
    /// A VLAN tag that the port does not have, or none where it has one.
    WrongVlan,
    /// Neither ARP, IPv4 nor IPv6.
    UnknownEthertype,
    /// IPv4 version, header length or total length is impossible.
    BadIpv4Header,
    /// The IPv4 header checksum is wrong.
    BadIpv4Checksum,
    /// IPv6 version is wrong, or the extension headers do not end.
    BadIpv6Header,
    /// The source address is one that nobody may send from.
    BadSource,
    /// TTL or hop limit is 0.
    TtlExpired,
    /// A fragment.
    Fragment,
    /// The TCP or UDP header is impossible.
    BadL4Header,
    /// To a VIP, with a protocol that it does not carry.
    UnsupportedProtocol,
    /// The destination is neither a VIP nor an address of the port.
    NotVip,
    /// To a VIP, at a port that no service has.
    NotVipPort,
    /// The service has no backend that takes the flow.
    NoBackend,
    /// The chosen backend's next hop has no link-layer address yet.
    NoNextHop,
    /// Longer than the egress port's MTU after encapsulation.
    TooBig,
    /// No room in front of the packet for the outer header.
    NoHeadroom,
    /// A malformed ARP packet, or one that claims an address of ours.
    BadArp,
    /// An ARP request for an address that is not ours.
    ArpNotForPort,
    /// A malformed neighbour discovery message (RFC 4861 §7.1), or one that claims an address of
    /// ours.
    BadNeighbourDiscovery,
    /// A neighbour solicitation for an address that is not ours.
    SolicitationNotForPort,
    /// A malformed echo request to an address of ours, or one with IP options or extension headers.
    BadIcmp,
    /// To an address of the port, and not an echo request.
    NotHandled,
    /// The ring to the worker that was to get the packet is full.
    HandoffFull,
    /// The packet was to be handed over a second time, or to a worker that is not there.
    HandoffLoop,
    /// The ring to management is full.
    PuntFull,
    /// No buffer for a frame that management sends.
    NoBuffer,
    /// The transmit queue stayed full.
    TxFull,
}

impl DropReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 30] = [
        Self::NotLinear,
        Self::Truncated,
        Self::NotForPort,
        Self::WrongVlan,
        Self::UnknownEthertype,
        Self::BadIpv4Header,
        Self::BadIpv4Checksum,
        Self::BadIpv6Header,
        Self::BadSource,
        Self::TtlExpired,
        Self::Fragment,
        Self::BadL4Header,
        Self::UnsupportedProtocol,
        Self::NotVip,
        Self::NotVipPort,
        Self::NoBackend,
        Self::NoNextHop,
        Self::TooBig,
        Self::NoHeadroom,
        Self::BadArp,
        Self::ArpNotForPort,
        Self::BadNeighbourDiscovery,
        Self::SolicitationNotForPort,
        Self::BadIcmp,
        Self::NotHandled,
        Self::HandoffFull,
        Self::HandoffLoop,
        Self::PuntFull,
        Self::NoBuffer,
        Self::TxFull,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason's number: its place in [`Self::ALL`] and in the counters.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason's name in `lodectl`, JSON and documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotLinear => "not-linear",
            Self::Truncated => "truncated",
            Self::NotForPort => "not-for-port",
            Self::WrongVlan => "wrong-vlan",
            Self::UnknownEthertype => "unknown-ethertype",
            Self::BadIpv4Header => "bad-ipv4-header",
            Self::BadIpv4Checksum => "bad-ipv4-checksum",
            Self::BadIpv6Header => "bad-ipv6-header",
            Self::BadSource => "bad-source",
            Self::TtlExpired => "ttl-expired",
            Self::Fragment => "fragment",
            Self::BadL4Header => "bad-l4-header",
            Self::UnsupportedProtocol => "unsupported-protocol",
            Self::NotVip => "not-vip",
            Self::NotVipPort => "not-vip-port",
            Self::NoBackend => "no-backend",
            Self::NoNextHop => "no-next-hop",
            Self::TooBig => "too-big",
            Self::NoHeadroom => "no-headroom",
            Self::BadArp => "bad-arp",
            Self::ArpNotForPort => "arp-not-for-port",
            Self::BadNeighbourDiscovery => "bad-neighbour-discovery",
            Self::SolicitationNotForPort => "solicitation-not-for-port",
            Self::BadIcmp => "bad-icmp",
            Self::NotHandled => "not-handled",
            Self::HandoffFull => "handoff-full",
            Self::HandoffLoop => "handoff-loop",
            Self::PuntFull => "punt-full",
            Self::NoBuffer => "no-buffer",
            Self::TxFull => "tx-full",
        }
    }

    /// One sentence on the cause, as in `docs/drop-reasons.md`.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::NotLinear => "The frame is in several segments.",
            Self::Truncated => {
                "The frame ends before the headers or the length that its IP header states."
            }
            Self::NotForPort => {
                "The destination MAC is another host's, or a unicast packet came in a group frame."
            }
            Self::WrongVlan => "A VLAN tag that the port does not have, or none where it has one.",
            Self::UnknownEthertype => "Neither ARP, IPv4 nor IPv6; a second VLAN tag.",
            Self::BadIpv4Header => "IPv4 version, header length or total length is impossible.",
            Self::BadIpv4Checksum => "The IPv4 header checksum is wrong.",
            Self::BadIpv6Header => {
                "IPv6 version is wrong, or the extension headers do not end inside the packet."
            }
            Self::BadSource => {
                "The source address is one that no host may send from: multicast, broadcast, loopback, unspecified."
            }
            Self::TtlExpired => "TTL or hop limit is 0.",
            Self::Fragment => "A fragment: it has no ports to choose a backend by.",
            Self::BadL4Header => "The TCP or UDP header is impossible.",
            Self::UnsupportedProtocol => {
                "To a VIP, with a protocol that it does not carry; ICMP to a VIP among them."
            }
            Self::NotVip => "The destination is neither a VIP nor an address of the port.",
            Self::NotVipPort => "To a VIP, at a port that no service has.",
            Self::NoBackend => "The service has no backend that takes the flow.",
            Self::NoNextHop => "The chosen backend's next hop has no link-layer address yet.",
            Self::TooBig => "Longer than the egress port's MTU after encapsulation.",
            Self::NoHeadroom => "No room in front of the packet for the outer header.",
            Self::BadArp => "A malformed ARP packet, or a request that claims an address of ours.",
            Self::ArpNotForPort => "An ARP request for an address that is not ours.",
            Self::BadNeighbourDiscovery => {
                "A neighbour discovery message that breaks RFC 4861 §7.1, or claims an address of ours."
            }
            Self::SolicitationNotForPort => {
                "A neighbour solicitation for an address that is not ours."
            }
            Self::BadIcmp => {
                "A malformed echo request to an address of ours, or one with IP options or extension headers."
            }
            Self::NotHandled => {
                "To an address of the port, and nothing that the appliance answers."
            }
            Self::HandoffFull => "The ring to the worker that was to get the packet is full.",
            Self::HandoffLoop => {
                "The packet was to be handed over a second time, or to a worker that is not there."
            }
            Self::PuntFull => "The ring to management is full.",
            Self::NoBuffer => "No buffer for a frame that management sends, or its port is gone.",
            Self::TxFull => "The transmit queue stayed full.",
        }
    }
}

/// A worker's counters, drops by [`DropReason`].
pub type Counters = WorkerCounters<DropReason>;

impl stats::Reason for DropReason {
    const COUNT: usize = Self::COUNT;

    #[inline]
    fn index(self) -> usize {
        Self::index(self)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_places_and_names_are_unique() {
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
        let names: BTreeSet<_> = DropReason::ALL.into_iter().map(DropReason::name).collect();
        assert_eq!(names.len(), DropReason::COUNT);
    }
}
