//! Offsets and checksums, written apart from `lodestone::packet`: what checks the appliance shall
//! not share its mistakes.

use std::net::IpAddr;

/// Ethernet header.
pub const ETHERNET: usize = 14;
/// IPv4 header without options.
pub const IPV4: usize = 20;
/// IPv6 header.
pub const IPV6: usize = 40;
/// TCP header without options.
pub const TCP: usize = 20;
/// UDP header.
pub const UDP: usize = 8;
/// The shortest frame of Ethernet, less the check sequence that the device adds.
pub const SHORTEST_FRAME: usize = 60;

/// IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// TCP control bits (RFC 9293 §3.1).
pub const FIN: u8 = 0x01;
/// Opens a connection.
pub const SYN: u8 = 0x02;
/// Breaks a connection off.
pub const RST: u8 = 0x04;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;

/// Whether a TCP segment asks for a new connection: SYN, and neither ACK, RST nor FIN.
pub const fn opens(flags: u8) -> bool {
    flags & (SYN | ACK | RST | FIN) == SYN
}

/// A sum of 16-bit words in ones' complement (RFC 1071), not folded.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_be_bytes(last));
    sum
}

/// Folds a sum into 16 bits and complements it: a checksum.
#[inline]
pub const fn checksum(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

/// The sum of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1); `addresses` are both addresses as
/// they stand in the IP header.
#[inline]
pub fn pseudo_header(addresses: &[u8], protocol: u8, len: usize) -> u64 {
    sum(addresses) + u64::from(protocol) + len as u64
}

/// A 16-bit number of a packet; 0 behind its end.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}

/// A 32-bit number of a packet; 0 behind its end.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
}

/// Writes an address over the bytes from `at` on.
#[inline]
pub fn put_address(bytes: &mut [u8], at: usize, address: IpAddr) {
    match address {
        IpAddr::V4(address) => bytes[at..at + 4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes[at..at + 16].copy_from_slice(&address.octets()),
    }
}

/// The IP header of a packet, as far as a generator looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Version 6, else 4.
    pub is_ipv6: bool,
    /// Bytes to the upper layer.
    pub len: usize,
    /// The packet's length by its header.
    pub total_len: usize,
    /// The upper layer.
    pub protocol: u8,
    /// It is a part of a datagram that was cut up.
    pub is_fragment: bool,
}

impl IpHeader {
    /// Reads the header of a packet; `None` if it is no whole IPv4 packet or IPv6 packet without
    /// extension headers.
    pub fn read(packet: &[u8]) -> Option<Self> {
        let header = match packet.first()? >> 4 {
            4 => Self {
                is_ipv6: false,
                len: usize::from(packet[0] & 15) * 4,
                total_len: u16_at(packet, 2).into(),
                protocol: *packet.get(9)?,
                is_fragment: u16_at(packet, 6) & 0x3fff != 0,
            },
            6 => Self {
                is_ipv6: true,
                len: IPV6,
                total_len: IPV6 + usize::from(u16_at(packet, 4)),
                protocol: *packet.get(6)?,
                is_fragment: packet[6] == 44,
            },
            _ => return None,
        };
        let is_whole = header.len >= IPV4
            && header.len <= header.total_len
            && header.total_len <= packet.len();
        is_whole.then_some(header)
    }

    /// Both addresses, as they stand in the header.
    pub fn addresses<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        if self.is_ipv6 { &packet[8..40] } else { &packet[12..20] }
    }

    /// Source and destination.
    pub fn ends(&self, packet: &[u8]) -> (IpAddr, IpAddr) {
        let both = self.addresses(packet);
        let (source, destination) = both.split_at(both.len() / 2);
        let address = |bytes: &[u8]| match <[u8; 4]>::try_from(bytes) {
            Ok(four) => IpAddr::from(four),
            Err(_) => IpAddr::from(<[u8; 16]>::try_from(bytes).unwrap_or_default()),
        };
        (address(source), address(destination))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 1071 §3's example.
    #[test]
    fn the_sum_is_that_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(sum(&bytes)), !0xddf2);
        assert_eq!(checksum(sum(&bytes[..7])), !0xdcfb, "an odd byte is the high half of a word");
        assert_eq!(checksum(0), 0xffff);
        assert_eq!(checksum(u64::from(u32::MAX) * 400), 0);
    }

    #[test]
    fn only_a_bare_syn_opens() {
        assert!(opens(SYN) && opens(SYN | 0xc0));
        assert!(![0, ACK, SYN | ACK, SYN | RST, SYN | FIN, FIN, RST].into_iter().any(opens));
    }
}
