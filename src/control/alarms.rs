//! What an operator should look at now, and the events of its coming and going.
//!
//! An alarm is known by its kind and its subject. Its sentence may have numbers that change while
//! it lasts: that makes no new alarm.

use std::collections::BTreeMap;

use super::events::{Draft, EventKind, Severity};
use super::management::Management;
use crate::config;
use crate::steer::{AdminState, Health, Reason};

/// How many alarms that came in one look become events of their own, and how many that went; one
/// more event each tells the number of the others, so that an outage does not wash everything else
/// out of the log.
const EVENTS_A_LOOK: usize = 64;

/// What kind of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    /// Another host claims an address of the appliance.
    AddressConflict,
    /// A worker does not run the newest tables.
    WorkerLagging,
    /// A port works otherwise than it should; its driver has the sentence.
    PortTrouble,
    /// A port has no link.
    LinkDown,
    /// A service that is enabled has no backend at all for new flows: they are dropped.
    NoBackend,
    /// A service has no healthy backend: new flows go to unhealthy ones, as a last resort.
    NoHealthyBackend,
    /// Management failed and was started again.
    ManagementFailed,
    /// Management did not run for a while.
    ManagementStall,
    /// An admin socket is not served.
    AdminSocket,
    /// Packets do not reach the workers as they should.
    Traffic,
}

impl AlarmKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::AddressConflict,
        Self::WorkerLagging,
        Self::PortTrouble,
        Self::LinkDown,
        Self::NoBackend,
        Self::NoHealthyBackend,
        Self::ManagementFailed,
        Self::ManagementStall,
        Self::AdminSocket,
        Self::Traffic,
    ];

    /// The word for it in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddressConflict => "address-conflict",
            Self::WorkerLagging => "worker-lagging",
            Self::PortTrouble => "port-trouble",
            Self::LinkDown => "link-down",
            Self::NoBackend => "no-backend",
            Self::NoHealthyBackend => "no-healthy-backend",
            Self::ManagementFailed => "management-failed",
            Self::ManagementStall => "management-stall",
            Self::AdminSocket => "admin-socket",
            Self::Traffic => "traffic",
        }
    }

    /// The event of its beginning. `None` if whoever notices it records an event at once.
    const fn raised(self) -> Option<EventKind> {
        match self {
            Self::AddressConflict | Self::LinkDown => None,
            Self::WorkerLagging => Some(EventKind::WorkerLagging),
            Self::PortTrouble
            | Self::NoBackend
            | Self::NoHealthyBackend
            | Self::ManagementFailed
            | Self::ManagementStall
            | Self::AdminSocket
            | Self::Traffic => Some(EventKind::AlarmRaised),
        }
    }

    /// The event of its end.
    const fn cleared(self) -> Option<EventKind> {
        match self {
            Self::LinkDown => None,
            Self::WorkerLagging => Some(EventKind::WorkerCurrent),
            _ => Some(EventKind::AlarmCleared),
        }
    }

    const fn severity(self) -> Severity {
        match self {
            Self::NoBackend | Self::NoHealthyBackend => Severity::Error,
            _ => Severity::Warning,
        }
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// What kind of thing.
    pub kind: AlarmKind,
    /// What it concerns, by names of the configuration: `port lan`, `service site`, `worker 0`.
    pub subject: String,
    /// One sentence for the operator.
    pub text: String,
}

impl Alarm {
    /// An alarm of this kind, about this subject, in this sentence.
    #[must_use]
    pub fn new(kind: AlarmKind, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { kind, subject: subject.into(), text: text.into() }
    }
}

/// The alarms of the last look, by kind and subject.
#[derive(Debug, Default)]
pub struct Alarms {
    raised: BTreeMap<(AlarmKind, String), String>,
}

