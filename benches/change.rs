//! How long a change of one backend takes from the request to the last worker, on a large
//! configuration: 1,000 pools of 10 backends and 10 services a pool.
//!
//! `cargo bench --no-default-features --bench change` prints the figures, and fails if the median
//! is above 50 ms. Management is this thread; two more poll as workers do. The configuration is
//! copied, edited, compared and applied, compiled and published: all that a verb does, but for the
//! socket.

#![allow(missing_docs, reason = "a program")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures for people")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a bench reads the clock")]

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lodestone::config::{self, AdminState, BackendKey, Config};
use lodestone::control::neighbours::PortIdentity;
use lodestone::control::{Compiler, Links, State};
use lodestone::forward::{BackendRecord, Tables};
use lodestone::id::{BackendEpoch, PortId};
use lodestone::packet::MacAddress;
use lodestone::snapshot::{self, Generation, Publisher};
use lodestone::steer::Health;

const POOLS: u32 = 1_000;
const BACKENDS: u32 = 10;
const SERVICES: u32 = 10;
const CHANGES: u32 = 100;
const WORKERS: usize = 2;
const LIMIT: Duration = Duration::from_millis(50);

const TEMPLATE: &str = r#"
[appliance]
name = "bench"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[cpu]
workers = [1, 2]
[[port]]
name = "lan"
device = "net_null0"
addresses = ["10.0.0.2/8"]
[[monitor]]
name = "probe"
type = "tcp"
port = 80
[[pool]]
name = "pool"
monitor = "probe"
backend = [{ name = "backend", address = "10.1.0.1" }]
[[service]]
name = "service"
pools = ["pool"]
vip = [{ address = "172.16.0.1", protocol = "tcp", ports = 80 }]
"#;

/// One port whose neighbours are all known, and do not change.
struct Wired(PortIdentity);

impl Links for Wired {
    fn identity(&self, port: PortId) -> Option<&PortIdentity> {
        (port == PortId(0)).then_some(&self.0)
    }

    fn next_hop(&self, _: PortId, _: IpAddr) -> Option<MacAddress> {
        Some(MacAddress([2, 0, 0, 0, 0, 9]))
    }

    fn revision(&self) -> Option<u64> {
        Some(1)
    }
}

fn large() -> Config {
    let (mut config, _) = config::parse(TEMPLATE).unwrap_or_else(|errors| panic!("{errors}"));
    let (pool, service) = (config.pools.remove(0), config.services.remove(0));
    let backend = pool.backends[0].clone();
    let address =
        |base: [u8; 4], n| IpAddr::from(Ipv4Addr::from_bits(u32::from_be_bytes(base) + n));
    for number in 0..POOLS {
        let mut pool = config::Pool { name: format!("pool{number}"), ..pool.clone() };
        pool.backends = (0..BACKENDS)
            .map(|n| config::Backend {
                name: format!("backend{n}"),
                address: address([10, 1, 0, 0], number * BACKENDS + n),
                ..backend.clone()
            })
            .collect();
        for n in 0..SERVICES {
            let mut service = service.clone();
            service.name = format!("service{number}-{n}");
            service.pools = vec![pool.name.clone()];
            service.vips[0].address = address([172, 16, 0, 0], number * SERVICES + n);
            config.services.push(service);
        }
        config.pools.push(pool);
    }
    config
}

/// Management's part, as the daemon does it.
struct Management {
    state: State,
    compiler: Compiler,
    publisher: Publisher<Tables>,
    links: Wired,
}

impl Management {
    fn publish(&mut self) {
        let tables = self.compiler.compile(&self.state, &self.links);
        self.publisher.publish(tables).unwrap();
    }

    /// Waits until every worker runs what was published last.
    fn wait(&mut self) {
        let newest = self.publisher.generation();
        while self.publisher.acknowledged() < newest {
            std::thread::yield_now();
        }
    }

