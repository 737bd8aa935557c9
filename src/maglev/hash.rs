//! The stable hash behind the tables: SipHash-2-4 under two fixed, public keys.
//!
//! It spreads identities, it keeps no secret: all appliances must get the same tables, and nobody
//! but the operator chooses an identity. The flow hash, whose input strangers choose, is another
//! function under a secret key. This one must never change, or an upgrade of one appliance would
//! move most flows of a cluster; so it is spelled out here and does not come from a library.
//!
//! To the byte (Aumasson and Bernstein, *SipHash: a fast short-input PRF*, 2012): the key is two
//! little-endian 64-bit words; the message is cut into little-endian 64-bit words, the last one
//! padded with zeros and closed by the message's length modulo 256 in its top byte; two rounds a
//! word, four at the end; the result is one 64-bit number.

/// Key of the hash that gives a member's offset: the ASCII bytes `lodestone-offset`.
pub(super) const OFFSET_KEY: [u8; 16] = *b"lodestone-offset";

/// Key of the hash that gives a member's skip: the ASCII bytes `lodestone-skip` and two zeros.
pub(super) const SKIP_KEY: [u8; 16] = *b"lodestone-skip\0\0";

/// The SipHash-2-4 of `message` under `key`.
pub(super) fn siphash24(key: [u8; 16], message: &[u8]) -> u64 {
    let [k0, k1] = split(key);
    let mut state = State::new(k0, k1);
    let (words, tail) = message.as_chunks::<8>();
    for &word in words {
        state.absorb(u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    let length = (message.len() as u64) << 56;
    state.absorb(u64::from_le_bytes(last) | length);
    state.finish()
}

/// The key's two words.
const fn split(key: [u8; 16]) -> [u64; 2] {
    let both = u128::from_le_bytes(key);
    #[expect(clippy::cast_possible_truncation, reason = "one half each is what is asked for")]
    [both as u64, (both >> 64) as u64]
}

struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    const fn new(k0: u64, k1: u64) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);

        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    fn finish(mut self) -> u64 {
        self.v2 ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last of the vectors in the paper's appendix and reference code: key 00..0f,
    /// message 00, 01, … of 0, 15 and 63 bytes.
    #[test]
    fn matches_the_published_vectors() {
        let key: [u8; 16] = std::array::from_fn(|place| u8::try_from(place).unwrap());
        let message: Vec<u8> = (0..63).collect();
        assert_eq!(siphash24(key, &message[..0]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash24(key, &message[..15]), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash24(key, &message[..63]), 0x958a_324c_eb06_4572);
    }

    #[test]
    fn equals_an_independent_implementation() {
        bolero::check!().with_type::<([u8; 16], Vec<u8>)>().for_each(|(key, message)| {
            let other = siphasher::sip::SipHasher24::new_with_key(key).hash(message);
            assert_eq!(siphash24(*key, message), other);
        });
    }
}
