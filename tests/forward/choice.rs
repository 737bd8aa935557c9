//! Which backend a packet goes to: connection table first, then tables, whatever changes meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::world::{CONFIG, World, tcp, udp};
use lodestone::config::AdminState;
use lodestone::conntrack::HALF_OPEN_TIMEOUT;
use lodestone::forward::DropReason;
use lodestone::packet::TcpFlags;
use lodestone::steer::Health;

const TEN: &str = "10.1.0.101";
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

/// [`CONFIG`] with a monitor on the pool of ten, so that its health is heard of.
fn monitored() -> String {
    let monitor = "[[monitor]]\nname = \"m\"\ntype = \"tcp\"\nport = 80\n[[pool]]";
    CONFIG
        .replacen("[[pool]]", monitor, 1)
        .replace("name = \"ten\"\ntable_size", "name = \"ten\"\nmonitor = \"m\"\ntable_size")
}

fn without(backend: &str) -> String {
    let entry = CONFIG.split('{').find(|part| part.contains(&format!("\"{backend}\"")));
    let entry = format!("{{{}", entry.unwrap().split_inclusive("},").next().unwrap());
    let text = CONFIG.replace(&entry, "");
    assert_ne!(text, CONFIG);
    text
}

fn set(world: &mut World, address: IpAddr, admin: AdminState) {
    let pool = world.state.config().pools.iter().find(|pool| pool.name == "ten").unwrap();
    let backend = pool.backends.iter().find(|backend| backend.address == address).unwrap();
    let name = backend.name.clone();
    world.set_admin("ten", &name, admin);
}

fn set_health(world: &mut World, address: IpAddr, health: Health) {
    let names: Vec<_> = world.state.config().pools.iter().flat_map(|p| &p.backends).collect();
    let name = names.iter().find(|backend| backend.address == address).unwrap().name.clone();
    let key = world.state.find("ten", &name).unwrap();
    assert!(world.state.set_health(&key, health));
    world.publish();
}

#[test] // L4-12
fn flows_spread_evenly_and_each_keeps_its_backend() {
    let mut world = World::new(20_000);
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    for source_port in 0..10_000 {
        let backend = world.backend_of(&tcp(TEN, 1, source_port, 443, SYN)).unwrap();
        assert_eq!(world.backend_of(&tcp(TEN, 1, source_port, 443, ACK)), Ok(backend));
        *counts.entry(backend).or_default() += 1;
    }
    assert_eq!(counts.len(), 10);
    let chi_square: f64 =
        counts.values().map(|&n| (f64::from(n) - 1_000.0).powi(2) / 1_000.0).sum();
    assert!(chi_square < 27.9, "p < 0.001 at 9 degrees of freedom: {counts:?}");
    let stats = world.view.snapshot();
    assert_eq!((stats.ipv4.new, stats.ipv4.hits, stats.ipv4.refused), (10_000, 10_000, 0));
}

#[test] // L4-07
fn two_appliances_choose_alike_without_shared_state() {
    let (mut one, mut other) = (World::new(1_024), World::new(200_000));
    // The other's file has its pools and services in another order.
    let (front, pools) = CONFIG.split_once("[[pool]]\nname = \"v4\"").unwrap();
    let (pools, services) = pools.split_once("[[service]]").unwrap();
    let (ten, rest) = services.split_once("[[service]]\nname = \"silent\"").unwrap();
    let turned = format!(
        "{front}[[service]]\nname = \"silent\"{rest}\n[[pool]]\nname = \"v4\"{pools}[[service]]{ten}"
    );
    other.apply(&turned, 2);
    assert_eq!(one.compiler.tables_digest(), other.compiler.tables_digest());
    // 100,000 tuples: far more than the first can track, so that it mostly asks its tables.
    for n in 0..100_000_u32 {
        let port = u16::try_from(n % 65_521).unwrap();
        let packet = tcp(TEN, n / 7, port, port.wrapping_mul(7), ACK);
        assert_eq!(one.backend_of(&packet), other.backend_of(&packet), "tuple {n}");
    }
    assert!(one.view.snapshot().ipv4.refused > 0, "the small shard was to overflow");
}

#[test] // L4-17
fn established_flows_stay_when_another_backend_is_removed() {
    let mut world = World::new(20_000);
    let open = |world: &mut World| -> Vec<IpAddr> {
        (0..10_000)
            .map(|port| {
                let backend = world.backend_of(&tcp(TEN, 1, port, 443, SYN)).unwrap();
                assert_eq!(world.backend_of(&tcp(TEN, 1, port, 443, ACK)), Ok(backend));
                backend
            })
            .collect()
    };
    let before = open(&mut world);
    world.apply(&without("b3"), 2);
    let gone: IpAddr = "10.2.0.23".parse().unwrap();
    for (port, backend) in (0..10_000).zip(before) {
        let now = world.backend_of(&tcp(TEN, 1, port, 443, ACK)).unwrap();
        if backend == gone {
            assert_ne!(now, gone);
        } else {
            assert_eq!(now, backend, "flow {port} moved");
        }
    }
    assert!(!open(&mut world).contains(&gone));
}

