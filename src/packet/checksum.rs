//! The Internet checksum (RFC 1071): sums that can be cut in parts, and updates of a field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A partial one's complement sum. Parts may be added in any order, each of an even length but the
/// last one (RFC 1071 §2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum so far and one 16-bit word.
    #[must_use]
    #[inline]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// The sum so far and `bytes`. A last odd byte counts as if a zero byte followed.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // A 32-bit word counts as its two halves, since 2^16 is 1 modulo 2^16 - 1.
        let (words, tail) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum += u64::from(u32::from_be_bytes(*word));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        sum += u64::from(u32::from_be_bytes(last));
        // Folded once, the sum stays below 2^33, however many parts are added.
        Self((sum >> 32) + (sum & 0xffff_ffff))
    }

    /// The 16-bit sum, not complemented.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits before")]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        sum as u16
    }

    /// What belongs into the checksum field, if that field was summed as 0.
    #[must_use]
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether data that was summed together with its checksum field is intact.
    #[must_use]
    #[inline]
    pub const fn is_intact(self) -> bool {
        self.fold() == 0xffff
    }
}

/// The checksum of `bytes`, whose checksum field is 0.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::ZERO.bytes(bytes).checksum()
}

/// The sum of the IPv4 pseudo header (RFC 9293 §3.1): `len` bytes of upper-layer data.
#[must_use]
pub fn pseudo_header_ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    Sum::ZERO
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(protocol))
        .word(len)
}

/// The sum of the IPv6 pseudo header (RFC 8200 §8.1): `len` bytes of upper-layer data.
#[must_use]
pub fn pseudo_header_ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    Sum::ZERO
        .bytes(&source.octets())
        .bytes(&destination.octets())
        .word(u16::from(protocol))
        .bytes(&len.to_be_bytes())
}

/// The sum of the pseudo header of the addresses' family. `None` if they are of two families, or
/// if `len` does not fit the family's field.
#[must_use]
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Option<Sum> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Some(pseudo_header_ipv4(source, destination, protocol, u16::try_from(len).ok()?))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Some(pseudo_header_ipv6(source, destination, protocol, u32::try_from(len).ok()?))
        }
        _ => None,
    }
}

/// The checksum after one summed 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
#[must_use]
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum(!checksum as u64 + !old as u64 + new as u64).checksum()
}

/// Whether an IPv4 header without options is intact. It is the parser's fast path: five loads.
#[must_use]
#[inline]
pub fn is_ipv4_header_intact(header: &[u8; 20]) -> bool {
    // The byte order of the machine does (RFC 1071 §2 B): 0xffff reads the same both ways.
    let (words, _) = header.as_chunks::<4>();
    let sum = words.iter().fold(0u64, |sum, word| sum + u64::from(u32::from_ne_bytes(*word)));
    Sum(sum).is_intact()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc_holds() {
        // RFC 1071 §3.
        let sum = Sum::ZERO.bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
        // RFC 1624 §4: the case that equation 4 gets wrong.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// Word by word, as RFC 1071 §1 puts it.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for word in bytes.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap()
    }

    #[test]
    fn parts_and_the_whole_have_one_sum() {
        bolero::check!().with_iterations(5_000).for_each(|bytes: &[u8]| {
            let whole = Sum::ZERO.bytes(bytes);
            assert_eq!(whole.fold(), slow(bytes));
            for cut in (0..bytes.len()).step_by(2) {
                let (front, back) = bytes.split_at(cut);
                assert_eq!(Sum::ZERO.bytes(back).bytes(front).fold(), whole.fold());
            }
        });
        assert_eq!(Sum::ZERO.bytes(&vec![0xff; 65_536]).fold(), 0xffff);
    }

    #[test]
    fn an_update_is_a_full_recomputation() {
        bolero::check!()
            .with_type::<([u8; 20], u8, u16)>()
            .with_iterations(20_000)
            .cloned()
            .for_each(|(mut bytes, place, new)| {
                // An all-zero message is the one whose sum has two representations; headers are
                // never all zero.
                bytes[0] = 0x45;
                let place = 2 + usize::from(place) % 9 * 2;
                let before = checksum(&bytes);
                let old = u16::from_be_bytes([bytes[place], bytes[place + 1]]);
                bytes[place..place + 2].copy_from_slice(&new.to_be_bytes());
                assert_eq!(update(before, old, new), checksum(&bytes));
            });
    }

    #[test]
    fn the_fast_path_agrees_with_the_sum() {
        bolero::check!().with_type::<([u8; 20], bool)>().with_iterations(20_000).cloned().for_each(
            |(mut header, right)| {
                if right {
                    header[10..12].fill(0);
                    let sum = checksum(&header);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                    assert!(is_ipv4_header_intact(&header));
                }
                assert_eq!(is_ipv4_header_intact(&header), Sum::ZERO.bytes(&header).is_intact());
            },
        );
    }
}
