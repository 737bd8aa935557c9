//! What management writes down as it works: events, audit lines, and what metrics count.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::admin::{PeerCredentials, Role};
use super::audit::Audit;
use super::events::{Draft, EventKind, HealthChange, Severity, Votes};
use super::jobs::Asker;
use super::management::Management;
use super::metrics::Outcome;
use super::protocol::{Reply, Request, RequestError};
use super::show;
use super::traffic::TrafficSample;
use crate::config::BackendKey;
use crate::health::{Damping, Transition};
use crate::steer::Health;

/// How often it is looked for alarms that came or went.
const ALARM_INTERVAL: Duration = Duration::from_secs(1);

/// Whether anything changed, and the warnings; or the refusal.
type ChangeOutcome = Result<(bool, Vec<String>), RequestError>;

impl Management {
    /// Takes an event that happens now.
    pub(super) fn record(&mut self, draft: Draft) {
        let event = self.events.record(unix_ms(), draft);
        self.admin.feed().publish(&*event);
    }

    /// Takes what changed about the appliance as a whole.
    pub(super) fn record_appliance(&mut self, kind: EventKind, severity: Severity, message: &str) {
        self.record(Draft::new(kind, severity, "appliance", message));
    }

    /// Takes what became of a request of an operator. Every one has a line in the log; what it
    /// changed is an event.
    pub(super) fn record_change(
        &mut self,
        request: &Request,
        role: Role,
        peer: PeerCredentials,
        outcome: &ChangeOutcome,
    ) {
        let method = request.method();
        Audit::new(peer, role, request, outcome.as_ref().map(|(changed, _)| *changed)).log();
        let became = if outcome.is_ok() { Outcome::Done } else { Outcome::Refused };
        self.tally.request(method, became);
        if matches!(request, Request::Reload(_)) {
            self.record_reload(outcome);
        } else if let Ok((true, _)) = outcome {
            self.record_admin_change(request, peer);
        }
    }

    /// Takes what became of a request that makes no configuration, and answers it. What has
    /// begun has changed something even if it came to no good end.
    pub(super) fn settle(
        &mut self,
        asker: Asker,
        outcome: Result<Reply, RequestError>,
        has_begun: bool,
    ) {
        let Asker { request, role, peer, client } = asker;
        if request.is_change() {
            let changed = match &outcome {
                Ok(Reply::FlushReply(reply)) => Ok(reply.removed > 0),
                Ok(Reply::SaveReply(reply)) => Ok(reply.changed),
                Ok(_) => Ok(true),
                Err(error) => Err(error.clone()),
            };
            self.record_change(&request, role, peer, &changed.map(|changed| (changed, Vec::new())));
            if outcome.is_err() && has_begun {
                self.record_admin_change(&request, peer);
            }
        } else {
            let became = if outcome.is_ok() { Outcome::Done } else { Outcome::Refused };
            self.tally.request(request.method(), became);
        }
        // Who asked may have gone.
        let _ = client.send(outcome);
    }

    fn record_admin_change(&mut self, request: &Request, peer: PeerCredentials) {
        let subject = request.subject().unwrap_or_else(|| "appliance".to_owned());
        let message = format!("{} by user id {}", request.method(), peer.uid);
        self.record(Draft::new(EventKind::AdminChanged, Severity::Info, subject, message));
    }

    /// Takes what became of a reload, whoever wanted it.
    pub(super) fn record_reload(&mut self, outcome: &ChangeOutcome) {
        let subject = self.config_path.display().to_string();
        let draft = match outcome {
            Ok((false, _)) => return,
            Ok((true, warnings)) => {
                let message = match warnings.len() {
                    0 => "the configuration is applied".to_owned(),
                    count => format!("the configuration is applied; warnings: {count}"),
                };
                Draft::new(EventKind::ConfigApplied, Severity::Info, subject, message)
            }
            Err(error) => {
                let first = error.data.first().map(|mistake| format!(": {mistake}"));
                let more = match error.data.len() {
                    0 | 1 => String::new(),
                    count => format!(" (and {} more)", count - 1),
                };
                let message = format!("{}{}{more}", error.message, first.unwrap_or_default());
                Draft::new(EventKind::ConfigRefused, Severity::Error, subject, message)
            }
        };
        self.record(draft);
    }

    /// Takes a change of a backend's health, and what it rests on (OPS-09).
    pub(super) fn record_health(
        &mut self,
        key: &BackendKey,
        transition: Transition,
        damping: &Damping,
    ) {
        // It may be gone since the probe began.
        let Some(name) = self.state.name_of(key) else { return };
        let change = HealthChange {
            from: show::health(transition.from),
            to: show::health(transition.to),
            cause: damping.last_cause().map(|cause| cause.to_string()),
            votes: match transition.to {
                Health::Up => Votes { up: 1, down: 0 },
                Health::Down => Votes { up: 0, down: 1 },
                Health::Unknown => Votes::default(),
            },
            probes: show::probe_results(damping, self.now()),
        };
        self.record(Draft::health_changed(name, change));
    }

    /// Records what ports and neighbours had to tell, and once a second what alarms came and went.
    pub(super) fn record_alarms(&mut self, now: Duration) {
        for draft in self.neighbours.take_events() {
            self.record(draft);
        }
        if now < self.alarms_at {
            return;
        }
        self.alarms_at = now + ALARM_INTERVAL;
        if self.traffic.is_due(now) {
            let names = self.state.config().ports.iter().map(|port| port.name.as_str());
            let sample = TrafficSample::take(&self.workers, self.ports.as_ref(), names);
            self.traffic.look(now, sample);
        }
        let alarms = self.alarms();
        for draft in self.raised.update(alarms) {
            self.record(draft);
        }
    }
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "management is a shell: it reads the clock")]
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
