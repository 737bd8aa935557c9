//! `explain flow` says what the data plane does: on random configurations, random flows are sent
//! through two workers, and each packet's backend, drop reason and outer headers are compared with
//! what was told before.
//!
//! OPS-02, HP-02: both steps are told, with their reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::world::{CLIENT_MAC, FRONT, FRONT_MAC, World};
use lodestone::config::BackendKey;
use lodestone::conntrack::{Conntrack, Flow, Ipv4Bucket, Ipv4Key, Ipv6Bucket, Ipv6Key, NoPrefetch};
use lodestone::control::explain::{TrackedFlow, explain, flow_of};
use lodestone::control::protocol::params::ExplainParams;
use lodestone::control::protocol::reply::{ExplainReply, Outcome, Protocol};
use lodestone::forward::explain::explain as explain_tables;
use lodestone::forward::{Counters, DropReason, Forwarder, Verdict};
use lodestone::id::VipId;
use lodestone::packet::{Builder, FlowHash, FlowKey, HeapBuf, PacketBuf, TcpFlags};
use lodestone::stats::{self, StatsView};
use lodestone::steer::Health;
use lodestone::time::Tick;

const CONFIGURATIONS: u64 = 100;
const TUPLES: usize = 10_000;
const WORKERS: usize = 2;

/// A sequence of numbers that look random; the same seed gives the same (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let place = self.below(list.len() as u64);
        &list[usize::try_from(place).unwrap()]
    }
}

const HEAD: &str = r#"
[appliance]
name = "test"
flow_hash_key = "KEY"
[cpu]
workers = [1, 2]
[memory]
hugepages = false
[[port]]
name = "front"
device = "net_null0"
addresses = ["10.1.0.2/16", "fd01::2/64"]
mtu = 1500
[[port]]
name = "back"
device = "net_null1"
addresses = ["10.2.0.2/16", "fd02::2/64"]
mtu = 1540
vlan = 7
[[monitor]]
name = "probe"
type = "tcp"
port = 1
"#;

/// Up to five pools of up to eight backends of either family, and up to four services.
fn configuration(random: &mut Random) -> String {
    let mut text = HEAD.replace("KEY", &format!("{:016x}{:016x}", random.next(), random.next()));
    let states = ["enabled", "enabled", "enabled", "enabled", "draining", "disabled"];
    let pools = 1 + random.below(5);
    for pool in 0..pools {
        let backends = 1 + random.below(8);
        let threshold = 1 + random.below(backends);
        let state = random.one_of(&states);
        let size = random.one_of(&[251, 1021, 4093]);
        write!(
            text,
            "[[pool]]\nname = \"p{pool}\"\nmonitor = \"probe\"\nthreshold = {threshold}\n\
             table_size = {size}\nadmin_state = \"{state}\"\n"
        )
        .unwrap();
        for backend in 0..backends {
            let number = 16 + pool * 16 + backend;
            let address = if random.below(3) == 0 {
                format!("fd02::{number}")
            } else {
                format!("10.2.0.{number}")
            };
            // The first has a weight, so that the pool is valid.
            let weight = if backend == 0 { 1 } else { random.below(4) };
            let state = random.one_of(&states);
            write!(
                text,
                "[[pool.backend]]\nname = \"b{backend}\"\naddress = \"{address}\"\n\
                 weight = {weight}\nadmin_state = \"{state}\"\n"
            )
            .unwrap();
        }
    }
    for service in 0..=random.below(4) {
        let mut names: Vec<_> = (0..pools).map(|pool| format!("p{pool}")).collect();
        names.rotate_left(usize::try_from(random.below(pools)).unwrap());
        names.truncate(usize::try_from(1 + random.below(pools)).unwrap());
        let state = random.one_of(&states);
        write!(
            text,
            "[[service]]\nname = \"s{service}\"\npools = {names:?}\nadmin_state = \"{state}\"\n"
        )
        .unwrap();
        let ports = random.one_of(&["\"any\"", "80", "[80, 443]", "[\"1000-1999\", 53]"]);
        for (address, protocol) in [
            (format!("10.1.1.{service}"), "tcp"),
            (format!("10.1.1.{service}"), "udp"),
            (format!("fd01::1:{service}"), *random.one_of(&["tcp", "udp"])),
        ] {
            if random.below(5) != 0 || protocol == "tcp" {
                write!(
                    text,
                    "[[service.vip]]\naddress = \"{address}\"\nprotocol = \"{protocol}\"\n\
                     ports = {ports}\n"
                )
                .unwrap();
            }
        }
    }
    text
}

