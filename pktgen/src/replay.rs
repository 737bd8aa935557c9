//! Captures that are sent again, to the profile's destination and to nobody else.

use std::fs::File;
use std::io::BufReader;
use std::net::IpAddr;

use anyhow::{Context, bail, ensure};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;

use crate::frame::{LinkAddresses, put_checksums};
use crate::prebuilt::Prebuilt;
use crate::profile::Replay;
use crate::random::mix;
use crate::tuples::{host_address, host_count};
use crate::wire::{self, IpHeader};

/// What became of a capture's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Packets that are sent.
    pub taken: u64,
    /// Packets of another IP version than the destination's, of no IP at all, or that the capture
    /// has not whole.
    pub left_out: u64,
}

/// Reads a capture and rewrites its packets: link-layer addresses, destination, and what the profile
/// says of ports and sources. Checksums are made anew.
///
/// # Errors
/// It is no capture of Ethernet frames, it breaks off, or nothing in it can be sent.
pub fn read(
    replay: &Replay,
    addresses: &LinkAddresses,
    is_encapsulated: bool,
) -> anyhow::Result<(Prebuilt, Read)> {
    let name = replay.file.display();
    let file =
        File::open(&replay.file).with_context(|| format!("capture {name} cannot be read"))?;
    let mut reader = PcapReader::new(BufReader::new(file)).with_context(|| {
        format!("{name} is no pcap capture (convert others with editcap -F pcap)")
    })?;
    ensure!(
        reader.header().datalink == DataLink::ETHERNET,
        "{name} was captured on no Ethernet; capture on an Ethernet interface"
    );
    let mut prebuilt = Prebuilt::empty(is_encapsulated);
    let mut counts = Read::default();
    while let Some(packet) = reader.next_packet() {
        let number = counts.taken + counts.left_out + 1;
        let packet = packet.with_context(|| format!("{name} is broken at its packet {number}"))?;
        let is_whole = packet.orig_len as usize == packet.data.len();
        let frame = is_whole.then(|| rewritten(&packet.data, replay, addresses)).flatten();
        match frame {
            Some(frame) => {
                counts.taken += 1;
                if !prebuilt.add(&frame) {
                    bail!("{name} is larger than 1 GiB; cut it with editcap -c");
                }
            }
            None => counts.left_out += 1,
        }
    }
    ensure!(
        counts.taken > 0,
        "{name} has no whole packet of the destination's IP version; nothing can be sent"
    );
    Ok((prebuilt, counts))
}

/// A frame with its new addresses; `None` if it is no packet that can have them.
fn rewritten(frame: &[u8], replay: &Replay, addresses: &LinkAddresses) -> Option<Vec<u8>> {
    let (ethertype, at) = match wire::u16_at(frame, 12) {
        0x8100 => (wire::u16_at(frame, 16), 18),
        other => (other, 14),
    };
    let packet = frame.get(at..)?;
    let header = IpHeader::read(packet)?;
    if header.is_ipv6 != replay.destination.is_ipv6() {
        return None;
    }
    let mut new = Vec::with_capacity(frame.len() + 4);
    new.extend(addresses.destination.0);
    new.extend(addresses.source.0);
    if let Some(vlan) = addresses.vlan {
        new.extend([0x81, 0x00]);
        new.extend(vlan.to_be_bytes());
    }
    new.extend(ethertype.to_be_bytes());
    let link_len = new.len();
    // Without what Ethernet padded it with.
    new.extend(&packet[..header.total_len]);
    let packet = &mut new[link_len..];
    let (source_at, destination_at) = if header.is_ipv6 { (8, 24) } else { (12, 16) };
    if let Some(prefix) = replay.source {
        let (source, _) = header.ends(packet);
        wire::put_address(packet, source_at, mapped(source, prefix));
    }
    wire::put_address(packet, destination_at, replay.destination);
    let upper = match header.protocol {
        wire::PROTOCOL_TCP => Some((wire::TCP, true)),
        wire::PROTOCOL_UDP => Some((wire::UDP, false)),
        _ => None,
    };
    let upper = upper.filter(|(len, _)| !header.is_fragment && packet.len() >= header.len + len);
    if let Some((_, is_tcp)) = upper {
        if let Some(port) = replay.port {
            let ports = header.len + 2..header.len + 4;
            packet[ports].copy_from_slice(&port.to_be_bytes());
        }
        put_checksums(packet, header.len, is_tcp);
    } else if !header.is_ipv6 {
        packet[10..12].fill(0);
        let sum = wire::checksum(wire::sum(&packet[..header.len])).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
    }
    new.resize(new.len().max(wire::SHORTEST_FRAME), 0);
    Some(new)
}

