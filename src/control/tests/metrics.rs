//! Each metric moves when the thing happens that it is about (issue's point 4; OPS-01, OPS-12).

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test is the world around management: ports that it sets, and time that passes"
)]

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::parts::{Parts, parts, worker};
use super::running::arp_answer;
use super::*;
use crate::config::{AdminState, BackendKey};
use crate::control::events::{EventKind, Severity};
use crate::control::metrics::{FAMILIES, Kind, Outcome, Text};
use crate::control::{Management, PortState, Ports};
use crate::forward::{Counters, DropReason, Tables};
use crate::health::{self, Cause};
use crate::id::{BackendId, Family, PortId, ServiceId};
use crate::packet::MacAddress;
use crate::snapshot::{Generation, Reader};
use crate::stats::BurstCycles;
use crate::steer::Health;
use crate::worker::Mailbox;

/// A port in the state that the test sets, and the packet buffers.
#[derive(Clone, Debug)]
pub(super) struct SetPort(Arc<Mutex<PortState>>, Arc<Mutex<(u32, u32)>>);

impl Ports for SetPort {
    fn mac(&self, _: PortId) -> MacAddress {
        MacAddress([2, 0, 0, 0, 0, 1])
    }

    fn link_up(&self, port: PortId) -> bool {
        self.state(port).link_up
    }

    fn buffers(&self) -> (u32, u32) {
        *self.1.lock().unwrap()
    }

    fn state(&self, _: PortId) -> PortState {
        self.0.lock().unwrap().clone()
    }
}

/// Management at rest, and what it looks at.
pub(super) struct World {
    pub(super) management: Management,
    counters: Counters,
    pub(super) reader: Reader<Tables>,
    mailbox: Mailbox,
    port: SetPort,
    _directory: TempDir,
}

/// Pool `web` with b1 and b2 behind service `site`.
pub(super) fn file(more: &str, weight: u32) -> String {
    let backends = [backend(1, weight), backend(2, 3)];
    text(&[pool("web", more, &backends), service("site", &["web"], "10.0.0.100")])
}

impl World {
    pub(super) fn new() -> Self {
        Self::of(&file("monitor = \"probe\"", 1))
    }

    /// One worker, and management of this configuration.
    fn of(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let up = PortState { link_up: true, ..PortState::default() };
        let port = SetPort(Arc::new(Mutex::new(up)), Arc::default());
        let parts = parts(directory.path(), parsed(text), Box::new(port.clone()));
        let Parts { management, reader, counters, mailbox } = parts;
        let mut management = Management::new(management).unwrap();
        // As after the time that the first probes have: nobody probes here.
        management.waits_until = None;
        Self { management, counters, reader, mailbox, port, _directory: directory }
    }

    pub(super) fn key(&self) -> BackendKey {
        self.management.state.find("web", "b1").unwrap()
    }

    /// The slot of web/b1.
    fn slot(&self) -> BackendId {
        self.management.state.slots().find(&self.key()).unwrap().id
    }

    pub(super) fn set_port(&self, adjust: impl FnOnce(&mut PortState)) {
        adjust(&mut self.port.0.lock().unwrap());
    }

    fn set_health(&mut self, health: Health) {
        let key = self.key();
        self.management.state.set_health(&key, health);
    }

    pub(super) fn apply(&mut self, text: &str) {
        let config = parsed(text);
        self.management.state.apply(config, Generation(9), Duration::ZERO).unwrap();
    }

    pub(super) fn publish(&mut self) {
        self.management.mark_changed();
        self.management.publish_if_due();
    }

    fn probe(&mut self, outcome: health::Outcome) {
        let rtt = Duration::from_millis(250);
        let result = health::ProbeResult { at: Duration::ZERO, outcome, rtt };
        let key = self.key();
        self.management.tally.probe(&key, &result);
    }

    /// A burst that took so many cycles; a cycle is a nanosecond.
    fn burst(&mut self, cycles: u64) {
        self.counters.add_burst_cycles(BurstCycles { decide: cycles, ..BurstCycles::default() });
    }

    fn text(&self) -> String {
        Text::new(self.management.observe()).collect()
    }
}

