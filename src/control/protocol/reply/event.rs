//! Events: what the log keeps, `show.events` shows and subscribers get.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::health::ProbeResult;
use super::state::Health;

/// Events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsReply {
    /// Oldest first.
    pub events: Vec<Event>,
    /// The number of the newest event there ever was; 0 if there was none.
    pub newest: u64,
}

/// Something that happened to the appliance, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Counts up from 1 since the daemon started, without gaps: who sees a gap has missed events.
    pub number: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// What kind of thing happened.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: Severity,
    /// What it happened to: `web/b1`, `port lan`, `worker 0`, `appliance`.
    pub subject: String,
    /// One sentence.
    pub message: String,
    /// More about a change of health; in JSON, members of the event itself.
    #[serde(flatten)]
    pub health: Option<HealthChange>,
}

/// A change of a backend's health and what it rests on (OPS-09).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthChange {
    /// Before.
    pub from: Health,
    /// After.
    pub to: Health,
    /// Why the last probe failed, as in the probe's `failure`; absent if it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the probers say.
    pub votes: Votes,
    /// The last ten probes, oldest first; their ages are those at the time of the event.
    pub probes: Vec<ProbeResult>,
}

/// How many probers see a backend up and down. An appliance that probes alone has one vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Votes {
    /// Probers that see it up.
    pub up: u32,
    /// Probers that see it down.
    pub down: u32,
}

/// How much an event matters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For the record.
    Info,
    /// Something is worse than it was; traffic still flows.
    Warning,
    /// Traffic is lost, or a request of an operator failed.
    Error,
}

impl Severity {
    /// The word for it, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What kind of thing happened.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The appliance forwards.
    Started,
    /// It was told to stop.
    Stopping,
    /// Management panicked and runs again with its last state; workers went on.
    ManagementRestarted,
    /// A configuration took effect.
    ConfigApplied,
    /// A configuration was refused; the old one stays.
    ConfigRefused,
    /// An operator changed something while the daemon runs.
    AdminChanged,
    /// A backend's health changed.
    HealthChanged,
    /// A port's link came up or went down.
    LinkChanged,
    /// A port's device was reset, runs again, or does not.
    PortReset,
    /// A worker did not adopt the newest tables in time.
    WorkerLagging,
    /// A worker that lagged runs the newest tables.
    WorkerCurrent,
    /// Another host claims an address of the appliance.
    AddressConflict,
    /// Something that `status` shows as an alarm began.
    AlarmRaised,
    /// It ended.
    AlarmCleared,
}

impl EventKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Started,
        Self::Stopping,
        Self::ManagementRestarted,
        Self::ConfigApplied,
        Self::ConfigRefused,
        Self::AdminChanged,
        Self::HealthChanged,
        Self::LinkChanged,
        Self::PortReset,
        Self::WorkerLagging,
        Self::WorkerCurrent,
        Self::AddressConflict,
        Self::AlarmRaised,
        Self::AlarmCleared,
    ];

    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The kind's number: its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word for it, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopping => "stopping",
            Self::ManagementRestarted => "management-restarted",
            Self::ConfigApplied => "config-applied",
            Self::ConfigRefused => "config-refused",
            Self::AdminChanged => "admin-changed",
            Self::HealthChanged => "health-changed",
            Self::LinkChanged => "link-changed",
            Self::PortReset => "port-reset",
            Self::WorkerLagging => "worker-lagging",
            Self::WorkerCurrent => "worker-current",
            Self::AddressConflict => "address-conflict",
            Self::AlarmRaised => "alarm-raised",
            Self::AlarmCleared => "alarm-cleared",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
