//! Rise and fall: from single results to a state that does not flap. Pure; time is an argument.

use std::time::Duration;

use arrayvec::ArrayVec;

use super::Cause;
use crate::steer::Health;

/// How many results are kept. (OPS-05)
pub const HISTORY: usize = 10;

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The expected answer, in time.
    Pass,
    /// Anything else.
    Fail(Cause),
}

/// One probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// When it ended, since the daemon's start.
    pub at: Duration,
    /// What it found.
    pub outcome: Outcome,
    /// From its start to its end. After a failure this is how long the failure took to show.
    pub rtt: Duration,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Before.
    pub from: Health,
    /// After; never `Unknown`.
    pub to: Health,
}

/// The state of one target.
///
/// It begins as [`Health::Unknown`], and the first result decides at once: a backend that is up
/// need not pass `rise` probes before the appliance serves, and one that is down gets no flows on
/// trust. From then on `rise` passes in a row lift it and `fall` failures in a row fell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damping {
    rise: u32,
    fall: u32,
    health: Health,
    since: Option<Duration>,
    /// Consecutive results that speak against `health`.
    against: u32,
    history: ArrayVec<ProbeResult, HISTORY>,
}

impl Damping {
    /// A target of which nothing is known. A `rise` or `fall` of 0 counts as 1.
    #[must_use]
    pub const fn new(rise: u32, fall: u32) -> Self {
        Self {
            rise,
            fall,
            health: Health::Unknown,
            since: None,
            against: 0,
            history: ArrayVec::new_const(),
        }
    }

    /// The same state and history under another rise and fall. Results that spoke against the state
    /// under the old monitor are forgotten.
    #[must_use]
    pub fn with_limits(self, rise: u32, fall: u32) -> Self {
        Self { rise, fall, against: 0, ..self }
    }

    /// A target whose health is remembered from before a restart of management, where the state
    /// holds since `since`.
    #[must_use]
    pub fn remembered(rise: u32, fall: u32, health: Health, since: Duration) -> Self {
        Self { health, since: Some(since), ..Self::new(rise, fall) }
    }

    /// Takes one result into account, and tells of a change of state.
    pub fn record(&mut self, result: ProbeResult) -> Option<Transition> {
        if self.history.is_full() {
            self.history.remove(0);
        }
        self.history.push(result);

        let (seen, limit) = match result.outcome {
            Outcome::Pass => (Health::Up, self.rise),
            Outcome::Fail(cause) if cause.is_local() => return None,
            Outcome::Fail(_) => (Health::Down, self.fall),
        };
        if seen == self.health {
            self.against = 0;
            return None;
        }
        self.against = self.against.saturating_add(1);
        if self.health != Health::Unknown && self.against < limit {
            return None;
        }
        let transition = Transition { from: self.health, to: seen };
        self.health = seen;
        self.since = Some(result.at);
        self.against = 0;
        Some(transition)
    }

    /// The state.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health
    }

    /// When the state was entered, since the daemon's start; `None` while nothing is known.
    #[must_use]
    pub const fn since(&self) -> Option<Duration> {
        self.since
    }

    /// Consecutive results that speak against the state, and how many it takes to change it; both 0
    /// while nothing is known.
    #[must_use]
    pub const fn progress(&self) -> (u32, u32) {
        match self.health {
            Health::Up => (self.against, self.fall),
            Health::Down => (self.against, self.rise),
            Health::Unknown => (0, 0),
        }
    }

    /// The last [`HISTORY`] results, oldest first.
    #[must_use]
    pub fn history(&self) -> &[ProbeResult] {
        &self.history
    }

    /// Why the latest probe failed; `None` if it passed or there was none.
    #[must_use]
    pub fn last_cause(&self) -> Option<Cause> {
        match self.history.last()?.outcome {
            Outcome::Pass => None,
            Outcome::Fail(cause) => Some(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(second: u64, letter: char) -> ProbeResult {
        let outcome = match letter {
            'p' => Outcome::Pass,
            'f' => Outcome::Fail(Cause::Refused),
            'l' => Outcome::Fail(Cause::NoSocket),
            other => panic!("no outcome is called {other}"),
        };
        ProbeResult { at: Duration::from_secs(second), outcome, rtt: Duration::from_millis(second) }
    }

    /// The states after each result, as letters: `U`p, `D`own, `?`.
    fn run(rise: u32, fall: u32, results: &str) -> String {
        let mut damping = Damping::new(rise, fall);
        let mut states = String::new();
        for (second, letter) in (0..).zip(results.chars()) {
            let before = damping.health();
            let transition = damping.record(result(second, letter));
            let changed = Transition { from: before, to: damping.health() };
            assert_eq!(transition, (before != damping.health()).then_some(changed));
            if transition.is_some() {
                assert_eq!(damping.since(), Some(Duration::from_secs(second)));
            }
            states.push(match damping.health() {
                Health::Up => 'U',
                Health::Down => 'D',
                Health::Unknown => '?',
            });
        }
        states
    }

    // HP-52: back to up when probes pass again.
    #[test]
    fn rise_and_fall_count_consecutive_results() {
        for (rise, fall, results, states) in [
            (2, 3, "p", "U"),
            (2, 3, "f", "D"),
            (2, 3, "pfff", "UUUD"),
            (2, 3, "pffpff", "UUUUUU"),
            (2, 3, "pffpfff", "UUUUUUD"),
            (2, 3, "fpfpp", "DDDDU"),
            (2, 3, "pfffppfff", "UUUDDUUUD"),
            (1, 1, "pfpf", "UDUD"),
            (0, 0, "pfpf", "UDUD"),
            (3, 1, "pfppppf", "UDDDUUD"),
            (u32::MAX, 1, "fppp", "DDDD"),
        ] {
            assert_eq!(run(rise, fall, results), states, "rise {rise}, fall {fall}: {results}");
        }
    }

    #[test]
    fn a_fault_of_the_appliance_itself_moves_nothing() {
        assert_eq!(run(1, 1, "llpllf"), "??UUUD");
        // It breaks no run either: two failures around it are still two in a row.
        assert_eq!(run(1, 2, "pflf"), "UUUD");
    }

    // OPS-05
    #[test]
    fn the_last_ten_results_are_kept_with_cause_rtt_and_time() {
        let mut damping = Damping::new(1, 1);
        assert_eq!(damping.last_cause(), None);
        for second in 0..15 {
            damping.record(result(second, if second == 14 { 'f' } else { 'p' }));
        }
        let kept: Vec<_> = damping.history().iter().map(|kept| kept.at.as_secs()).collect();
        assert_eq!(kept, (5..15).collect::<Vec<_>>());
        assert_eq!(damping.history()[9], result(14, 'f'));
        assert_eq!(damping.last_cause(), Some(Cause::Refused));
    }

    #[test]
    fn new_limits_and_a_restart_keep_the_state() {
        let mut damping = Damping::new(2, 3);
        for (second, letter) in [(0, 'p'), (1, 'f'), (2, 'f')] {
            damping.record(result(second, letter));
        }
        assert_eq!(damping.progress(), (2, 3));
        let mut damping = damping.with_limits(2, 2);
        assert_eq!(damping.progress(), (0, 2));
        assert_eq!(damping.record(result(3, 'f')), None);
        assert!(damping.record(result(4, 'f')).is_some());
        assert_eq!(damping.history().len(), 5);

        let mut damping = Damping::remembered(1, 2, Health::Up, Duration::ZERO);
        assert_eq!(damping.record(result(0, 'f')), None, "one failure of two");
        assert_eq!(damping.health(), Health::Up);
    }
}
