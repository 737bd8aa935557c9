use std::net::{Ipv4Addr, Ipv6Addr};

use super::{CLIENT_MAC, CLIENT_V4, CLIENT_V6, OUR_MAC, VIP_V4, VIP_V6, ipv4, ipv6, link};
use crate::packet::arp::{self, Operation};
use crate::packet::originate::Origin;
use crate::packet::parse::{Network, parse};
use crate::packet::reply::{self, ReplyError};
use crate::packet::{
    ALL_NODES, Builder, HeapBuf, IpPacket, MacAddress, PacketBuf, icmpv6, ndp, protocol,
    solicited_node,
};

fn packet(frame: &[u8]) -> IpPacket {
    match parse(frame).unwrap().network {
        Network::Ip(packet) => packet,
        Network::Arp => panic!("ARP"),
    }
}

/// The neighbour that asks.
fn client(vlan: Option<u16>) -> Origin {
    Origin { mac: CLIENT_MAC, vlan }
}

#[test]
fn an_arp_request_becomes_its_reply() {
    for (vlan, source) in [(None, CLIENT_V4), (Some(5), CLIENT_V4), (None, Ipv4Addr::UNSPECIFIED)] {
        let mut frame = client(vlan).arp_request(source, VIP_V4);
        reply::arp(&mut frame, OUR_MAC).unwrap();
        let link = parse(&frame).unwrap().link;
        assert_eq!((link.source, link.destination, link.vlan), (OUR_MAC, CLIENT_MAC, vlan));
        let reply = arp::parse(&frame[link.l3_offset..]).unwrap();
        assert_eq!(reply.operation, Operation::Reply);
        assert_eq!((reply.sender_mac, reply.sender), (OUR_MAC, VIP_V4));
        assert_eq!((reply.target_mac, reply.target), (CLIENT_MAC, source));
        assert_eq!(frame.len(), 60);
        // A reply is not answered, and stays as it is.
        let before = frame.clone();
        assert_eq!(reply::arp(&mut frame, OUR_MAC), Err(ReplyError::Malformed));
        assert_eq!(frame, before);
    }
}

#[test]
fn unsound_arp_is_refused() {
    let request = client(None).arp_request(CLIENT_V4, VIP_V4);
    // Hardware, protocol, their lengths, operation, a group as the sender.
    for (place, value) in [(15, 6), (17, 1), (18, 8), (19, 16), (21, 3), (22, 1)] {
        let mut frame = request.clone();
        frame[place] = value;
        assert_eq!(reply::arp(&mut frame, OUR_MAC), Err(ReplyError::Malformed), "{place}");
    }
    // Multicast, loopback, broadcast.
    for sender in [[224, 0, 0, 1], [127, 0, 0, 1], [255; 4]] {
        let mut packet = request[14..].to_vec();
        packet[14..18].copy_from_slice(&sender);
        assert_eq!(arp::parse(&packet), Err(arp::ArpError::BadSender));
    }
    assert_eq!(arp::parse(&request[14..41]), Err(arp::ArpError::Truncated));
}

#[test]
fn a_solicitation_becomes_its_advertisement() {
    for vlan in [None, Some(5)] {
        let frame = client(vlan).neighbour_solicitation(CLIENT_V6, VIP_V6);
        let mut buf = HeapBuf::with_headroom(&frame, 0);
        reply::neighbour_advertisement(&mut buf, OUR_MAC).unwrap();
        let link = parse(buf.bytes()).unwrap().link;
        assert_eq!((link.source, link.destination, link.vlan), (OUR_MAC, CLIENT_MAC, vlan));
        let packet = packet(buf.bytes());
        assert_eq!(packet.flow.source(), VIP_V6);
        assert_eq!(packet.flow.destination(), CLIENT_V6);
        let answer = ndp::advertisement(&packet, buf.bytes()).unwrap();
        assert_eq!((answer.target, answer.target_mac), (VIP_V6, Some(OUR_MAC)));
        assert_eq!((answer.router, answer.solicited, answer.overrides), (false, true, true));
    }
}

/// A solicitation for the VIP, with these options.
fn solicitation(source: Ipv6Addr, destination: Ipv6Addr, options: &[u8]) -> Builder {
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &VIP_V6.octets(), options].concat();
    link().ipv6(source, destination).ttl(255).icmpv6(&message)
}

#[test]
fn a_probe_for_an_address_is_answered_to_all_nodes() {
    // RFC 4861 §7.2.4. A solicitation without an option is 8 bytes shorter than the answer.
    let frame = solicitation(Ipv6Addr::UNSPECIFIED, solicited_node(VIP_V6), &[]).build();
    let mut short = HeapBuf::with_headroom(&frame, 7);
    assert_eq!(reply::neighbour_advertisement(&mut short, OUR_MAC), Err(ReplyError::NoHeadroom));
    assert_eq!(short.bytes(), frame);

    let mut buf = HeapBuf::with_headroom(&frame, 8);
    reply::neighbour_advertisement(&mut buf, OUR_MAC).unwrap();
    let link = parse(buf.bytes()).unwrap().link;
    assert_eq!(link.destination, MacAddress([0x33, 0x33, 0, 0, 0, 1]));
    let packet = packet(buf.bytes());
    assert_eq!(packet.flow.destination(), ALL_NODES);
    let answer = ndp::advertisement(&packet, buf.bytes()).unwrap();
    assert!(!answer.solicited);
    assert_eq!(answer.target_mac, Some(OUR_MAC));
}

