//! What happened: the last 1,024 events, each of them logged and kept in one place, [`EventLog::record`].
//!
//! Time is an argument. The log has one owner, management, and outlives its panics.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

pub use crate::control::protocol::reply::{Event, EventKind, HealthChange, Severity, Votes};

/// How many events are kept.
pub const EVENT_CAP: usize = 1_024;

/// An event before it has a number and a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    kind: EventKind,
    severity: Severity,
    subject: String,
    message: String,
    health: Option<HealthChange>,
}

impl Draft {
    /// An event of this kind, about this subject; `message` is one sentence.
    #[must_use]
    pub fn new(
        kind: EventKind,
        severity: Severity,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, severity, subject: subject.into(), message: message.into(), health: None }
    }

    /// A change of the health of the backend `subject`, written `pool/name`. It is a warning if the
    /// backend is not up afterwards.
    #[must_use]
    pub fn health_changed(subject: impl Into<String>, change: HealthChange) -> Self {
        use crate::control::protocol::reply::Health;
        let HealthChange { from, to, cause, votes, .. } = &change;
        let why = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
        let message = format!(
            "health changed from {from} to {to}{why} ({} of {} votes up)",
            votes.up,
            votes.up.saturating_add(votes.down)
        );
        let severity = if *to == Health::Up { Severity::Info } else { Severity::Warning };
        let draft = Self::new(EventKind::HealthChanged, severity, subject, message);
        Self { health: Some(change), ..draft }
    }
}

/// The newest events.
#[derive(Debug)]
pub struct EventLog {
    kept: VecDeque<Arc<Event>>,
    last_number: u64,
    counts: [u64; EventKind::COUNT],
}

impl Default for EventLog {
    fn default() -> Self {
        Self {
            kept: VecDeque::with_capacity(EVENT_CAP),
            last_number: 0,
            counts: [0; EventKind::COUNT],
        }
    }
}

impl EventLog {
    /// Numbers, keeps and logs an event that happened at `time_ms` (milliseconds since 1970), and
    /// returns it. The oldest event makes room when [`EVENT_CAP`] are kept.
    pub fn record(&mut self, time_ms: u64, draft: Draft) -> Arc<Event> {
        let Draft { kind, severity, subject, message, health } = draft;
        self.last_number += 1;
        if let Some(count) = self.counts.get_mut(kind.index()) {
            *count += 1;
        }
        let number = self.last_number;
        let event = Arc::new(Event { number, time_ms, kind, severity, subject, message, health });
        log(&event);
        if self.kept.len() == EVENT_CAP {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::clone(&event));
        event
    }

    /// The events that are kept and have a greater number than `number`, oldest first, at most
    /// `limit` of them. `since(0, …)` begins with the oldest; the next page is asked for with the
    /// number of the last. If the first one's number is not `number + 1`, those between are gone.
    #[must_use]
    pub fn since(&self, number: u64, limit: usize) -> Vec<Event> {
        let first = self.kept.partition_point(|event| event.number <= number);
        self.kept.iter().skip(first).take(limit).map(|event| Event::clone(event)).collect()
    }

    /// The newest `limit` events, oldest first.
    #[must_use]
    pub fn latest(&self, limit: usize) -> Vec<Event> {
        self.since(self.last_number.saturating_sub(limit as u64), limit)
    }

    /// The number of the newest event; 0 before the first.
    #[must_use]
    pub const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// How many events of each kind there were since the daemon started, by
    /// [`EventKind::index`].
    #[must_use]
    pub const fn counts(&self) -> &[u64; EventKind::COUNT] {
        &self.counts
    }
}

/// The one line that the log has of an event.
fn log(event: &Event) {
    let Event { number, kind, subject, message, health, .. } = event;
    let cause = health.as_ref().and_then(|health| health.cause.as_deref());
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                target: "event", number, kind = kind.name(), subject = subject.as_str(), cause,
                "{message}"
            )
        };
    }
    match event.severity {
        Severity::Info => line!(info),
        Severity::Warning => line!(warn),
        Severity::Error => line!(error),
    }
}
