//! What probes find and what management makes of it; a reload that nobody waits for.

#![expect(clippy::disallowed_types, reason = "what is logged is shared with the log")]

use std::io;
use std::sync::Mutex;

use super::metrics::{World, file};
use super::tables::{Appliance, VIPS};
use super::*;
use crate::config::BackendKey;
use crate::control::management::wait_for_probes;
use crate::control::protocol::Request;
use crate::control::protocol::params::{ForceParams, NoParams};
use crate::health::{Cause, Damping, Outcome, ProbeResult, Report, Supervisor};

fn report(world: &mut World, key: &BackendKey, outcome: Outcome) {
    let result = ProbeResult { at: Duration::ZERO, outcome, rtt: Duration::ZERO };
    let mut damping = Damping::new(1, 1);
    let transition = damping.record(result);
    world.management.report(Report { key: key.clone(), result, transition, damping });
    world.management.publish_if_due();
}

/// How many probes of web/b1 are shown.
fn shown(world: &mut World) -> usize {
    let health = world.management.show(&Request::ShowHealth(NoParams {})).unwrap();
    let health = serde_json::to_value(&health).unwrap();
    health["backends"][0]["probes"].as_array().unwrap_or_else(|| panic!("{health}")).len()
}

/// Calls with a supervisor, inside a runtime.
fn with_supervisor<T>(world: &mut World, body: impl FnOnce(&mut World, &mut Supervisor) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (reports, _reports) = tokio::sync::mpsc::channel(8);
        let mut supervisor = Supervisor::new(reports, tokio::time::Instant::now(), 0);
        body(world, &mut supervisor)
    })
}

fn reload(world: &mut World, text: &str) {
    std::fs::write(&world.management.config_path, text).unwrap();
    let reload = Request::Reload(ForceParams { force: false });
    with_supervisor(world, |world, supervisor| world.management.change(&reload, supervisor))
        .unwrap();
}

#[test]
fn what_was_found_is_forgotten_with_the_monitor_and_a_late_report_does_not_bring_it_back() {
    let mut world = World::new();
    let key = world.key();
    report(&mut world, &key, Outcome::Pass);
    assert_eq!(shown(&mut world), 1);
    assert!(world.management.tally.probes_of(&key).is_some());
    // What concerns no monitor forgets nothing.
    reload(&mut world, &file("monitor = \"probe\"", 2));
    assert_eq!(shown(&mut world), 1);
    reload(&mut world, &file("", 2));
    assert_eq!(world.management.tally.probes_of(&key), None);
    report(&mut world, &key, Outcome::Fail(Cause::Timeout));
    assert_eq!(world.management.tally.probes_of(&key), None);
    assert_eq!(world.management.state.known_health().count(), 0);
    reload(&mut world, &file("monitor = \"probe\"", 2));
    assert_eq!(shown(&mut world), 0);
    // Now of a backend that is gone.
    report(&mut world, &key, Outcome::Pass);
    let others = file("monitor = \"probe\"", 2).replace("10.0.1.1\"", "10.0.1.9\"");
    reload(&mut world, &others);
    report(&mut world, &key, Outcome::Pass);
    assert_eq!(world.management.tally.probes_of(&key), None);
    reload(&mut world, &file("monitor = \"probe\"", 2));
    assert_eq!(shown(&mut world), 0);
}

