//! What happens to the appliance becomes an event (OPS-09).

#![expect(clippy::disallowed_methods, reason = "what lags does so for a second")]

use std::time::Duration;

use super::metrics::{World, file};
use crate::control::admin::{PeerCredentials, Role};
use crate::control::events::{Event, EventKind, Severity, Votes};
use crate::control::protocol::params::ForceParams;
use crate::control::protocol::reply::Health;
use crate::control::protocol::{BackendName, ErrorCode, Request, RequestError};
use crate::health::{Cause, Damping, Outcome, ProbeResult, Report};

const PEER: PeerCredentials = PeerCredentials { uid: 1_000, gid: 100, pid: Some(7) };

impl World {
    /// The events since the last call.
    fn events(&self, after: u64) -> Vec<Event> {
        self.management.events.since(after, usize::MAX)
    }

    fn last_event(&self) -> Event {
        self.management.events.latest(1).remove(0)
    }

    fn look(&mut self, seconds: u64) {
        let now = Duration::from_secs(seconds);
        let crate::control::Management { neighbours, ports, workers, .. } = &mut self.management;
        neighbours.tick(now, ports.as_ref(), workers);
        self.management.record_alarms(now);
    }
}

fn told(event: &Event) -> (EventKind, Severity, &str, &str) {
    (event.kind, event.severity, &event.subject, &event.message)
}

#[test]
fn a_change_of_health_has_cause_votes_and_the_last_ten_results() {
    let mut world = World::new();
    let mut damping = Damping::new(2, 3);
    let mut probe = |world: &mut World, second: u64, outcome| {
        let at = Duration::from_secs(second);
        let result = ProbeResult { at, outcome, rtt: Duration::from_millis(second) };
        let transition = damping.record(result);
        let report = Report { key: world.key(), result, transition, damping: damping.clone() };
        world.management.report(report);
    };
    for second in 0..12 {
        probe(&mut world, second, Outcome::Pass);
    }
    assert_eq!(world.management.events.last_number(), 1, "from unknown to up, and no more");
    for second in 12..15 {
        probe(&mut world, second, Outcome::Fail(Cause::BadStatus(503)));
    }
    assert_eq!(world.management.events.last_number(), 2);
    let event = world.last_event();
    assert_eq!((event.kind, event.subject.as_str()), (EventKind::HealthChanged, "web/b1"));
    assert_eq!(event.severity, Severity::Warning);
    let health = event.health.unwrap();
    assert_eq!((health.from, health.to), (Health::Up, Health::Down));
    assert_eq!(health.cause.as_deref(), Some("bad-status 503"));
    assert_eq!(health.votes, Votes { up: 0, down: 1 });
    let took: Vec<_> = health.probes.iter().map(|probe| probe.took_ms).collect();
    assert_eq!(took, (5..15).collect::<Vec<_>>());
    assert!(event.time_ms > 1_600_000_000_000, "milliseconds since 1970");
}

#[test]
fn a_link_is_told_at_once_and_its_alarm_makes_no_second_event() {
    let mut world = World::new();
    world.look(1);
    let start = world.management.events.last_number();
    world.set_port(|port| port.link_up = false);
    world.look(2);
    world.look(3);
    world.set_port(|port| port.link_up = true);
    world.look(4);
    let events = world.events(start);
    let told: Vec<_> = events.iter().map(told).collect();
    let (kind, subject) = (EventKind::LinkChanged, "port lan");
    assert_eq!(
        told,
        [
            (kind, Severity::Warning, subject, "the link of port lan is down"),
            (kind, Severity::Info, subject, "the link of port lan is up"),
        ]
    );
}

#[test]
fn alarms_are_told_when_they_come_and_when_they_go() {
    let mut world = World::new();
    world.look(1);
    let first = world.last_event();
    assert_eq!(
        told(&first),
        (
            EventKind::AlarmRaised,
            Severity::Error,
            "service site",
            "service site has no healthy backend"
        )
    );
    world.look(2);
    assert_eq!(world.last_event().number, first.number, "it lasts");
    let key = world.key();
    world.management.state.set_health(&key, crate::steer::Health::Up);
    world.look(2);
    assert_eq!(world.last_event().number, first.number, "looked for once a second");
    world.look(3);
    let message = "no longer: service site has no healthy backend";
    let last = world.last_event();
    assert_eq!(told(&last), (EventKind::AlarmCleared, Severity::Info, "service site", message));
}

#[test]
fn a_worker_that_lags_is_told_and_that_it_caught_up_as_well() {
    let mut world = World::new();
    world.publish();
    world.look(1);
    let start = world.management.events.last_number();
    std::thread::sleep(Duration::from_millis(1_050));
    world.look(2);
    // More tables make no second alarm, and do not end the first.
    world.publish();
    world.look(3);
    world.publish();
    world.look(4);
    world.reader.refresh();
    world.look(5);
    let events = world.events(start);
    let kinds: Vec<_> = events.iter().map(|event| (event.kind, event.subject.as_str())).collect();
    let subject = "worker 0";
    assert_eq!(kinds, [(EventKind::WorkerLagging, subject), (EventKind::WorkerCurrent, subject)]);
}

#[test]
fn what_operators_change_and_what_is_refused_is_told() {
    let mut world = World::new();
    let drain = Request::BackendDrain("web/b1".parse::<BackendName>().unwrap().into());
    world.management.record_change(&drain, Role::Full, PEER, &Ok((false, Vec::new())));
    assert_eq!(world.management.events.last_number(), 0, "nothing changed");
    world.management.record_change(&drain, Role::Full, PEER, &Ok((true, Vec::new())));
    let message = "backend.drain by user id 1000";
    let last = world.last_event();
    assert_eq!(told(&last), (EventKind::AdminChanged, Severity::Info, "web/b1", message));

    let reload = Request::Reload(ForceParams::default());
    let mistakes = vec!["line 3 is wrong".to_owned(), "line 5 too".to_owned()];
    let error = RequestError::new(ErrorCode::CONFIG_REFUSED, "f is refused").with_data(mistakes);
    world.management.record_change(&reload, Role::Full, PEER, &Err(error));
    let last = world.last_event();
    assert_eq!((last.kind, last.severity), (EventKind::ConfigRefused, Severity::Error));
    assert_eq!(last.message, "f is refused: line 3 is wrong (and 1 more)");

    world.management.record_change(&reload, Role::Full, PEER, &Ok((true, vec!["hm".into()])));
    let last = world.last_event();
    assert_eq!(last.kind, EventKind::ConfigApplied);
    assert_eq!(last.message, "the configuration is applied; warnings: 1");
}

#[test]
fn health_of_a_backend_that_left_is_no_event() {
    let mut world = World::new();
    let key = world.key();
    world.apply(&file("", 1).replace("10.0.1.1\"", "10.0.1.9\""));
    let result = ProbeResult { at: Duration::ZERO, outcome: Outcome::Pass, rtt: Duration::ZERO };
    let mut damping = Damping::new(1, 1);
    let transition = damping.record(result);
    world.management.report(Report { key: key.clone(), result, transition, damping });
    assert_eq!(world.management.events.last_number(), 0);
    assert_eq!(world.management.tally.probes_of(&key), None);
}