/// An address of `prefix` for a source: the same for the same source.
fn mapped(source: IpAddr, prefix: ipnet::IpNet) -> IpAddr {
    let number = match source {
        IpAddr::V4(source) => u64::from(source.to_bits()),
        IpAddr::V6(source) => (source.to_bits() >> 64) as u64 ^ mix(source.to_bits() as u64),
    };
    host_address(prefix, mix(number) % host_count(prefix))
}

#[cfg(test)]
mod tests {
    use lodestone::packet::{Builder, FlowKey, MacAddress, TcpFlags, parse};
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    use std::time::Duration;

    use super::*;

    fn addresses() -> LinkAddresses {
        LinkAddresses { source: MacAddress([2; 6]), destination: MacAddress([4; 6]), vlan: None }
    }

    fn builder() -> Builder {
        Builder::ethernet(MacAddress([6; 6]), MacAddress([8; 6]))
    }

    fn capture(frames: &[Vec<u8>]) -> (tempfile::TempDir, Replay) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.pcap");
        let mut writer = PcapWriter::new(File::create(&file).unwrap()).unwrap();
        for frame in frames {
            let packet = PcapPacket::new(Duration::ZERO, frame.len() as u32, frame);
            writer.write_packet(&packet).unwrap();
        }
        let destination = [203, 0, 113, 1].into();
        (folder, Replay { file, destination, port: Some(80), source: None })
    }

    #[test]
    fn packets_go_to_the_destination_and_to_nobody_else() {
        let v4 = || builder().ipv4([10, 0, 0, 1].into(), [8, 8, 8, 8].into());
        let frames = [
            v4().tcp(1000, 443, TcpFlags::ACK).payload(b"abc").build(),
            v4().udp(1000, 53).payload(b"abcd").build(),
            builder()
                .ipv6("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
                .udp(1, 2)
                .build(),
            vec![0; 60],
        ];
        let (_folder, mut replay) = capture(&frames);
        replay.source = Some("198.51.100.0/24".parse().unwrap());
        let (mut prebuilt, counts) = read(&replay, &addresses(), true).unwrap();
        assert_eq!(counts, Read { taken: 2, left_out: 2 });
        for _ in 0..2 {
            let frame = prebuilt.next_frame().to_vec();
            let parsed = parse::parse(&frame).unwrap();
            assert_eq!(parsed.link.destination, MacAddress([4; 6]));
            let parse::Network::Ip(ip) = parsed.network else { panic!() };
            let FlowKey::V4 { source, destination, destination_port, .. } = ip.flow else {
                panic!()
            };
            assert_eq!((destination.octets(), destination_port), ([203, 0, 113, 1], 80));
            assert_eq!(source.octets()[..3], [198, 51, 100]);
            let packet = &frame[14..14 + ip.ip_len];
            let header = IpHeader::read(packet).unwrap();
            let pseudo =
                wire::pseudo_header(header.addresses(packet), header.protocol, ip.ip_len - 20);
            assert_eq!(wire::checksum(pseudo + wire::sum(&packet[20..])), 0);
        }
    }

    #[test]
    fn a_broken_capture_is_one_sentence() {
        let frame = builder().ipv4([10, 0, 0, 1].into(), [8, 8, 8, 8].into()).udp(1, 2).build();
        let (_folder, replay) = capture(&[frame.clone(), frame]);
        let error = |replay: &Replay| {
            let error = read(replay, &addresses(), true).err().unwrap();
            let text = format!("{error:#}");
            assert!(!text.contains('\n'), "{text}");
            text
        };
        let bytes = std::fs::read(&replay.file).unwrap();
        std::fs::write(&replay.file, &bytes[..bytes.len() - 5]).unwrap();
        assert!(error(&replay).contains("broken at its packet 2"), "{}", error(&replay));
        std::fs::write(&replay.file, b"no capture at all").unwrap();
        assert!(error(&replay).contains("is no pcap capture"));
        std::fs::write(&replay.file, &bytes[..24]).unwrap();
        assert!(error(&replay).contains("no whole packet"));
        std::fs::remove_file(&replay.file).unwrap();
        assert!(error(&replay).contains("cannot be read"));
    }
}
