//! The frames of a run, written from a template: headers, stamp, time, filling, checksums.

use std::net::IpAddr;

use lodestone::packet::MacAddress;

use crate::profile::{Kind, Traffic};
use crate::random::Random;
use crate::stamp::{self, Layout, Stamp};
use crate::wire;

/// The longest frame: an IP packet of 9200 bytes with a tagged Ethernet header.
pub const FRAME_CAP: usize = 9200 + 18;

/// What lies behind the headers of every packet: the same bytes at the same place of the payload.
pub struct Filling(Box<[u8]>);

impl Filling {
    /// The filling that all runs use.
    pub fn new() -> Self {
        let mut random = Random::new(0x11fe);
        Self((0..FRAME_CAP).map(|_| random.next() as u8).collect())
    }

    /// The first bytes of it.
    #[inline]
    pub fn first(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }
}

/// The addresses of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// The generator's own.
    pub source: MacAddress,
    /// The appliance's.
    pub destination: MacAddress,
    /// The VLAN of the frames, if they carry a tag.
    pub vlan: Option<u16>,
}

/// Where packets of a flow set go, and what they have in common.
#[derive(Clone, Debug)]
pub struct Template {
    link: Vec<u8>,
    destination: (IpAddr, u16),
    is_tcp: bool,
}

/// What differs from packet to packet.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// Where it comes from.
    pub source: (IpAddr, u16),
    /// TCP's control bits.
    pub flags: u8,
    /// Its stamp.
    pub stamp: Stamp,
    /// The time stamp counter.
    pub cycles: u64,
}

