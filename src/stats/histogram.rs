//! How long bursts took: a histogram of fixed size with four buckets an octave.

use super::Counter;

/// Below so many cycles there is one bucket.
const FIRST_BOUND: u64 = 1 << FIRST_OCTAVE;
const FIRST_OCTAVE: usize = 6;
/// From so many cycles on (2^30: 0.3 to 0.5 s) there is one bucket.
const LAST_OCTAVE: usize = 30;
/// Buckets in which the values from one power of two to the next are counted.
const PER_OCTAVE: usize = 4;

/// Cycles by the latency of bursts, from the return of the receive to the end of the transmit. A
/// bucket is at most a quarter wider than its lower bound, so a quantile is read to 25 %.
///
/// Bucket 0 holds what took less than 64 cycles; from there each octave has four buckets of equal
/// width up to 2^30 cycles, and the last bucket holds the rest. [`Self::bounds`] says where each
/// begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Bursts by bucket.
    pub counts: [u64; Self::BUCKETS],
    /// Cycles of all bursts together.
    pub sum: u64,
    /// The longest burst since start, in cycles.
    pub max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; Self::BUCKETS], sum: 0, max: 0 }
    }
}

impl Histogram {
    /// How many buckets there are.
    pub const BUCKETS: usize = (LAST_OCTAVE - FIRST_OCTAVE) * PER_OCTAVE + 2;

    /// The bucket of a value, below [`Self::BUCKETS`].
    #[must_use]
    #[inline]
    pub const fn bucket(cycles: u64) -> usize {
        if cycles < FIRST_BOUND {
            return 0;
        }
        let octave = cycles.ilog2() as usize;
        if octave >= LAST_OCTAVE {
            return Self::BUCKETS - 1;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 4")]
        let quarter = (cycles >> (octave - 2) & (PER_OCTAVE as u64 - 1)) as usize;
        1 + (octave - FIRST_OCTAVE) * PER_OCTAVE + quarter
    }

    /// The least number of cycles that a bucket holds, and the least that is too much for it: `None`
    /// for the last bucket, and for all beyond it.
    #[must_use]
    pub const fn bounds(bucket: usize) -> (u64, Option<u64>) {
        let end = if bucket + 1 < Self::BUCKETS { Some(Self::start(bucket + 1)) } else { None };
        (Self::start(bucket), end)
    }

    const fn start(bucket: usize) -> u64 {
        let Some(place) = bucket.checked_sub(1) else { return 0 };
        let place = if bucket < Self::BUCKETS { place } else { Self::BUCKETS - 2 };
        let (octave, quarter) = (FIRST_OCTAVE + place / PER_OCTAVE, place % PER_OCTAVE);
        ((PER_OCTAVE + quarter) as u64) << (octave - 2)
    }

    /// How many bursts were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.wrapping_add(count))
    }

    /// In how many cycles `part` of `whole` bursts were done at the most, as in `quantile(9_999,
    /// 10_000)`: the end of the bucket that holds this burst, but not above [`Self::max`]. 0 if
    /// nothing was counted.
    #[must_use]
    pub fn quantile(&self, part: u64, whole: u64) -> u64 {
        let all = u128::from(self.count());
        let rank = (all * u128::from(part)).div_ceil(u128::from(whole.max(1)));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen != 0 && seen >= rank {
                let end = Self::bounds(bucket).1.unwrap_or(u64::MAX);
                return end.saturating_sub(1).min(self.max);
            }
        }
        0
    }

    /// Adds another worker's bursts.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.wrapping_add(*count);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.max = self.max.max(other.max);
    }
}

/// The histogram as the worker writes it. Written by: the worker. Read by: management.
#[derive(Debug)]
pub(super) struct HistogramCells {
    counts: [Counter; Histogram::BUCKETS],
    sum: Counter,
    max: Counter,
}

impl Default for HistogramCells {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Counter::default()),
            sum: Counter::default(),
            max: Counter::default(),
        }
    }
}

impl HistogramCells {
    #[inline]
    pub fn record(&self, cycles: u64) {
        if let Some(counter) = self.counts.get(Histogram::bucket(cycles)) {
            counter.add(1);
        }
        self.sum.add(cycles);
        if cycles > self.max.read() {
            self.max.set(cycles);
        }
    }

    pub fn read(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|bucket| self.counts.get(bucket).map_or(0, Counter::read)),
            sum: self.sum.read(),
            max: self.max.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_and_hold_what_their_bounds_say() {
        let mut end = 0;
        for bucket in 0..Histogram::BUCKETS {
            let (start, next) = Histogram::bounds(bucket);
            assert_eq!(start, end, "bucket {bucket} begins where the one before ends");
            assert_eq!(Histogram::bucket(start), bucket);
            if let Some(next) = next {
                assert_eq!(Histogram::bucket(next - 1), bucket);
                assert!(bucket == 0 || (next - start) * 4 <= start, "bucket {bucket} is wide");
                end = next;
            }
        }
        assert_eq!(end, 1 << 30);
        assert_eq!(Histogram::bounds(Histogram::BUCKETS - 1), (1 << 30, None));
        assert_eq!(Histogram::bounds(usize::MAX - 1), (1 << 30, None));
        assert_eq!(Histogram::bounds(1), (64, Some(80)));
        assert_eq!(Histogram::bucket(u64::MAX), Histogram::BUCKETS - 1);
    }

    #[test]
    fn any_value_is_within_the_bounds_of_its_bucket() {
        bolero::check!().with_type::<(u64, u8)>().for_each(|&(value, shift)| {
            let value = value >> (shift % 64);
            let (start, end) = Histogram::bounds(Histogram::bucket(value));
            assert!(start <= value && end.is_none_or(|end| value < end), "{value}");
        });
    }

    #[test]
    fn a_quantile_is_its_buckets_end_and_never_above_the_longest() {
        let cells = HistogramCells::default();
        for _ in 0..9_999 {
            cells.record(70);
        }
        cells.record(5_000);
        let mut histogram = cells.read();
        assert_eq!((histogram.count(), histogram.sum, histogram.max), (10_000, 704_930, 5_000));
        assert_eq!(histogram.quantile(1, 2), 79);
        assert_eq!(histogram.quantile(9_999, 10_000), 79);
        assert_eq!(histogram.quantile(1, 1), 5_000);
        assert_eq!(Histogram::default().quantile(1, 2), 0);
        histogram.add(&Histogram { max: 9_000, ..Histogram::default() });
        assert_eq!((histogram.count(), histogram.max), (10_000, 9_000));
    }
}