#[test] // L4-19
fn a_syn_decides_anew_and_replaces_the_entry() {
    let mut world = World::new(1_024);
    let (syn, ack) = (tcp(TEN, 1, 5_000, 443, SYN), tcp(TEN, 1, 5_000, 443, ACK));
    let first = world.backend_of(&syn).unwrap();
    set(&mut world, first, AdminState::Draining);
    assert_eq!(
        world.backend_of(&ack),
        Ok(first),
        "an established flow stays on a draining backend"
    );
    let second = world.backend_of(&syn).unwrap();
    assert_ne!(second, first);
    assert_eq!(world.backend_of(&ack), Ok(second), "the entry was replaced");
    set(&mut world, first, AdminState::Enabled);
    assert_eq!(world.backend_of(&ack), Ok(second), "and the flow does not go back");
    assert_eq!(world.view.snapshot().ipv4.entries, 0, "gauges come with ageing");
    world.forwarder.age(world.now, 1, &mut world.counters);
    assert_eq!(world.view.snapshot().ipv4.entries, 1);
}

#[test]
fn a_disabled_backend_keeps_nothing() {
    let mut world = World::new(1_024);
    let first = world.backend_of(&tcp(TEN, 1, 5_000, 443, SYN)).unwrap();
    set(&mut world, first, AdminState::Disabled);
    let second = world.backend_of(&tcp(TEN, 1, 5_000, 443, ACK)).unwrap();
    assert_ne!(second, first);
}

#[test] // L4-22, L4-23
fn an_unhealthy_backend_keeps_its_tcp_flows_and_no_datagrams() {
    let mut world = World::with_config(&monitored(), 20_000);
    let all: Vec<_> = (20..30).map(|n| IpAddr::from([10, 2, 0, n])).collect();
    for backend in &all {
        set_health(&mut world, *backend, Health::Up);
    }
    let (mut tcp_flow, mut udp_flow) = (None, None);
    let victim = all[4];
    for port in 1..1_000 {
        if world.backend_of(&tcp(TEN, 1, port, 443, SYN)) == Ok(victim) {
            tcp_flow = Some(port);
        }
        if world.backend_of(&udp(TEN, 1, port, 53)) == Ok(victim) {
            udp_flow = Some(port);
        }
    }
    set_health(&mut world, victim, Health::Down);
    assert_eq!(world.backend_of(&tcp(TEN, 1, tcp_flow.unwrap(), 443, ACK)), Ok(victim));
    let moved = world.backend_of(&udp(TEN, 1, udp_flow.unwrap(), 53)).unwrap();
    assert_ne!(moved, victim);
    set_health(&mut world, victim, Health::Up);
    assert_eq!(world.backend_of(&udp(TEN, 1, udp_flow.unwrap(), 53)), Ok(moved), "tracked anew");
    set_health(&mut world, victim, Health::Down);
    for port in 2_000..3_000 {
        assert_ne!(world.backend_of(&tcp(TEN, 1, port, 443, SYN)), Ok(victim));
    }
}

#[test]
fn a_slots_next_tenant_does_not_inherit_connections() {
    let mut world = World::new(1_024);
    let first: IpAddr = "10.2.0.23".parse().unwrap();
    let port = (1..1_000).find(|&port| world.backend_of(&tcp(TEN, 1, port, 9, SYN)) == Ok(first));
    let port = port.unwrap();
    // Gone and back: the same member, but in a new epoch or another slot, so the old entry is void.
    world.apply(&without("b3"), 2);
    world.apply(CONFIG, 3);
    world.backend_of(&tcp(TEN, 1, port, 9, ACK)).unwrap();
    let stats = world.view.snapshot();
    assert_eq!(stats.ipv4.hits, 0, "the old entry was followed");
    assert_eq!(stats.ipv4.unverified, 1);
}

#[test]
fn a_pool_that_left_the_service_keeps_nothing() {
    let mut world = World::new(1_024);
    let old = world.backend_of(&tcp("10.1.0.100", 1, 5_000, 80, SYN)).unwrap();
    // The pool `v4` still exists, but the service has another.
    world.apply(
        &CONFIG
            .replace("name = \"to-v4\"\npools = [\"v4\"]", "name = \"to-v4\"\npools = [\"ten\"]"),
        2,
    );
    let new = world.backend_of(&tcp("10.1.0.100", 1, 5_000, 80, ACK)).unwrap();
    assert_ne!(new, old);
}

