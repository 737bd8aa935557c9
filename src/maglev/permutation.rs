//! The order in which a member asks for slots.

use super::hash::{OFFSET_KEY, SKIP_KEY, siphash24};
use super::identity::Identity;

/// A walk over all slots of a table: `offset`, `offset + skip`, `offset + 2 skip`, … modulo its
/// size. The size is prime and `skip` in 1 ..= size − 1, hence coprime to it, so the first *size*
/// steps visit every slot once.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    table_size: u32,
    skip: u32,
    next: u32,
}

impl Permutation {
    /// The walk of the member with this identity. `table_size` is a prime.
    pub(super) fn of(identity: &Identity, table_size: u32) -> Self {
        let bytes = identity.as_bytes();
        Self::from_hashes(siphash24(OFFSET_KEY, bytes), siphash24(SKIP_KEY, bytes), table_size)
    }

    /// offset = h1 mod M, skip = h2 mod (M − 1) + 1 (the paper's §3.4).
    pub(super) fn from_hashes(offset_hash: u64, skip_hash: u64, table_size: u32) -> Self {
        let size = u64::from(table_size);
        let offset = below(offset_hash % size.max(1));
        let skip = below(skip_hash % size.saturating_sub(1).max(1)) + 1;
        Self::new(offset, skip, table_size)
    }

    /// The walk with these parameters: `offset` below `table_size`, `skip` in 1 ..= size − 1.
    pub(super) const fn new(offset: u32, skip: u32, table_size: u32) -> Self {
        debug_assert!(offset < table_size && 1 <= skip && skip < table_size);
        Self { table_size, skip, next: offset }
    }

    /// The next slot of the walk.
    #[inline]
    pub(super) const fn step(&mut self) -> u32 {
        let slot = self.next;
        // `next + skip mod size` without the sum, which overflows for sizes above 2^31.
        let room = self.table_size - self.skip;
        self.next = if slot >= room { slot - room } else { slot + self.skip };
        slot
    }

    #[cfg(test)]
    pub(super) const fn skip(&self) -> u32 {
        self.skip
    }
}

/// A remainder modulo a table size fits its type.
fn below(remainder: u64) -> u32 {
    u32::try_from(remainder).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maglev::is_prime;

    fn first(mut walk: Permutation, steps: usize) -> Vec<u32> {
        std::iter::repeat_with(|| walk.step()).take(steps).collect()
    }

    /// The paper's Table 1.
    #[test]
    fn walks_of_the_worked_example() {
        assert_eq!(first(Permutation::new(3, 4, 7), 7), [3, 0, 4, 1, 5, 2, 6]);
        assert_eq!(first(Permutation::new(0, 2, 7), 7), [0, 2, 4, 6, 1, 3, 5]);
        assert_eq!(first(Permutation::new(3, 1, 7), 7), [3, 4, 5, 6, 0, 1, 2]);
    }

    #[test]
    fn skip_is_never_zero_nor_the_size() {
        for size in [2, 3, 7, 65_537, 655_373, 4_294_967_291] {
            let m = u64::from(size);
            for hash in [0, 1, m - 2, m - 1, m, u64::MAX - 1, u64::MAX] {
                let walk = Permutation::from_hashes(hash, hash, size);
                assert!((1..size).contains(&walk.skip()), "size {size}, hash {hash}");
                assert_eq!(u64::from(walk.next), hash % m);
            }
        }
    }

    #[test]
    fn walk_visits_every_slot_once() {
        let primes: Vec<u32> = (2..2_000).filter(|&size| is_prime(size)).collect();
        bolero::check!().with_type::<(u64, u64, u16)>().for_each(|&(h1, h2, pick)| {
            let size = primes[usize::from(pick) % primes.len()];
            let mut visited = first(Permutation::from_hashes(h1, h2, size), size as usize);
            visited.sort_unstable();
            assert!(visited.into_iter().eq(0..size));
        });
    }

    #[test]
    fn steps_do_not_overflow_in_the_largest_table() {
        let size = 4_294_967_291; // the largest prime below 2^32
        let mut walk = Permutation::new(size - 1, size - 1, size);
        assert_eq!([walk.step(), walk.step(), walk.step()], [size - 1, size - 2, size - 3]);
    }
}
