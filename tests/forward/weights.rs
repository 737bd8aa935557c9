//! Weighted choice uses no history and no open-connection data (HP-14): each new flow is an
//! independent draw by its own hash. Short windows vary, long runs converge.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use crate::world::{CONFIG, World, tcp};
use lodestone::forward::DropReason;
use lodestone::id::BackendId;
use lodestone::packet::{FlowKey, TcpFlags};

const WEIGHTS: [(u8, u32); 5] = [(20, 1), (21, 2), (22, 3), (23, 5), (24, 9)];
const DRAWS: usize = 1_000_000;

/// The pool of ten with five backends of these weights, and slots enough for them.
fn weighted() -> World {
    let (front, rest) = CONFIG.split_once("table_size = 4093\nbackend = [").unwrap();
    let (_, rest) = rest.split_once("]\n").unwrap();
    let backend = |&(last, weight): &(u8, u32)| {
        format!("{{ name = \"b{last}\", address = \"10.2.0.{last}\", weight = {weight} }},")
    };
    let backends: String = WEIGHTS.iter().map(backend).collect();
    World::with_config(
        &format!("{front}table_size = 65537\nbackend = [{backends}]\n{rest}"),
        50_000,
    )
}

/// `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A random flow to the VIP of the pool of ten.
#[expect(clippy::cast_possible_truncation, reason = "parts of a random number")]
fn flow(state: &mut u64) -> FlowKey {
    let random = next(state);
    let (source, ports) = ((random >> 32) as u32, random as u32);
    FlowKey::V4 {
        source: Ipv4Addr::from_bits(source),
        destination: Ipv4Addr::new(10, 1, 0, 101),
        source_port: (ports >> 16) as u16,
        destination_port: ports as u16,
        protocol: 6,
    }
}

/// What the tables choose for a flow.
fn choose(world: &World, flow: &FlowKey) -> BackendId {
    let FlowKey::V4 { destination, destination_port, protocol, .. } = flow else { panic!() };
    let vip = world.tables.vips.ipv4(*destination, *protocol).unwrap();
    let service = vip.service(*destination_port).unwrap();
    let hash = world.tables.flow_hash_key.hash(flow);
    world.tables.select(&world.tables.services[service.index()], hash).unwrap()
}

/// Each backend's slot and its share by weight.
fn shares(world: &World) -> BTreeMap<BackendId, f64> {
    let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let share = |&(last, weight): &(u8, u32)| {
        let key = world.state.find("ten", &format!("b{last}")).unwrap();
        assert_eq!(key.address, IpAddr::from([10, 2, 0, last]));
        (world.state.slots().find(&key).unwrap().id, f64::from(weight) / f64::from(total))
    };
    WEIGHTS.iter().map(share).collect()
}

fn chi_square(draws: &[BackendId], shares: &BTreeMap<BackendId, f64>) -> f64 {
    let mut counts: BTreeMap<BackendId, f64> = BTreeMap::new();
    for draw in draws {
        *counts.entry(*draw).or_default() += 1.0;
    }
    let count = f64::from(u32::try_from(draws.len()).unwrap());
    let term = |(id, share): (&BackendId, &f64)| {
        let expected = share * count;
        (counts.get(id).copied().unwrap_or_default() - expected).powi(2) / expected
    };
    shares.iter().map(term).sum()
}

/// How many standard deviations the number of runs of a yes-no sequence is from what independent
/// draws have (Wald and Wolfowitz).
fn runs_deviation(draws: impl Iterator<Item = bool> + Clone) -> f64 {
    let (mut yes, mut no, mut runs) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut last = None;
    for draw in draws {
        *if draw { &mut yes } else { &mut no } += 1.0;
        if last.replace(draw) != Some(draw) {
            runs += 1.0;
        }
    }
    let count = yes + no;
    let mean = 2.0 * yes * no / count + 1.0;
    let variance = (mean - 1.0) * (mean - 2.0) / (count - 1.0);
    (runs - mean) / variance.sqrt()
}

/// The quantile of χ² with four degrees of freedom for p = 0.001.
const CHI_SQUARE_LIMIT: f64 = 18.467;
/// The quantile of the normal distribution for p = 0.001, both sides.
const NORMAL_LIMIT: f64 = 3.291;

#[test] // HP-14
fn a_million_draws_converge_to_the_weights_and_none_depends_on_the_one_before() {
    let world = weighted();
    let shares = shares(&world);
    let mut state = 14;
    let draws: Vec<_> = (0..DRAWS).map(|_| choose(&world, &flow(&mut state))).collect();

    let distance = chi_square(&draws, &shares);
    assert!(distance < CHI_SQUARE_LIMIT, "χ² is {distance}, p < 0.001");
    for id in shares.keys() {
        let deviation = runs_deviation(draws.iter().map(|draw| draw == id));
        assert!(deviation.abs() < NORMAL_LIMIT, "{id}: runs are {deviation} σ off");
    }
    // The tests can fail: against equal shares, and on a turn of each after the other.
    let equal = shares.keys().map(|id| (*id, 0.2)).collect();
    assert!(chi_square(&draws, &equal) > 1_000.0);
    assert!(runs_deviation((0..1_000).map(|n| n % 2 == 0)) > 30.0);

    // A hundred draws may deviate, and do: nobody evens out what came before.
    let windows: Vec<f64> = draws.chunks(100).map(|window| chi_square(window, &shares)).collect();
    let count = f64::from(u32::try_from(windows.len()).unwrap());
    let mean = windows.iter().sum::<f64>() / count;
    assert!((3.8..4.2).contains(&mean), "a window's χ² is its four degrees of freedom: {mean}");
    let far = windows.iter().filter(|&&window| window > CHI_SQUARE_LIMIT).count();
    assert!(far > 0 && far < 50, "{far} of {count} windows beyond p = 0.001");
}

#[test] // HP-14
fn open_connections_and_order_change_no_choice() {
    let mut world = weighted();
    let order: Vec<u16> = (0..10_000).collect();
    let ask = |world: &mut World, port: u16| -> Result<IpAddr, DropReason> {
        world.backend_of(&tcp("10.1.0.101", 1, port, 443, TcpFlags::SYN))
    };
    // As more and more flows are open, and then all of them again, from the last to the first.
    let first: Vec<_> = order.iter().map(|&port| ask(&mut world, port)).collect();
    let stats = world.view.snapshot();
    assert_eq!((stats.ipv4.new, stats.ipv4.refused), (10_000, 0));
    let again: Vec<_> = order.iter().rev().map(|&port| ask(&mut world, port)).collect();
    assert!(first.iter().eq(again.iter().rev()));
    // And as if nothing had been before.
    let mut fresh = weighted();
    for &port in order.iter().rev().step_by(97) {
        assert_eq!(ask(&mut fresh, port), first[usize::from(port)]);
    }
}
