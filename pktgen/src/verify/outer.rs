//! Decapsulation, strictly: a backend takes what is nearly right, a verifier does not.

use std::net::IpAddr;

use super::violation::Violation;
use crate::wire;

/// What every outer header says (docs/backends.md).
const TTL: u8 = 64;
/// DF, and nothing else: no identification is needed then (RFC 6864 §4.1).
const DONT_FRAGMENT: u16 = 0x4000;

/// An encapsulated packet, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer<'a> {
    /// Link-layer source and destination.
    pub source_mac: [u8; 6],
    /// Link-layer destination.
    pub destination_mac: [u8; 6],
    /// The VLAN of its tag.
    pub vlan: Option<u16>,
    /// The tunnel's near end.
    pub source: IpAddr,
    /// The tunnel's far end: the backend.
    pub destination: IpAddr,
    /// The flow label, if the outer header is IPv6.
    pub flow_label: Option<u32>,
    /// The packet inside.
    pub inner: &'a [u8],
}

/// Whether a frame carries IP in IP, sound or not: what else there is on a link is no answer to a
/// packet of ours.
pub fn is_encapsulated(frame: &[u8]) -> bool {
    let (ethertype, at) = ethertype(frame);
    let protocol = match ethertype {
        0x0800 => frame.get(at + 9),
        0x86dd => frame.get(at + 6),
        _ => None,
    };
    matches!(protocol, Some(4 | 41))
}

/// Ethertype, and where the packet begins.
fn ethertype(frame: &[u8]) -> (u16, usize) {
    match wire::u16_at(frame, 12) {
        0x8100 => (wire::u16_at(frame, 16), 18),
        other => (other, 14),
    }
}

/// Takes a frame apart.
///
/// # Errors
/// What is wrong with its outer headers.
#[inline]
pub fn read(frame: &[u8]) -> Result<Outer<'_>, Violation> {
    let (ethertype, at) = ethertype(frame);
    let vlan = (at == 18).then(|| wire::u16_at(frame, 14) & 0x0fff);
    let packet = frame.get(at..).ok_or(Violation::OuterLength)?;
    let header = match ethertype {
        0x0800 => ipv4(packet)?,
        0x86dd => ipv6(packet)?,
        _ => return Err(Violation::OuterLink),
    };
    let mac = |at: usize| <[u8; 6]>::try_from(&frame[at..at + 6]).unwrap_or_default();
    let inner = &packet[header.len..];
    let inner_version = match header.protocol {
        4 => 4,
        41 => 6,
        _ => return Err(Violation::OuterHeader),
    };
    if inner.first().map(|first| first >> 4) != Some(inner_version) {
        return Err(Violation::OuterHeader);
    }
    // RFC 6040 §4.1, RFC 2983 §3.1: DSCP and ECN are the inner packet's.
    let traffic_class = |packet: &[u8]| match packet[0] >> 4 {
        4 => packet[1],
        _ => (wire::u16_at(packet, 0) >> 4) as u8,
    };
    if inner.len() < wire::IPV4 || traffic_class(packet) != traffic_class(inner) {
        return Err(Violation::OuterHeader);
    }
    Ok(Outer {
        source_mac: mac(6),
        destination_mac: mac(0),
        vlan,
        source: header.source,
        destination: header.destination,
        flow_label: (ethertype == 0x86dd).then(|| wire::u32_at(packet, 0) & 0x000f_ffff),
        inner,
    })
}

struct Header {
    len: usize,
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
}

#[inline]
fn ipv4(packet: &[u8]) -> Result<Header, Violation> {
    let header = packet.get(..wire::IPV4).ok_or(Violation::OuterLength)?;
    if wire::checksum(wire::sum(header)) != 0 {
        return Err(Violation::OuterChecksum);
    }
    if usize::from(wire::u16_at(header, 2)) != packet.len() {
        return Err(Violation::OuterLength);
    }
    let is_as_stated = header[0] == 0x45
        && wire::u16_at(header, 4) == 0
        && wire::u16_at(header, 6) == DONT_FRAGMENT
        && header[8] == TTL;
    if !is_as_stated {
        return Err(Violation::OuterHeader);
    }
    let address = |at: usize| IpAddr::from([0, 1, 2, 3].map(|place| header[at + place]));
    Ok(Header {
        len: wire::IPV4,
        protocol: header[9],
        source: address(12),
        destination: address(16),
    })
}

