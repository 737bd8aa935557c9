use super::{CLIENT_MAC, CLIENT_V6, OUR_MAC, Random, VIP_V4, VIP_V6, ipv4, ipv6, link};
use crate::packet::parse::{self, Ethertype, Network, parse};
use crate::packet::{Builder, FlowKey, IpPacket, ParseError, TcpFlags, icmpv6, protocol};

fn packet(frame: &[u8]) -> IpPacket {
    match parse(frame).unwrap().network {
        Network::Ip(packet) => packet,
        Network::Arp => panic!("ARP"),
    }
}

fn error(builder: &Builder) -> Option<ParseError> {
    parse(&builder.build()).err()
}

#[test]
fn a_built_packet_is_parsed_as_it_was_meant() {
    let mut random = Random(3);
    for round in 0..400 {
        let [vlan, is_ipv6, long] = [1, 2, 4].map(|bit| round & bit != 0);
        let number = [protocol::TCP, protocol::UDP, 132][round % 3];
        let mut flow = random.flow(is_ipv6, number);
        if let FlowKey::V4 { source_port, destination_port, protocol: 132, .. }
        | FlowKey::V6 { source_port, destination_port, protocol: 132, .. } = &mut flow
        {
            (*source_port, *destination_port) = (0, 0);
        }
        let payload = vec![0xa5; if long { 1200 } else { round % 5 }];
        let mut builder =
            link().flow(&flow).ttl(3).traffic_class(0xb9).payload(&payload).pad_to(64);
        if vlan {
            builder = builder.vlan(0xe005);
        }
        let frame = builder.build();
        let parsed = parse(&frame).unwrap();
        assert_eq!((parsed.link.source, parsed.link.destination), (CLIENT_MAC, OUR_MAC));
        assert_eq!(parsed.link.vlan, vlan.then_some(5));
        assert_eq!(parsed.link.l3_offset, if vlan { 18 } else { 14 });
        let packet = packet(&frame);
        assert_eq!(packet.flow, flow);
        assert_eq!((packet.ttl, packet.traffic_class), (3, 0xb9));
        let upper = match number {
            protocol::TCP => 20,
            protocol::UDP => 8,
            _ => 0,
        };
        // Padding does not count.
        let header = if is_ipv6 { 40 } else { 20 };
        assert_eq!(packet.ip_len, header + upper + payload.len());
        assert_eq!(packet.l4_offset, packet.l3_offset + header);
        assert_eq!(packet.l4(&frame)[upper..], payload);
        assert_eq!(packet.tcp_flags == TcpFlags::ACK, number == protocol::TCP);
    }
}

#[test]
fn the_link_layer_says_what_follows() {
    let arp = link().ethertype(0x0806);
    assert_eq!(parse(&arp.build()).unwrap().network, Network::Arp);
    // A priority tag is no VLAN.
    let tagged = ipv4().tcp(1, 2, TcpFlags::SYN).vlan(0xa000).build();
    assert_eq!(parse::link(&tagged).unwrap().vlan, None);
    assert_eq!(parse::link(&tagged).unwrap().ethertype, Ethertype::Ipv4);
    assert_eq!(packet(&tagged).l3_offset, 18);
    // 802.3 length, LLDP, and a second tag.
    for other in [0x0026, 0x88cc, 0x8100] {
        assert_eq!(error(&ipv4().vlan(5).ethertype(other)), Some(ParseError::UnknownEthertype));
    }
    assert_eq!(parse::link(&[0; 13]), Err(ParseError::Truncated));
    assert_eq!(parse::link(&tagged[..17]), Err(ParseError::Truncated));
}

