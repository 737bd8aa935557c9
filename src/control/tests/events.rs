//! What happens to the appliance becomes an event (OPS-09).

#![expect(clippy::disallowed_methods, reason = "what lags does so for a second")]

use std::time::Duration;

use super::metrics::{World, file};
use crate::control::AlarmKind;
use crate::control::admin::{PeerCredentials, Role};
use crate::control::events::{Event, EventKind, Severity, Votes};
use crate::control::protocol::params::ForceParams;
use crate::control::protocol::reply::Health;
use crate::control::protocol::{BackendName, ErrorCode, Request, RequestError};
use crate::health::{Cause, Damping, Outcome, ProbeResult, Report};

const LAST_RESORT: &str = "service site has no healthy backend: new flows go to unhealthy ones of \
                           pool web as a last resort";

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
        (EventKind::AlarmRaised, Severity::Error, "service site", LAST_RESORT)
    );
    world.look(2);
    assert_eq!(world.last_event().number, first.number, "it lasts");
    let key = world.key();
    world.management.state.set_health(&key, crate::steer::Health::Up);
    world.look(2);
    assert_eq!(world.last_event().number, first.number, "looked for once a second");
    world.look(3);
    let message = format!("no longer: {LAST_RESORT}");
    let last = world.last_event();
    assert_eq!(told(&last), (EventKind::AlarmCleared, Severity::Info, "service site", &*message));
}

// L4-43: alarms follow what the tables do with new flows.
#[test]
fn a_service_without_backends_and_one_in_its_last_resort_are_told_apart() {
    let mut world = World::new();
    let alarms = |world: &World| -> Vec<_> {
        let alarms = world.management.alarms();
        alarms.into_iter().map(|alarm| (alarm.kind, alarm.text)).collect()
    };
    let last_resort = (AlarmKind::NoHealthyBackend, LAST_RESORT.to_owned());
    assert_eq!(alarms(&world), [last_resort]);
    let dropped = "service site drops new flows: no pool has an enabled backend with a weight \
                   above 0";
    let nobody = (AlarmKind::NoBackend, dropped.to_owned());
    let disabled = "name = \"b1\"\nadmin_state = \"disabled\"";
    let weightless = file("", 1).replace("name = \"b1\"", disabled).replace("= 3", "= 0");
    world.apply(&weightless);
    assert_eq!(alarms(&world), std::slice::from_ref(&nobody), "b2 is healthy, but of no weight");
    world.apply(&file("admin_state = \"draining\"", 1));
    assert_eq!(alarms(&world), [nobody]);
    // Who disabled it knows.
    for state in ["draining", "disabled"] {
        let state = format!("name = \"site\"\nadmin_state = \"{state}\"");
        world.apply(&weightless.replace("name = \"site\"", &state));
        assert_eq!(alarms(&world), []);
    }
    world.apply(&file("", 1));
    assert_eq!(alarms(&world), []);
}

#[test]
fn what_nobody_had_the_time_to_probe_is_no_alarm() {
    let mut world = World::new();
    world.management.probes_due = Duration::from_hours(1);
    assert!(world.management.alarms().is_empty());
    for (name, health) in [("b1", crate::steer::Health::Down), ("b2", crate::steer::Health::Down)] {
        let key = world.management.state.find("web", name).unwrap();
        world.management.state.set_health(&key, health);
    }
    assert_eq!(world.management.alarms().len(), 1, "all were probed");
    world.management.probes_due = Duration::ZERO;
    assert_eq!(World::new().management.alarms().len(), 1, "there was the time");
}

#[test]
fn verbs_wait_for_tables_of_the_configuration_and_for_no_later_ones() {
    let mut world = World::new();
    world.management.publish_if_due();
    let configured = world.management.configured_by;
    assert_eq!(configured, world.management.publisher.generation());
    let key = world.management.state.find("web", "b1").unwrap();
    world.management.state.set_health(&key, crate::steer::Health::Up);
    world.management.mark_changed();
    world.management.publish_if_due();
    assert!(world.management.publisher.generation() > configured);
    assert_eq!(world.management.configured_by, configured);
}

#[test]
fn the_appliance_forwards_once_every_worker_has_the_vips() {
    let mut world = World::new();
    world.management.waits_until = Some(Duration::from_hours(1));
    let told = |world: &mut World| {
        world.management.publish_if_due();
        world.reader.refresh();
        world.management.tell_when_serving();
        world.management.events.counts()[EventKind::Started.index()]
    };
    assert_eq!(told(&mut world), 0, "tables without VIPs");
    for name in ["b1", "b2"] {
        let key = world.management.state.find("web", name).unwrap();
        world.management.state.set_health(&key, crate::steer::Health::Up);
    }
    world.management.publish_if_due();
    world.management.tell_when_serving();
    assert_eq!(world.management.events.last_number(), 0, "the worker does not have them yet");
    assert_eq!(told(&mut world), 1);
    world.publish();
    assert_eq!(told(&mut world), 1, "once");
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
