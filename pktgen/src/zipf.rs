//! Zipf's law: the k-th most popular flow is asked for with a frequency of 1 / k^s.
//!
//! Sampled by rejection and inversion (Hörmann and Derflinger, *Rejection-inversion to generate
//! variates from monotone discrete distributions*, 1996): constant time and memory, whatever the
//! number of flows.

use crate::random::Random;

/// A Zipf distribution over `0..count`.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// `h(1.5) − 1`, where the inversion starts.
    low: f64,
    /// `h(count + 0.5)`, where it ends.
    high: f64,
    /// Below this distance a candidate is taken without a look at the density.
    shortcut: f64,
}

impl Zipf {
    /// The distribution over `count` ranks with this exponent, which is above 0.
    pub fn new(count: u32, exponent: f64) -> Self {
        let count = f64::from(count.max(1));
        let mut zipf = Self { count, exponent, low: 0.0, high: 0.0, shortcut: 0.0 };
        zipf.low = zipf.area(1.5) - 1.0;
        zipf.high = zipf.area(count + 0.5);
        zipf.shortcut = 2.0 - zipf.rank_at(zipf.area(2.5) - 2_f64.powf(-exponent));
        zipf
    }

    /// A rank, from 0.
    #[inline]
    pub fn sample(&self, random: &mut Random) -> u32 {
        loop {
            let at = self.high + random.unit() * (self.low - self.high);
            let exact = self.rank_at(at);
            let rank = exact.round().clamp(1.0, self.count);
            if rank - exact <= self.shortcut
                || at >= self.area(rank + 0.5) - rank.powf(-self.exponent)
            {
                return rank as u32 - 1;
            }
        }
    }

    /// The integral of x^−s, up to a constant.
    fn area(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    /// The inverse of [`Self::area`].
    fn rank_at(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { (1.0 + area * power).powf(power.recip()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for exponent in [0.8, 1.0, 1.2] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = Random::new(3);
            let mut seen = vec![0_u32; 1000];
            for _ in 0..400_000 {
                seen[zipf.sample(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1_u32, 2, 5, 20] {
                let expected = 400_000.0 * f64::from(rank).powf(-exponent) / total;
                let had = f64::from(seen[rank as usize - 1]);
                assert!((had / expected - 1.0).abs() < 0.08, "{exponent} {rank}: {had} {expected}");
            }
        }
    }

    #[test]
    fn one_flow_is_always_the_first() {
        let mut random = Random::new(1);
        assert!((0..100).all(|_| Zipf::new(1, 1.1).sample(&mut random) == 0));
    }
}
