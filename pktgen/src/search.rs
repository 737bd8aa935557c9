//! The highest rate without loss, and with little: RFC 2544 §26.1 by halving.

use serde::Serialize;

use crate::latency::Summary;
use crate::report::plot::{Line, Plot};
use crate::report::table::Table;

/// A trial at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// Packets a second that were asked for.
    pub rate: f64,
    /// The part of them that did not come back, whether they were sent or not.
    pub loss: f64,
}

/// The highest rate whose loss is at most `tolerance`, known to `precision` of itself, starting from
/// `highest`; 0 if even the lowest rate tried lost more. Every trial is added to `trials`.
///
/// # Errors
/// Those of `trial`.
pub fn highest_rate(
    highest: f64,
    precision: f64,
    tolerance: f64,
    trials: &mut Vec<Trial>,
    mut trial: impl FnMut(f64) -> anyhow::Result<f64>,
) -> anyhow::Result<f64> {
    let mut attempt = |rate: f64| -> anyhow::Result<bool> {
        let known = trials.iter().find(|trial| (trial.rate - rate).abs() < rate * 1e-9).copied();
        let loss = if let Some(known) = known {
            known.loss
        } else {
            let loss = trial(rate)?;
            trials.push(Trial { rate, loss });
            loss
        };
        Ok(loss <= tolerance)
    };
    if attempt(highest)? {
        return Ok(highest);
    }
    let (mut good, mut bad) = (0.0, highest);
    while bad - good > bad * precision && bad > 1.0 {
        let middle = f64::midpoint(good, bad);
        if attempt(middle)? { good = middle } else { bad = middle }
    }
    Ok(good)
}

/// What was found for one number of flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Flows.
    pub flows: u64,
    /// The highest rate without loss, packets a second.
    pub no_drop: f64,
    /// The highest rate with at most the loss that was allowed.
    pub partial_drop: f64,
    /// The trials of both.
    pub trials: Vec<Trial>,
    /// Latency by part of the no-drop rate.
    pub latency: Vec<Load>,
}

/// Latency at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// The part of the no-drop rate.
    pub part: f64,
    /// Packets a second that were sent.
    pub rate: f64,
    /// The latencies.
    pub latency: Summary,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchReport {
    /// The rate of sending and counting itself, packets a second: what is found is bound by it.
    pub generator_packets_per_second: f64,
    /// The loss of the partial-drop rate.
    pub partial_drop: f64,
    /// By number of flows.
    pub found: Vec<Found>,
}

impl SearchReport {
    /// Rates by number of flows.
    pub fn rates(&self) -> Table {
        let columns =
            vec!["flows", "no_drop_packets_per_second", "partial_drop_packets_per_second"];
        let row = |found: &Found| vec![found.flows as f64, found.no_drop, found.partial_drop];
        Table { columns, rows: self.found.iter().map(row).collect() }
    }

    /// Latencies by number of flows and load.
    pub fn latencies(&self) -> Table {
        let columns =
            vec!["flows", "load", "packets_per_second", "p50_ns", "p99_ns", "p999_ns", "max_ns"];
        let rows = self.found.iter().flat_map(|found| {
            found.latency.iter().map(|load| {
                let Summary { p50_ns, p99_ns, p999_ns, max_ns, .. } = load.latency;
                let times = [p50_ns, p99_ns, p999_ns, max_ns].map(|ns| ns as f64);
                [vec![found.flows as f64, load.part, load.rate], times.to_vec()].concat()
            })
        });
        Table { columns, rows: rows.collect() }
    }

    /// Rate against flows.
    pub fn rate_plot(&self) -> Plot {
        let line = |name: &str, rate: fn(&Found) -> f64| Line {
            name: name.to_owned(),
            points: self.found.iter().map(|found| (found.flows as f64, rate(found))).collect(),
        };
        Plot {
            title: "Rate by number of flows".into(),
            x: "flows".into(),
            y: "packets/s".into(),
            is_log_x: true,
            lines: vec![
                line("no drop", |found| found.no_drop),
                line(&format!("{} % dropped", self.partial_drop * 100.0), |found| {
                    found.partial_drop
                }),
            ],
        }
    }

    /// Latency against load, of the last number of flows.
    pub fn latency_plot(&self) -> Plot {
        let loads = self.found.last().map_or(&[][..], |found| &found.latency[..]);
        let line = |name: &str, of: fn(&Summary) -> u64| Line {
            name: name.to_owned(),
            points: loads.iter().map(|load| (load.part, of(&load.latency) as f64 / 1e3)).collect(),
        };
        Plot {
            title: "Latency by load".into(),
            x: "part of the no-drop rate".into(),
            y: "us".into(),
            is_log_x: false,
            lines: vec![
                line("p50", |summary| summary.p50_ns),
                line("p99", |summary| summary.p99_ns),
                line("p99.9", |summary| summary.p999_ns),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that carries so many packets a second and drops the rest.
    fn loss_at(capacity: f64, rate: f64) -> f64 {
        (1.0 - capacity / rate).max(0.0)
    }

    #[test]
    fn the_rate_is_found_to_its_precision() {
        for capacity in [1e5, 3.3e6, 0.99e7] {
            let mut trials = Vec::new();
            let found =
                highest_rate(1e7, 0.01, 0.0, &mut trials, |rate| Ok(loss_at(capacity, rate)))
                    .unwrap();
            assert!(found <= capacity && found >= capacity * 0.98, "{found} of {capacity}");
            let before = trials.len();
            let partial =
                highest_rate(1e7, 0.01, 0.05, &mut trials, |rate| Ok(loss_at(capacity, rate)))
                    .unwrap();
            assert!(partial >= found && partial <= capacity / 0.94, "{partial} of {capacity}");
            assert!(trials.len() < 2 * before, "trials are used again");
        }
    }

    #[test]
    fn a_device_that_carries_all_needs_one_trial_and_one_that_carries_nothing_is_told() {
        let mut trials = Vec::new();
        assert!((highest_rate(5.0, 0.1, 0.0, &mut trials, |_| Ok(0.0)).unwrap() - 5.0) < 1e-9);
        assert_eq!(trials.len(), 1);
        let none = highest_rate(100.0, 0.1, 0.0, &mut Vec::new(), |_| Ok(1.0)).unwrap();
        assert!(none.abs() < 1e-9);
    }

    #[test]
    fn tables_and_plots_have_what_was_found() {
        let latency = Summary { packets: 9, p50_ns: 1000, p99_ns: 2000, p999_ns: 3000, max_ns: 9 };
        let found = Found {
            flows: 1000,
            no_drop: 2e6,
            partial_drop: 3e6,
            trials: Vec::new(),
            latency: vec![Load { part: 0.5, rate: 1e6, latency }],
        };
        let report = SearchReport {
            generator_packets_per_second: 9e6,
            partial_drop: 0.005,
            found: vec![found],
        };
        assert_eq!(report.rates().rows, [[1000.0, 2e6, 3e6]]);
        assert_eq!(report.latencies().rows[0][..4], [1000.0, 0.5, 1e6, 1000.0]);
        assert!(report.rate_plot().to_svg().contains("0.5 % dropped"));
        assert_eq!(report.latency_plot().lines[1].points, [(0.5, 2.0)]);
    }
}
