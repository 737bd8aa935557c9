//! Fixtures in words: a frame that comes in, what is said about it, and what goes out.

mod world;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lodestone::forward::{DropReason, PuntReason, Verdict};
use lodestone::packet::originate::Origin;
use lodestone::packet::{Builder, HeapBuf, MacAddress, Network, PacketBuf, TcpFlags, parse};
use lodestone::steer::AdminState;
use world::{BACK, BACK_MAC, CLIENT_MAC, FRONT, FRONT_MAC, HOP_MAC, World, outer, tcp};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const VIP: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 100);

fn client6() -> Ipv6Addr {
    "2001:db8::7".parse().unwrap()
}

fn own6() -> Ipv6Addr {
    "fd01::2".parse().unwrap()
}

fn vip6() -> Ipv6Addr {
    "fd01::100".parse().unwrap()
}

fn frame() -> Builder {
    Builder::ethernet(CLIENT_MAC, FRONT_MAC)
}

fn ipv4() -> Builder {
    frame().ipv4(CLIENT, VIP)
}

fn neighbour(vlan: Option<u16>) -> Origin {
    Origin { mac: CLIENT_MAC, vlan }
}

/// What the pipeline drops, and why: one frame for each reason that it can give.
#[expect(clippy::too_many_lines, reason = "a list, one frame after the other")]
fn dropped_frames() -> Vec<(&'static str, Vec<u8>, DropReason)> {
    let syn = |frame: Builder| frame.tcp(4_000, 80, TcpFlags::SYN).build();
    let group = MacAddress([1, 0, 0x5e, 0, 0, 1]);
    let mut bad_arp = neighbour(None).arp_request(CLIENT, OWN);
    bad_arp[14] = 9;
    let mut bad_solicitation = neighbour(None).neighbour_solicitation(client6(), own6());
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
            syn(frame().ipv6(client6(), vip6()).version(4)),
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
            syn(frame().ipv6(client6(), vip6()).fragment(8, false)),
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
            ipv4().tcp(1, 80, TcpFlags::ACK).payload(&vec![0; 1_540 - 20 - 40 + 1]).build(),
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
            neighbour(None).arp_request(CLIENT, Ipv4Addr::new(10, 1, 0, 9)),
            DropReason::ArpNotForPort,
        ),
        (
            "a solicitation that crossed a router",
            bad_solicitation,
            DropReason::BadNeighbourDiscovery,
        ),
        (
            "a solicitation for a neighbour",
            neighbour(None).neighbour_solicitation(client6(), "fd01::9".parse().unwrap()),
            DropReason::SolicitationNotForPort,
        ),
        (
            "an echo request with a wrong checksum",
            frame().ipv4(CLIENT, OWN).echo_request(1, 1).l4_checksum(1).build(),
            DropReason::BadIcmp,
        ),
        ("a SYN to an address of the port", syn(frame().ipv4(CLIENT, OWN)), DropReason::NotHandled),
    ]
}

#[test]
fn each_bad_frame_is_dropped_for_its_reason() {
    let mut seen = BTreeSet::new();
    for (words, frame, reason) in dropped_frames() {
        let mut world = World::new(1_024);
        let (verdict, _) = world.send(FRONT, &frame);
        assert_eq!(verdict, Verdict::Drop(reason), "{words}");
        seen.insert(reason.index());
    }
    let mut world = World::new(1_024);
    let packet = tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::SYN);
    let mut burst = [HeapBuf::new(&packet).into_segmented(), HeapBuf::with_headroom(&packet, 20)];
    let verdicts = world.burst(FRONT, &mut burst);
    assert_eq!(verdicts[0], Verdict::Drop(DropReason::NotLinear));
    assert_eq!(verdicts[1], Verdict::Drop(DropReason::NoHeadroom));
    let key = world.state.find("v4", "a").unwrap();
    world.state.set_admin(&key, AdminState::Disabled);
    world.publish();
    assert_eq!(world.send(FRONT, &packet).0, Verdict::Drop(DropReason::NoBackend));
    for reason in [DropReason::NotLinear, DropReason::NoHeadroom, DropReason::NoBackend] {
        seen.insert(reason.index());
    }
    // These are the worker's to give (src/worker/tests.rs).
    let workers = [DropReason::PuntFull, DropReason::NoBuffer, DropReason::TxFull];
    seen.extend(workers.map(DropReason::index));
    let missing: Vec<_> =
        DropReason::ALL.into_iter().filter(|reason| !seen.contains(&reason.index())).collect();
    assert!(missing.is_empty(), "no frame for {missing:?}");
}

