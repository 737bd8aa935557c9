//! The loop with real sockets, mailboxes and snapshots; only the ports and the worker's packets are
//! made up.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test is the world around management: it has a clock and threads of its own"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::parts::{Parts, parts};
use super::*;
use crate::conntrack::{Conntrack, Flow, Ipv4Key, NoPrefetch};
use crate::control::{
    Management, ManagementError, ManagementParts, PortState, Ports, Stopper, metrics,
};
use crate::forward::{BackendFlags, DropReason, Tables};
use crate::id::PortId;
use crate::packet::arp::{self, Operation};
use crate::packet::originate::Origin;
use crate::packet::parse::{self, Network};
use crate::packet::{FlowHash, MacAddress};
use crate::snapshot::{Generation, Reader};
use crate::stats::WorkerCounters;
use crate::time::Tick;
use crate::worker::{Frame, Mailbox};

const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const VLAN: Option<u16> = Some(7);

/// A port that always has a link, and can make management panic.
#[derive(Debug, Default)]
struct TestPorts {
    /// How often it is to panic yet.
    panics: Arc<AtomicUsize>,
}

impl Ports for TestPorts {
    fn mac(&self, _: PortId) -> MacAddress {
        OURS
    }

    fn link_up(&self, _: PortId) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        let left = self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        assert!(left.is_err(), "as the test wants");
        true
    }

    fn state(&self, _: PortId) -> PortState {
        PortState { link_up: true, ..PortState::default() }
    }
}

/// What a worker saw.
#[derive(Debug, Default)]
struct Seen {
    generations: Vec<(Instant, Generation)>,
    resolved: usize,
}

/// What the test and the worker's thread share.
#[derive(Clone, Default)]
pub(super) struct Knobs {
    stop: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
    /// Whether backends answer ARP, each with its own link-layer address.
    answers: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    /// Flows that the worker shall track from now on.
    pub(super) flows: Arc<Mutex<Vec<(Ipv4Key, FlowHash, Flow)>>>,
}

fn work(
    knobs: &Knobs,
    mut reader: Reader<Tables>,
    mut mailbox: Mailbox,
    mut counters: WorkerCounters<DropReason>,
) {
    let mut conntrack = Conntrack::on_heap(1_024, 1_024);
    while !knobs.stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
        if knobs.stuck.load(Ordering::Relaxed) {
            continue;
        }
        let backends = &reader.refresh().backends;
        let resolved = backends.iter().filter(|b| b.flags.contains(BackendFlags::RESOLVED)).count();
        let generation = reader.generation();
        {
            let mut seen = knobs.seen.lock().unwrap();
            seen.resolved = resolved;
            if seen.generations.last().is_none_or(|(_, last)| *last != generation) {
                seen.generations.push((Instant::now(), generation));
            }
        }
        for (key, hash, flow) in knobs.flows.lock().unwrap().drain(..) {
            let table = &mut conntrack.ipv4;
            table.insert(key, table.candidates(hash), flow, Tick(1)).unwrap();
            counters.open_flow(flow.backend.id);
        }
        if let Some(job) = mailbox.job() {
            job.advance::<_, _, NoPrefetch>(&mut conntrack, Tick(1), 64, &mut counters);
        }
        mailbox.give_back_finished();
        while let Some(frame) = mailbox.next_outgoing() {
            if let Some(answer) = arp_answer(&frame)
                && knobs.answers.load(Ordering::Relaxed)
            {
                assert!(mailbox.punt(answer));
            }
        }
    }
}

/// What a backend at 10.0.1.x answers to ARP.
pub(super) fn arp_answer(frame: &Frame) -> Option<Frame> {
    let link = parse::link(&frame.bytes).unwrap();
    let Ok(Network::Arp) = parse::network(&frame.bytes, &link) else { return None };
    let asked = arp::parse(&frame.bytes[link.l3_offset..]).unwrap();
    let [10, 0, 1, last] = asked.target.octets() else { return None };
    assert_eq!((asked.operation, link.vlan), (Operation::Request, VLAN));
    let origin = Origin { mac: MacAddress([2, 0, 0, 0, 1, last]), vlan: VLAN };
    let mut answer = origin.arp_request(asked.target, asked.sender);
    // The originator builds requests only: this makes it a reply.
    answer[link.l3_offset + 7] = 2;
    Frame::new(frame.port, &answer)
}

