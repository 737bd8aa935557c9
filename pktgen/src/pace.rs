//! When packets are due, by the time stamp counter.

use crate::random::Random;

/// How packets follow one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// At equal distances.
    Constant,
    /// At random distances, exponentially distributed: arrivals of a Poisson process.
    Poisson,
    /// So many at once, at equal distances between the bursts.
    Bursts(u32),
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Packets a second, above 0.
    pub packets_per_second: f64,
    /// How they follow one another.
    pub shape: Shape,
}

/// Says how many packets are due. Cycles count from its start.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: Option<Rate>,
    cycles_per_packet: f64,
    /// When the next packet is due; of [`Shape::Poisson`].
    next: f64,
    begun: u64,
    random: Random,
}

impl Pace {
    /// The pace of a rate, with a counter of `hz` cycles a second; without a rate a packet is always
    /// due.
    pub fn new(rate: Option<Rate>, hz: u64, seed: u64) -> Self {
        let cycles_per_packet = rate.map_or(0.0, |rate| hz as f64 / rate.packets_per_second);
        Self { rate, cycles_per_packet, next: 0.0, begun: 0, random: Random::new(seed) }
    }

    /// How many packets, `most` at the most, are to be sent now, `elapsed` cycles after the start.
    /// Those that are returned count as sent; what is late is caught up with.
    #[inline]
    pub fn due(&mut self, elapsed: u64, most: u64) -> u64 {
        let Some(rate) = self.rate else { return most };
        let elapsed = elapsed as f64;
        let due = match rate.shape {
            // The first is due at once.
            Shape::Constant => (elapsed / self.cycles_per_packet) as u64 + 1 - self.begun,
            Shape::Bursts(len) => {
                let len = u64::from(len.max(1));
                let bursts = (elapsed / (self.cycles_per_packet * len as f64)) as u64 + 1;
                bursts * len - self.begun
            }
            Shape::Poisson => {
                let mut due = 0;
                while due < most && self.next <= elapsed {
                    self.next -= (1.0 - self.random.unit()).ln() * self.cycles_per_packet;
                    due += 1;
                }
                due
            }
        };
        let due = due.min(most);
        self.begun += due;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_000_000_000;

    fn pace(shape: Shape) -> Pace {
        Pace::new(Some(Rate { packets_per_second: 1000.0, shape }), HZ, 1)
    }

    #[test]
    fn constant_packets_are_due_one_by_one() {
        let mut pace = pace(Shape::Constant);
        assert_eq!(pace.due(0, 32), 1);
        assert_eq!(pace.due(HZ / 1000 - 1, 32), 0);
        assert_eq!(pace.due(HZ / 1000, 32), 1);
        assert_eq!(pace.due(HZ, 32), 32, "what is late is caught up with, a burst at a time");
        assert_eq!(pace.due(HZ, 10_000), 1001 - 34);
    }

    #[test]
    fn bursts_come_whole() {
        let mut pace = pace(Shape::Bursts(10));
        assert_eq!(pace.due(0, 32), 10);
        assert_eq!(pace.due(HZ / 101, 32), 0);
        assert_eq!(pace.due(HZ / 100, 32), 10);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_its_variance() {
        let mut pace = pace(Shape::Poisson);
        let counts: Vec<_> =
            (1..=2000).map(|step| pace.due(step * HZ / 100, u64::MAX) as f64).collect();
        let mean = counts.iter().sum::<f64>() / 2000.0;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 2000.0;
        assert!((mean - 10.0).abs() < 0.3, "{mean}");
        assert!((variance / mean - 1.0).abs() < 0.15, "{variance}");
    }

    #[test]
    fn without_a_rate_there_is_always_one_due() {
        assert_eq!(Pace::new(None, HZ, 1).due(0, 32), 32);
    }
}
