//! Fixtures in words: a frame that comes in, what is said about it, and the frame that goes out.
//!
//! They are the same for every driver: `tests/forward/frames.rs` runs them through the pipeline
//! alone, `tests/eal_fixtures.rs` through a worker between DPDK ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lodestone::forward::{DropReason, PuntReason};
use lodestone::id::PortId;
use lodestone::packet::arp::{Arp, Operation};
use lodestone::packet::ndp::NeighbourPacket;
use lodestone::packet::originate::Origin;
use lodestone::packet::{
    ALL_NODES, Builder, FlowHashKey, MacAddress, Network, TcpFlags, icmpv6, parse, protocol,
};
use zerocopy::IntoBytes;

use super::{BACK, BACK_MAC, CLIENT_MAC, FRONT, FRONT_MAC, HOP_MAC, tcp, udp};

pub const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 100);
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
const CLIENT_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2);
const VIP_6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 0x100);
const NEIGHBOUR_6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9);
/// The MTU toward the backends.
const BACK_MTU: usize = 1_540;

/// One frame in, and what becomes of it.
pub struct Fixture {
    pub words: &'static str,
    pub port: PortId,
    pub frame: Vec<u8>,
    pub expected: Expected,
}

/// What becomes of a frame. Frames are given whole: nothing is in front, behind or between that
/// was not meant.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    /// This goes out on the port `back`.
    Carried(Vec<u8>),
    /// This goes back where the frame came from.
    Answered(Vec<u8>),
    /// This goes to management.
    Punted(PuntReason, Vec<u8>),
    /// It is counted.
    Dropped(DropReason),
}

fn frame() -> Builder {
    Builder::ethernet(CLIENT_MAC, FRONT_MAC)
}

fn ipv4() -> Builder {
    frame().ipv4(CLIENT, VIP)
}

fn ipv6() -> Builder {
    frame().ipv6(CLIENT_6, VIP_6)
}

fn neighbour(vlan: Option<u16>) -> Origin {
    Origin { mac: CLIENT_MAC, vlan }
}

/// A frame of the appliance on `front`.
fn reply() -> Builder {
    Builder::ethernet(FRONT_MAC, CLIENT_MAC)
}

fn arp_reply(frame: Builder, mac: MacAddress, address: Ipv4Addr) -> Vec<u8> {
    let packet = Arp {
        operation: Operation::Reply,
        sender_mac: mac,
        sender: address,
        target_mac: CLIENT_MAC,
        target: CLIENT,
    };
    frame.ethertype(0x0806).payload(packet.header().as_bytes()).pad_to(60).build()
}

/// The outer frame to a backend, in words: from `back` on its VLAN to the next hop; TTL 64; over
/// IPv4 DF without an identification (RFC 6864), over IPv6 20 bits of the flow hash as the label;
/// DSCP and ECN of the inner packet; then the inner packet as it came, and nothing behind it.
pub fn carried(backend: &str, frame: &[u8], key: &FlowHashKey) -> Expected {
    let parsed = parse::parse(frame).unwrap();
    let Network::Ip(inner) = parsed.network else { panic!("no IP packet") };
    let outer = Builder::ethernet(BACK_MAC, HOP_MAC).vlan(7);
    let outer = match backend.parse().unwrap() {
        IpAddr::V4(backend) => outer.ipv4([10, 2, 0, 2].into(), backend).identification(0),
        IpAddr::V6(backend) => outer
            .ipv6("fd02::2".parse().unwrap(), backend)
            .flow_label(key.hash(&inner.flow).level2()),
    };
    let number = if inner.flow.is_ipv6() { protocol::IPV6 } else { protocol::IPV4 };
    Expected::Carried(
        outer
            .ttl(64)
            .traffic_class(inner.traffic_class)
            .protocol(number)
            .payload(inner.l3(frame))
            .build(),
    )
}

