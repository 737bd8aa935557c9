//! The table against a map and a clock, and the rules of eviction one by one.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bolero::{TypeGenerator, check, produce};
use zerocopy::FromZeros;

use super::*;
use crate::conntrack::{Entry, Ipv4Bucket, Ipv4Key, Ipv6Bucket, Ipv6Key, MAX_TIMEOUT};
use crate::id::{BackendEpoch, BackendId, BackendRef, VipId};

/// Keys that the model uses.
const KEYS: u8 = 64;
/// Shortly before ticks wrap.
const NOW: Tick = Tick(u32::MAX - 100);

type Heap<B> = FlowTable<B, Box<[B]>>;

fn table<B: Bucket>(buckets: usize) -> Heap<B> {
    FlowTable::new(vec![B::new_zeroed(); buckets].into_boxed_slice())
}

fn backend(id: u16) -> BackendRef {
    BackendRef { id: BackendId(id), epoch: BackendEpoch(id ^ 0x5555) }
}

fn ipv4_key(n: u16) -> Ipv4Key {
    Ipv4Key::new(Ipv4Addr::new(192, 0, 2, 1), n, 80, VipId(3))
}

fn ipv6_key(n: u16) -> Ipv6Key {
    Ipv6Key::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), n, 80, VipId(3))
}