#[test]
fn long_solicitations_shrink_to_the_answer() {
    let options = [&[14, 1, 1, 2, 3, 4, 5, 6][..], &[1, 1, 2, 0, 0, 0, 0, 9], &[99; 0]].concat();
    let frame = solicitation(CLIENT_V6, VIP_V6, &options).pad_to(200).build();
    let mut buf = HeapBuf::new(&frame);
    reply::neighbour_advertisement(&mut buf, OUR_MAC).unwrap();
    assert_eq!(buf.bytes().len(), 14 + 40 + 32);
    // The asker's own word about its address goes before the frame's.
    let link = parse(buf.bytes()).unwrap().link;
    assert_eq!(link.destination, MacAddress([2, 0, 0, 0, 0, 9]));
    ndp::advertisement(&packet(buf.bytes()), buf.bytes()).unwrap();
}

#[test]
fn neighbour_discovery_is_validated_as_the_rfc_demands() {
    let group = solicited_node(VIP_V6);
    let nobody = Ipv6Addr::UNSPECIFIED;
    let option = [1, 1, 2, 0, 0, 0, 0, 1];
    let sound = || solicitation(CLIENT_V6, group, &option);
    let coded = [&[135, 1, 0, 0, 0, 0, 0, 0][..], &VIP_V6.octets()].concat();
    let to_group = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &ALL_NODES.octets()].concat();
    for (builder, expected) in [
        (sound().ttl(254), ndp::NdpError::HopLimit),
        (sound().l4_checksum(1), ndp::NdpError::Checksum),
        (sound().icmpv6(&coded), ndp::NdpError::Code),
        (sound().icmpv6(&coded[..1]), ndp::NdpError::Checksum),
        (sound().icmpv6(&[135; 1]).payload(&[0; 22]), ndp::NdpError::Truncated),
        (sound().icmpv6(&to_group), ndp::NdpError::Target),
        (sound().icmpv6(&[136, 0, 0, 0]), ndp::NdpError::Unexpected),
        (solicitation(CLIENT_V6, group, &[1, 0, 0, 0, 0, 0, 0, 0]), ndp::NdpError::Option),
        (solicitation(CLIENT_V6, group, &[9, 2, 0, 0, 0, 0, 0, 0]), ndp::NdpError::Option),
        (solicitation(CLIENT_V6, group, &[9]), ndp::NdpError::Option),
        (solicitation(CLIENT_V6, group, &[1, 1, 3, 0, 0, 0, 0, 1]), ndp::NdpError::Option),
        (solicitation(nobody, group, &option), ndp::NdpError::Addresses),
        (solicitation(nobody, VIP_V6, &[]), ndp::NdpError::Addresses),
        (ipv4().protocol(protocol::ICMPV6).payload(&[135; 24]), ndp::NdpError::Unexpected),
    ] {
        let frame = builder.build();
        assert_eq!(ndp::solicitation(&packet(&frame), &frame), Err(expected), "{builder:?}");
        let mut buf = HeapBuf::new(&frame);
        assert!(reply::neighbour_advertisement(&mut buf, OUR_MAC).is_err());
        assert_eq!(buf.bytes(), frame);
    }
    // A solicited advertisement to a group (RFC 4861 §7.1.2).
    let message = [&[136, 0, 0, 0, 0x40, 0, 0, 0][..], &CLIENT_V6.octets()].concat();
    let frame = link().ipv6(CLIENT_V6, ALL_NODES).ttl(255).icmpv6(&message).build();
    assert_eq!(ndp::advertisement(&packet(&frame), &frame), Err(ndp::NdpError::Addresses));
}

#[test]
fn a_listener_query_is_recognised() {
    let query = |source: &str, ttl| {
        let message = [&[icmpv6::LISTENER_QUERY, 0, 0, 0, 0x27, 0x10, 0, 0][..], &[0; 20]].concat();
        let frame = link()
            .ipv6(source.parse().unwrap(), ALL_NODES)
            .ttl(ttl)
            .extension(protocol::HOP_BY_HOP, &[5, 2, 0, 0, 1, 0])
            .icmpv6(&message)
            .build();
        ndp::listener_query(&packet(&frame), &frame)
    };
    assert_eq!(query("fe80::1", 1), Ok(ndp::ListenerQuery { group: Ipv6Addr::UNSPECIFIED }));
    assert_eq!(query("fe80::1", 64), Err(ndp::NdpError::HopLimit));
    assert_eq!(query("2001:db8::1", 1), Err(ndp::NdpError::Addresses));
}