#[test] // L4-02, L4-03
fn the_inner_packet_leaves_as_it_came_in_all_pairs_of_families() {
    for (vip, port, backend) in [
        ("10.1.0.100", 80, "10.2.0.11"),
        ("fd01::100", 80, "10.2.0.11"),
        ("10.1.0.100", 81, "fd02::11"),
        ("fd01::100", 81, "fd02::11"),
    ] {
        let mut world = World::new(1_024);
        let packet = tcp(vip, 1, 4_000, port, TcpFlags::SYN);
        let (verdict, buf) = world.send(FRONT, &packet);
        assert_eq!(verdict, Verdict::Transmit(BACK), "{vip} to {backend}");
        let seen = outer(buf.bytes());
        assert_eq!(seen.inner_bytes, &packet[14..], "{vip} to {backend}");
        let backend: IpAddr = backend.parse().unwrap();
        let source: IpAddr =
            if backend.is_ipv4() { "10.2.0.2" } else { "fd02::2" }.parse().unwrap();
        assert_eq!(seen.outer_ip.flow.destination(), backend);
        assert_eq!(seen.outer_ip.flow.source(), source);
        assert_eq!(seen.outer_ip.ttl, 64);
        let link = seen.outer.link;
        assert_eq!((link.destination, link.source, link.vlan), (HOP_MAC, BACK_MAC, Some(7)));
        assert_eq!(buf.bytes().len(), seen.outer_ip.end(), "nothing behind the packet");
        if backend.is_ipv4() {
            let fragment = &buf.bytes()[18 + 4..18 + 8];
            assert_eq!(fragment, [0, 0, 0x40, 0], "identification 0, DF (RFC 6864)");
        }
    }
}

#[test]
fn padding_is_not_carried_and_dscp_and_ecn_are() {
    for vlan in [None, Some(7)] {
        let mut world = World::new(1_024);
        let mac = if vlan.is_some() { BACK_MAC } else { FRONT_MAC };
        let mut builder = Builder::ethernet(CLIENT_MAC, mac).ipv4(CLIENT, VIP).traffic_class(0xb9);
        if let Some(id) = vlan {
            builder = builder.vlan(id);
        }
        let packet = builder.tcp(4_000, 80, TcpFlags::ACK).pad_to(64).build();
        let (verdict, buf) = world.send(if vlan.is_some() { BACK } else { FRONT }, &packet);
        assert_eq!(verdict, Verdict::Transmit(BACK));
        let seen = outer(buf.bytes());
        assert_eq!(seen.inner_bytes.len(), 40, "an ACK is 40 bytes, whatever the frame");
        assert_eq!(seen.outer_ip.ip_len, 60);
        assert_eq!(buf.bytes().len(), 18 + 60);
        assert_eq!(seen.outer_ip.traffic_class, 0xb9);
    }
}

#[test]
fn a_packet_that_just_fits_is_carried() {
    let mut world = World::new(1_024);
    let packet = ipv4().tcp(1, 80, TcpFlags::ACK).payload(&vec![0; 1_540 - 20 - 40]).build();
    let (verdict, buf) = world.send(FRONT, &packet);
    assert_eq!(verdict, Verdict::Transmit(BACK));
    assert_eq!(buf.bytes().len(), 18 + 1_540);
    let options = ipv4().ipv4_options(&[1; 8]).tcp(1, 80, TcpFlags::SYN).build();
    let (verdict, buf) = world.send(FRONT, &options);
    assert_eq!(verdict, Verdict::Transmit(BACK), "IP options are the client's matter");
    assert_eq!(outer(buf.bytes()).inner_bytes, &options[14..]);
}

