//! What a run says: to people, as JSON, as CSV, as SVG.

pub mod live;
pub mod plot;
pub mod table;

use std::fmt;

use serde::Serialize;
use std::collections::BTreeMap;

use crate::change::ChangeReport;
use crate::engine::Counts;
use crate::latency::Summary;
use crate::profile::Mode;
use crate::verify::Verifier;
use crate::verify::violation::Moves;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// `verify` or `count`.
    pub mode: &'static str,
    /// Packets that the device took.
    pub sent: u64,
    /// Their bytes, without the check sequence.
    pub bytes: u64,
    /// Of these packets, those that were to come back.
    pub forwarded: u64,
    /// Packets that came back.
    pub returned: u64,
    /// Packets that were due and that the device did not take.
    pub not_sent: u64,
    /// Frames that were no packets of the run, such as questions for neighbours.
    pub other: u64,
    /// From the first packet to the last.
    pub seconds: f64,
    /// Packets sent a second. Of a verifying run it is the verifier's own rate and says nothing of
    /// the appliance.
    pub packets_per_second: f64,
    /// Packets returned a second.
    pub returned_per_second: f64,
    /// The rate of sending and counting itself, measured before the run: what was counted is bound
    /// by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator_packets_per_second: Option<f64>,
    /// The run ended before its time, since packets were lost.
    pub ended_early: bool,
    /// What was checked, of a verifying run.
    pub verification: Option<Verification>,
    /// What the appliance says it dropped, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub appliance_drops: Option<BTreeMap<String, u64>>,
}

/// What a verifying run found.
#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    /// Violations of all kinds.
    pub violations: u64,
    /// Of these, broken connections.
    pub consistency_violations: u64,
    /// By kind, those that happened.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// Some of them in words.
    pub examples: Vec<String>,
    /// Flows that moved rightly.
    pub moves: Moves,
    /// From sending to receiving.
    pub latency: Summary,
    /// What happened to the appliance meanwhile.
    pub changes: Vec<ChangeReport>,
    /// A change that did not happen, and why.
    pub change_left_out: Option<String>,
}

impl RunReport {
    /// The report of what was counted.
    pub fn new(mode: Mode, counts: &Counts, hz: u64) -> Self {
        let seconds = counts.cycles as f64 / hz.max(1) as f64;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Self {
            mode: match mode {
                Mode::Verify => "verify",
                Mode::Count => "count",
            },
            sent: counts.sent,
            bytes: counts.bytes,
            forwarded: counts.forwarded,
            returned: counts.returned,
            not_sent: counts.not_sent,
            other: counts.other,
            seconds,
            packets_per_second: rate(counts.sent),
            returned_per_second: rate(counts.returned),
            generator_packets_per_second: None,
            ended_early: counts.ended_early,
            verification: None,
            appliance_drops: None,
        }
    }

    /// The part of packets that were to come back and did not.
    pub fn loss(&self) -> f64 {
        if self.forwarded == 0 {
            return 0.0;
        }
        1.0 - (self.returned as f64 / self.forwarded as f64).min(1.0)
    }

    /// Whether nothing is wrong: a verifying run found no violation and all its changes happened,
    /// and everything was sent.
    pub fn is_good(&self) -> bool {
        let verified = self.verification.as_ref().is_none_or(|verification| {
            verification.violations == 0 && verification.change_left_out.is_none()
        });
        verified && self.not_sent == 0 && !self.ended_early && self.sent > 0
    }
}