#[inline]
fn ipv6(packet: &[u8]) -> Result<Header, Violation> {
    let header = packet.get(..wire::IPV6).ok_or(Violation::OuterLength)?;
    if wire::IPV6 + usize::from(wire::u16_at(header, 4)) != packet.len() {
        return Err(Violation::OuterLength);
    }
    if header[0] >> 4 != 6 || header[7] != TTL {
        return Err(Violation::OuterHeader);
    }
    let address =
        |at: usize| IpAddr::from(<[u8; 16]>::try_from(&header[at..at + 16]).unwrap_or_default());
    Ok(Header {
        len: wire::IPV6,
        protocol: header[6],
        source: address(8),
        destination: address(24),
    })
}

#[cfg(test)]
mod tests {
    use lodestone::packet::encapsulation::{Inner, OuterConfig, encapsulate, outer_template};
    use lodestone::packet::{Builder, FlowHash, HeapBuf, MacAddress, PacketBuf, TcpFlags, parse};

    use super::*;

    /// A packet as the appliance encapsulates it.
    pub fn encapsulated(inner_is_ipv6: bool, outer_is_ipv6: bool, vlan: Option<u16>) -> Vec<u8> {
        let builder = Builder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
        let builder = if inner_is_ipv6 {
            builder.ipv6("2001:db8::7".parse().unwrap(), "2001:db8:1::1".parse().unwrap())
        } else {
            builder.ipv4([198, 51, 100, 7].into(), [203, 0, 113, 1].into())
        };
        let frame = builder.tcp(1025, 80, TcpFlags::SYN).pad_to(60).build();
        let parsed = parse::parse(&frame).unwrap();
        let parse::Network::Ip(ip) = parsed.network else { panic!() };
        let (source, destination): (IpAddr, IpAddr) = if outer_is_ipv6 {
            ("fd01::2".parse().unwrap(), "fd09::1".parse().unwrap())
        } else {
            ([10, 1, 0, 2].into(), [10, 9, 0, 1].into())
        };
        let template = outer_template(&OuterConfig {
            source_mac: MacAddress([4; 6]),
            destination_mac: MacAddress([6; 6]),
            vlan,
            source,
            destination,
            ttl: 64,
        })
        .unwrap();
        let mut buf = HeapBuf::new(&frame);
        let inner = Inner::new(&ip, FlowHash(0x1234_5678));
        encapsulate(&mut buf, 14, &template.bytes, template.shape, inner).unwrap();
        buf.bytes().to_vec()
    }

    #[test]
    fn all_four_pairs_of_families_are_read_with_and_without_a_vlan() {
        for (inner, outer, vlan) in [
            (false, false, None),
            (false, true, Some(7)),
            (true, false, Some(4094)),
            (true, true, None),
        ] {
            let frame = encapsulated(inner, outer, vlan);
            assert!(is_encapsulated(&frame));
            let read = read(&frame).unwrap();
            assert_eq!((read.vlan, read.inner[0] >> 4 == 6), (vlan, inner));
            assert_eq!(read.inner.len(), if inner { 60 } else { 40 }, "without the padding");
            assert_eq!(read.flow_label, outer.then_some(0x0004_5678));
            assert_eq!((read.source_mac, read.destination_mac), ([4; 6], [6; 6]));
            assert_eq!(read.destination.is_ipv6(), outer);
        }
    }

    #[test]
    fn each_wrong_byte_of_an_outer_ipv4_header_is_found() {
        let frame = encapsulated(false, false, None);
        for place in 14..34 {
            let mut wrong = frame.clone();
            wrong[place] ^= 0x08;
            assert!(read(&wrong).is_err(), "byte {place}");
        }
        let longer = [&frame[..], &[0]].concat();
        assert_eq!(read(&longer), Err(Violation::OuterLength));
        assert_eq!(read(&frame[..frame.len() - 1]), Err(Violation::OuterLength));
    }

    #[test]
    fn wrong_fields_with_a_right_checksum_are_found() {
        for (place, value) in [(15, 4), (18, 1), (20, 0), (22, 63), (23, 41)] {
            let mut wrong = encapsulated(false, false, None);
            wrong[place] = value;
            wrong[24..26].fill(0);
            let sum = wire::checksum(wire::sum(&wrong[14..34])).to_be_bytes();
            wrong[24..26].copy_from_slice(&sum);
            assert_eq!(read(&wrong), Err(Violation::OuterHeader), "byte {place}");
        }
        for (place, value) in [(18, 1), (20, 59), (21, 63)] {
            let mut wrong = encapsulated(true, true, None);
            wrong[place] = value;
            assert!(read(&wrong).is_err(), "byte {place}");
        }
    }

    #[test]
    fn other_frames_are_no_answers() {
        assert!(!is_encapsulated(&[0; 60]));
        assert!(!is_encapsulated(&[]));
    }
}
