//! Jitter: spreads what would otherwise happen at once. Seeded, so that a run can be repeated.

use std::time::Duration;

/// A source of spread-out durations (`SplitMix64`). Not for secrets.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// The source that `seed` starts.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A duration in `low..high`, uniformly; `low` if the range is empty.
    #[must_use]
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let Some(width) = high.checked_sub(low) else { return low };
        // The high half of the product of a 64-bit fraction and the width: below the width. The
        // quotient of a u128 shifted by 64 fits in 64 bits as long as the width is below 584 years.
        let width = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX);
        let nanoseconds = (u128::from(self.next()) * u128::from(width)) >> 64;
        low + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fill_their_range_and_repeat_with_the_seed() {
        let (low, high) = (Duration::from_millis(200), Duration::from_millis(300));
        let mut jitter = Jitter::new(7);
        let drawn: Vec<_> = (0..1000).map(|_| jitter.between(low, high)).collect();
        assert!(drawn.iter().all(|drawn| (low..high).contains(drawn)));
        for tenth in 0..10 {
            let from = low + Duration::from_millis(10) * tenth;
            let hits = drawn
                .iter()
                .filter(|drawn| (from..from + Duration::from_millis(10)).contains(drawn));
            assert!((60..140).contains(&hits.count()), "tenth {tenth}");
        }
        let mut again = Jitter::new(7);
        assert!(drawn.iter().all(|&drawn| drawn == again.between(low, high)));
        assert_eq!(jitter.between(high, low), high);
        assert_eq!(jitter.between(low, low), low);
    }
}