    /// Drains, enables, weighs or fails one backend. Returns how long applying and compiling took.
    fn change(&mut self, number: u32) -> (Duration, Duration) {
        let start = Instant::now();
        let pool = (number / 2 * 7 % POOLS) as usize;
        let state = match number % 4 {
            0 => AdminState::Draining,
            _ => AdminState::Enabled,
        };
        if number % 4 == 3 {
            let pool = &self.state.config().pools[pool];
            let key = BackendKey::new(pool, &pool.backends[3]);
            assert!(self.state.set_health(&key, Health::Down));
        } else {
            let mut config = self.state.config().clone();
            let backend = &mut config.pools[pool].backends[3];
            backend.admin_state = state;
            if number % 4 == 2 {
                backend.weight += 1;
            }
            let next = Generation(self.publisher.generation().0 + 1);
            assert!(self.state.apply(config, next, Duration::ZERO).unwrap().tables);
        }
        let applied = start.elapsed();
        let tables = self.compiler.compile(&self.state, &self.links);
        let compiled = start.elapsed().saturating_sub(applied);
        self.publisher.publish(tables).unwrap();
        self.wait();
        (applied, compiled)
    }
}

fn report(name: &str, mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let median = times[times.len() / 2];
    let (least, most) = (times[0], times[times.len() - 1]);
    println!("{name:<28} median {median:>10.2?}   min {least:>10.2?}   max {most:>10.2?}");
    median
}

fn main() -> ExitCode {
    let config = large();
    let identity = PortIdentity::new(
        PortId(0),
        &config.ports[0],
        MacAddress([2, 0, 0, 0, 0, 1]),
        &config.services,
    );
    let links = Wired(identity);
    let start = Instant::now();
    let mut state = State::new(config, Generation(1)).unwrap();
    let applied = start.elapsed();
    let keys: Vec<_> = state
        .config()
        .pools
        .iter()
        .flat_map(|pool| {
            pool.backends.iter().map(|backend| BackendKey::new(pool, backend)).collect::<Vec<_>>()
        })
        .collect();
    for key in keys {
        state.set_health(&key, Health::Up);
    }
    let (publisher, readers) =
        snapshot::shared(Tables::empty(state.config().appliance.flow_hash_key), WORKERS);
    let mut management = Management { state, compiler: Compiler::default(), publisher, links };
    let start = Instant::now();
    management.publish();
    println!(
        "{POOLS} pools of {BACKENDS} backends, {} services, {WORKERS} workers",
        POOLS * SERVICES
    );
    println!("first: applied in {applied:.0?}, compiled in {:.0?}", start.elapsed());

    let stop = AtomicBool::new(false);
    let median = std::thread::scope(|scope| {
        for mut reader in readers {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(reader.refresh());
                    // Cores may be shared.
                    std::thread::yield_now();
                }
            });
        }
        management.wait();
        let (mut all, mut apply, mut compile) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..CHANGES {
            let start = Instant::now();
            let (applied, compiled) = management.change(number);
            all.push(start.elapsed());
            apply.push(applied);
            compile.push(compiled);
            management.publisher.reclaim();
            management.compiler.reclaim();
        }
        report("applied", apply);
        report("compiled", compile);
        let median = report("active on all workers", all);
        stop.store(true, Ordering::Relaxed);
        median
    });

    let arena = management.compiler.arena();
    println!("slot arrays: {} in use, {} free", arena.held(), arena.free());
    let start = Instant::now();
    let digests = management.compiler.digests(&management.state);
    println!("digests, first time asked: {:.2?} ({digests:?})", start.elapsed());
    let records = vec![BackendRecord::vacant(BackendEpoch(0)); usize::from(u16::MAX)];
    let start = Instant::now();
    let copy = std::hint::black_box(std::sync::Arc::<[_]>::from(records));
    println!("copy of {} backend records: {:.2?}", copy.len(), start.elapsed());

    if median > LIMIT {
        eprintln!("the median is above {LIMIT:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