/// A flow to one of the VIPs, or nearly.
fn tuple(random: &mut Random) -> ExplainParams {
    let service = random.below(6);
    let ipv6 = random.below(3) == 0;
    let client = u32::try_from(random.below(1 << 16)).unwrap();
    let (source, destination): (IpAddr, IpAddr) = if ipv6 {
        let source = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(client));
        (source.into(), format!("fd01::1:{service}").parse().unwrap())
    } else if random.below(100) == 0 {
        // One that nobody may send from.
        (Ipv4Addr::LOCALHOST.into(), format!("10.1.1.{service}").parse().unwrap())
    } else {
        let source = Ipv4Addr::from_bits(0xc633_0000 | client);
        (source.into(), format!("10.1.1.{service}").parse().unwrap())
    };
    let any = u16::try_from(random.below(1 << 16)).unwrap();
    ExplainParams {
        source,
        source_port: u16::try_from(random.below(1 << 16)).unwrap(),
        destination,
        destination_port: *random.one_of(&[80, 443, 1_500, 53, any]),
        protocol: *random.one_of(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]),
    }
}

type Pipeline = Forwarder<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>, NoPrefetch>;

/// Two workers on the tables of one appliance.
struct Workers {
    world: World,
    forwarders: Vec<Pipeline>,
    counters: Vec<(Counters, StatsView<DropReason>)>,
    now: Tick,
}

impl Workers {
    fn new(text: &str) -> Self {
        let forwarder = |_| Forwarder::new(Conntrack::on_heap(20_000, 20_000));
        Self {
            world: World::with_config(text, 1_024),
            forwarders: (0..WORKERS).map(forwarder).collect(),
            counters: (0..WORKERS).map(|_| stats::worker(256)).collect(),
            now: Tick(1_000),
        }
    }

    fn told(&self, params: &ExplainParams, flow: &FlowKey) -> ExplainReply {
        let tables = &self.world.tables;
        let explanation = explain_tables(tables, flow);
        let mut tracked = Vec::new();
        if let Some(((vip, _), hash)) = explanation.vip.zip(explanation.hash) {
            for (worker, forwarder) in (0..).zip(&self.forwarders) {
                if let Some(found) = peek(forwarder, flow, vip, hash, self.now) {
                    tracked.push(TrackedFlow {
                        worker,
                        backend: found.backend,
                        state: found.state,
                        expires_in_ms: found.expiry.0.wrapping_sub(self.now.0),
                    });
                }
            }
        }
        explain(&self.world.state, tables, 1, (params, flow), &tracked, Vec::new())
    }

    /// What becomes of a packet on a worker: the backend's address and the outer headers.
    fn send(&mut self, worker: usize, frame: &[u8]) -> Result<(IpAddr, String), DropReason> {
        let mut burst = [HeapBuf::new(frame)];
        let verdicts = self.forwarders[worker].process(
            &self.world.tables,
            self.now,
            FRONT,
            &mut burst,
            &mut self.counters[worker].0,
        );
        match verdicts[0] {
            Verdict::Transmit(_) => {
                let sent = burst[0].bytes();
                let outer = crate::world::outer(sent);
                let inner = frame.len() - 14;
                let mut header = String::new();
                for byte in &sent[..sent.len() - inner] {
                    write!(header, "{byte:02x}").unwrap();
                }
                Ok((outer.outer_ip.flow.destination(), header))
            }
            Verdict::Drop(reason) => Err(reason),
            other => panic!("unexpected verdict {other:?}"),
        }
    }
}

fn peek(
    forwarder: &Pipeline,
    flow: &FlowKey,
    vip: VipId,
    hash: FlowHash,
    now: Tick,
) -> Option<Flow> {
    match *flow {
        FlowKey::V4 { source, source_port, destination_port, .. } => {
            let table = &forwarder.conntrack.ipv4;
            let key = Ipv4Key::new(source, source_port, destination_port, vip);
            table.peek(&key, table.candidates(hash), now)
        }
        FlowKey::V6 { source, source_port, destination_port, .. } => {
            let table = &forwarder.conntrack.ipv6;
            let key = Ipv6Key::new(source, source_port, destination_port, vip);
            table.peek(&key, table.candidates(hash), now)
        }
    }
}

fn frame(flow: &FlowKey, params: &ExplainParams, flags: TcpFlags) -> Vec<u8> {
    let frame = Builder::ethernet(CLIENT_MAC, FRONT_MAC).flow(flow);
    match params.protocol {
        Protocol::Tcp => frame.tcp(params.source_port, params.destination_port, flags).build(),
        Protocol::Udp => frame.udp(params.source_port, params.destination_port).build(),
    }
}

fn assert_agrees(told: &Outcome, done: &Result<(IpAddr, String), DropReason>, what: &str) {
    let told_way = told.encapsulation.as_ref().map(|way| (way.outer_destination, &way.header));
    let done_way = done.as_ref().ok().map(|(address, header)| (*address, header));
    assert_eq!(told_way, done_way, "{what}");
    let reason = done.as_ref().err().map(|reason| reason.name());
    assert_eq!(told.drop.as_deref(), reason, "{what}");
}