/// Few hashes for many keys: most keys share theirs with others.
fn hash(n: u16) -> FlowHash {
    FlowHash(u64::from(n % 11).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The invariants that hold after every call.
fn check_invariants<B: Bucket>(table: &Heap<B>, home_of: impl Fn(&B::Key) -> u32) {
    let mut keys = HashMap::new();
    let mut overflow = vec![0; table.buckets.len()];
    for (bucket, place) in (0..).zip(&table.buckets) {
        for entry in place.entries().iter().filter(|entry| entry.flow().is_some()) {
            assert_eq!(keys.insert(*entry.key(), bucket), None, "a key is twice in the table");
            let home = home_of(entry.key());
            if entry.is_displaced() {
                assert_ne!(bucket, home);
                assert_eq!(
                    bucket,
                    table.alternate(entry.key(), home),
                    "neither home nor alternate"
                );
                assert_eq!(table.home_of_displaced(entry.key(), bucket), home);
                overflow[home as usize] += 1;
            } else {
                assert_eq!(bucket, home);
            }
        }
    }
    let counted: Vec<u32> = table.buckets.iter().map(B::overflow).collect();
    assert_eq!(counted, overflow, "overflow counters");
    assert_eq!(table.len(), keys.len());
    assert!(table.len() <= table.capacity());
    let Counters { inserted, replaced, expired, evicted, removed, .. } = table.counters();
    assert_eq!(inserted, table.len() as u64 + replaced + expired + evicted + removed);
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Op {
    Insert { key: u8, state: u8, timeout: u16 },
    Find { key: u8 },
    Touch { key: u8, state: u8, timeout: u16 },
    Remove { key: u8 },
    Age { buckets: u8 },
    Wait { milliseconds: u16 },
}

fn state(bits: u8) -> EntryState {
    EntryState::from_bits(1 + bits % 4).unwrap()
}

/// The table, and what it must know: every entry that has not been reported gone.
struct Model<B: Bucket> {
    table: Heap<B>,
    key: fn(u16) -> B::Key,
    number: fn(&B::Key) -> u16,
    flows: HashMap<u16, Flow>,
    now: Tick,
    /// Names every insert's flow by its backend.
    serial: u16,
    refused: u64,
}

impl<B: Bucket> Model<B> {
    fn new(table: Heap<B>, key: fn(u16) -> B::Key, number: fn(&B::Key) -> u16) -> Self {
        Self { table, key, number, flows: HashMap::new(), now: NOW, serial: 0, refused: 0 }
    }

    /// Takes a flow that was reported gone out of the model, and says whose it was.
    fn gone(&mut self, flow: Flow) -> u16 {
        let (&key, _) = self.flows.iter().find(|(_, known)| **known == flow).expect("a known flow");
        self.flows.remove(&key);
        key
    }

    fn insert(&mut self, n: u16, state: EntryState, timeout: u32) {
        self.serial += 1;
        let flow = Flow::new(backend(self.serial), state, self.now, timeout);
        let candidates = self.table.candidates(hash(n));
        let before = self.table.counters();
        let result = self.table.insert((self.key)(n), candidates, flow, self.now);
        #[expect(clippy::single_match_else, reason = "the two outcomes weigh the same")]
        match result {
            Ok(Inserted { removed }) => {
                match removed {
                    None => assert!(!self.flows.contains_key(&n)),
                    Some(Removed::Replaced(old)) => {
                        assert!(!old.is_expired(self.now));
                        assert_eq!(self.gone(old), n);
                    }
                    Some(Removed::Expired(old)) => {
                        assert!(old.is_expired(self.now));
                        self.gone(old);
                    }
                    Some(Removed::Evicted(old)) => {
                        assert!(!old.is_expired(self.now));
                        assert!(state.may_evict(old.state), "{state:?} evicted {old:?}");
                        assert_ne!(self.gone(old), n);
                    }
                }
                self.flows.insert(n, flow);
            }
            Err(Full) => {
                self.refused += 1;
                assert_eq!(self.table.counters(), Counters { refused: self.refused, ..before });
                self.check_refusal(n, state);
            }
        }
    }

    /// A refusal was due: nothing at home may go, and if the table is not full, no place within one
    /// move of either bucket is free.
    fn check_refusal(&self, n: u16, state: EntryState) {
        let (table, now) = (&self.table, self.now);
        assert!(!self.flows.contains_key(&n));
        let home = table.candidates(hash(n)).home;
        let flows = |bucket: u32| table.buckets[bucket as usize].entries().iter().map(Entry::flow);
        for flow in flows(home).flatten() {
            assert!(!flow.is_expired(now) && !state.may_evict(flow.state));
        }
        if table.len() >= table.capacity() {
            return;
        }
        let is_full = |bucket| flows(bucket).all(|flow| flow.is_some_and(|f| !f.is_expired(now)));
        for bucket in [home, table.alternate(&(self.key)(n), home)] {
            assert!(is_full(bucket));
            for entry in table.buckets[bucket as usize].entries() {
                let other = if entry.is_displaced() {
                    table.home_of_displaced(entry.key(), bucket)
                } else {
                    table.alternate(entry.key(), bucket)
                };
                assert!(is_full(other), "an entry could have moved");
            }
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Insert { key, state: bits, timeout } => {
                self.insert((key % KEYS).into(), state(bits), (timeout % 512).into());
            }
            Op::Find { key } => self.find((key % KEYS).into()),
            Op::Touch { key, state: bits, timeout } => {
                let (n, timeout) = (u16::from(key % KEYS), u32::from(timeout % 512));
                let candidates = self.table.candidates(hash(n));
                let key = (self.key)(n);
                if let Some(found) = self.table.find(&key, candidates, self.now) {
                    found.touch(state(bits), self.now, timeout);
                    // The deadline may be an older one, but never too early or too late.
                    let at_least = self.now.plus(timeout);
                    let after = self.table.locate(&key, candidates.home).unwrap().1;
                    let late = after.expiry.since(at_least);
                    assert!(late <= timeout / 16 * 2, "{late} after {timeout}");
                    let old = self.flows.insert(n, after).unwrap();
                    assert_eq!((after.backend, after.state), (old.backend, state(bits)));
                }
            }
            Op::Remove { key } => {
                let n = u16::from(key % KEYS);
                let candidates = self.table.candidates(hash(n));
                if let Some(found) = self.table.find(&(self.key)(n), candidates, self.now) {
                    let flow = found.remove();
                    assert_eq!(self.flows.remove(&n), Some(flow));
                }
            }
            Op::Age { buckets } => {
                let mut gone = Vec::new();
                self.table.age(self.now, (buckets % 8).into(), |flow| gone.push(flow));
                assert!(gone.len() <= usize::from(buckets % 8) * B::ENTRIES);
                for flow in gone {
                    assert!(flow.is_expired(self.now));
                    self.gone(flow);
                }
            }
            Op::Wait { milliseconds } => self.now = self.now.plus((milliseconds % 256).into()),
        }
        check_invariants(&self.table, |key| self.table.candidates(hash((self.number)(key))).home);
        assert_eq!(self.table.len(), self.flows.len());
    }

    fn find(&mut self, n: u16) {
        let known = self.flows.get(&n).copied().filter(|flow| !flow.is_expired(self.now));
        let candidates = self.table.candidates(hash(n));
        assert_eq!(self.table.peek(&(self.key)(n), candidates, self.now), known);
        let found = self.table.find(&(self.key)(n), candidates, self.now);
        assert_eq!(found.map(|found| found.flow()), known);
    }

    /// Every key is found or not found as the model says; one round of ageing leaves the live.
    fn finish(&mut self) {
        for n in 0..KEYS {
            self.find(n.into());
        }
        self.run(Op::Age { buckets: 7 });
        let mut gone = Vec::new();
        self.table.age(self.now, usize::MAX, |flow| gone.push(flow));
        for flow in gone {
            self.gone(flow);
        }
        assert!(self.flows.values().all(|flow| !flow.is_expired(self.now)));
        let mut shown = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.table.scan(from, 2, self.now, |_, _| shown += 1);
        }
        assert_eq!(shown, self.flows.len());
        assert_eq!(self.table.len(), self.flows.len());
    }
}

fn agrees_with_a_map<B: Bucket>(key: fn(u16) -> B::Key, number: fn(&B::Key) -> u16) {
    let [moved, evicted, refused, replaced, expired] = [const { AtomicU64::new(0) }; 5];
    let ops = produce::<Vec<Op>>().with().len(0_usize..300);
    // Few buckets, declared full anywhere between never and always.
    let inputs = (1_usize..12, 0_usize..40, ops);
    check!().with_generator(inputs).with_iterations(1_000).for_each(|(buckets, capacity, ops)| {
        let storage = vec![B::new_zeroed(); *buckets].into_boxed_slice();
        let mut model =
            Model::new(FlowTable::<B, _>::with_capacity(storage, *capacity), key, number);
        for op in ops {
            model.run(*op);
        }
        model.finish();
        let counters = model.table.counters();
        moved.fetch_add(counters.moved, Relaxed);
        evicted.fetch_add(counters.evicted, Relaxed);
        refused.fetch_add(counters.refused, Relaxed);
        replaced.fetch_add(counters.replaced, Relaxed);
        expired.fetch_add(counters.expired, Relaxed);
    });
    let happened = [moved, evicted, refused, replaced, expired].map(AtomicU64::into_inner);
    assert!(happened.iter().all(|count| *count > 0), "all happened: {happened:?}");
}

// L4-17
#[test]
fn ipv4_agrees_with_a_map_and_a_clock() {
    agrees_with_a_map::<Ipv4Bucket>(ipv4_key, Ipv4Key::source_port);
}

// L4-17
#[test]
fn ipv6_agrees_with_a_map_and_a_clock() {
    agrees_with_a_map::<Ipv6Bucket>(ipv6_key, Ipv6Key::source_port);
}

#[test]
fn keys_differ_in_every_part_though_their_hash_is_one() {
    let address = Ipv4Addr::new(192, 0, 2, 1);
    let keys = [
        Ipv4Key::new(address, 1, 2, VipId(3)),
        Ipv4Key::new(Ipv4Addr::new(192, 0, 2, 2), 1, 2, VipId(3)),
        Ipv4Key::new(address, 2, 2, VipId(3)),
        Ipv4Key::new(address, 1, 1, VipId(3)),
        Ipv4Key::new(address, 1, 2, VipId(2)),
        Ipv4Key::new(address, 2, 1, VipId(3)),
    ];
    let mut table = FlowTable::with_capacity(Ipv4Bucket::on_heap(100), usize::MAX);
    let at = table.candidates(hash(0));
    for (n, key) in (0..).zip(keys) {
        for other in &keys[usize::from(n)..] {
            assert_eq!(table.peek(other, at, NOW), None);
        }
        let flow = Flow::new(backend(n), EntryState::Established, NOW, 1000);
        assert_eq!(table.insert(key, at, flow, NOW), Ok(Inserted { removed: None }));
    }
    for (n, key) in (0..).zip(keys) {
        assert_eq!(table.peek(&key, at, NOW).unwrap().backend, backend(n));
    }
    let key = keys[5];
    assert_eq!(
        (key.source(), key.source_port(), key.destination_port(), key.vip()),
        (address, 2, 1, VipId(3))
    );
    let key = Ipv6Key::new(Ipv6Addr::LOCALHOST, 1, 2, VipId(3));
    assert_eq!(
        (key.source(), key.source_port(), key.destination_port(), key.vip()),
        (Ipv6Addr::LOCALHOST, 1, 2, VipId(3))
    );
}

// L4-19
#[test]
fn a_new_decision_replaces_the_entry_of_the_same_key() {
    let mut table = table::<Ipv4Bucket>(10);
    let at = table.candidates(hash(1));
    let first = Flow::new(backend(1), EntryState::Established, NOW, 60_000);
    let second = Flow::new(backend(2), EntryState::HalfOpen, NOW.plus(200), 1_000);
    assert_eq!(table.insert(ipv4_key(1), at, first, NOW), Ok(Inserted { removed: None }));
    assert_eq!(
        table.insert(ipv4_key(1), at, second, NOW.plus(200)),
        Ok(Inserted { removed: Some(Removed::Replaced(first)) })
    );
    assert_eq!(table.peek(&ipv4_key(1), at, NOW.plus(200)), Some(second));
    assert_eq!(table.len(), 1);
}

/// Fills the home bucket of hash 0 of a table that is then declared full.
fn full_table(states: [EntryState; 3]) -> Heap<Ipv4Bucket> {
    let storage = vec![Ipv4Bucket::new_zeroed(); 8].into_boxed_slice();
    let mut table = FlowTable::with_capacity(storage, 3);
    let at = table.candidates(FlowHash(0));
    for (n, state) in (0..).zip(states) {
        // The later, the sooner it expires.
        let flow = Flow::new(backend(n), state, NOW, 10_000 - u32::from(n) * 1_000);
        table.insert(ipv4_key(n), at, flow, NOW).unwrap();
    }
    table
}

fn evicted(table: &mut Heap<Ipv4Bucket>, newcomer: EntryState, now: Tick) -> Option<u16> {
    let at = table.candidates(FlowHash(0));
    let flow = Flow::new(backend(99), newcomer, now, 10_000);
    let removed = table.insert(ipv4_key(99), at, flow, now).ok()?.removed?;
    Some(removed.flow().backend.id.0)
}

// L4-42
#[test]
fn what_is_of_least_worth_goes_first_and_what_is_live_and_worth_more_stays() {
    use EntryState::{Closing, Established, HalfOpen, Unverified};
    for (states, newcomer, after, expected) in [
        ([Established, Established, HalfOpen], HalfOpen, 0, Some(2)),
        ([HalfOpen, HalfOpen, HalfOpen], HalfOpen, 0, Some(2)),
        ([Closing, HalfOpen, HalfOpen], HalfOpen, 0, Some(0)),
        ([Unverified, Established, Unverified], HalfOpen, 0, None),
        ([Unverified, Established, Unverified], Unverified, 0, None),
        ([Unverified, Established, Unverified], Established, 0, Some(2)),
        ([Established, Established, Established], Established, 0, None),
        ([Closing, HalfOpen, Unverified], Closing, 0, None),
        // Entry 2 has expired; it goes though it was worth the most.
        ([Closing, HalfOpen, Established], HalfOpen, 8_900, Some(2)),
    ] {
        let mut table = full_table(states);
        let evicted = evicted(&mut table, newcomer, NOW.plus(after));
        assert_eq!(evicted, expected, "{newcomer:?} into {states:?} after {after} ms");
        assert_eq!(table.counters().refused, u64::from(expected.is_none()));
        assert_eq!(table.len(), 3);
    }
}

// L4-42
#[test]
fn a_syn_flood_on_a_full_table_moves_no_established_flow() {
    let mut table = FlowTable::new(Ipv4Bucket::on_heap(1_000));
    let mix = |n: u16| FlowHash(u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    let key = ipv4_key;
    for n in 0..600 {
        let flow = Flow::new(backend(n), EntryState::Established, NOW, 600_000);
        table.insert(key(n), table.candidates(mix(n)), flow, NOW).unwrap();
    }
    for n in 600..10_600 {
        let flow = Flow::new(backend(7), EntryState::HalfOpen, NOW, 10_000);
        let _ = table.insert(key(n), table.candidates(mix(n)), flow, NOW);
    }
    assert_eq!(table.len(), table.capacity());
    let counters = table.counters();
    assert!(counters.refused > 1_000, "{counters:?}");
    assert_eq!(counters.inserted + counters.refused, 10_600);
    for n in 0..600 {
        let flow = table.peek(&key(n), table.candidates(mix(n)), NOW).unwrap();
        assert_eq!(flow.backend, backend(n));
    }
}

#[test]
fn ageing_visits_as_many_buckets_as_it_is_told_and_goes_on_where_it_was() {
    let mut table = table::<Ipv4Bucket>(64);
    for n in 0..64_u16 {
        let at = Candidates { home: n.into() };
        let flow = Flow::new(backend(0), EntryState::HalfOpen, NOW, 16);
        table.insert(ipv4_key(n), at, flow, NOW).unwrap();
    }
    let mut count = |now, buckets| {
        let mut count = 0;
        table.age(now, buckets, |_| count += 1);
        count
    };
    assert_eq!(count(NOW.plus(16), 64), 0, "one tick early, a whole round");
    for _ in 0..8 {
        assert_eq!(count(NOW.plus(17), 8), 8);
    }
    assert!(table.is_empty());
}

#[test]
fn the_longest_deadline_is_right_across_the_wrap() {
    let mut table = table::<Ipv6Bucket>(4);
    let at = table.candidates(hash(1));
    let flow = Flow::new(backend(1), EntryState::Established, NOW, u32::MAX);
    table.insert(ipv6_key(1), at, flow, NOW).unwrap();
    assert!(table.peek(&ipv6_key(1), at, NOW.plus(MAX_TIMEOUT - 1)).is_some());
    // Found by ageing as late as it may come.
    let late = NOW.plus(MAX_TIMEOUT).plus(MAX_TIMEOUT - 1);
    assert!(table.peek(&ipv6_key(1), at, late).is_none());
    table.age(late, usize::MAX, drop);
    assert!(table.is_empty());
}

#[test]
fn a_table_without_storage_refuses_and_finds_nothing() {
    let mut table = table::<Ipv4Bucket>(0);
    let at = table.candidates(hash(1));
    let flow = Flow::new(backend(1), EntryState::Established, NOW, 1);
    assert_eq!(table.insert(ipv4_key(1), at, flow, NOW), Err(Full));
    assert!(table.find(&ipv4_key(1), at, NOW).is_none());
    table.age(NOW, 10, drop);
    assert_eq!(table.scan(0, 10, NOW, |_, _| {}), None);
}

#[test]
fn capacity_is_what_was_asked_for_at_a_bounded_cost() {
    for flows in [1, 2, 6, 1_000, 65_536, 1_000_000, 1 << 24] {
        let buckets = Ipv4Bucket::count_for(flows);
        let capacity = Ipv4Bucket::capacity_of(buckets);
        assert!(capacity >= flows as usize);
        assert!(flows < 6 || buckets * 64 <= flows as usize * 64, "{flows} flows");
        assert!(Ipv6Bucket::capacity_of(Ipv6Bucket::count_for(flows)) >= flows as usize);
    }
}

#[test]
fn the_flows_of_one_backend_spread_over_all_buckets() {
    let table = table::<Ipv4Bucket>(64);
    let mut counts = [0_u32; 64];
    // All hashes of one slot of level 2, at one slot of level 1.
    for k in 0..64_u64 {
        for l in 0..1_000_u64 {
            let hash = FlowHash((7 + 11 * l) << 32 | (12_345 + 65_537 * (k * 997)));
            assert_eq!((hash.level2() % 65_537, hash.level1() % 11), (12_345, 7));
            counts[table.candidates(hash).home as usize] += 1;
        }
    }
    for count in counts {
        assert!((700..=1_300).contains(&count), "{counts:?}");
    }
}