#[test]
fn a_report_publishes_only_what_the_tables_hold() {
    let mut world = World::new();
    let [first, second] =
        ["b1", "b2"].map(|name| world.management.state.find("web", name).unwrap());
    report(&mut world, &first, Outcome::Pass);
    report(&mut world, &second, Outcome::Pass);
    set_admin(&mut world.management.state, "web", "b1", config::AdminState::Disabled);
    world.publish();
    let before = world.management.publisher.generation();
    // Workers need not know of one that is disabled.
    for outcome in [Outcome::Fail(Cause::Timeout), Outcome::Pass, Outcome::Pass] {
        report(&mut world, &first, outcome);
    }
    assert_eq!(world.management.publisher.generation(), before);
    assert!(world.management.is_published());
    // What waits behind such a report is published.
    set_admin(&mut world.management.state, "web", "b1", config::AdminState::Enabled);
    world.management.mark_changed();
    report(&mut world, &first, Outcome::Pass);
    assert_eq!(world.management.publisher.generation().0, before.0 + 1);
    report(&mut world, &second, Outcome::Fail(Cause::Timeout));
    assert_eq!(world.management.publisher.generation().0, before.0 + 2);
}

#[test]
fn only_what_monitors_see_touches_what_they_do() {
    let probed = "monitor = \"probe\"";
    let parts = |a: &[Backend], more: &str, b: &[Backend]| {
        text(&[pool("a", more, a), pool("b", "", b), service("one", &["a", "b"], VIPS[0])])
    };
    let (two, one) = ([backend(1, 1), backend(2, 1)], [backend(3, 1)]);
    let mut appliance = Appliance::new(&parts(&two, probed, &one));
    let heavier = [backend(1, 7), backend(2, 1)];
    let mut touches = |text: &str| appliance.apply(text).targets;
    assert!(!touches(&parts(&heavier, probed, &one)), "a weight");
    assert!(!touches(&parts(&heavier, "monitor = \"probe\"\nthreshold = 2", &one)));
    assert!(!touches(&parts(&heavier, probed, &[backend(3, 1), backend(4, 1)])), "not probed");
    assert!(touches(&parts(&two[..1], probed, &one)), "one left");
    assert!(touches(&parts(&two, probed, &one)), "one joined");
    assert!(touches(&parts(&two, "", &one)), "no monitor");
    assert!(touches(&parts(&two, probed, &one)), "a monitor");
    let elsewhere = |text: &str| {
        let own = "address = \"10.0.1.1\"";
        text.replace(own, &format!("{own}\nprobe_address = \"10.9.0.1\""))
    };
    assert!(touches(&elsewhere(&parts(&two, probed, &one))), "another address");
    let slower = |text: &str| text.replace("timeout = \"1s\"", "timeout = \"2s\"");
    assert!(touches(&slower(&elsewhere(&parts(&two, probed, &one)))), "the monitor");
}

#[test]
fn vips_wait_for_the_first_probes_for_thirty_seconds_at_most() {
    let wait = |timeout: &str| {
        let text = file("monitor = \"probe\"", 1).replace("timeout = \"1s\"", timeout);
        wait_for_probes(&parsed(&text))
    };
    assert_eq!(wait("timeout = \"1s\""), Some(Duration::from_millis(2_200)));
    assert_eq!(wait("timeout = \"55s\""), Some(Duration::from_secs(30)));
    let mut config = parsed(&file("", 1));
    config.monitors.clear();
    assert_eq!(wait_for_probes(&config), None);
}

/// What is logged within `body`.
fn logged(body: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::with_default(log.finish(), body);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_signal_that_reloads_has_its_warnings_and_an_audit_in_the_log() {
    let mut world = World::new();
    let draining = file("monitor = \"probe\"", 1)
        .replace("name = \"site\"", "name = \"site\"\nadmin_state = \"draining\"");
    let mut hangup = |text: &str| {
        std::fs::write(&world.management.config_path, text).unwrap();
        logged(|| with_supervisor(&mut world, |world, s| world.management.hangup(s)))
    };
    let log = hangup(&draining);
    assert!(
        log.contains(" WARN ") && log.contains("service site would take no new flows"),
        "{log}"
    );
    assert!(log.contains("audit: audit request=\"SIGHUP (reload)\" changed=true"), "{log}");
    let log = hangup("no toml");
    assert!(log.contains("audit: refused request=\"SIGHUP (reload)\""), "{log}");
}
