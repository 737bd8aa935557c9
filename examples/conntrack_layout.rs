//! Compares layouts of the connection table: refused inserts and bytes a flow by fill, and the cost
//! of a hit among a million flows.
//!
//! `taskset -c 1 cargo run --release --no-default-features --example conntrack_layout`
//!
//! There is no prefetch here, since that takes `unsafe`: hits are looked up in stage loops of 32,
//! and the costs compare layouts with each other, not with a whole pipeline.

#![allow(clippy::print_stdout, reason = "the output is what it is for")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "counts of a few millions"
)]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lodestone::conntrack::{
    Bucket, Entry, EntryState, Flow, FlowTable, Ipv4Bucket, Ipv4Key, Ipv6Bucket, Ipv6Key, Prefetch,
};
use lodestone::id::{BackendRef, VipId};
use lodestone::packet::FlowHash;
use lodestone::time::Tick;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Four IPv6 entries in two lines.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(128))]
struct WideBucket {
    entries: [Entry<Ipv6Key>; 4],
    overflow: u32,
}

impl Bucket for WideBucket {
    type Key = Ipv6Key;
    const ENTRIES: usize = 4;
    const FULL_PERCENT: usize = 40;
    const MAX_OVERFLOW: u32 = u32::MAX;

    fn entries(&self) -> &[Entry<Ipv6Key>] {
        &self.entries
    }

    fn entries_mut(&mut self) -> &mut [Entry<Ipv6Key>] {
        &mut self.entries
    }

    fn overflow(&self) -> u32 {
        self.overflow
    }

    fn set_overflow(&mut self, count: u32) {
        self.overflow = count;
    }
}

const FLOWS: u64 = 1_000_000;
const NOW: Tick = Tick(1);

/// `SplitMix64`: stands for the keyed hash, and for randomness.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `n`th client: a block of addresses, a few ports each.
fn ipv4_key(n: u64) -> Ipv4Key {
    let (host, port) = ((n / 16) as u32, (n % 16) as u16);
    Ipv4Key::new(Ipv4Addr::from_bits(0x0a00_0000 + host), 32_768 + port, 443, VipId(1))
}

fn ipv6_key(n: u64) -> Ipv6Key {
    let (host, port) = (u128::from(n / 16), (n % 16) as u16);
    let prefix = 0x2001_0db8_u128 << 96;
    Ipv6Key::new(Ipv6Addr::from_bits(prefix | host), 32_768 + port, 443, VipId(1))
}

fn fill<B: Bucket>(buckets: usize, flows: u64, key: fn(u64) -> B::Key) -> FlowTable<B, Box<[B]>> {
    let storage = vec![B::new_zeroed(); buckets].into_boxed_slice();
    let mut table = FlowTable::with_capacity(storage, usize::MAX);
    let flow = Flow::new(BackendRef::default(), EntryState::Established, NOW, 600_000);
    for n in 0..flows {
        let candidates = table.candidates(FlowHash(mix(n)));
        // A refusal is what is counted.
        let _ = table.insert(key(n), candidates, flow, NOW);
    }
    table
}

/// Nanoseconds a hit, the best of many short passes over random flows: on a shared core a short
/// pass is likelier to run without a pause.
fn hit<B: Bucket>(table: &mut FlowTable<B, Box<[B]>>, key: fn(u64) -> B::Key) -> f64 {
    let mut best = f64::MAX;
    for pass in 0..60 {
        let order: Vec<_> = (0_u64..1 << 15)
            .map(|n| mix(n ^ (pass << 40)) % FLOWS)
            .map(|n| (key(n), FlowHash(mix(n))))
            .collect();
        #[expect(clippy::disallowed_methods, reason = "this measures")]
        let start = Instant::now();
        let mut found = 0_usize;
        for burst in order.chunks(32) {
            let mut candidates = [table.candidates(FlowHash(0)); 32];
            for (at, (_, hash)) in candidates.iter_mut().zip(burst) {
                *at = table.candidates(*hash);
            }
            for (at, (key, _)) in candidates.iter().zip(burst) {
                found += usize::from(table.find(key, *at, NOW).is_some());
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        assert!(found * 1000 > order.len() * 998, "hits");
        best = best.min(elapsed / order.len() as f64);
    }
    best * 1e9
}

static SECOND_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts instead of fetching.
struct CountPrefetch;

impl Prefetch for CountPrefetch {
    fn prefetch<T>(_: &T) {
        SECOND_LINES.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many of all flows have a home bucket that sends a miss on to the alternate.
fn two_line_lookups<B: Bucket>(table: &FlowTable<B, Box<[B]>>, key: fn(u64) -> B::Key) -> u64 {
    SECOND_LINES.store(0, Ordering::Relaxed);
    for n in 0..FLOWS {
        table.prefetch_alternate::<CountPrefetch>(&key(n), table.candidates(FlowHash(mix(n))));
    }
    SECOND_LINES.load(Ordering::Relaxed)
}

fn compare<B: Bucket>(name: &str, key: fn(u64) -> B::Key, percents: &[usize]) {
    println!("{name}: {} entries in {} bytes", B::ENTRIES, size_of::<B>());
    println!("  fill %  bytes/flow  refused %  moved %  second line %  ns/hit");
    for percent in percents {
        let buckets = (FLOWS as usize * 100).div_ceil(B::ENTRIES * percent);
        let mut table = fill::<B>(buckets, FLOWS, key);
        let counters = table.counters();
        let of_flows = |count: u64| count as f64 * 100.0 / FLOWS as f64;
        println!(
            "  {percent:6}  {:10.1}  {:9.4}  {:7.3}  {:13.2}  {:6.1}",
            (buckets * size_of::<B>()) as f64 / FLOWS as f64,
            of_flows(counters.refused),
            of_flows(counters.moved),
            of_flows(two_line_lookups(&table, key)),
            if counters.refused * 1000 < FLOWS { hit(&mut table, key) } else { f64::NAN },
        );
    }
}

fn main() {
    compare::<Ipv4Bucket>("ipv4, one line", ipv4_key, &[30, 36, 40, 45, 50, 60]);
    compare::<Ipv6Bucket>("ipv6, one line", ipv6_key, &[15, 20, 25, 30, 35, 40]);
    compare::<WideBucket>("ipv6, two lines", ipv6_key, &[25, 30, 40, 50, 60, 70]);
}
