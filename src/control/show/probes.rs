//! What the monitors found, as far as it is shown.

use std::collections::HashMap;
use std::time::Duration;

use super::milliseconds;
use crate::config::BackendKey;
use crate::control::protocol::reply::ProbeResult;
use crate::health::{Damping, Outcome};

/// The last results of every backend's probes.
#[derive(Debug, Default)]
pub struct Probes {
    by_backend: HashMap<BackendKey, Damping>,
}

impl Probes {
    /// Takes the newest.
    pub fn record(&mut self, key: BackendKey, damping: Damping) {
        self.by_backend.insert(key, damping);
    }

    /// Forgets the backends that are gone.
    pub fn retain(&mut self, mut stays: impl FnMut(&BackendKey) -> bool) {
        self.by_backend.retain(|key, _| stays(key));
    }

    /// The last results of a backend's probes, oldest first.
    pub(super) fn results(&self, key: &BackendKey, now: Duration) -> Vec<ProbeResult> {
        self.by_backend.get(key).map(|damping| probe_results(damping, now)).unwrap_or_default()
    }

    /// When the backend's health became what it is; `None` if it has been so from the start.
    pub(super) fn since(&self, key: &BackendKey) -> Option<Duration> {
        self.by_backend.get(key).and_then(Damping::since)
    }

    /// Why the last probe that failed did so, among those that are kept.
    pub(super) fn last_failure(&self, key: &BackendKey) -> Option<String> {
        let history = self.by_backend.get(key).map(Damping::history)?;
        history.iter().rev().find_map(|result| match &result.outcome {
            Outcome::Pass => None,
            Outcome::Fail(cause) => Some(cause.to_string()),
        })
    }
}

/// The last results of probes as they look at `now`, oldest first.
pub fn probe_results(damping: &Damping, now: Duration) -> Vec<ProbeResult> {
    let result = |result: &crate::health::ProbeResult| ProbeResult {
        age_ms: milliseconds(now.saturating_sub(result.at)),
        took_ms: milliseconds(result.rtt),
        failure: match &result.outcome {
            Outcome::Pass => None,
            Outcome::Fail(cause) => Some(cause.to_string()),
        },
    };
    damping.history().iter().map(result).collect()
}