#[test]
fn a_full_shard_falls_back_to_the_tables_and_counts_it() {
    let mut world = World::new(16);
    let mut established = Vec::new();
    for port in 0..8 {
        let backend = world.backend_of(&tcp(TEN, 1, port, 443, SYN)).unwrap();
        assert_eq!(world.backend_of(&tcp(TEN, 1, port, 443, ACK)), Ok(backend));
        established.push(backend);
    }
    for port in 1_000..3_000 {
        let backend = world.backend_of(&tcp(TEN, 2, port, 443, SYN)).unwrap();
        // Tracked or not, the tables give the same answer.
        assert_eq!(world.backend_of(&tcp(TEN, 2, port, 443, SYN)), Ok(backend));
    }
    let stats = world.view.snapshot();
    assert!(stats.ipv4.refused > 0);
    assert!(world.forwarder.conntrack.ipv4.len() <= world.forwarder.conntrack.ipv4.capacity());
    let hits = stats.ipv4.hits;
    for (port, backend) in (0..8).zip(established) {
        assert_eq!(world.backend_of(&tcp(TEN, 1, port, 443, ACK)), Ok(backend));
    }
    assert_eq!(world.view.snapshot().ipv4.hits, hits + 8, "a flood evicts no established flow");
}

#[test]
fn a_silent_flow_is_forgotten_and_its_gauge_with_it() {
    let mut world = World::new(1_024);
    world.backend_of(&tcp(TEN, 1, 5_000, 443, SYN)).unwrap();
    world.now = world.now.plus(2 * HALF_OPEN_TIMEOUT);
    world.forwarder.age(world.now, usize::MAX, &mut world.counters);
    let stats = world.view.snapshot();
    assert_eq!((stats.ipv4.expired, stats.ipv4.entries), (1, 0));
    let tracked: u64 = (0..20).map(|id| stats.backend(lodestone::id::BackendId(id)).flows).sum();
    assert_eq!(tracked, 0);
}

#[test] // L4-33
fn any_port_of_tcp_and_udp_is_carried() {
    let mut world = World::new(1_024);
    for port in [1, 21, 22, 25, 53, 80, 110, 123, 143, 443, 587, 993, 3306, 5432, 6379, 8080, 65535]
    {
        assert!(world.backend_of(&tcp(TEN, 1, 7, port, SYN)).is_ok(), "TCP {port}");
        assert!(world.backend_of(&udp(TEN, 1, 7, port)).is_ok(), "UDP {port}");
    }
    assert_eq!(world.backend_of(&tcp("10.1.0.100", 1, 7, 82, SYN)), Err(DropReason::NotVipPort));
    assert_eq!(
        world.backend_of(&udp("10.1.0.100", 1, 7, 80)),
        Err(DropReason::UnsupportedProtocol)
    );
}

#[test]
fn without_an_enabled_backend_packets_have_a_counted_reason() {
    let mut world = World::new(1_024);
    world.set_admin("v4", "a", AdminState::Disabled);
    let packet = tcp("10.1.0.100", 1, 7, 80, SYN);
    assert_eq!(world.backend_of(&packet), Err(DropReason::NoBackend));
    assert_eq!(world.backend_of(&tcp("10.1.0.102", 1, 7, 80, SYN)), Err(DropReason::NoNextHop));
}

#[test]
fn an_entry_that_an_insert_finds_expired_is_counted_as_expired() {
    let mut world = World::new(1_024);
    let backend = world.backend_of(&tcp(TEN, 1, 5_000, 443, SYN)).unwrap();
    world.now = world.now.plus(2 * HALF_OPEN_TIMEOUT);
    assert_eq!(world.backend_of(&tcp(TEN, 1, 5_000, 443, ACK)), Ok(backend));
    let stats = world.view.snapshot();
    assert_eq!((stats.ipv4.hits, stats.ipv4.unverified, stats.ipv4.expired), (0, 1, 1));
    let flows: u64 = (0..20).map(|id| stats.backend(lodestone::id::BackendId(id)).flows).sum();
    assert_eq!(flows, 1);
}

#[test] // L4-17
fn the_gauges_of_backends_are_the_entries_whatever_happens() {
    bolero::check!().with_iterations(300).with_type::<Vec<(u8, u8, u8)>>().for_each(|steps| {
        let mut world = World::new(12);
        for &(client, what, wait) in steps {
            let packet = match what % 5 {
                0 => tcp(TEN, 1, client.into(), 443, SYN),
                1 => tcp(TEN, 1, client.into(), 443, ACK),
                2 => tcp(TEN, 1, client.into(), 443, TcpFlags::FIN),
                3 => udp(TEN, 1, client.into(), 53),
                _ => tcp("fd01::100", 1, client.into(), 80, SYN),
            };
            world.backend_of(&packet).unwrap();
            world.now = world.now.plus(u32::from(wait) * 100);
            if wait % 4 == 0 {
                world.forwarder.age(world.now, 3, &mut world.counters);
            }
        }
        let stats = world.view.snapshot();
        let gauges: u64 =
            (0..100).map(|id| stats.backend(lodestone::id::BackendId(id)).flows).sum();
        let conntrack = &world.forwarder.conntrack;
        assert_eq!(gauges, (conntrack.ipv4.len() + conntrack.ipv6.len()) as u64);
        let ended = conntrack.ipv4.counters().expired + conntrack.ipv6.counters().expired;
        assert_eq!(stats.ipv4.expired + stats.ipv6.expired, ended);
    });
}
