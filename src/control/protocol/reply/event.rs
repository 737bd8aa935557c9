//! Events: what happened, when, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::health::ProbeResult;
use super::state::Health;

/// Events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsReply {
    /// Oldest first.
    pub events: Vec<EventState>,
    /// The number of the newest event there ever was; 0 if there was none.
    pub newest: u64,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventState {
    /// Counts up from 1.
    pub number: u64,
    /// When, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// What happened, in a word: `health-changed`, `link-changed` and so on.
    pub kind: String,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// What it is about: `web/b1`, a port, a worker.
    pub subject: String,
    /// A sentence.
    pub message: String,
    /// What it was before, for a change of health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Health>,
    /// What it is now, for a change of health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Health>,
    /// Why, for a change of health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Who says so, for a change of health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub votes: Option<Votes>,
    /// The last ten probes, oldest first, for a change of health.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeResult>,
}

/// How many probers say what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Votes {
    /// That it is up.
    pub up: u32,
    /// That it is down.
    pub down: u32,
}