#[test]
fn the_appliance_answers_for_what_it_owns() {
    let mut world = World::new(1_024);
    for target in [OWN, VIP, Ipv4Addr::new(10, 1, 0, 102)] {
        let (verdict, buf) = world.send(FRONT, &neighbour(None).arp_request(CLIENT, target));
        assert_eq!(verdict, Verdict::Reply);
        let reply = lodestone::packet::arp::parse(&buf.bytes()[14..]).unwrap();
        assert_eq!((reply.sender, reply.sender_mac), (target, FRONT_MAC));
        assert_eq!((reply.target, reply.target_mac), (CLIENT, CLIENT_MAC));
    }
    let on_back = neighbour(Some(7)).arp_request(CLIENT, VIP);
    assert_eq!(world.send(BACK, &on_back).0, Verdict::Drop(DropReason::ArpNotForPort));
    for target in [own6(), vip6()] {
        let frame = neighbour(None).neighbour_solicitation(client6(), target);
        let (verdict, buf) = world.send(FRONT, &frame);
        assert_eq!(verdict, Verdict::Reply);
        let Network::Ip(ip) = parse::parse(buf.bytes()).unwrap().network else { panic!() };
        let answer = lodestone::packet::ndp::advertisement(&ip, buf.bytes()).unwrap();
        assert_eq!((answer.target, answer.target_mac), (target, Some(FRONT_MAC)));
        assert!(answer.solicited && answer.overrides);
    }
    for request in [
        frame().ipv4(CLIENT, OWN).echo_request(1, 2).payload(b"ping").build(),
        frame().ipv6(client6(), own6()).echo_request(1, 2).payload(b"ping").build(),
    ] {
        let (verdict, buf) = world.send(FRONT, &request);
        assert_eq!(verdict, Verdict::Reply);
        let parsed = parse::parse(buf.bytes()).unwrap();
        assert_eq!((parsed.link.destination, parsed.link.source), (CLIENT_MAC, FRONT_MAC));
        assert_eq!(buf.bytes().len(), request.len());
    }
}

#[test]
fn what_tells_about_neighbours_is_punted() {
    let mut world = World::new(1_024);
    let arp = neighbour(None).arp_announcement(Ipv4Addr::new(10, 1, 0, 9));
    assert_eq!(world.send(FRONT, &arp).0, Verdict::Punt(PuntReason::Arp));
    let advertisement = neighbour(None).neighbour_announcement("fd01::9".parse().unwrap());
    let (verdict, _) = world.send(FRONT, &advertisement);
    assert_eq!(verdict, Verdict::Punt(PuntReason::NeighbourDiscovery));
}

#[test]
fn any_bytes_and_any_truncation_get_one_verdict_each() {
    let seeds: Vec<Vec<u8>> = dropped_frames()
        .into_iter()
        .map(|(_, frame, _)| frame)
        .chain([
            tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::SYN),
            tcp("fd01::100", 1, 4_000, 81, TcpFlags::ACK),
        ])
        .collect();
    let mut world = World::new(1_024);
    for frame in &seeds {
        for len in 0..=frame.len() {
            let (verdict, _) = world.send(FRONT, &frame[..len]);
            if len < 14 {
                assert_eq!(verdict, Verdict::Drop(DropReason::Truncated));
            }
        }
    }
    bolero::check!().with_iterations(3_000).with_type::<(usize, Vec<(u16, u8)>, bool)>().for_each(
        |(seed, changes, back)| {
            let mut world = World::new(64);
            let mut frame = seeds[seed % seeds.len()].clone();
            for (place, value) in changes {
                let place = usize::from(*place) % frame.len();
                frame[place] = *value;
            }
            let mut burst = vec![HeapBuf::new(&frame); 32];
            let verdicts = world.burst(if *back { BACK } else { FRONT }, &mut burst);
            assert_eq!(verdicts.len(), 32);
        },
    );
}