/// All of them, for the appliance of [`super::CONFIG`].
pub fn all(key: &FlowHashKey) -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    for (words, port, frame, backend) in carried_frames() {
        let expected = carried(backend, &frame, key);
        fixtures.push(Fixture { words, port, frame, expected });
    }
    fixtures.extend(answered_frames());
    fixtures.extend(punted_frames());
    let dropped = |(words, frame, reason)| Fixture {
        words,
        port: FRONT,
        frame,
        expected: Expected::Dropped(reason),
    };
    fixtures.extend(dropped_frames().into_iter().map(dropped));
    fixtures.extend([
        Fixture {
            words: "a frame without a tag on a port with a VLAN",
            port: BACK,
            frame: Builder::ethernet(CLIENT_MAC, BACK_MAC)
                .ipv4(CLIENT, VIP)
                .tcp(4_000, 80, TcpFlags::SYN)
                .build(),
            expected: Expected::Dropped(DropReason::WrongVlan),
        },
        Fixture {
            words: "an ARP request for a VIP on a port whose network it is not on",
            port: BACK,
            frame: neighbour(Some(7)).arp_request(CLIENT, VIP),
            expected: Expected::Dropped(DropReason::ArpNotForPort),
        },
    ]);
    fixtures
}

fn carried_frames() -> Vec<(&'static str, PortId, Vec<u8>, &'static str)> {
    let syn = TcpFlags::SYN;
    let ack = TcpFlags::ACK;
    let full =
        |packet: Builder, headers: usize| packet.payload(&vec![0x5a; BACK_MTU - headers]).build();
    let (to_v4, to_v6, any) = ("10.2.0.11", "fd02::11", "10.2.0.97");
    let tagged = Builder::ethernet(CLIENT_MAC, BACK_MAC).vlan(7).ipv4(CLIENT, VIP);
    vec![
        // L4-02, L4-03
        ("IPv4 in IPv4", FRONT, tcp("10.1.0.100", 1, 4_000, 80, syn), to_v4),
        ("IPv6 in IPv4", FRONT, tcp("fd01::100", 1, 4_000, 80, syn), to_v4),
        ("IPv4 in IPv6", FRONT, tcp("10.1.0.100", 1, 4_000, 81, syn), to_v6),
        ("IPv6 in IPv6", FRONT, tcp("fd01::100", 1, 4_000, 81, syn), to_v6),
        // L4-33
        ("TCP to port 0 of a VIP with any port", FRONT, tcp("10.1.0.104", 1, 1, 0, syn), any),
        ("UDP to port 65535 of such a VIP", FRONT, udp("10.1.0.104", 1, 1, 65_535), any),
        (
            "an ACK of 40 bytes in a frame of 60, with DSCP EF and ECN",
            FRONT,
            ipv4().traffic_class(0xb9).tcp(4_000, 80, ack).pad_to(60).build(),
            to_v4,
        ),
        (
            "the same on the port with a VLAN, in a frame of 64 and with a priority",
            BACK,
            Builder::ethernet(CLIENT_MAC, BACK_MAC)
                .vlan(5 << 13 | 7)
                .ipv4(CLIENT, VIP)
                .tcp(4_000, 80, ack)
                .pad_to(64)
                .build(),
            to_v4,
        ),
        (
            "an IPv6 packet with a class and a label, padded by 99 bytes, to an IPv6 backend",
            FRONT,
            ipv6()
                .traffic_class(0x2c)
                .flow_label(0xf_ffff)
                .tcp(4_000, 81, ack)
                .pad_to(14 + 60 + 99)
                .build(),
            to_v6,
        ),
        ("a SYN that comes in by the other port", BACK, tagged.tcp(1, 80, syn).build(), to_v4),
        (
            "a priority tag on a port without a VLAN",
            FRONT,
            frame().vlan(5 << 13).ipv4(CLIENT, VIP).tcp(1, 80, syn).build(),
            to_v4,
        ),
        (
            "IPv4 options, which are the client's matter",
            FRONT,
            ipv4().ipv4_options(&[1; 40]).tcp(1, 80, syn).build(),
            to_v4,
        ),
        (
            "hop-by-hop and destination options in front of TCP",
            FRONT,
            ipv6()
                .extension(protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
                .extension(protocol::DESTINATION_OPTIONS, &[1, 4, 0, 0, 0, 0])
                .tcp(1, 80, syn)
                .build(),
            to_v4,
        ),
        (
            "a wrong TCP checksum: the backend's matter",
            FRONT,
            ipv4().tcp(1, 80, ack).l4_checksum(0xbad).build(),
            to_v4,
        ),
        ("an inner TTL of 1, which stays", FRONT, ipv4().ttl(1).tcp(1, 80, ack).build(), to_v4),
        (
            "a packet without DF: the outer one has it all the same",
            FRONT,
            ipv4().fragment(0, false).identification(77).tcp(1, 80, ack).build(),
            to_v4,
        ),
        ("as long as just fits in IPv4", FRONT, full(ipv4().tcp(1, 80, ack), 20 + 20 + 20), to_v4),
        ("as long as just fits in IPv6", FRONT, full(ipv4().tcp(1, 81, ack), 40 + 20 + 20), to_v6),
        (
            "an IPv6 packet as long as just fits in IPv6",
            FRONT,
            full(ipv6().tcp(1, 81, ack), 40 + 40 + 20),
            to_v6,
        ),
    ]
}

fn answered_frames() -> Vec<Fixture> {
    let mut fixtures = Vec::new();
    let mut answered = |words, port, frame, answer| {
        fixtures.push(Fixture { words, port, frame, expected: Expected::Answered(answer) });
    };
    for (words, target) in [
        ("an ARP request for the port's address", OWN),
        ("an ARP request for a VIP", VIP),
        ("an ARP request for a VIP of a service that nobody serves", [10, 1, 0, 102].into()),
    ] {
        let request = neighbour(None).arp_request(CLIENT, target);
        answered(words, FRONT, request, arp_reply(reply(), FRONT_MAC, target));
    }
    let back = Ipv4Addr::new(10, 2, 0, 2);
    answered(
        "an ARP request on the port with a VLAN; the answer has the tag",
        BACK,
        neighbour(Some(7)).arp_request(CLIENT, back),
        arp_reply(Builder::ethernet(BACK_MAC, CLIENT_MAC).vlan(7), BACK_MAC, back),
    );
    let mut long = neighbour(None).arp_request(CLIENT, OWN);
    long.extend([0xaa; 1_000]);
    answered(
        "an ARP request with 1,000 bytes behind it, which are not sent back",
        FRONT,
        long,
        arp_reply(reply(), FRONT_MAC, OWN),
    );
    for (words, target) in
        [("a solicitation for the port's address", OWN_6), ("a solicitation for a VIP", VIP_6)]
    {
        let packet = NeighbourPacket::advertisement(target, CLIENT_6, FRONT_MAC, true);
        answered(
            words,
            FRONT,
            neighbour(None).neighbour_solicitation(CLIENT_6, target),
            reply().ethertype(0x86dd).payload(packet.as_bytes()).build(),
        );
    }
    let packet = NeighbourPacket::advertisement(VIP_6, ALL_NODES, FRONT_MAC, false);
    let group = lodestone::packet::solicited_node(VIP_6);
    let mut probe = vec![icmpv6::NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    probe.extend(VIP_6.octets());
    answered(
        "a probe whether a VIP's address is free; all nodes hear that it is not",
        FRONT,
        Builder::ethernet(CLIENT_MAC, MacAddress::for_ipv6_multicast(group))
            .ipv6(Ipv6Addr::UNSPECIFIED, group)
            .ttl(255)
            .icmpv6(&probe)
            .build(),
        Builder::ethernet(FRONT_MAC, MacAddress::for_ipv6_multicast(ALL_NODES))
            .ethertype(0x86dd)
            .payload(packet.as_bytes())
            .build(),
    );
    answered(
        "an echo request, padded; padding is not sent back",
        FRONT,
        frame().ipv4(CLIENT, OWN).ttl(9).echo_request(1, 2).payload(b"ping").pad_to(60).build(),
        reply().ipv4(OWN, CLIENT).icmp(&[0, 0, 0, 0, 0, 1, 0, 2]).payload(b"ping").build(),
    );
    answered(
        "an echo request over IPv6",
        FRONT,
        frame().ipv6(CLIENT_6, OWN_6).ttl(9).echo_request(1, 2).payload(b"ping").build(),
        reply()
            .ipv6(OWN_6, CLIENT_6)
            .icmpv6(&[icmpv6::ECHO_REPLY, 0, 0, 0, 0, 1, 0, 2])
            .payload(b"ping")
            .build(),
    );
    fixtures
}

fn punted_frames() -> Vec<Fixture> {
    let punted = |words, frame: Vec<u8>, reason, len| Fixture {
        words,
        port: FRONT,
        expected: Expected::Punted(reason, frame[..len].to_vec()),
        frame,
    };
    let arp_len = 14 + 28;
    let query = [[icmpv6::LISTENER_QUERY, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[0; 20]].concat();
    vec![
        punted(
            "a gratuitous ARP",
            neighbour(None).arp_announcement(NEIGHBOUR),
            PuntReason::Arp,
            arp_len,
        ),
        punted(
            "an ARP reply",
            arp_reply(Builder::ethernet(CLIENT_MAC, FRONT_MAC), CLIENT_MAC, NEIGHBOUR),
            PuntReason::Arp,
            arp_len,
        ),
        punted(
            "an unsolicited neighbour advertisement",
            neighbour(None).neighbour_announcement(NEIGHBOUR_6),
            PuntReason::NeighbourDiscovery,
            14 + 40 + 32,
        ),
        punted(
            "a multicast listener query, with its router alert",
            Builder::ethernet(CLIENT_MAC, MacAddress::for_ipv6_multicast(ALL_NODES))
                .ipv6("fe80::1".parse().unwrap(), ALL_NODES)
                .ttl(1)
                .extension(protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])
                .icmpv6(&query)
                .build(),
            PuntReason::NeighbourDiscovery,
            14 + 40 + 8 + 28,
        ),
    ]
}

/// What the pipeline drops, and why: one frame for each reason that a frame alone can give.
#[expect(clippy::too_many_lines, reason = "a list, one frame after the other")]
pub fn dropped_frames() -> Vec<(&'static str, Vec<u8>, DropReason)> {
    let syn = |frame: Builder| frame.tcp(4_000, 80, TcpFlags::SYN).build();
    let group = MacAddress([1, 0, 0x5e, 0, 0, 1]);
    let mut bad_arp = neighbour(None).arp_request(CLIENT, OWN);
    bad_arp[14] = 9;
    let mut bad_solicitation = neighbour(None).neighbour_solicitation(CLIENT_6, OWN_6);
    bad_solicitation[14 + 7] = 254;
    vec![
        ("a frame that ends in its Ethernet header", vec![0; 13], DropReason::Truncated),
        (
            "an IPv4 packet cut in its payload",
            {
                let mut cut = ipv4().tcp(4_000, 80, TcpFlags::ACK).payload(&[1; 40]).build();
                cut.truncate(70);
                cut
            },
            DropReason::Truncated,
        ),
        (
            "a frame flooded by a switch, for another host",
            syn(Builder::ethernet(CLIENT_MAC, HOP_MAC).ipv4(CLIENT, VIP)),
            DropReason::NotForPort,
        ),
        (
            "a unicast packet in a multicast frame",
            syn(Builder::ethernet(CLIENT_MAC, group).ipv4(CLIENT, VIP)),
            DropReason::NotForPort,
        ),
        (
            "a tagged frame on a port without a VLAN",
            syn(frame().vlan(7).ipv4(CLIENT, VIP)),
            DropReason::WrongVlan,
        ),
        (
            "an LLDP frame",
            frame().ethertype(0x88cc).payload(&[0; 46]).build(),
            DropReason::UnknownEthertype,
        ),
        (
            "IPv4 with a header of four words",
            syn(ipv4().header_words(4)),
            DropReason::BadIpv4Header,
        ),
        (
            "IPv4 with a wrong header checksum",
            syn(ipv4().ip_checksum(0x1234)),
            DropReason::BadIpv4Checksum,
        ),
        (
            "an IPv6 ethertype with version 4",
            syn(frame().ipv6(CLIENT_6, VIP_6).version(4)),
            DropReason::BadIpv6Header,
        ),
        (
            "a source that is multicast",
            syn(frame().ipv4(Ipv4Addr::new(224, 0, 0, 1), VIP)),
            DropReason::BadSource,
        ),
        ("a TTL of 0", syn(ipv4().ttl(0)), DropReason::TtlExpired),
        ("a first fragment", syn(ipv4().fragment(0, true)), DropReason::Fragment),
        (
            "an IPv6 fragment",
            syn(frame().ipv6(CLIENT_6, VIP_6).fragment(8, false)),
            DropReason::Fragment,
        ),
        (
            "TCP with a data offset of four words",
            ipv4().tcp(4_000, 80, TcpFlags::SYN).tcp_data_offset(4).build(),
            DropReason::BadL4Header,
        ),
        (
            "UDP longer than its packet",
            frame().ipv4(CLIENT, Ipv4Addr::new(10, 1, 0, 101)).udp(1, 2).udp_length(99).build(),
            DropReason::BadL4Header,
        ),
        (
            "UDP to a VIP that carries TCP",
            ipv4().udp(4_000, 80).build(),
            DropReason::UnsupportedProtocol,
        ),
        (
            "an echo request to a VIP",
            ipv4().echo_request(1, 1).build(),
            DropReason::UnsupportedProtocol,
        ),
        (
            "a packet to a host that is none of ours",
            syn(frame().ipv4(CLIENT, Ipv4Addr::new(10, 1, 0, 77))),
            DropReason::NotVip,
        ),
        (
            "a port that no service has",
            ipv4().tcp(4_000, 8_080, TcpFlags::SYN).build(),
            DropReason::NotVipPort,
        ),
        (
            "a VIP whose backend does not answer ARP",
            tcp("10.1.0.102", 1, 4_000, 80, TcpFlags::SYN),
            DropReason::NoNextHop,
        ),
        (
            "one byte more than the MTU toward the backend takes",
            ipv4().tcp(1, 80, TcpFlags::ACK).payload(&vec![0; BACK_MTU - 20 - 40 + 1]).build(),
            DropReason::TooBig,
        ),
        ("an ARP request for another hardware", bad_arp, DropReason::BadArp),
        (
            "an ARP request from who claims our address",
            neighbour(None).arp_request(VIP, OWN),
            DropReason::BadArp,
        ),
        (
            "an ARP request for a neighbour",
            neighbour(None).arp_request(CLIENT, NEIGHBOUR),
            DropReason::ArpNotForPort,
        ),
        (
            "a solicitation that crossed a router",
            bad_solicitation,
            DropReason::BadNeighbourDiscovery,
        ),
        (
            "a solicitation for a neighbour",
            neighbour(None).neighbour_solicitation(CLIENT_6, NEIGHBOUR_6),
            DropReason::SolicitationNotForPort,
        ),
        (
            "an echo request with a wrong checksum",
            frame().ipv4(CLIENT, OWN).echo_request(1, 1).l4_checksum(1).build(),
            DropReason::BadIcmp,
        ),
        ("a SYN to an address of the port", syn(frame().ipv4(CLIENT, OWN)), DropReason::NotHandled),
        (
            "one byte more than the MTU takes inside IPv6",
            ipv6().tcp(1, 81, TcpFlags::ACK).payload(&vec![0; BACK_MTU - 40 - 60 + 1]).build(),
            DropReason::TooBig,
        ),
        (
            "a VIP whose only backend is disabled",
            tcp("10.1.0.103", 1, 4_000, 80, TcpFlags::SYN),
            DropReason::NoBackend,
        ),
        (
            "a tag inside a tag",
            frame().vlan(7).ethertype(0x8100).payload(&[0; 46]).build(),
            DropReason::UnknownEthertype,
        ),
        (
            "a middle fragment",
            ipv4().fragment(8, true).tcp(1, 80, TcpFlags::ACK).build(),
            DropReason::Fragment,
        ),
        (
            "hop-by-hop options that are not first",
            syn(ipv6()
                .extension(protocol::DESTINATION_OPTIONS, &[1, 4, 0, 0, 0, 0])
                .extension(protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])),
            DropReason::BadIpv6Header,
        ),
        (
            "an echo request to our address in a broadcast frame",
            Builder::ethernet(CLIENT_MAC, MacAddress::BROADCAST)
                .ipv4(CLIENT, OWN)
                .echo_request(1, 1)
                .build(),
            DropReason::NotForPort,
        ),
        (
            "an IPv6 echo request to our address in a multicast frame",
            Builder::ethernet(CLIENT_MAC, MacAddress::for_ipv6_multicast(ALL_NODES))
                .ipv6(CLIENT_6, OWN_6)
                .echo_request(1, 1)
                .build(),
            DropReason::NotForPort,
        ),
        (
            "an echo request to all nodes",
            Builder::ethernet(CLIENT_MAC, MacAddress::for_ipv6_multicast(ALL_NODES))
                .ipv6(CLIENT_6, ALL_NODES)
                .echo_request(1, 1)
                .build(),
            DropReason::NotHandled,
        ),
        (
            "an echo request longer than the port's MTU",
            frame().ipv4(CLIENT, OWN).echo_request(1, 1).payload(&[0; 1_500 - 28 + 1]).build(),
            DropReason::TooBig,
        ),
        (
            "an echo request with a source route",
            frame()
                .ipv4(CLIENT, OWN)
                .ipv4_options(&[0x83, 7, 4, 10, 1, 0, 9, 0])
                .echo_request(1, 1)
                .build(),
            DropReason::BadIcmp,
        ),
        (
            "a DHCP request",
            Builder::ethernet(CLIENT_MAC, MacAddress::BROADCAST)
                .ipv4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)
                .udp(68, 67)
                .build(),
            DropReason::BadSource,
        ),
    ]
}
