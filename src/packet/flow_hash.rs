//! The flow hash: SipHash-1-3 over a packed 5-tuple. `docs/flow-hash.md` defines it to the byte.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{FlowHash, FlowKey};

/// The 128-bit key of the flow hash; all appliances of a cluster share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FlowHashKey(pub [u8; 16]);

impl std::fmt::Debug for FlowHashKey {
    /// The key is a secret: who knows it can aim flows at one backend.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowHashKey(..)")
    }
}

/// The text is not a key. It does not show the text, which may be a secret with a typing mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseFlowHashKeyError {
    /// Another number of characters.
    #[error(
        "a flow hash key is 32 hex digits, and this one has {0} characters; `openssl rand -hex 16` makes one"
    )]
    Length(usize),
    /// A character that is no hex digit.
    #[error("a flow hash key is 32 hex digits, and character {0} of this one is none")]
    Digit(usize),
}

impl FromStr for FlowHashKey {
    type Err = ParseFlowHashKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut value: u128 = 0;
        for (place, character) in text.chars().enumerate() {
            let digit = character.to_digit(16).ok_or(ParseFlowHashKeyError::Digit(place + 1))?;
            value = value << 4 | u128::from(digit);
        }
        match text.len() {
            32 => Ok(Self(value.to_be_bytes())),
            other => Err(ParseFlowHashKeyError::Length(other)),
        }
    }
}

/// The packed message of an IPv4 flow, padded as SipHash wants it: 13 bytes, zeros, and the length
/// in the last byte, as two little-endian words.
pub type Ipv4Message = [u64; 2];
/// The packed message of an IPv6 flow: 37 bytes, zeros, and the length in the last byte.
pub type Ipv6Message = [u64; 5];

/// Packs an IPv4 5-tuple for [`FlowHashKey::hash_ipv4_burst`].
#[must_use]
#[inline]
pub const fn ipv4_message(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
) -> Ipv4Message {
    let source = u32::from_le_bytes(source.octets()) as u64;
    let destination = u32::from_le_bytes(destination.octets()) as u64;
    [source | destination << 32, last_word(source_port, destination_port, protocol, 13)]
}

/// Packs an IPv6 5-tuple for [`FlowHashKey::hash_ipv6_burst`].
#[must_use]
#[inline]
pub const fn ipv6_message(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
) -> Ipv6Message {
    let source = u128::from_le_bytes(source.octets());
    let destination = u128::from_le_bytes(destination.octets());
    #[expect(clippy::cast_possible_truncation, reason = "each half becomes a word")]
    [
        source as u64,
        (source >> 64) as u64,
        destination as u64,
        (destination >> 64) as u64,
        last_word(source_port, destination_port, protocol, 37),
    ]
}

/// Ports and protocol in network byte order, and the message's length modulo 256 in the top byte.
#[inline]
const fn last_word(source_port: u16, destination_port: u16, protocol: u8, len: u8) -> u64 {
    source_port.swap_bytes() as u64
        | (destination_port.swap_bytes() as u64) << 16
        | (protocol as u64) << 32
        | (len as u64) << 56
}

impl FlowHashKey {
    /// The hash of one flow.
    #[must_use]
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> FlowHash {
        match *flow {
            FlowKey::V4 { source, destination, source_port, destination_port, protocol } => self
                .hash_message(&ipv4_message(
                    source,
                    destination,
                    source_port,
                    destination_port,
                    protocol,
                )),
            FlowKey::V6 { source, destination, source_port, destination_port, protocol } => self
                .hash_message(&ipv6_message(
                    source,
                    destination,
                    source_port,
                    destination_port,
                    protocol,
                )),
        }
    }

    /// The hashes of a burst of IPv4 flows, made by [`ipv4_message`]. As many are computed as the
    /// shorter slice has places. A plain loop, which the compiler turns into AVX2: four at a time.
    #[inline]
    pub fn hash_ipv4_burst(&self, messages: &[Ipv4Message], out: &mut [FlowHash]) {
        self.hash_burst(messages, out);
    }

    /// The hashes of a burst of IPv6 flows, made by [`ipv6_message`]. As many are computed as the
    /// shorter slice has places.
    #[inline]
    pub fn hash_ipv6_burst(&self, messages: &[Ipv6Message], out: &mut [FlowHash]) {
        self.hash_burst(messages, out);
    }

    #[inline]
    fn hash_burst<const WORDS: usize>(&self, messages: &[[u64; WORDS]], out: &mut [FlowHash]) {
        for (message, hash) in messages.iter().zip(out) {
            *hash = self.hash_message(message);
        }
    }

    /// SipHash-1-3 (Aumasson and Bernstein) of a padded message: one round a word, three to finish.
    #[inline]
    fn hash_message<const WORDS: usize>(&self, message: &[u64; WORDS]) -> FlowHash {
        let key = u128::from_le_bytes(self.0);
        #[expect(clippy::cast_possible_truncation, reason = "each half of the key is a word")]
        let (key0, key1) = (key as u64, (key >> 64) as u64);
        // "somepseudorandomlygeneratedbytes".
        let mut state = [
            key0 ^ 0x736f_6d65_7073_6575,
            key1 ^ 0x646f_7261_6e64_6f6d,
            key0 ^ 0x6c79_6765_6e65_7261,
            key1 ^ 0x7465_6462_7974_6573,
        ];
        for &word in message {
            state[3] ^= word;
            state = round(state);
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        for _ in 0..3 {
            state = round(state);
        }
        FlowHash(state[0] ^ state[1] ^ state[2] ^ state[3])
    }
}

#[inline]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    a = a.rotate_left(32);
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.wrapping_add(d);
    d = d.rotate_left(21) ^ a;
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    c = c.rotate_left(32);
    [a, b, c, d]
}
