//! Latencies, in an HDR histogram.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest that is told apart: ten seconds.
const LONGEST_NS: u64 = 10_000_000_000;

/// Latencies of packets.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    ns_per_cycle: f64,
}

/// What is said of them, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Packets with a time stamp.
    pub packets: u64,
    /// Half of them were faster.
    pub p50_ns: u64,
    /// 99 %.
    pub p99_ns: u64,
    /// 99.9 %.
    pub p999_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

impl Latency {
    /// None yet, by a counter of `hz` cycles a second.
    pub fn new(hz: u64) -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .unwrap_or_else(|_| unreachable_histogram());
        Self { histogram, ns_per_cycle: 1e9 / hz.max(1) as f64 }
    }

    /// Adds one.
    #[inline]
    pub fn record(&mut self, cycles: u64) {
        self.histogram.saturating_record((cycles as f64 * self.ns_per_cycle) as u64);
    }

    /// What is known so far.
    pub fn summary(&self) -> Summary {
        if self.histogram.is_empty() {
            return Summary::default();
        }
        Summary {
            packets: self.histogram.len(),
            p50_ns: self.histogram.value_at_quantile(0.5),
            p99_ns: self.histogram.value_at_quantile(0.99),
            p999_ns: self.histogram.value_at_quantile(0.999),
            max_ns: self.histogram.max(),
        }
    }
}

/// The bounds above are good; this one grows by itself.
fn unreachable_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits are allowed"));
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut latency = Latency::new(2_000_000_000);
        assert_eq!(latency.summary(), Summary::default());
        (1..=10_000).for_each(|us| latency.record(us * 2_000));
        let Summary { packets, p50_ns, p99_ns, p999_ns, max_ns } = latency.summary();
        assert_eq!(packets, 10_000);
        for (had, expected) in [
            (p50_ns, 5_000_000.0),
            (p99_ns, 9_900_000.0),
            (p999_ns, 9_990_000.0),
            (max_ns, 10_000_000.0),
        ] {
            assert!((had as f64 / expected - 1.0).abs() < 0.001_1, "{had} {expected}");
        }
        latency.record(u64::MAX);
        assert!(latency.summary().max_ns >= LONGEST_NS);
    }
}
