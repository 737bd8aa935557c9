//! What management counts of its own work.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::config::BackendKey;
use crate::health::{self, ProbeResult};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was answered, or its change was taken.
    Done,
    /// It was refused.
    Refused,
}

impl Outcome {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

/// The probes of one backend since it was configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTally {
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed for a reason of the backend or of the way to it.
    pub failed: u64,
    /// Probes that failed for a reason of the appliance, and say nothing about the backend.
    pub void: u64,
    /// What all of them took together.
    pub took: Duration,
    /// What the last one took.
    pub last: Duration,
}

/// The counts. They outlive a panic of management.
#[derive(Debug, Default)]
pub struct Tally {
    /// By method and outcome. Methods are words of the protocol, so their number is bounded.
    requests: BTreeMap<(&'static str, Outcome), u64>,
    probes: HashMap<BackendKey, ProbeTally>,
    management_restarts: u64,
}

impl Tally {
    /// Counts a request.
    pub fn request(&mut self, method: &'static str, outcome: Outcome) {
        *self.requests.entry((method, outcome)).or_default() += 1;
    }

    /// Counts a probe of a configured backend.
    pub fn probe(&mut self, key: &BackendKey, result: &ProbeResult) {
        let tally = match self.probes.get_mut(key) {
            Some(known) => known,
            None => self.probes.entry(key.clone()).or_default(),
        };
        match result.outcome {
            health::Outcome::Pass => tally.passed += 1,
            health::Outcome::Fail(cause) if cause.is_local() => tally.void += 1,
            health::Outcome::Fail(_) => tally.failed += 1,
        }
        tally.took = tally.took.saturating_add(result.rtt);
        tally.last = result.rtt;
    }

    /// Forgets the backends that are gone.
    pub fn retain(&mut self, mut stays: impl FnMut(&BackendKey) -> bool) {
        self.probes.retain(|key, _| stays(key));
    }

    /// Counts a restart of management after a panic.
    pub fn management_restarted(&mut self) {
        self.management_restarts += 1;
    }

    /// Requests by method and outcome.
    #[must_use]
    pub fn requests(&self) -> &BTreeMap<(&'static str, Outcome), u64> {
        &self.requests
    }

    /// The probes of a backend, if it was ever probed.
    #[must_use]
    pub fn probes_of(&self, key: &BackendKey) -> Option<&ProbeTally> {
        self.probes.get(key)
    }

    /// Restarts of management after a panic.
    #[must_use]
    pub const fn management_restarts(&self) -> u64 {
        self.management_restarts
    }
}