impl Alarms {
    /// Takes what is wrong now, and returns the events of what came and went since the last look.
    pub fn update(&mut self, now: Vec<Alarm>) -> Vec<Draft> {
        let now: BTreeMap<_, _> =
            now.into_iter().map(|alarm| ((alarm.kind, alarm.subject), alarm.text)).collect();
        let came = now.iter().filter(|(key, _)| !self.raised.contains_key(key));
        let came = came.filter_map(|((kind, subject), text)| {
            Some((kind.severity(), Draft::new(kind.raised()?, kind.severity(), subject, text)))
        });
        let went = self.raised.iter().filter(|(key, _)| !now.contains_key(key));
        let went = went.filter_map(|((kind, subject), text)| {
            let message = format!("no longer: {text}");
            Some((Severity::Info, Draft::new(kind.cleared()?, Severity::Info, subject, message)))
        });
        let mut drafts = bounded(came, EventKind::AlarmRaised, "alarms came");
        drafts.extend(bounded(went, EventKind::AlarmCleared, "alarms went"));
        self.raised = now;
        drafts
    }
}

/// The first [`EVENTS_A_LOOK`] events; for the others one of this kind, which says how many of `what`
/// there were and is as severe as the worst of them.
fn bounded(
    drafts: impl Iterator<Item = (Severity, Draft)>,
    kind: EventKind,
    what: &str,
) -> Vec<Draft> {
    let (severities, mut drafts): (Vec<_>, Vec<_>) = drafts.unzip();
    if let Some(worst) = severities.iter().skip(EVENTS_A_LOOK).max() {
        let more = drafts.len() - EVENTS_A_LOOK;
        drafts.truncate(EVENTS_A_LOOK);
        let message = format!("{more} more {what}; `lodectl status` has all that there are");
        drafts.push(Draft::new(kind, *worst, "appliance", message));
    }
    drafts
}

impl Management {
    /// What is wrong now.
    pub(super) fn alarms(&self) -> Vec<Alarm> {
        let mut alarms = self.neighbours.alarms();
        let newest = self.publisher.generation();
        for place in self.lagging() {
            let Some(worker) = self.workers.get(place) else { continue };
            let generation = self.publisher.observed(place).unwrap_or_default();
            alarms.push(Alarm::new(
                AlarmKind::WorkerLagging,
                format!("worker {}", worker.id),
                format!(
                    "worker {} runs generation {generation} and not {newest}; look at `lodectl \
                     show workers` for whether it polls",
                    worker.id
                ),
            ));
        }
        for (_, port, state) in self.port_states() {
            let subject = || format!("port {}", port.name);
            if let Some(text) = state.alarm {
                alarms.push(Alarm::new(AlarmKind::PortTrouble, subject(), text));
            }
            if !state.link_up {
                let text = format!("port {} has no link", port.name);
                alarms.push(Alarm::new(AlarmKind::LinkDown, subject(), text));
            }
        }
        alarms.extend(self.traffic.alarms().cloned());
        if let Some(text) = self.pulse.failure_alarm() {
            alarms.push(Alarm::new(AlarmKind::ManagementFailed, "management", text));
        }
        if let Some(text) = self.pulse.stall_alarm() {
            alarms.push(Alarm::new(AlarmKind::ManagementStall, "management", text));
        }
        for (path, text) in self.admin.alarms() {
            let subject = format!("admin socket {}", path.display());
            alarms.push(Alarm::new(AlarmKind::AdminSocket, subject, text));
        }
        if self.waits_until.is_some() {
            // Nobody knows yet who is healthy.
            return alarms;
        }
        let may_be_unprobed = self.now() < self.probes_due;
        for service in &self.state.config().services {
            let Some(decision) = self.state.decide(&service.name) else { continue };
            let name = &service.name;
            let pool = decision.reason.pool().and_then(|place| service.pools.get(place));
            let pool = pool.map_or("?", String::as_str);
            if may_be_unprobed && self.is_unprobed(service) {
                continue;
            }
            let (kind, text) = match decision.reason {
                Reason::Empty => (
                    AlarmKind::NoBackend,
                    format!(
                        "service {name} drops new flows: no pool has an enabled backend with a \
                         weight above 0"
                    ),
                ),
                Reason::LastResort { .. } => (
                    AlarmKind::NoHealthyBackend,
                    format!(
                        "service {name} has no healthy backend: new flows go to unhealthy ones of \
                         pool {pool} as a last resort"
                    ),
                ),
                Reason::AtThreshold { .. }
                | Reason::BelowThreshold { .. }
                // The operator wants it so.
                | Reason::Draining
                | Reason::Disabled => continue,
            };
            alarms.push(Alarm::new(kind, format!("service {name}"), text));
        }
        alarms
    }

