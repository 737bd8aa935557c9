use std::net::IpAddr;

use super::{CLIENT_MAC, OUR_MAC, Random, link};
use crate::packet::encapsulation::{
    DEFAULT_TTL, EncapsulationError, Inner, OuterConfig, OuterConfigError, OuterShape, decapsulate,
    encapsulate, outer_template, write_outer,
};
use crate::packet::parse::{Network, parse};
use crate::packet::{FlowHash, HeapBuf, PacketBuf, protocol};

fn config(vlan: Option<u16>, ipv6: bool) -> OuterConfig {
    let [source, destination]: [IpAddr; 2] = if ipv6 {
        ["2001:db8:a::1", "2001:db8:b::80"].map(|address| address.parse().unwrap())
    } else {
        ["10.0.0.1", "192.0.2.80"].map(|address| address.parse().unwrap())
    };
    OuterConfig {
        source_mac: OUR_MAC,
        destination_mac: CLIENT_MAC,
        vlan,
        source,
        destination,
        ttl: DEFAULT_TTL,
    }
}

#[test]
fn decapsulation_gives_back_what_was_encapsulated() {
    // L4-02, L4-03: all four pairs of families, with and without a VLAN on both sides.
    let mut random = Random(4);
    for round in 0..512_usize {
        let [inner_ipv6, outer_ipv6, vlan_in, vlan_out] = [1, 2, 4, 8].map(|bit| round & bit != 0);
        let flow = random.flow(inner_ipv6, [protocol::TCP, protocol::UDP][round % 2]);
        let traffic_class = random.next().to_le_bytes()[0];
        let hash = FlowHash(random.next());
        let payload = vec![0x5a; round * 3 % 1400];
        let builder = link().flow(&flow).traffic_class(traffic_class).payload(&payload).pad_to(60);
        let frame = if vlan_in { builder.vlan(9) } else { builder }.build();
        let parsed = parse(&frame).unwrap();
        let Network::Ip(packet) = parsed.network else { panic!() };

        let vlan = vlan_out.then_some(4094);
        let template = outer_template(&config(vlan, outer_ipv6)).unwrap();
        let mut buf = HeapBuf::new(&frame);
        let inner = Inner::new(&packet, hash);
        encapsulate(&mut buf, packet.l3_offset, &template.bytes, template.shape, inner).unwrap();

        // The outer packet ends where the frame ends: padding is gone. The parser has verified
        // the header checksum.
        let out = decapsulate(buf.bytes()).unwrap().unwrap();
        assert_eq!(out.outer_ip.end(), buf.bytes().len());
        assert_eq!(out.inner_bytes, packet.l3(&frame));
        assert_eq!((out.inner.flow, out.inner.ip_len), (flow, packet.ip_len));
        assert_eq!(out.outer.link.vlan, vlan);
        assert_eq!((out.outer.link.source, out.outer.link.destination), (OUR_MAC, CLIENT_MAC));
        let config = config(vlan, outer_ipv6);
        assert_eq!(out.outer_ip.flow.source(), config.source);
        assert_eq!(out.outer_ip.flow.destination(), config.destination);
        assert_eq!(out.outer_ip.flow.protocol(), if inner_ipv6 { 41 } else { 4 });
        assert_eq!((out.outer_ip.traffic_class, out.outer_ip.ttl), (traffic_class, DEFAULT_TTL));
        let header = &buf.bytes()[out.outer_ip.l3_offset..];
        if outer_ipv6 {
            let label = u32::from_be_bytes([0, header[1] & 0xf, header[2], header[3]]);
            assert_eq!(label, hash.level2() & 0xf_ffff);
        } else {
            // RFC 6864 §4.1: identification 0 and DF.
            assert_eq!(header[4..8], [0, 0, 0x40, 0]);
        }
    }
}

#[test]
fn what_cannot_be_encapsulated_is_refused() {
    let template = outer_template(&config(None, false)).unwrap();
    let inner = |ip_len| Inner { ipv6: false, ip_len, traffic_class: 0, flow_hash: FlowHash(1) };
    let mut frame = [0; 34];
    let mut write = |len: usize, ip_len| {
        write_outer(&template.bytes, template.shape, &mut frame[..len], inner(ip_len))
    };
    assert_eq!(write(34, 65_515), Ok(()));
    assert_eq!(write(34, 65_516), Err(EncapsulationError::TooBig));
    assert_eq!(write(33, 40), Err(EncapsulationError::NoHeadroom));
    assert_eq!(write(0, 40), Err(EncapsulationError::NoHeadroom));

    let template = outer_template(&config(Some(1), true)).unwrap();
    let mut frame = [0; 58];
    let mut write = |len: usize, ip_len| {
        write_outer(&template.bytes, template.shape, &mut frame[..len], inner(ip_len))
    };
    assert_eq!(write(58, 65_535), Ok(()));
    assert_eq!(write(58, 65_536), Err(EncapsulationError::TooBig));
    assert_eq!(write(57, 40), Err(EncapsulationError::NoHeadroom));

    // 58 bytes of headers replace 14: 44 more are needed.
    let packet = link().ipv4(super::CLIENT_V4, super::VIP_V4).udp(1, 2).build();
    for (headroom, expected) in [(43, Err(EncapsulationError::NoHeadroom)), (44, Ok(()))] {
        let mut buf = HeapBuf::with_headroom(&packet, headroom);
        let result = encapsulate(&mut buf, 14, &template.bytes, template.shape, inner(28));
        assert_eq!(result, expected);
    }
}

#[test]
fn a_template_has_the_shape_of_its_configuration() {
    for (vlan, ipv6, len) in
        [(false, false, 34), (false, true, 54), (true, false, 38), (true, true, 58)]
    {
        let template = outer_template(&config(vlan.then_some(7), ipv6)).unwrap();
        assert_eq!(template.shape, OuterShape { vlan, ipv6 });
        assert_eq!(template.shape.header_len(), len);
        assert!(template.bytes[len..].iter().all(|byte| *byte == 0));
    }
    for vlan in [0, 4095, 65_535] {
        assert_eq!(outer_template(&config(Some(vlan), true)), Err(OuterConfigError::Vlan(vlan)));
    }
    let mixed = OuterConfig { source: "10.0.0.1".parse().unwrap(), ..config(None, true) };
    let message = outer_template(&mixed).unwrap_err().to_string();
    assert!(message.contains("10.0.0.1") && message.contains("2001:db8:b::80"), "{message}");
}