#[test]
fn impossible_ipv4_headers_are_refused() {
    let tcp = || ipv4().tcp(1, 2, TcpFlags::ACK);
    for (builder, expected) in [
        (tcp().version(6), ParseError::BadIpv4Header),
        (tcp().header_words(4), ParseError::BadIpv4Header),
        (tcp().header_words(15), ParseError::BadIpv4Header),
        (tcp().ip_length(19), ParseError::BadIpv4Header),
        (tcp().ip_length(41), ParseError::Truncated),
        (tcp().ip_checksum(0x1234), ParseError::BadIpv4Checksum),
        (tcp().ipv4_options(&[1, 1, 1]).ip_checksum(0x1234), ParseError::BadIpv4Checksum),
        (tcp().ipv4_options(&[1, 1, 1]).ip_length(23), ParseError::BadIpv4Header),
        (tcp().ipv4_options(&[1, 1, 1]).ip_length(99), ParseError::Truncated),
        (tcp().ttl(0), ParseError::TtlExpired),
        (tcp().fragment(0, true), ParseError::Fragment),
        (tcp().fragment(8, false), ParseError::Fragment),
        (tcp().tcp_data_offset(4), ParseError::BadL4Header),
        (tcp().tcp_data_offset(6), ParseError::BadL4Header),
        (tcp().ip_length(39), ParseError::BadL4Header),
        (ipv4().udp(1, 2).udp_length(0), ParseError::BadL4Header),
        (ipv4().udp(1, 2).udp_length(7), ParseError::BadL4Header),
        (ipv4().udp(1, 2).udp_length(9).pad_to(60), ParseError::BadL4Header),
        (ipv4().udp(1, 2).ip_length(27), ParseError::BadL4Header),
    ] {
        assert_eq!(error(&builder), Some(expected), "{builder:?}");
    }
}

#[test]
fn ipv4_options_are_skipped() {
    for len in [1, 4, 40] {
        let frame = ipv4().ipv4_options(&vec![1; len]).tcp(50_000, 443, TcpFlags::SYN).build();
        let packet = packet(&frame);
        assert_eq!(packet.flow.destination_port(), 443);
        assert_eq!(packet.l4_offset, 34 + len.next_multiple_of(4));
        assert!(packet.tcp_flags.is_opening());
    }
}

#[test]
fn what_no_host_sends_from_is_refused() {
    for source in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.9.9.9", "255.255.255.255"] {
        let builder = link().ipv4(source.parse().unwrap(), VIP_V4).tcp(1, 2, TcpFlags::SYN);
        assert_eq!(error(&builder), Some(ParseError::BadSource), "{source}");
    }
    for source in ["1.0.0.1", "10.0.0.1", "126.1.1.1", "128.0.0.1", "223.255.255.255", "240.0.0.1"]
    {
        let builder = link().ipv4(source.parse().unwrap(), VIP_V4).tcp(1, 2, TcpFlags::SYN);
        assert_eq!(error(&builder), None, "{source}");
    }
    for source in ["::", "::1", "ff02::1"] {
        let builder = link().ipv6(source.parse().unwrap(), VIP_V6).tcp(1, 2, TcpFlags::SYN);
        assert_eq!(error(&builder), Some(ParseError::BadSource), "{source}");
    }
    // RFC 4862 §5.4.2: only a probe for an address comes from `::`.
    let from_nowhere = |message_type| {
        let message = [&[message_type, 0, 0, 0][..], &[0; 20]].concat();
        error(&link().ipv6("::".parse().unwrap(), VIP_V6).ttl(255).icmpv6(&message))
    };
    assert_eq!(from_nowhere(icmpv6::NEIGHBOUR_SOLICITATION), None);
    assert_eq!(from_nowhere(icmpv6::NEIGHBOUR_ADVERTISEMENT), Some(ParseError::BadSource));
    assert_eq!(from_nowhere(icmpv6::ECHO_REQUEST), Some(ParseError::BadSource));
}