#[test]
fn an_echo_request_becomes_its_reply() {
    for len in [0, 1, 56, 1400] {
        for builder in [ipv4(), ipv4().may_fragment().identification(77), ipv6()] {
            let data = vec![0xc3; len];
            let mut frame = builder
                .vlan(0xa005)
                .ttl(3)
                .traffic_class(0x28)
                .echo_request(0x1234, 9)
                .payload(&data)
                .pad_to(64)
                .build();
            let (request, before) = (packet(&frame), frame.clone());
            reply::echo(&mut frame, OUR_MAC).unwrap();
            assert_eq!(frame[..6], CLIENT_MAC.0);
            assert_eq!(frame[6..18], [&OUR_MAC.0[..], &before[12..18]].concat(), "tag stays");
            // The parser verifies the IPv4 header checksum.
            let answer = packet(&frame);
            assert_eq!(answer.flow.source(), request.flow.destination());
            assert_eq!(answer.flow.destination(), request.flow.source());
            assert_eq!((answer.ttl, answer.traffic_class), (64, 0x28));
            assert_eq!(answer.ip_len, request.ip_len);
            // The reply is the frame that a builder makes of the same data from scratch.
            let built = if request.flow.is_ipv6() {
                link().ipv6(VIP_V6, CLIENT_V6).icmpv6(&[129, 0, 0, 0, 0x12, 0x34, 0, 9])
            } else {
                link().ipv4(VIP_V4, CLIENT_V4).icmp(&[0, 0, 0, 0, 0x12, 0x34, 0, 9])
            };
            let built = built.payload(&data).build();
            assert_eq!(answer.l4(&frame), packet(&built).l4(&built));
            if !request.flow.is_ipv6() {
                assert_eq!(frame[22..26], before[22..26], "identification and DF stay");
            }
        }
    }
}

#[test]
fn unsound_echo_requests_are_not_answered() {
    let to = |destination: &str| link().ipv4(CLIENT_V4, destination.parse().unwrap());
    for builder in [
        ipv4().echo_request(1, 1).l4_checksum(0x1111),
        ipv6().echo_request(1, 1).l4_checksum(0x1111),
        ipv4().icmp(&[8, 1, 0, 0, 0, 0, 0, 0]),
        ipv4().icmp(&[0, 0, 0, 0, 0, 0, 0, 0]),
        ipv4().icmp(&[8, 0, 0, 0]),
        ipv6().icmpv6(&[129, 0, 0, 0, 0, 0, 0, 0]),
        ipv4().ipv4_options(&[7, 7, 4]).echo_request(1, 1),
        ipv6().extension(protocol::ROUTING, &[0; 6]).echo_request(1, 1),
        to("224.0.0.1").echo_request(1, 1),
        to("255.255.255.255").echo_request(1, 1),
        link().ipv6(CLIENT_V6, ALL_NODES).echo_request(1, 1),
        ipv4().udp(1, 2),
        Builder::ethernet(MacAddress::BROADCAST, OUR_MAC)
            .ipv4(CLIENT_V4, VIP_V4)
            .echo_request(1, 1),
    ] {
        let mut frame = builder.build();
        let before = frame.clone();
        assert_eq!(reply::echo(&mut frame, OUR_MAC), Err(ReplyError::Malformed), "{builder:?}");
        assert_eq!(frame, before);
    }
}

#[test]
fn any_bytes_are_answered_or_left_alone() {
    let seeds = [
        client(None).arp_request(CLIENT_V4, VIP_V4),
        client(Some(3)).neighbour_solicitation(CLIENT_V6, VIP_V6),
        ipv4().echo_request(1, 2).payload(b"ping").build(),
        ipv6().echo_request(1, 2).payload(b"ping").build(),
    ];
    // Sound requests with a few bytes changed, and cut.
    bolero::check!()
        .with_type::<(u8, [(u8, u8); 3], u8)>()
        .with_iterations(20_000)
        .cloned()
        .for_each(|(seed, changes, len)| {
            let mut frame = seeds[usize::from(seed) % seeds.len()].clone();
            for (place, value) in changes {
                let place = usize::from(place) % frame.len();
                frame[place] = value;
            }
            frame.truncate(usize::from(len).max(1));
            for reply in [reply::arp, reply::echo] {
                let mut answer = frame.clone();
                match reply(&mut answer, OUR_MAC) {
                    Ok(()) => assert_eq!(answer[6..12], OUR_MAC.0),
                    Err(_) => assert_eq!(answer, frame),
                }
            }
            let mut buf = HeapBuf::new(&frame);
            match reply::neighbour_advertisement(&mut buf, OUR_MAC) {
                Ok(()) => {
                    let packet = packet(buf.bytes());
                    ndp::advertisement(&packet, buf.bytes()).unwrap();
                }
                Err(_) => assert_eq!(buf.bytes(), frame),
            }
        });
}
