//! `promtool check metrics` has nothing to say about the text: neither mistakes nor breaches of the
//! conventions for names, units and help.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use lodestone::control::metrics::{
    BackendObservation, FAMILIES, Observation, Outcome, PoolObservation, PortObservation,
    ProbeTally, ServiceObservation, ShardObservation, Text, WorkerObservation,
};
use lodestone::control::{AlarmKind, PortState};
use lodestone::forward::DropReason;
use lodestone::id::Family;
use lodestone::stats::{
    BackendTotals, FlowTotals, Histogram, RuntimeTotals, ServiceTotals, Totals,
};
use lodestone::steer::{AdminState, Health};

/// Everything that has samples, twice where there may be several.
fn observation() -> Observation {
    let shard = |family| ShardObservation { family, capacity: 8, flows: FlowTotals::default() };
    let worker = |worker| WorkerObservation {
        worker,
        core: 1,
        generation: 3,
        lagging: false,
        runtime: RuntimeTotals::default(),
        latency: Histogram { counts: [1; Histogram::BUCKETS], sum: 98, max: 5 },
        cycles_per_second: 1,
        totals: Totals { rx_packets: u64::MAX, ..Totals::default() },
        dropped: [1; DropReason::COUNT],
        shards: [shard(Family::Ipv4), shard(Family::Ipv6)],
    };
    let port = |name: &str| PortObservation {
        name: name.to_owned(),
        state: PortState {
            link_up: true,
            rx_packets: 1,
            rx_missed: 3,
            resets: 1,
            ..PortState::default()
        },
        link_changes: 2,
    };
    let pool = |name: &str| PoolObservation {
        name: name.to_owned(),
        healthy: 1,
        backends: 2,
        threshold: 1,
    };
    let backend = |pool, name: &str| BackendObservation {
        pool,
        name: name.to_owned(),
        address: IpAddr::from([10, 0, 0, 1]),
        totals: BackendTotals { packets: 5, bytes: 500, new_flows: 2, flows: 1 },
        health: Health::Up,
        admin: AdminState::Draining,
        weight: 1_000_000,
        slot_share: 1.0 / 3.0,
        resolved: true,
        probes: Some(ProbeTally {
            passed: 9,
            last: Duration::from_micros(7),
            ..Default::default()
        }),
    };
    let service = |name: &str| ServiceObservation {
        totals: ServiceTotals::default(),
        name: name.to_owned(),
        shares: vec![(0, 0.25), (1, 0.75)],
    };
    Observation {
        appliance: "lb \"1\" \\ \n".to_owned(),
        start_time: 1.7e9,
        uptime: 0.5,
        generation: 3,
        tables_digest: "0123456789abcdef".to_owned(),
        alarms: vec![(AlarmKind::LinkDown, "port lan".to_owned())],
        requests: vec![("reload", Outcome::Done, 1), ("reload", Outcome::Refused, 2)],
        workers: vec![worker(0), worker(1)],
        ports: vec![port("lan"), port("wan")],
        services: vec![service("site"), service("mail")],
        pools: vec![pool("web"), pool("spare")],
        backends: vec![backend(0, "b1"), backend(0, "b2"), backend(1, "b1")],
        ..Observation::default()
    }
}

/// Where `scripts/install-dependencies` puts it, or else anywhere on the path.
fn promtool() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/promtool");
    if own.exists() { own } else { "promtool".into() }
}

fn check(text: &str) -> Output {
    let mut child = Command::new(promtool())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: run scripts/install-dependencies, or put it on the path");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    let text: String = Text::new(observation()).collect();
    for family in FAMILIES {
        assert!(text.contains(&format!("\n{}", family.name)), "{} has a sample", family.name);
    }
    let output = check(&text);
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

// The check is worth what it catches.
#[test]
fn promtool_finds_what_is_wrong() {
    for (wrong, complaint) in [
        (
            "# HELP x_milliseconds Time.\n# TYPE x_milliseconds gauge\nx_milliseconds 1\n",
            "base unit",
        ),
        ("# HELP x Count.\n# TYPE x counter\nx 1\n", "_total"),
        ("# TYPE x gauge\nx 1\n", "help"),
        ("x{a=\"b} 1\n", "error"),
    ] {
        let output = check(wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(complaint), "{wrong}: {said}");
    }
}