/// Which decisions occurred: a test in which nothing happens proves nothing.
#[derive(Debug, Default)]
struct Seen(BTreeMap<String, usize>);

impl Seen {
    fn count(&mut self, told: &ExplainReply) {
        let first = told.first_packet.drop.as_deref().unwrap_or("carried");
        *self.0.entry(first.to_owned()).or_default() += 1;
        if told.level1.is_some() {
            *self.0.entry("level 1".to_owned()).or_default() += 1;
        }
        for entry in &told.tracked {
            let which = if entry.stays { "stays" } else { "leaves" };
            *self.0.entry(which.to_owned()).or_default() += 1;
        }
    }
}

/// Health changes, and a backend of every second pool is removed and another takes its place.
fn change(workers: &mut Workers, text: &str, random: &mut Random, generation: u64) {
    let mut changed = text.to_owned();
    if let Some(at) = text.find("10.2.0.1") {
        let end = at + text[at..].find('"').unwrap();
        changed.replace_range(at..end, "10.2.0.250");
    }
    workers.world.apply(&changed, generation);
    let pools = workers.world.state.config().pools.clone();
    for pool in &pools {
        for backend in &pool.backends {
            let health = *random.one_of(&[Health::Up, Health::Up, Health::Down]);
            workers.world.state.set_health(&BackendKey::new(pool, backend), health);
        }
    }
    workers.world.publish();
}

#[test]
fn explain_agrees_with_two_workers_on_random_configurations() {
    let mut seen = Seen::default();
    for seed in 0..CONFIGURATIONS {
        let mut random = Random(seed);
        let text = configuration(&mut random);
        let mut workers = Workers::new(&text);
        change(&mut workers, &text, &mut random, 2);
        let tuples: Vec<_> = (0..TUPLES).map(|_| tuple(&mut random)).collect();
        for round in 0..2 {
            for (number, params) in tuples.iter().enumerate() {
                let flow = flow_of(params).unwrap();
                let worker = number % WORKERS;
                let what = format!("configuration {seed}, round {round}, {params:?}");
                let told = workers.told(params, &flow);
                seen.count(&told);
                // The first round opens most flows; the second meets what it left behind.
                let opens = if round == 0 { number % 5 != 0 } else { number % 7 == 0 };
                let flags = if opens { TcpFlags::SYN } else { TcpFlags::ACK };
                let done = workers.send(worker, &frame(&flow, params, flags));
                let is_new = opens && params.protocol == Protocol::Tcp;
                // An entry counts on the worker that has it.
                let has_entry =
                    told.tracked.iter().any(|entry| usize::from(entry.worker) == worker);
                let outcome =
                    if is_new || !has_entry { &told.first_packet } else { &told.later_packet };
                assert_agrees(outcome, &done, &what);
            }
            change(&mut workers, &text, &mut random, 3 + round);
        }
    }
    for what in [
        "carried",
        "level 1",
        "stays",
        "leaves",
        "no-backend",
        "not-vip-port",
        "not-vip",
        "bad-source",
        "unsupported-protocol",
    ] {
        assert!(seen.0.get(what).is_some_and(|count| *count > 100), "{what} in {seen:?}");
    }
}

#[test]
fn both_steps_are_told_with_their_reasons() {
    let world = World::new(1_024);
    let params = ExplainParams {
        source: "198.51.100.7".parse().unwrap(),
        source_port: 4_000,
        destination: "10.1.0.101".parse().unwrap(),
        destination_port: 80,
        protocol: Protocol::Tcp,
    };
    let flow = flow_of(&params).unwrap();
    let told = explain(&world.state, &world.tables, 7, (&params, &flow), &[], vec![1]);
    assert_eq!(told.vip.as_ref().unwrap().service, "ten");
    let level1 = told.level1.as_ref().unwrap();
    assert_eq!(level1.pool, "ten");
    assert!(level1.reason.contains("first in order with enough healthy"), "{}", level1.reason);
    let level2 = told.level2.as_ref().unwrap();
    assert_eq!((level2.slots, level2.current.split('/').next()), (4_093, Some("ten")));
    assert!(level2.reason.contains("slots") && level2.reason.contains("weight of 1"));
    assert_eq!(told.first_packet.backend, Some(level2.current.clone()));
    assert_eq!(told.later_packet, told.first_packet, "nobody tracks it");
    assert_eq!((told.generation, told.silent_workers), (7, vec![1]));
    let hash = u64::from_str_radix(told.hash.as_deref().unwrap(), 16).unwrap();
    assert_eq!(u64::from(level2.slot), (hash & 0xffff_ffff) % 4_093);

    let mixed = ExplainParams { source: "2001:db8::1".parse().unwrap(), ..params };
    let refused = flow_of(&mixed).unwrap_err();
    assert!(refused.message.contains("one family"), "{}", refused.message);
}