impl Template {
    /// The template of a kind of traffic.
    pub fn new(traffic: &Traffic, addresses: &LinkAddresses) -> Self {
        let mut link = Vec::with_capacity(wire::ETHERNET + 4);
        link.extend(addresses.destination.0);
        link.extend(addresses.source.0);
        if let Some(vlan) = addresses.vlan {
            link.extend([0x81, 0x00]);
            link.extend(vlan.to_be_bytes());
        }
        let is_ipv6 = traffic.destination.is_ipv6();
        link.extend(if is_ipv6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        Self {
            link,
            destination: (traffic.destination, traffic.port),
            is_tcp: !matches!(traffic.kind, Kind::Udp | Kind::UdpFragments),
        }
    }

    fn layout(&self) -> Layout {
        let ip = if self.destination.0.is_ipv6() { wire::IPV6 } else { wire::IPV4 };
        Layout { ip, is_tcp: self.is_tcp }
    }

    /// Length of the link-layer header.
    pub fn link_len(&self) -> usize {
        self.link.len()
    }

    /// The shortest IP packet that holds the headers and the stamp.
    pub fn least_len(&self) -> usize {
        self.layout().body()
    }

    /// Length of the frame of an IP packet of `ip_len` bytes: Ethernet pads short ones.
    pub fn frame_len(&self, ip_len: usize) -> usize {
        (self.link.len() + ip_len).max(wire::SHORTEST_FRAME)
    }

    /// Writes the frame of a packet of `ip_len` bytes over `frame`, which is as long as
    /// [`Self::frame_len`] says.
    #[inline]
    pub fn write(
        &self,
        frame: &mut [u8],
        ip_len: usize,
        content: &Content,
        filling: &Filling,
        seed: u64,
    ) {
        let (link, rest) = frame.split_at_mut(self.link.len());
        link.copy_from_slice(&self.link);
        let (packet, padding) = rest.split_at_mut(ip_len);
        // What Ethernet pads with is nobody's business; it must not be carried on.
        padding.fill(0xa5);
        let layout = self.layout();
        self.write_ip(packet, content);
        let ip = layout.ip;
        packet[ip..ip + 2].copy_from_slice(&content.source.1.to_be_bytes());
        packet[ip + 2..ip + 4].copy_from_slice(&self.destination.1.to_be_bytes());
        if layout.is_tcp {
            packet[ip + 12] = 0x50;
            packet[ip + 13] = content.flags;
        } else {
            packet[ip + 4..ip + 6].copy_from_slice(&((ip_len - ip) as u16).to_be_bytes());
        }
        stamp::write(packet, layout, content.stamp, seed);
        let body = &mut packet[layout.body()..];
        let filled = match body.split_first_chunk_mut::<8>() {
            Some((time, rest)) => {
                *time = content.cycles.to_be_bytes();
                rest
            }
            None => body,
        };
        filled.copy_from_slice(filling.first(filled.len()));
        put_checksums(packet, layout.ip, layout.is_tcp);
    }

    #[inline]
    fn write_ip(&self, packet: &mut [u8], content: &Content) {
        let ip_len = packet.len();
        let protocol = if self.is_tcp { wire::PROTOCOL_TCP } else { wire::PROTOCOL_UDP };
        if self.destination.0.is_ipv6() {
            packet[..4].copy_from_slice(&0x6000_0000_u32.to_be_bytes());
            packet[4..6].copy_from_slice(&((ip_len - wire::IPV6) as u16).to_be_bytes());
            packet[6] = protocol;
            packet[7] = 64;
            wire::put_address(packet, 8, content.source.0);
            wire::put_address(packet, 24, self.destination.0);
        } else {
            packet[..2].copy_from_slice(&[0x45, 0]);
            packet[2..4].copy_from_slice(&(ip_len as u16).to_be_bytes());
            packet[4..6].copy_from_slice(&(content.stamp.sequence as u16).to_be_bytes());
            packet[6..8].copy_from_slice(&[0x40, 0]);
            packet[8] = 64;
            packet[9] = protocol;
            wire::put_address(packet, 12, content.source.0);
            wire::put_address(packet, 16, self.destination.0);
        }
    }
}

/// Writes the checksums of IPv4 and of TCP or UDP into a packet that is complete but for them.
#[inline]
pub fn put_checksums(packet: &mut [u8], ip: usize, is_tcp: bool) {
    let is_ipv6 = packet[0] >> 4 == 6;
    if !is_ipv6 {
        packet[10..12].fill(0);
        let sum = wire::checksum(wire::sum(&packet[..ip]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let (addresses, protocol) = if is_ipv6 { (8..40, packet[6]) } else { (12..20, packet[9]) };
    let pseudo = wire::pseudo_header(&packet[addresses], protocol, packet.len() - ip);
    let at = if is_tcp { ip + 16 } else { ip + 6 };
    packet[at..at + 2].fill(0);
    let sum = wire::checksum(pseudo + wire::sum(&packet[ip..]));
    // UDP has a meaning for 0, "not computed", and sends the other zero instead (RFC 768).
    let sum = if sum == 0 && !is_tcp { 0xffff } else { sum };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Cuts a frame with an IPv4 packet in two, as near the middle as fragments can begin (RFC 791 §3.2:
/// at multiples of 8).
pub fn fragments(frame: &[u8], link_len: usize) -> [Vec<u8>; 2] {
    let total = usize::from(wire::u16_at(frame, link_len + 2));
    let first = ((total - wire::IPV4) / 16 * 8).max(8);
    let head = link_len + wire::IPV4;
    let part = |from: usize, to: usize, more: bool| {
        let mut part = frame[..head].to_vec();
        part.extend(&frame[head + from..head + to]);
        let packet = &mut part[link_len..];
        packet[2..4].copy_from_slice(&((wire::IPV4 + to - from) as u16).to_be_bytes());
        let offset = (from / 8) as u16 | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&offset.to_be_bytes());
        packet[10..12].fill(0);
        let sum = wire::checksum(wire::sum(&packet[..wire::IPV4]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        part.resize(part.len().max(wire::SHORTEST_FRAME), 0);
        part
    };
    [part(0, first, true), part(first, total - wire::IPV4, false)]
}

#[cfg(test)]
mod tests {
    use lodestone::packet::parse;

    use super::*;
    use crate::profile::tests::traffic;

    fn written(kind: &str, destination: &str, ip_len: usize) -> (Template, Vec<u8>) {
        let addresses = LinkAddresses {
            source: MacAddress([2; 6]),
            destination: MacAddress([4; 6]),
            vlan: None,
        };
        let source = if destination.contains(':') { "2001:db8::/64" } else { "198.51.100.0/24" };
        let traffic = traffic(kind, source, destination);
        let template = Template::new(&traffic, &addresses);
        let mut frame = vec![0; template.frame_len(ip_len)];
        let content = Content {
            source: (traffic.tuples().source(0).0, 1025),
            flags: wire::SYN,
            stamp: Stamp { flow: 3, sequence: 4, version: 1 },
            cycles: 99,
        };
        template.write(&mut frame, ip_len, &content, &Filling::new(), 1);
        (template, frame)
    }

    #[test]
    fn frames_parse_and_have_right_checksums() {
        for (kind, destination) in [
            ("tcp", "203.0.113.1"),
            ("udp", "203.0.113.1"),
            ("tcp", "2001:db8:1::1"),
            ("udp", "2001:db8:1::1"),
        ] {
            for extra in [0, 1, 7, 8, 9, 1000] {
                let (template, _) = written(kind, destination, 100);
                let ip_len = template.least_len() + extra;
                let (template, frame) = written(kind, destination, ip_len);
                let parsed = parse::parse(&frame).unwrap();
                let parse::Network::Ip(ip) = parsed.network else { panic!("{parsed:?}") };
                assert_eq!(ip.ip_len, ip_len);
                let packet = &frame[14..14 + ip_len];
                let header = wire::IpHeader::read(packet).unwrap();
                let pseudo = wire::pseudo_header(
                    header.addresses(packet),
                    header.protocol,
                    ip_len - header.len,
                );
                assert_eq!(wire::checksum(pseudo + wire::sum(&packet[header.len..])), 0, "{kind}");
                assert_eq!(template.link_len(), 14);
            }
        }
    }

    #[test]
    fn a_short_packet_is_padded() {
        let (template, frame) = written("tcp", "203.0.113.1", 40);
        assert_eq!((template.least_len(), frame.len()), (40, 60));
        assert_eq!(frame[54..], [0xa5; 6]);
    }

    #[test]
    fn two_fragments_carry_all_of_the_datagram() {
        let (_, frame) = written("udp-fragments", "203.0.113.1", 100);
        let [first, second] = fragments(&frame, 14);
        assert_eq!(first[14..18], [0x45, 0, 0, 60]);
        assert_eq!(first[20..22], [0x20, 0]);
        assert_eq!(second[20..22], [0, 5]);
        let whole = [&first[34..74], &second[34..34 + 40]].concat();
        assert_eq!(whole, frame[34..114]);
        assert!(matches!(parse::parse(&first), Err(parse::ParseError::Fragment)));
    }
}