#[test]
fn ipv6_extension_headers_are_passed_or_refused() {
    let tcp = || ipv6().tcp(50_000, 443, TcpFlags::ACK);
    let frame = tcp()
        .extension(protocol::HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
        .extension(protocol::ROUTING, &[0; 20])
        .extension(protocol::AUTHENTICATION, &[0; 10])
        .extension(protocol::DESTINATION_OPTIONS, &[1, 12])
        .pad_to(200)
        .build();
    let behind = packet(&frame);
    assert_eq!(behind.flow.destination_port(), 443);
    assert_eq!(behind.l4_offset, 14 + 40 + 8 + 24 + 12 + 8);
    assert_eq!(behind.ip_len, 40 + 8 + 24 + 12 + 8 + 20);

    let options = |count| {
        (0..count).fold(tcp(), |builder, _| builder.extension(protocol::DESTINATION_OPTIONS, &[]))
    };
    for (builder, expected) in [
        (tcp().version(4), ParseError::BadIpv6Header),
        (tcp().ip_length(21), ParseError::Truncated),
        (tcp().ttl(0), ParseError::TtlExpired),
        (tcp().fragment(0, false), ParseError::Fragment),
        (tcp().extension(protocol::ROUTING, &[]).fragment(8, true), ParseError::Fragment),
        (options(9), ParseError::BadIpv6Header),
        (options(2).ip_length(9), ParseError::BadIpv6Header),
        (options(2).ip_length(15), ParseError::BadIpv6Header),
        (options(1).extension(protocol::HOP_BY_HOP, &[]), ParseError::BadIpv6Header),
        // A jumbogram.
        (tcp().extension(protocol::HOP_BY_HOP, &[0xc2, 4]).ip_length(0), ParseError::BadIpv6Header),
        (tcp().ip_length(0), ParseError::BadL4Header),
        (tcp().tcp_data_offset(6), ParseError::BadL4Header),
        (ipv6().udp(1, 2).udp_length(0), ParseError::BadL4Header),
    ] {
        assert_eq!(error(&builder), Some(expected), "{builder:?}");
    }
    assert_eq!(error(&options(8)), None);
    let nothing = ipv6().build();
    assert_eq!(packet(&nothing).flow.protocol(), protocol::NO_NEXT_HEADER);
    assert_eq!(packet(&nothing).ip_len, 40);
}

#[test]
fn a_truncated_frame_is_refused_or_parsed_as_the_whole() {
    for builder in [
        ipv4().tcp(1, 2, TcpFlags::SYN),
        ipv4().vlan(7).ipv4_options(&[1; 6]).udp(1, 2).payload(&[9; 30]),
        ipv4().echo_request(1, 1).payload(&[9; 5]),
        ipv6().tcp(1, 2, TcpFlags::SYN).payload(b"data"),
        ipv6().vlan(7).extension(protocol::ROUTING, &[0; 6]).udp(1, 2),
        link().ethertype(0x0806).payload(&[0; 28]),
    ] {
        let frame = builder.clone().pad_to(120).build();
        let whole = parse(&frame).unwrap();
        let end = match whole.network {
            Network::Ip(packet) => packet.end(),
            Network::Arp => 14,
        };
        for len in 0..frame.len() {
            match parse(&frame[..len]) {
                Ok(parsed) => assert!(len >= end && parsed == whole, "{len} of {builder:?}"),
                Err(error) => assert!(len < end && error == ParseError::Truncated, "{len}"),
            }
        }
    }
}

#[test]
fn any_bytes_are_parsed_or_refused() {
    // Random bytes get past the ethertype when one is put there, and past the checksum, too.
    bolero::check!().with_iterations(20_000).with_max_len(200).for_each(|bytes: &[u8]| {
        let _ = parse(bytes);
        for ethertype in [[8, 0, 0x45], [8, 0, 0x46], [0x86, 0xdd, 0x60]] {
            let mut frame = [&[0; 12][..], &ethertype, bytes].concat();
            if let Some(header) = frame.get_mut(14..34) {
                header[10..12].fill(0);
                let checksum = crate::packet::checksum::checksum(header);
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            if let Ok(parsed) = parse(&frame)
                && let Network::Ip(packet) = parsed.network
            {
                assert!(packet.end() <= frame.len());
                assert!(packet.l3_offset < packet.l4_offset && packet.l4_offset <= packet.end());
                assert!(packet.ttl > 0);
            }
        }
    });
}

#[test]
fn ipv6_flows_keep_their_family() {
    let mapped = link().ipv6(super::CLIENT_V4.to_ipv6_mapped(), VIP_V6).tcp(1, 2, TcpFlags::SYN);
    assert!(packet(&mapped.build()).flow.is_ipv6());
    assert_eq!(packet(&ipv6().udp(1, 2).build()).flow.source(), CLIENT_V6);
}