    /// Whether nobody knows yet how a backend is that a service could use.
    fn is_unprobed(&self, service: &config::Service) -> bool {
        let pools = service.pools.iter().filter_map(|name| self.state.pool_id(name));
        let pools = pools.filter_map(|id| self.state.standing_pool(id));
        pools.flat_map(|pool| &pool.state.backends).any(|backend| {
            backend.admin == AdminState::Enabled
                && backend.weight > 0
                && backend.health == Health::Unknown
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lagging(worker: u16, generation: u64) -> Alarm {
        let text = format!("worker {worker} runs generation {generation}");
        Alarm::new(AlarmKind::WorkerLagging, format!("worker {worker}"), text)
    }

    #[test]
    fn an_alarm_is_news_once_whatever_numbers_its_sentence_has() {
        let mut alarms = Alarms::default();
        let draft = |kind, severity, message: &str| Draft::new(kind, severity, "worker 1", message);
        let raised =
            draft(EventKind::WorkerLagging, Severity::Warning, "worker 1 runs generation 3");
        assert_eq!(alarms.update(vec![lagging(1, 3)]), [raised]);
        assert_eq!(alarms.update(vec![lagging(1, 4)]), []);
        let cleared = draft(
            EventKind::WorkerCurrent,
            Severity::Info,
            "no longer: worker 1 runs generation 4",
        );
        assert_eq!(alarms.update(Vec::new()), [cleared]);
        assert_eq!(alarms.update(Vec::new()), []);
    }

    #[test]
    fn what_has_an_event_of_its_own_makes_no_second_one() {
        let mut alarms = Alarms::default();
        let down = Alarm::new(AlarmKind::LinkDown, "port lan", "port lan has no link");
        let conflict = Alarm::new(AlarmKind::AddressConflict, "port lan", "claimed");
        assert_eq!(alarms.update(vec![down, conflict]), []);
        let kind = EventKind::AlarmCleared;
        let cleared = Draft::new(kind, Severity::Info, "port lan", "no longer: claimed");
        assert_eq!(alarms.update(Vec::new()), [cleared]);
    }

    #[test]
    fn an_outage_does_not_fill_the_log() {
        let alarm = |number| {
            let subject = format!("service s{number}");
            Alarm::new(AlarmKind::NoHealthyBackend, subject.clone(), subject)
        };
        let mut alarms = Alarms::default();
        let drafts = alarms.update((0..10_000).map(alarm).collect());
        assert_eq!(drafts.len(), EVENTS_A_LOOK + 1);
        let rest = |kind, severity, message| Draft::new(kind, severity, "appliance", message);
        let raised = rest(
            EventKind::AlarmRaised,
            Severity::Error,
            "9936 more alarms came; `lodectl status` has all that there are",
        );
        assert_eq!(drafts.last(), Some(&raised), "as severe as those that it stands for");
        // What goes is told as that.
        let drafts = alarms.update((0..9_000).map(alarm).collect());
        assert_eq!(drafts.len(), EVENTS_A_LOOK + 1);
        let cleared = rest(
            EventKind::AlarmCleared,
            Severity::Info,
            "936 more alarms went; `lodectl status` has all that there are",
        );
        assert_eq!(drafts.last(), Some(&cleared));
        // What comes does not push out what goes.
        let drafts = alarms.update((9_000..9_100).map(alarm).collect());
        assert_eq!(drafts.len(), 2 * (EVENTS_A_LOOK + 1));
    }
}