/// An appliance that runs, but for packets.
pub(super) struct Appliance {
    directory: TempDir,
    pub(super) knobs: Knobs,
    panics: Arc<AtomicUsize>,
    metrics: SocketAddr,
    stopper: Stopper,
    worker: Option<JoinHandle<()>>,
    management: Option<JoinHandle<Result<(), ManagementError>>>,
}

impl Appliance {
    pub(super) fn start(backends: &[Backend], more: &str) -> Self {
        Self::start_with(backends, more, |_| {})
    }

    fn start_with(backends: &[Backend], more: &str, adjust: impl FnOnce(&mut Management)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config_path = directory.path().join("lodestone.toml");
        let text = file(backends, more);
        std::fs::write(&config_path, &text).unwrap();
        let knobs = Knobs::default();
        let ports = TestPorts::default();
        let panics = Arc::clone(&ports.panics);
        let metrics = metrics::Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = metrics.address();
        let Parts { management, reader, counters, mailbox } =
            parts(directory.path(), parsed(&text), Box::new(ports));
        let mut management =
            Management::new(ManagementParts { metrics: Some(metrics), ..management }).unwrap();
        adjust(&mut management);
        let worker = std::thread::spawn({
            let knobs = knobs.clone();
            move || work(&knobs, reader, mailbox, counters)
        });
        Self {
            directory,
            knobs,
            panics,
            metrics: address,
            stopper: management.stopper(),
            worker: Some(worker),
            management: Some(std::thread::spawn(move || management.run())),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn write(&self, text: &str) {
        std::fs::write(self.path("lodestone.toml"), text).unwrap();
    }

    pub(super) fn call(&self, method: &str, params: Value) -> Answer {
        let mut stream = UnixStream::connect(self.path("admin.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut request = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        if !params.is_null() {
            request["params"] = params;
        }
        writeln!(stream, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(super) fn ask(&self, method: &str) -> Answer {
        self.call(method, Value::Null)["result"].clone()
    }

    /// Waits for two lots of counters.
    fn subscribe_to_counters(&self) {
        let mut stream = UnixStream::connect(self.path("admin.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let params = json!({"stats_interval_ms": 100});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": params});
        writeln!(stream, "{request}").unwrap();
        let counters = BufReader::new(stream).lines().map(Result::unwrap);
        let counters = counters.filter(|line| line.contains("\"method\":\"stats\""));
        assert_eq!(counters.take(2).filter(|line| line.contains("\"workers\"")).count(), 2);
    }

    /// The answer to a scrape.
    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Does it whatever is lost.
    pub(super) fn backend(&self, verb: &str, name: &str) -> Answer {
        self.call(&format!("backend.{verb}"), json!({"backend": name, "force": true}))
    }

    fn resolved(&self) -> usize {
        self.knobs.seen.lock().unwrap().resolved
    }

    pub(super) fn wait_until(&self, what: &str, limit: Duration, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < limit, "not {what} within {limit:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.management.take().map(JoinHandle::join);
        self.knobs.stop.store(true, Ordering::Relaxed);
        let worked = self.worker.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
            assert!(matches!(worked, Some(Ok(()))));
            assert!(!self.path("admin.sock").exists(), "the socket goes with management");
        }
    }
}

pub(super) fn file(backends: &[Backend], more: &str) -> String {
    text(&[pool("web", more, backends), service("site", &["web"], "10.0.0.100")])
}

pub(super) fn two() -> [Backend; 2] {
    [backend(1, 1), backend(2, 3)]
}

/// Loose, since tests share cores; the daemon's own limits are far below.
pub(super) const SOON: Duration = Duration::from_secs(10);

#[test]
fn every_show_verb_tells_what_is() {
    let appliance = Appliance::start(&two(), "");
    let is_adopted = |a: &Appliance| a.ask("status")["workers"][0]["generation"] != json!(0);
    appliance.wait_until("adopted", SOON, is_adopted);
    let status = appliance.ask("status");
    assert_eq!(status["name"], "lb1");
    assert_eq!(status["workers"][0]["lagging"], false);
    assert_eq!(status["ports"][0]["mac"], OURS.to_string());
    assert_eq!(status["services"][0]["pools"][0]["healthy"], 2);
    assert_eq!(status["alarms"], json!([]));
    assert_eq!(status["digests"]["tables"].as_str().unwrap().len(), 16);
    let services = appliance.ask("show.services");
    assert_eq!(services["services"][0]["vips"][0]["ports"], "80");
    let backends = appliance.ask("show.backends");
    let share = |place: usize| backends["pools"][0]["backends"][place]["share"].as_f64().unwrap();
    assert!((share(0) - 0.25).abs() < 0.02 && (share(1) - 0.75).abs() < 0.02, "{backends}");
    assert_eq!(appliance.ask("show.workers")["workers"][0]["core"], 1);
    let drops = appliance.ask("show.drops");
    assert_eq!(drops["reasons"].as_array().unwrap().len(), DropReason::ALL.len());
    assert_eq!(appliance.ask("show.conntrack")["shards"].as_array().unwrap().len(), 2);
}

#[test]
fn backend_verbs_return_when_the_change_is_adopted() {
    let appliance = Appliance::start(&two(), "");
    for (verb, state, share) in
        [("drain", "draining", 0.0), ("disable", "disabled", 0.0), ("enable", "enabled", 0.25)]
    {
        let answer = appliance.backend(verb, "web/b1");
        let change = &answer["result"];
        assert_eq!((&*change["changed"], &*change["workers_adopted"]), (&json!(true), &json!(1)));
        let adopted = appliance.knobs.seen.lock().unwrap().generations.last().unwrap().1;
        // The worker notes a generation right after it adopts it.
        assert!(adopted.0 + 1 >= change["generation"].as_u64().unwrap(), "{answer}");
        let shown = &appliance.ask("show.backends")["pools"][0]["backends"][0];
        assert_eq!(shown["admin_state"], state);
        assert!((shown["share"].as_f64().unwrap() - share).abs() < 0.02, "{shown}");
        assert_eq!(appliance.backend(verb, "web/b1")["result"]["changed"], false);
    }
    let unknown = appliance.backend("drain", "web/b9");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("no backend web/b9"));
    appliance.backend("disable", "web/b1");
    let last = appliance.call("backend.disable", json!({"backend": "web/b2"}));
    assert_eq!(last["error"]["code"], 6, "{last}");
    let why = last["error"]["data"].to_string();
    assert!(why.contains("pool web would have no backend"), "{why}");
    assert!(why.contains("service site would have no backend"), "{why}");
    let forced = appliance.backend("disable", "web/b2");
    assert_eq!(forced["result"]["warnings"], last["error"]["data"]);
    let alarms = appliance.ask("status")["alarms"].to_string();
    assert!(alarms.contains("service site drops new flows: no pool has"), "{alarms}");
}

#[test]
fn a_worker_that_does_not_adopt_is_named_after_a_second() {
    let appliance = Appliance::start(&two(), "");
    appliance.backend("drain", "web/b2");
    appliance.knobs.stuck.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    let start = Instant::now();
    let answer = appliance.backend("drain", "web/b1");
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
    assert!(start.elapsed() < SOON);
    assert_eq!(answer["error"]["data"], json!(["worker 0"]), "{answer}");
    // Shown, and the change stands.
    let status = appliance.ask("status");
    assert_eq!(status["workers"][0]["lagging"], true);
    assert!(status["alarms"].to_string().contains("worker 0 runs generation"), "{status}");
    let shown = appliance.ask("show.backends");
    assert_eq!(shown["pools"][0]["backends"][0]["admin_state"], "draining");
    appliance.knobs.stuck.store(false, Ordering::Relaxed);
    appliance.wait_until("adopted", SOON, |a| {
        let alarms = a.ask("status")["alarms"].to_string();
        alarms.starts_with("[\"service site drops new flows") && !alarms.contains("worker")
    });
}

#[test]
fn a_reload_is_all_or_nothing() {
    let appliance = Appliance::start(&two(), "");
    assert_eq!(appliance.call("reload", Value::Null)["result"]["changed"], false);
    let digest = || appliance.ask("status")["digests"]["tables"].clone();
    let old = digest();
    let wrong = file(&[backend(1, 1), (String::new(), 3, 1)], "monitor = \"none\"");
    appliance.write(&wrong);
    let refused = appliance.call("reload", Value::Null);
    assert!(refused["error"]["data"].as_array().unwrap().len() >= 2, "{refused}");
    assert_eq!(digest(), old);
    appliance.write(&file(&two(), "").replace("vlan = 7", "vlan = 8"));
    let refused = appliance.call("reload", Value::Null);
    assert!(refused["error"]["data"][0].as_str().unwrap().starts_with("[[port]] cannot"));
    std::fs::remove_file(appliance.path("lodestone.toml")).unwrap();
    assert!(appliance.call("reload", Value::Null)["error"].is_object());
    assert_eq!(digest(), old);
    appliance.write(&file(&[backend(1, 1), backend(2, 3), backend(3, 1)], ""));
    assert_eq!(appliance.call("reload", Value::Null)["result"]["changed"], true);
    assert_ne!(digest(), old);
    assert_eq!(appliance.ask("status")["services"][0]["pools"][0]["total"], 3);
}

#[test]
fn next_hops_that_answer_reach_the_tables_and_are_published_together() {
    let backends: Vec<_> = (1..=50).map(|number| backend(number, 1)).collect();
    let appliance = Appliance::start(&backends, "");
    appliance.knobs.answers.store(true, Ordering::Relaxed);
    appliance.wait_until("resolved", SOON, |appliance| appliance.resolved() == 50);
    let shown = appliance.ask("show.backends");
    assert_eq!(shown["pools"][0]["backends"][4]["next_hop"], "02:00:00:00:01:05");
    // Fifty answers are not fifty publishes: nothing else changed, so at most one each 100 ms.
    let seen = appliance.knobs.seen.lock().unwrap();
    let (first, _) = seen.generations[0];
    let (last, newest) = *seen.generations.last().unwrap();
    let limit = 3 + (last - first).as_millis() / 100;
    assert!(u128::from(newest.0) <= limit, "{newest} generations in {:?}", last - first);
}

#[test]
fn a_panic_of_management_is_survived_with_its_state() {
    let appliance = Appliance::start_with(&two(), "monitor = \"probe\"", |management| {
        for (name, health) in [("b1", crate::steer::Health::Up), ("b2", crate::steer::Health::Down)]
        {
            let key = management.state.find("web", name).unwrap();
            management.state.set_health(&key, health);
        }
    });
    appliance.backend("drain", "web/b1");
    let before = appliance.ask("status");
    appliance.panics.store(1, Ordering::Relaxed);
    let has_panicked = |appliance: &Appliance| appliance.panics.load(Ordering::Relaxed) == 0;
    appliance.wait_until("panicked", SOON, has_panicked);
    // The socket is the same; who connects while it restarts waits in its backlog.
    let is_newer =
        |a: &Appliance| a.ask("status")["generation"].as_u64() > before["generation"].as_u64();
    appliance.wait_until("restarted", SOON, is_newer);
    let shown = appliance.ask("show.backends");
    let [first, second] = [0, 1].map(|place| &shown["pools"][0]["backends"][place]);
    assert_eq!((&*first["admin_state"], &*first["health"]), (&json!("draining"), &json!("up")));
    assert_eq!(second["health"], "down");
    assert_eq!(appliance.ask("status")["digests"], before["digests"]);
    assert_eq!(appliance.backend("enable", "web/b1")["result"]["changed"], true);
}

// Fail static: however often management fails, the daemon does not end.
#[test]
fn panics_in_a_row_never_end_management() {
    const COUNT: usize = 6;
    let appliance = Appliance::start(&two(), "");
    appliance.backend("drain", "web/b1");
    appliance.panics.store(COUNT, Ordering::Relaxed);
    // Pauses of 0.1, 0.2 … 3.2 s.
    let has_panicked = |a: &Appliance| a.panics.load(Ordering::Relaxed) == 0;
    appliance.wait_until("panicked", SOON * 3, has_panicked);
    let status = appliance.ask("status");
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains(&format!("management failed {COUNT} times")), "{alarms}");
    let events = appliance.ask("show.events");
    let events = events["events"].as_array().unwrap();
    let restarts: Vec<_> =
        events.iter().filter(|event| event["kind"] == "management-restarted").collect();
    assert_eq!(restarts.len(), COUNT);
    let last = restarts.last().unwrap()["message"].as_str().unwrap();
    assert!(last.contains("management panicked; it starts again with its last state in 3.2 s"));
    let shown = appliance.ask("show.backends");
    assert_eq!(shown["pools"][0]["backends"][0]["admin_state"], "draining");
    assert_eq!(appliance.backend("enable", "web/b1")["result"]["changed"], true);
}

#[test]
fn a_stop_is_heeded_while_management_waits_to_start_again() {
    let appliance = Appliance::start(&two(), "");
    appliance.backend("drain", "web/b1");
    appliance.panics.store(usize::MAX, Ordering::Relaxed);
    // After the fifth it waits for 1.6 s at least.
    let fifth = usize::MAX - 5;
    appliance.wait_until("panicked", SOON, |a| a.panics.load(Ordering::Relaxed) <= fifth);
    let start = Instant::now();
    // Which waits for the end.
    drop(appliance);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn metrics_are_served_across_a_panic_of_management_and_count_what_operators_do() {
    let appliance = Appliance::start(&two(), "");
    appliance.backend("drain", "web/b1");
    appliance.backend("drain", "web/b9");
    appliance.call("show.flows", Value::Null);
    appliance.call("show.flows", json!({"limit": 0}));
    appliance.call("conntrack.flush", Value::Null);
    appliance.call("conntrack.flush", json!({"filter": {"backend": "web/b9"}}));
    appliance.write("no toml");
    appliance.call("config.diff", Value::Null);
    appliance.subscribe_to_counters();
    let before = appliance.scrape();
    assert!(!before.contains("method=\"show.workers\""), "a subscriber asked once: {before}");
    assert!(before.starts_with("HTTP/1.0 200 OK\r\n"), "{before}");
    for sample in [
        "lodestone_admin_requests_total{method=\"backend.drain\",outcome=\"done\"} 1",
        "lodestone_admin_requests_total{method=\"backend.drain\",outcome=\"refused\"} 1",
        "lodestone_admin_requests_total{method=\"show.flows\",outcome=\"refused\"} 1",
        "lodestone_admin_requests_total{method=\"show.flows\",outcome=\"done\"} 1",
        "lodestone_admin_requests_total{method=\"conntrack.flush\",outcome=\"refused\"} 2",
        "lodestone_admin_requests_total{method=\"config.diff\",outcome=\"refused\"} 1",
        "lodestone_events_total{kind=\"admin-changed\"} 1",
        "lodestone_events_total{kind=\"started\"} 1",
        "lodestone_backend_admin_state{pool=\"web\",backend=\"b1\",state=\"draining\"} 1",
        "lodestone_management_restarts_total 0",
    ] {
        assert!(before.contains(&format!("\n{sample}\n")), "{sample} in\n{before}");
    }
    appliance.panics.store(1, Ordering::Relaxed);
    let has_restarted =
        |a: &Appliance| a.scrape().contains("\nlodestone_management_restarts_total 1\n");
    appliance.wait_until("restarted", SOON, has_restarted);
    let after = appliance.scrape();
    assert!(after.contains("lodestone_events_total{kind=\"management-restarted\"} 1"), "{after}");
    assert!(after.contains("method=\"backend.drain\",outcome=\"done\"} 1"), "counts stay");
}