/// The samples of a family, without its name; those of a histogram begin with the suffix of theirs.
fn samples<'a>(text: &'a str, family: &str) -> BTreeSet<&'a str> {
    let of_family = |line: &'a str| {
        let rest = line.strip_prefix(family)?;
        let is_part =
            ["{", " ", "_bucket{", "_sum{", "_count{"].iter().any(|s| rest.starts_with(s));
        is_part.then_some(rest.trim_start())
    };
    text.lines().filter_map(of_family).collect()
}

/// What happens, and the samples that come with it. `""` stands for any other than before.
type Case = (&'static str, fn(&mut World), &'static [&'static str]);

const CASES: &[Case] = &[
    ("appliance_info", |w| w.apply(&file("", 1).replace("lb1", "lb2")), &["{name=\"lb2\"} 1"]),
    ("start_time_seconds", |w| w.management.started_ms = 1_500, &["1.5"]),
    ("uptime_seconds", |_| std::thread::sleep(Duration::from_millis(5)), &[""]),
    ("tables_generation", World::publish, &["1"]),
    ("tables_info", World::publish, &[""]),
    ("management_restarts_total", |w| w.management.tally.management_restarted(), &["1"]),
    (
        "log_messages_left_out_total",
        |w| w.management.log_left_out.store(41, Ordering::Relaxed),
        &["41"],
    ),
    (
        "events_total",
        |w| w.management.record_appliance(EventKind::Started, Severity::Info, "it forwards"),
        &["{kind=\"started\"} 1"],
    ),
    (
        "alarm",
        |w| w.set_port(|port| port.link_up = false),
        &["{alarm=\"link-down\",subject=\"port lan\"} 1"],
    ),
    ("alarms", |w| w.set_port(|port| port.link_up = false), &["2"]),
    (
        "admin_requests_total",
        |w| w.management.tally.request("reload", Outcome::Refused),
        &["{method=\"reload\",outcome=\"refused\"} 1"],
    ),
    ("worker_info", |w| w.management.workers[0].core = 5, &["{worker=\"0\",core=\"5\"} 1"]),
    ("worker_receive_packets_total", |w| w.counters.add_rx(7, 700), &["{worker=\"0\"} 7"]),
    ("worker_receive_bytes_total", |w| w.counters.add_rx(7, 700), &["{worker=\"0\"} 700"]),
    ("worker_transmit_packets_total", |w| w.counters.add_tx(6, 600), &["{worker=\"0\"} 6"]),
    ("worker_transmit_bytes_total", |w| w.counters.add_tx(6, 600), &["{worker=\"0\"} 600"]),
    (
        "worker_dropped_packets_total",
        |w| w.counters.add_dropped(DropReason::NotVip, 5),
        &["{worker=\"0\",reason=\"not-vip\"} 5"],
    ),
    ("worker_punted_packets_total", |w| w.counters.add_punted(4), &["{worker=\"0\"} 4"]),
    ("worker_originated_packets_total", |w| w.counters.add_originated(3), &["{worker=\"0\"} 3"]),
    ("worker_reply_packets_total", |w| w.counters.add_replies(2), &["{worker=\"0\"} 2"]),
    ("worker_polls_total", |w| w.counters.add_rx(1, 60), &["{worker=\"0\"} 1"]),
    ("worker_empty_polls_total", |w| w.counters.add_rx(0, 0), &["{worker=\"0\"} 1"]),
    ("worker_transmit_retries_total", |w| w.counters.add_tx_retries(9), &["{worker=\"0\"} 9"]),
    ("worker_transmit_stalls_total", |w| w.counters.add_tx_full_burst(), &["{worker=\"0\"} 1"]),
    ("worker_handed_out_packets_total", |w| w.counters.add_handed_out(6), &["{worker=\"0\"} 6"]),
    ("worker_handed_in_packets_total", |w| w.counters.add_handed_in(7), &["{worker=\"0\"} 7"]),
    (
        "worker_time_seconds_total",
        |w| w.counters.add_idle_cycles(2_500_000_000),
        &["{worker=\"0\",stage=\"idle\"} 2.5"],
    ),
    (
        "worker_burst_duration_seconds",
        |w| w.burst(1 << 40),
        &[
            "_bucket{worker=\"0\",le=\"+Inf\"} 1",
            "_sum{worker=\"0\"} 1099.511627776",
            "_count{worker=\"0\"} 1",
        ],
    ),
    ("worker_longest_burst_seconds", |w| w.burst(70), &["{worker=\"0\"} 0.00000007"]),
    (
        "worker_generation",
        |w| {
            w.publish();
            w.reader.refresh();
        },
        &["{worker=\"0\"} 1"],
    ),
    (
        "worker_lagging",
        |w| {
            w.publish();
            std::thread::sleep(Duration::from_millis(1_050));
        },
        &["{worker=\"0\"} 1"],
    ),
    (
        "conntrack_entries",
        |w| w.counters.set_entries(Family::Ipv6, 3),
        &["{worker=\"0\",family=\"ipv6\"} 3"],
    ),
    (
        "conntrack_capacity_entries",
        |w| w.management.workers[0].capacity = (16, 32),
        &["{worker=\"0\",family=\"ipv4\"} 16", "{worker=\"0\",family=\"ipv6\"} 32"],
    ),
    (
        "conntrack_hits_total",
        |w| w.counters.conntrack_hit(Family::Ipv4),
        &["{worker=\"0\",family=\"ipv4\"} 1"],
    ),
    (
        "conntrack_new_flows_total",
        |w| w.counters.new_flow(Family::Ipv4, ServiceId(0), BackendId(0)),
        &["{worker=\"0\",family=\"ipv4\"} 1"],
    ),
    (
        "conntrack_unverified_flows_total",
        |w| w.counters.unverified_flow(Family::Ipv6, ServiceId(0), BackendId(0)),
        &["{worker=\"0\",family=\"ipv6\"} 1"],
    ),
    (
        "conntrack_refused_flows_total",
        |w| w.counters.refused_flow(Family::Ipv4),
        &["{worker=\"0\",family=\"ipv4\"} 1"],
    ),
    (
        "conntrack_removed_flows_total",
        |w| w.counters.removed_flow(Family::Ipv4),
        &["{worker=\"0\",family=\"ipv4\"} 1"],
    ),
    (
        "conntrack_expired_flows_total",
        |w| w.counters.expired_flow(Family::Ipv4),
        &["{worker=\"0\",family=\"ipv4\"} 1"],
    ),
    ("port_up", |w| w.set_port(|port| port.link_up = false), &["{port=\"lan\"} 0"]),
    ("port_rss", |w| w.set_port(|port| port.rss = true), &["{port=\"lan\"} 1"]),
    (
        "port_link_changes_total",
        |w| {
            w.set_port(|port| port.link_up = false);
            let Management { neighbours, ports, workers, .. } = &mut w.management;
            neighbours.tick(Duration::ZERO, ports.as_ref(), workers);
        },
        &["{port=\"lan\"} 1"],
    ),
    ("port_resets_total", |w| w.set_port(|port| port.resets = 2), &["{port=\"lan\"} 2"]),
    (
        "port_receive_packets_total",
        |w| w.set_port(|port| port.rx_packets = 8),
        &["{port=\"lan\"} 8"],
    ),
    (
        "port_receive_bytes_total",
        |w| w.set_port(|port| port.rx_bytes = 800),
        &["{port=\"lan\"} 800"],
    ),
    (
        "port_receive_error_packets_total",
        |w| w.set_port(|port| port.rx_errors = 3),
        &["{port=\"lan\"} 3"],
    ),
    (
        "port_receive_no_buffer_packets_total",
        |w| w.set_port(|port| port.rx_no_buffer = 4),
        &["{port=\"lan\"} 4"],
    ),
    (
        "port_transmit_bytes_total",
        |w| w.set_port(|port| port.tx_bytes = 900),
        &["{port=\"lan\"} 900"],
    ),
    (
        "port_transmit_error_packets_total",
        |w| w.set_port(|port| port.tx_errors = 5),
        &["{port=\"lan\"} 5"],
    ),
    ("packet_buffers", |w| *w.port.1.lock().unwrap() = (5, 100), &["100"]),
    ("packet_buffers_in_use", |w| *w.port.1.lock().unwrap() = (5, 100), &["5"]),
    (
        "port_transmit_packets_total",
        |w| w.set_port(|port| port.tx_packets = 9),
        &["{port=\"lan\"} 9"],
    ),
    (
        "port_receive_missed_packets_total",
        |w| w.set_port(|port| port.rx_missed = 2),
        &["{port=\"lan\"} 2"],
    ),
    (
        "service_packets_total",
        |w| w.counters.add_service(ServiceId(0), 3, 300),
        &["{service=\"site\"} 3"],
    ),
    (
        "service_bytes_total",
        |w| w.counters.add_service(ServiceId(0), 3, 300),
        &["{service=\"site\"} 300"],
    ),
    (
        "service_new_flows_total",
        |w| w.counters.new_flow(Family::Ipv4, ServiceId(0), w.slot()),
        &["{service=\"site\"} 1"],
    ),
    (
        "service_pool_share_ratio",
        |w| {
            for name in ["b1", "b2"] {
                set_admin(&mut w.management.state, "web", name, AdminState::Disabled);
            }
        },
        &["{service=\"site\",pool=\"web\"} 0"],
    ),
    (
        "pool_backends",
        |w| w.apply(&file("", 1).replace("[[service]]", &(backend_3() + "[[service]]"))),
        &["{pool=\"web\"} 3"],
    ),
    ("pool_healthy_backends", |w| w.set_health(Health::Up), &["{pool=\"web\"} 1"]),
    ("pool_threshold_backends", |w| w.apply(&file("threshold = 2", 1)), &["{pool=\"web\"} 2"]),
    (
        "backend_info",
        |w| w.apply(&file("", 1).replace("10.0.1.1\"", "10.0.1.9\"")),
        &["{pool=\"web\",backend=\"b1\",address=\"10.0.1.9\"} 1"],
    ),
    ("backend_up", |w| w.set_health(Health::Up), &["{pool=\"web\",backend=\"b1\"} 1"]),
    (
        "backend_admin_state",
        |w| {
            set_admin(&mut w.management.state, "web", "b1", AdminState::Draining);
        },
        &[
            "{pool=\"web\",backend=\"b1\",state=\"enabled\"} 0",
            "{pool=\"web\",backend=\"b1\",state=\"draining\"} 1",
        ],
    ),
    ("backend_weight", |w| w.apply(&file("", 5)), &["{pool=\"web\",backend=\"b1\"} 5"]),
    (
        "backend_slot_share_ratio",
        |w| {
            w.set_health(Health::Up);
            w.publish();
        },
        &["{pool=\"web\",backend=\"b1\"} 1"],
    ),
    (
        "backend_next_hop_known",
        |w| {
            let Management { neighbours, ports, workers, .. } = &mut w.management;
            neighbours.tick(Duration::ZERO, ports.as_ref(), workers);
            while let Some(frame) = w.mailbox.next_outgoing() {
                assert!(arp_answer(&frame).is_none_or(|answer| w.mailbox.punt(answer)));
            }
            neighbours.tick(Duration::ZERO, ports.as_ref(), workers);
        },
        &["{pool=\"web\",backend=\"b1\"} 1", "{pool=\"web\",backend=\"b2\"} 1"],
    ),
    (
        "backend_packets_total",
        |w| w.counters.add_backend(w.slot(), 11, 1_100),
        &["{pool=\"web\",backend=\"b1\"} 11"],
    ),
    (
        "backend_bytes_total",
        |w| w.counters.add_backend(w.slot(), 11, 1_100),
        &["{pool=\"web\",backend=\"b1\"} 1100"],
    ),
    (
        "backend_new_flows_total",
        |w| w.counters.new_flow(Family::Ipv4, ServiceId(0), w.slot()),
        &["{pool=\"web\",backend=\"b1\"} 1"],
    ),
    (
        "backend_tracked_flows",
        |w| w.counters.open_flow(w.slot()),
        &["{pool=\"web\",backend=\"b1\"} 1"],
    ),
    (
        "backend_probes_total",
        |w| {
            w.probe(health::Outcome::Pass);
            w.probe(health::Outcome::Fail(Cause::Timeout));
            w.probe(health::Outcome::Fail(Cause::Timeout));
            w.probe(health::Outcome::Fail(Cause::NoSocket));
        },
        &[
            "{pool=\"web\",backend=\"b1\",result=\"pass\"} 1",
            "{pool=\"web\",backend=\"b1\",result=\"fail\"} 2",
            "{pool=\"web\",backend=\"b1\",result=\"void\"} 1",
        ],
    ),
    (
        "backend_probe_seconds_total",
        |w| {
            w.probe(health::Outcome::Pass);
            w.probe(health::Outcome::Pass);
        },
        &["{pool=\"web\",backend=\"b1\"} 0.5"],
    ),
    (
        "backend_last_probe_seconds",
        |w| w.probe(health::Outcome::Pass),
        &["{pool=\"web\",backend=\"b1\"} 0.25"],
    ),
];

fn backend_3() -> String {
    "[[pool.backend]]\nname = \"b3\"\naddress = \"10.0.1.3\"\n".to_owned()
}

/// What never moves: it tells which build this is.
const CONSTANT: &str = "lodestone_build_info";

#[test]
fn every_metric_moves_when_its_thing_happens() {
    for (name, happen, expected) in CASES {
        let name = format!("lodestone_{name}");
        let mut world = World::new();
        let before = world.text();
        happen(&mut world);
        let after = world.text();
        let (old, new) = (samples(&before, &name), samples(&after, &name));
        let moved: BTreeSet<_> = new.difference(&old).copied().collect();
        if *expected == [""] {
            assert_eq!((moved.len(), new.len()), (1, 1), "{name}: {new:?}");
        } else {
            assert_eq!(moved, expected.iter().copied().collect(), "{name}");
        }
    }
}

#[test]
fn bursts_are_counted_by_octaves_each_with_all_that_took_less() {
    let mut world = World::new();
    for cycles in [0, 63, 64, 127, 128, 700, (1 << 30) - 1, 1 << 30] {
        world.burst(cycles);
    }
    let text = world.text();
    let buckets: Vec<(f64, u64)> = text
        .lines()
        .filter_map(|line| line.strip_prefix("lodestone_worker_burst_duration_seconds_bucket"))
        .map(|rest| {
            let (labels, count) = rest.split_once("} ").unwrap();
            let end =
                labels.strip_prefix("{worker=\"0\",le=\"").unwrap().strip_suffix('"').unwrap();
            (end.parse().unwrap(), count.parse().unwrap())
        })
        .collect();
    assert_eq!(buckets.len(), 26, "{buckets:?}");
    assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
    let up_to = |cycles: f64| {
        let bucket = buckets.iter().find(|(end, _)| (end * 1e9).round() >= cycles).unwrap();
        ((bucket.0 * 1e9).round(), bucket.1)
    };
    assert_eq!(up_to(63.0), (63.0, 2));
    assert_eq!(up_to(64.0), (127.0, 4));
    assert_eq!(up_to(128.0), (255.0, 5));
    assert_eq!(up_to(1_000.0).1, 6);
    assert_eq!(buckets[24].1, 7, "{buckets:?}");
    assert_eq!((buckets[25].0, buckets[25].1), (f64::INFINITY, 8));
    assert!(text.contains("\nlodestone_worker_burst_duration_seconds_count{worker=\"0\"} 8\n"));
}

#[test]
fn no_metric_is_left_out_of_the_cases() {
    let cases: BTreeSet<_> = CASES.iter().map(|(name, ..)| format!("lodestone_{name}")).collect();
    assert_eq!(cases.len(), CASES.len());
    let families: BTreeSet<_> = FAMILIES.iter().map(|family| family.name.to_owned()).collect();
    let constant: BTreeSet<_> = [CONSTANT.to_owned()].into();
    assert_eq!(families.difference(&cases).cloned().collect::<BTreeSet<_>>(), constant);
    assert!(cases.is_subset(&families));
    let text = World::new().text();
    let [build] = samples(&text, CONSTANT).into_iter().collect::<Vec<_>>()[..] else {
        panic!("one sample")
    };
    assert!(build.contains(&format!("version=\"{}\"", crate::version::VERSION)), "{build}");
}

#[test]
fn samples_have_the_labels_of_their_family_and_no_other() {
    let mut world = World::new();
    for (_, happen, _) in CASES.iter().filter(|(name, ..)| !name.starts_with("worker_lagging")) {
        happen(&mut world);
    }
    let text = world.text();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let series: Vec<_> = series.filter_map(|line| line.rsplit_once(' ')).collect();
    let distinct: BTreeSet<_> = series.iter().map(|(series, _)| series).collect();
    assert_eq!(distinct.len(), series.len(), "no series comes twice");
    for family in FAMILIES {
        let samples = samples(&text, family.name);
        assert!(!samples.is_empty(), "{} has no sample", family.name);
        for sample in samples {
            let (suffix, sample) = sample.split_once('{').unwrap_or(("", sample));
            let (labels, value) = sample.split_once("} ").unwrap_or(("", sample));
            assert_eq!(family.kind == Kind::Histogram, !suffix.is_empty(), "{sample}");
            let names: Vec<_> = labels
                .split("\",")
                .filter_map(|label| label.split_once("=\"").map(|(name, _)| name))
                .collect();
            let bucket: &[&str] = if suffix == "_bucket" { &["le"] } else { &[] };
            assert_eq!(names, [family.labels, bucket].concat(), "{}", family.name);
            let value: f64 = value.parse().unwrap();
            assert!(family.kind == Kind::Gauge || value >= 0.0);
        }
    }
}

// A backend that leaves takes its samples with it: series are bounded by the configuration.
#[test]
fn what_is_not_configured_has_no_samples() {
    let mut world = World::new();
    world.probe(health::Outcome::Pass);
    assert!(world.text().contains("backend=\"b1\""));
    world.apply(&text(&[
        pool("web", "", &[backend(2, 3)]),
        service("site", &["web"], "10.0.0.100"),
    ]));
    let text = world.text();
    assert!(!text.contains("backend=\"b1\"") && text.contains("backend=\"b2\""));
}

/// As many pools, backends a pool and services a pool.
fn large(pools: usize, backends: usize, services: usize) -> String {
    let mut parts = Vec::new();
    for p in 0..pools {
        let mut part = pool(&format!("p{p}"), "monitor = \"probe\"", &[]);
        part = part.replace("1021", if backends > 1_021 { "65537" } else { "1021" });
        for b in 0..backends {
            let (net, host) = ((p * backends + b) / 250 + 1, (p * backends + b) % 250 + 1);
            writeln!(part, "[[pool.backend]]\nname = \"b{b}\"\naddress = \"10.0.{net}.{host}\"")
                .unwrap();
        }
        parts.push(part);
    }
    for s in 0..pools * services {
        let vip = format!("10.1.{}.{}", s / 250, s % 250 + 1);
        parts.push(service(&format!("s{s}"), &[&format!("p{}", s % pools)], &vip));
    }
    text(&parts)
}

// A scrape must not hold up management: 50 ms in a release build, which is several times as fast
// as the builds that tests run in, but these share their cores.
#[test]
fn ten_thousand_backends_are_observed_in_no_time() {
    for (pools, backends, services) in [(1, 10_000, 1), (1_000, 10, 10)] {
        let mut world = World::of(&large(pools, backends, services));
        for id in 1..4 {
            let (worker, ..) = worker(id, 1);
            world.management.workers.push(worker);
        }
        world.publish();
        let took = |what: &dyn Fn()| {
            let start = Instant::now();
            what();
            start.elapsed()
        };
        let best = |what: &dyn Fn()| (0..5).map(|_| took(what)).min().unwrap();
        let alarms = best(&|| drop(world.management.alarms()));
        let observe = best(&|| drop(world.management.observe()));
        let observation = world.management.observe();
        let text = best(&|| drop(Text::new(observation.clone()).collect::<String>()));
        let mut pieces = Text::new(observation.clone());
        let mut piece = Duration::ZERO;
        let mut bytes = 0;
        loop {
            let start = Instant::now();
            let Some(text) = pieces.next() else { break };
            piece = piece.max(start.elapsed());
            bytes += text.len();
        }
        println!(
            "{pools} pools of {backends} backends, {services} services each: alarms {alarms:?}, \
             observation {observe:?}, text {text:?} ({bytes} bytes), its longest piece {piece:?}"
        );
        assert_eq!(observation.backends.len(), 10_000);
        assert!(observe < Duration::from_millis(500), "{observe:?}");
        assert!(piece < Duration::from_millis(50), "{piece:?}");
    }
}
