//! What a verified packet says about itself, where no router looks: which flow it is of, the how
//! manieth of it, by which version of the expectation it was sent, and a digest of its headers.
//!
//! TCP has room in its header (sequence and acknowledgement numbers, window, urgent pointer), so
//! that the shortest segment is stamped too; UDP has the first 12 bytes of its payload. If there are
//! 8 more bytes they are the time stamp counter at sending.

use crate::random::mix;
use crate::wire::{self, IpHeader};

/// Flows of a run at most: 24 bits.
pub const FLOW_CAP: u32 = 1 << 24;

/// Bytes of UDP's payload that the stamp takes.
pub const UDP_STAMP: usize = 12;

/// The longest stretch that a digest covers: an IPv6 header, and UDP's or TCP's with the stamp.
const COVERED_CAP: usize = 64;

/// A stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The flow.
    pub flow: u32,
    /// Counts the flow's packets, from 1.
    pub sequence: u32,
    /// The oldest version of the expectation that may have been in force.
    pub version: u8,
}

/// Where things are in a packet, from its IP header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the IP header.
    pub ip: usize,
    /// The upper layer is TCP, else UDP.
    pub is_tcp: bool,
}

impl Layout {
    /// The layout of a packet that is stamped; `None` if it cannot be one.
    #[inline]
    pub fn of(header: &IpHeader) -> Option<Self> {
        let is_tcp = match header.protocol {
            wire::PROTOCOL_TCP => true,
            wire::PROTOCOL_UDP => false,
            _ => return None,
        };
        let layout = Self { ip: header.len, is_tcp };
        let is_plain = header.len == if header.is_ipv6 { wire::IPV6 } else { wire::IPV4 };
        (is_plain && header.total_len >= layout.body()).then_some(layout)
    }

    /// Where the stamp ends and the time stamp or the filling begins.
    #[inline]
    pub const fn body(self) -> usize {
        if self.is_tcp { self.ip + wire::TCP } else { self.ip + wire::UDP + UDP_STAMP }
    }

    /// Where the upper layer's checksum is.
    #[inline]
    pub const fn checksum(self) -> usize {
        if self.is_tcp { self.ip + 16 } else { self.ip + 6 }
    }

    #[inline]
    const fn sequence(self) -> usize {
        if self.is_tcp { self.ip + 4 } else { self.ip + wire::UDP }
    }
}

/// Writes a stamp into a packet whose headers are complete but for the checksums of IPv4 and the
/// upper layer. `seed` tells one run's packets from another's.
#[inline]
pub fn write(packet: &mut [u8], layout: Layout, stamp: Stamp, seed: u64) {
    let at = layout.sequence();
    packet[at..at + 4].copy_from_slice(&stamp.sequence.to_be_bytes());
    let word = stamp.flow << 8 | u32::from(stamp.version);
    packet[at + 4..at + 8].copy_from_slice(&word.to_be_bytes());
    let digest = digest(packet, layout, seed).to_be_bytes();
    for (place, byte) in digest_places(layout).into_iter().zip(digest) {
        packet[place] = byte;
    }
}

/// The stamp of a packet, if its digest is right.
#[inline]
pub fn read(packet: &[u8], layout: Layout, seed: u64) -> Option<Stamp> {
    let written = digest_places(layout).map(|place| packet[place]);
    if u32::from_be_bytes(written) != digest(packet, layout, seed) {
        return None;
    }
    let at = layout.sequence();
    let word = wire::u32_at(packet, at + 4);
    Some(Stamp {
        flow: word >> 8,
        sequence: wire::u32_at(packet, at),
        version: (word & 0xff) as u8,
    })
}

/// TCP: window and urgent pointer; UDP: behind the other two.
#[inline]
const fn digest_places(layout: Layout) -> [usize; 4] {
    let ip = layout.ip;
    if layout.is_tcp {
        [ip + 14, ip + 15, ip + 18, ip + 19]
    } else {
        [ip + 16, ip + 17, ip + 18, ip + 19]
    }
}

/// A digest of all headers and the stamp, without checksums and the digest itself.
#[inline]
fn digest(packet: &[u8], layout: Layout, seed: u64) -> u32 {
    let mut covered = [0; COVERED_CAP];
    let end = layout.body();
    covered[..end].copy_from_slice(&packet[..end]);
    if layout.ip == wire::IPV4 {
        covered[10..12].fill(0);
    }
    covered[layout.checksum()..layout.checksum() + 2].fill(0);
    for place in digest_places(layout) {
        covered[place] = 0;
    }
    let (words, _) = covered.as_chunks::<8>();
    let mut state = seed;
    for &word in words {
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
    }
    mix(state) as u32
}

#[cfg(test)]
mod tests {
    use lodestone::packet::{Builder, MacAddress, TcpFlags};

    use super::*;

    fn packets() -> Vec<Vec<u8>> {
        let builder = || Builder::ethernet(MacAddress([2; 6]), MacAddress([4; 6]));
        let v4 = || builder().ipv4([198, 51, 100, 7].into(), [203, 0, 113, 1].into());
        let v6 =
            || builder().ipv6("2001:db8::7".parse().unwrap(), "2001:db8:1::1".parse().unwrap());
        [
            v4().tcp(1025, 80, TcpFlags::SYN).build(),
            v6().tcp(1025, 80, TcpFlags::ACK).payload(&[1; 30]).build(),
            v4().udp(1025, 80).payload(&[0; 12]).build(),
            v6().udp(1025, 80).payload(&[0; 40]).build(),
        ]
        .map(|frame| frame[14..].to_vec())
        .to_vec()
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_every_byte_of_the_headers_counts() {
        for mut packet in packets() {
            let header = IpHeader::read(&packet).unwrap();
            let layout = Layout::of(&header).unwrap();
            let stamp = Stamp { flow: FLOW_CAP - 1, sequence: 77, version: 199 };
            write(&mut packet, layout, stamp, 5);
            assert_eq!(read(&packet, layout, 5), Some(stamp));
            assert_eq!(read(&packet, layout, 6), None, "another run's");
            let checksums = [10, 11, layout.checksum(), layout.checksum() + 1];
            for place in 0..layout.body() {
                let is_checksum = checksums.contains(&place) && (place > 11 || layout.ip == 20);
                packet[place] ^= 1;
                assert_eq!(read(&packet, layout, 5).is_some(), is_checksum, "byte {place}");
                packet[place] ^= 1;
            }
        }
    }
}
