//! How many slots each weight gets.

use std::cmp::Reverse;

/// The number of slots for each of `weights`, in their order; together `table_size`. All zero if
/// no weight is above zero.
///
/// In every round each member adds `weight / largest weight` to its credit, and takes a turn when
/// its credit has grown by a whole turn: after `k` rounds it has had `⌊k · weight / largest⌋`. The
/// last round may have more turns than slots are left; then those furthest below their exact
/// share `weight · size / Σ weights` go first, and of equals the earlier ones.
///
/// So equal weights get `⌊size / n⌋` or `⌈size / n⌉`, scaling all weights changes nothing, and
/// nobody gets less than his exact share rounded down. What that rounding leaves goes to the heavier
/// ones; a member whose exact share is below one slot may get none. Integers only: the result is
/// the same on every machine.
pub(super) fn allot(weights: &[u32], table_size: u32) -> Vec<u32> {
    let Some(largest) = weights.iter().copied().max().filter(|&largest| largest > 0) else {
        return vec![0; weights.len()];
    };
    let turns = Turns { largest };
    let size = u64::from(table_size);

    // The first round after which no slot is left. The heaviest takes a turn a round: it exists.
    let all_after = |rounds: u32| -> u64 {
        weights.iter().map(|&weight| u64::from(turns.after(rounds, weight))).sum()
    };
    let (mut low, mut last_round) = (0, table_size);
    while low < last_round {
        let middle = low + (last_round - low) / 2;
        if all_after(middle) < size { low = middle + 1 } else { last_round = middle }
    }

    let before = last_round.saturating_sub(1);
    let mut slots: Vec<u32> = weights.iter().map(|&weight| turns.after(before, weight)).collect();
    let left = size - all_after(before);

    let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let exact = |weight: u32| u128::from(weight) * u128::from(table_size);
    let mut takers: Vec<usize> = (0..weights.len())
        .filter(|&place| turns.after(last_round, weights[place]) > slots[place])
        .collect();
    // Exact share minus turns so far, times the sum of weights; signed, since it may be negative.
    takers.sort_by_key(|&place| {
        let had = u128::from(slots[place]) * total;
        Reverse(exact(weights[place]).cast_signed() - had.cast_signed())
    });
    for place in takers.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        slots[place] += 1;
    }
    slots
}

/// The rounds of a set of weights, of which this is the largest; not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    pub(super) largest: u32,
}

impl Turns {
    /// Turns of a member of this weight in the first `rounds` rounds; at most one a round.
    const fn after(self, rounds: u32, weight: u32) -> u32 {
        let turns = rounds as u64 * weight as u64 / self.largest as u64;
        #[expect(clippy::cast_possible_truncation, reason = "weight <= largest: at most `rounds`")]
        {
            turns as u32
        }
    }

    /// The round, from 1, of a member's `turn`th turn, from 1. `weight` is not zero.
    pub(super) const fn round_of(self, turn: u32, weight: u32) -> u64 {
        (turn as u64 * self.largest as u64).div_ceil(weight as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // L4-10
    #[test]
    fn weights_one_and_two() {
        assert_eq!(allot(&[1, 2], 65_537), [21_846, 43_691]);
        assert_eq!(allot(&[2, 1], 65_537), [43_691, 21_846]);
    }

    // L4-10: 26.67 %, 33.33 %, 40.00 %
    #[test]
    fn weights_four_five_six() {
        let exact = [4.0, 5.0, 6.0].map(|weight| weight * 65_537.0 / 15.0);
        let slots = allot(&[4, 5, 6], 65_537);
        assert_eq!(slots.iter().sum::<u32>(), 65_537);
        for (slots, exact) in slots.into_iter().zip(exact) {
            assert!((f64::from(slots) - exact).abs() < 1.0, "{slots} instead of {exact}");
        }
    }

    /// Exact shares: 15.0, 97.6, 833.3, 75.1.
    #[test]
    fn weights_far_apart() {
        assert_eq!(allot(&[2, 13, 111, 10], 1_021), [15, 97, 834, 75]);
        assert_eq!(allot(&[111, 10, 13, 2], 1_021), [834, 75, 97, 15]);
    }

    // L4-08
    #[test]
    fn equal_weights_differ_by_one_and_the_first_have_more() {
        for members in [1_u32, 2, 3, 5, 10, 50, 100, 256, 500, 1_000] {
            let slots = allot(&vec![7; members as usize], 65_537);
            let (share, rest) = (65_537 / members, 65_537 % members);
            for (place, slots) in (0..).zip(slots) {
                assert_eq!(slots, share + u32::from(place < rest));
            }
        }
    }

    #[test]
    fn nothing_to_share() {
        assert!(allot(&[], 7).is_empty());
        assert_eq!(allot(&[0, 0], 7), [0, 0]);
        assert_eq!(allot(&[0, 3, 0], 7), [0, 7, 0]);
    }

    #[test]
    fn extreme_weights_do_not_overflow() {
        let size = 4_294_967_291;
        assert_eq!(allot(&[u32::MAX, u32::MAX], size), [size / 2 + 1, size / 2]);
        assert_eq!(allot(&[1, u32::MAX], size), [0, size]);
    }

    #[test]
    fn everyone_gets_his_exact_share_rounded_down_and_scale_does_not_matter() {
        bolero::check!().with_type::<(Vec<u16>, u16, u8)>().for_each(|(weights, size, scale)| {
            let weights: Vec<u32> = weights.iter().copied().map(u32::from).collect();
            let size = u32::from(*size) + 1;
            let slots = allot(&weights, size);
            let total: u64 = weights.iter().copied().map(u64::from).sum();
            if total == 0 {
                assert!(slots.iter().all(|&slots| slots == 0));
                return;
            }
            assert_eq!(slots.iter().sum::<u32>(), size);
            for (&weight, &slots) in weights.iter().zip(&slots) {
                let floor = u64::from(weight) * u64::from(size) / total;
                assert!(u64::from(slots) >= floor, "weight {weight}: {slots} < {floor}");
                assert!(weight > 0 || slots == 0);
            }
            let scale = u32::from(*scale) + 1;
            let scaled: Vec<u32> = weights.iter().map(|weight| weight * scale).collect();
            assert_eq!(allot(&scaled, size), slots);
        });
    }
}
