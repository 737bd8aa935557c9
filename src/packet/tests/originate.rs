use std::net::Ipv6Addr;

use super::{CLIENT_MAC, CLIENT_V4, CLIENT_V6, OUR_MAC, VIP_V4, VIP_V6};
use crate::packet::arp::{self, Operation};
use crate::packet::originate::{Origin, REPORT_GROUP_CAP};
use crate::packet::parse::{Network, parse};
use crate::packet::{ALL_NODES, IpPacket, MacAddress, icmpv6, ndp, solicited_node};

fn packet(frame: &[u8]) -> IpPacket {
    match parse(frame).unwrap().network {
        Network::Ip(packet) => packet,
        Network::Arp => panic!("ARP"),
    }
}

const ORIGINS: [Origin; 2] =
    [Origin { mac: OUR_MAC, vlan: None }, Origin { mac: OUR_MAC, vlan: Some(5) }];

#[test]
fn arp_asks_and_announces() {
    for origin in ORIGINS {
        let request = origin.arp_request(VIP_V4, CLIENT_V4);
        let poll = origin.arp_poll(VIP_V4, CLIENT_V4, CLIENT_MAC);
        let announcement = origin.arp_announcement(VIP_V4);
        for (frame, destination) in [
            (&request, MacAddress::BROADCAST),
            (&poll, CLIENT_MAC),
            (&announcement, MacAddress::BROADCAST),
        ] {
            assert_eq!(frame.len(), 60);
            let link = parse(frame).unwrap().link;
            assert_eq!(
                (link.source, link.destination, link.vlan),
                (OUR_MAC, destination, origin.vlan)
            );
            let arp = arp::parse(&frame[link.l3_offset..]).unwrap();
            assert_eq!(arp.operation, Operation::Request);
            assert_eq!((arp.sender_mac, arp.sender), (OUR_MAC, VIP_V4));
            assert_eq!(arp.target, if frame == &announcement { VIP_V4 } else { CLIENT_V4 });
            assert_eq!(arp.is_announcement(), frame == &announcement);
            assert!(!arp.is_probe());
        }
    }
}

#[test]
fn neighbour_discovery_asks_and_announces() {
    for origin in ORIGINS {
        let group = solicited_node(CLIENT_V6);
        for (frame, mac, destination) in [
            (
                origin.neighbour_solicitation(VIP_V6, CLIENT_V6),
                MacAddress::for_ipv6_multicast(group),
                group,
            ),
            (origin.neighbour_poll(VIP_V6, CLIENT_V6, CLIENT_MAC), CLIENT_MAC, CLIENT_V6),
        ] {
            let link = parse(&frame).unwrap().link;
            assert_eq!((link.destination, link.vlan), (mac, origin.vlan));
            let packet = packet(&frame);
            assert_eq!(packet.flow.destination(), destination);
            let solicitation = ndp::solicitation(&packet, &frame).unwrap();
            assert_eq!((solicitation.source, solicitation.target), (VIP_V6, CLIENT_V6));
            assert_eq!(solicitation.source_mac, Some(OUR_MAC));
        }
        let frame = origin.neighbour_announcement(VIP_V6);
        assert_eq!(packet(&frame).flow.destination(), ALL_NODES);
        let advertisement = ndp::advertisement(&packet(&frame), &frame).unwrap();
        assert_eq!((advertisement.target, advertisement.target_mac), (VIP_V6, Some(OUR_MAC)));
        assert!(advertisement.overrides && !advertisement.solicited && !advertisement.router);
    }
}

#[test]
fn a_listener_report_names_each_group() {
    let source: Ipv6Addr = "fe80::2".parse().unwrap();
    let destination: Ipv6Addr = "ff02::16".parse().unwrap();
    for (origin, count) in ORIGINS.into_iter().zip([2, 100]) {
        let groups: Vec<_> = (0..count)
            .map(|host| solicited_node(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host)))
            .collect();
        let frame = origin.listener_report(source, &groups);
        let link = parse(&frame).unwrap().link;
        assert_eq!(link.destination, MacAddress([0x33, 0x33, 0, 0, 0, 0x16]));
        assert_eq!(link.vlan, origin.vlan);
        let packet = packet(&frame);
        assert_eq!((packet.ttl, packet.flow.source()), (1, source.into()));
        assert!(packet.ip_len <= 1280);
        // Hop-by-hop options with a router alert (RFC 3810 §5, RFC 2711 §2.1).
        let options = &frame[packet.l3_offset + 40..packet.l4_offset];
        assert_eq!(options, [58, 0, 5, 2, 0, 0, 1, 0]);
        let report = packet.l4(&frame);
        assert!(icmpv6::is_intact(source, destination, report));
        let named = groups.len().min(REPORT_GROUP_CAP);
        assert_eq!(report[..2], [143, 0]);
        assert_eq!(usize::from(report[7]), named);
        assert_eq!(report.len(), 8 + 20 * named);
        for (record, group) in report[8..].chunks(20).zip(&groups) {
            assert_eq!(record[..4], [4, 0, 0, 0]);
            assert_eq!(record[4..], group.octets());
        }
    }
}