impl Verification {
    /// What a verifier found.
    pub fn new(verifier: &Verifier) -> Self {
        let violations = &verifier.violations;
        Self {
            violations: violations.total(),
            consistency_violations: violations.consistency(),
            by_kind: violations.by_kind().map(|(kind, count)| (kind.name(), count)).collect(),
            examples: violations
                .examples()
                .iter()
                .map(|(kind, text)| format!("{}: {text}", kind.name()))
                .collect(),
            moves: verifier.moves(),
            latency: verifier.latency.summary(),
            changes: Vec::new(),
            change_left_out: None,
        }
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "sent      {} packets ({} bytes) in {:.3} s; {} not sent",
            self.sent, self.bytes, self.seconds, self.not_sent
        )?;
        writeln!(
            f,
            "returned  {} of {} ({:.4} % lost); {} other frames",
            self.returned,
            self.forwarded,
            self.loss() * 100.0,
            self.other
        )?;
        if let Some(drops) = &self.appliance_drops
            && !drops.is_empty()
        {
            let drops: Vec<_> = drops.iter().map(|(why, count)| format!("{why} {count}")).collect();
            writeln!(f, "dropped   {}", drops.join(", "))?;
        }
        let Some(verification) = &self.verification else {
            write!(
                f,
                "rate      {:.0} packets/s sent, {:.0} packets/s returned",
                self.packets_per_second, self.returned_per_second
            )?;
            return match self.generator_packets_per_second {
                Some(own) => {
                    write!(f, "\ngenerator {own:.0} packets/s with nothing at the other end")
                }
                None => Ok(()),
            };
        };
        writeln!(
            f,
            "rate      {:.0} packets/s: the verifier's own, not the appliance's",
            self.packets_per_second
        )?;
        let Summary { packets, p50_ns, p99_ns, p999_ns, max_ns } = verification.latency;
        writeln!(
            f,
            "latency   p50 {} p99 {} p99.9 {} max {} ({packets} packets)",
            Nanoseconds(p50_ns),
            Nanoseconds(p99_ns),
            Nanoseconds(p999_ns),
            Nanoseconds(max_ns)
        )?;
        for change in &verification.changes {
            let adopted = change
                .adopted_at_packet
                .map_or("never adopted".into(), |at| format!("adopted at {at}"));
            writeln!(
                f,
                "change    {} at packet {}, {adopted}",
                change.method, change.asked_at_packet
            )?;
        }
        let Moves { outlived_drain, backend_gone, forgotten } = verification.moves;
        writeln!(
            f,
            "moved     {outlived_drain} outlived a drain, {backend_gone} lost their backend, \
             {forgotten} had been forgotten"
        )?;
        if let Some(left_out) = &verification.change_left_out {
            writeln!(f, "change    {left_out}")?;
        }
        if self.ended_early {
            writeln!(f, "ended early: packets are lost")?;
        }
        write!(
            f,
            "violations {}, of which {} broke a connection",
            verification.violations, verification.consistency_violations
        )?;
        for (kind, count) in &verification.by_kind {
            write!(f, "\n  {kind} {count}")?;
        }
        for example in &verification.examples {
            write!(f, "\n  {example}")?;
        }
        Ok(())
    }
}

/// A time for people.
pub struct Nanoseconds(pub u64);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{ns:.0} ns"),
            1_000..1_000_000 => write!(f, "{:.1} us", ns / 1e3),
            _ => write!(f, "{:.1} ms", ns / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_good_only_if_nothing_is_wrong() {
        let counts =
            Counts { sent: 10, forwarded: 10, returned: 10, cycles: 5, ..Counts::default() };
        let good = RunReport::new(Mode::Count, &counts, 10);
        assert!(good.is_good());
        assert!((good.packets_per_second - 20.0).abs() < 1e-9);
        let early = Counts { ended_early: true, ..counts };
        assert!(!RunReport::new(Mode::Count, &early, 10).is_good());
        let refused = Counts { not_sent: 1, ..counts };
        assert!(!RunReport::new(Mode::Count, &refused, 10).is_good());
        assert!(!RunReport::new(Mode::Count, &Counts::default(), 10).is_good(), "nothing was sent");
        let lost = RunReport::new(Mode::Count, &Counts { returned: 9, ..counts }, 10);
        assert!((lost.loss() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn times_have_units() {
        let all = [999, 1_500, 2_500_000].map(|ns| Nanoseconds(ns).to_string());
        assert_eq!(all, ["999 ns", "1.5 us", "2.5 ms"]);
    }
}
