//! Jobs against a plain list of what was inserted.

use std::collections::BTreeMap;

use super::*;
use crate::conntrack::NoPrefetch;
use crate::forward::DropReason;
use crate::id::{BackendEpoch, BackendId};
use crate::stats::{self, StatsView};

#[derive(Clone, Debug, bolero::TypeGenerator)]
struct Inserted {
    client: u16,
    is_ipv6: bool,
    backend: u8,
    epoch: u8,
    vip: u8,
    state: u8,
    is_expired: bool,
}

#[derive(Clone, Debug, bolero::TypeGenerator)]
struct Wanted {
    family: Option<bool>,
    backend: Option<(u8, Option<u8>)>,
    vip: Option<u8>,
    client: Option<(u16, bool, u8)>,
    state: Option<u8>,
}

const STATES: [EntryState; 4] =
    [EntryState::HalfOpen, EntryState::Unverified, EntryState::Established, EntryState::Closing];
const NOW: Tick = Tick(50_000);

fn address(client: u16, is_ipv6: bool) -> IpAddr {
    if is_ipv6 {
        IpAddr::from((0x2001_0db8_u128 << 96 | u128::from(client)).to_be_bytes())
    } else {
        IpAddr::from((0x0a00_0000 | u32::from(client)).to_be_bytes())
    }
}

impl Wanted {
    fn filter(&self) -> Filter {
        let family = |is_ipv6| if is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
        Filter {
            family: self.family.map(family),
            backend: self.backend.map(|(id, epoch)| BackendFilter {
                id: BackendId((id % 3).into()),
                epoch: epoch.map(|epoch| BackendEpoch((epoch % 2).into())),
            }),
            vip: self.vip.map(|vip| VipId((vip % 3).into())),
            client: self.client.map(|(client, is_ipv6, len)| {
                let len = if is_ipv6 { 100 + len % 29 } else { 10 + len % 23 };
                ClientPrefix::new(address(client, is_ipv6), len).unwrap()
            }),
            state: self.state.map(|state| STATES[usize::from(state % 4)]),
        }
    }
}

/// Whether an entry should match, said another way than the filter does.
fn is_wanted(filter: &Filter, entry: &FlowEntry) -> bool {
    let conditions = [
        filter.family.is_some_and(|family| family != entry.family()),
        filter.backend.is_some_and(|backend| backend.id != entry.backend.id),
        filter.backend.is_some_and(|b| b.epoch.is_some_and(|epoch| epoch != entry.backend.epoch)),
        filter.vip.is_some_and(|vip| vip != entry.vip),
        filter.state.is_some_and(|state| state != entry.state),
        filter.client.is_some_and(|client| !client.contains(entry.source)),
    ];
    !conditions.contains(&true)
}

struct Shard {
    conntrack: Conntrack<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>>,
    counters: Counters,
    view: StatsView<DropReason>,
    /// What lives, by client's address.
    live: BTreeMap<IpAddr, FlowEntry>,
}

fn hash_of(source: IpAddr) -> FlowHash {
    let low = match source {
        IpAddr::V4(source) => u64::from(source.to_bits()),
        IpAddr::V6(source) => u64::try_from(source.to_bits() & u128::from(u64::MAX)).unwrap(),
    };
    FlowHash(low.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31))
}

fn key_of(entry: &FlowEntry) -> TableKey {
    match entry.source {
        IpAddr::V4(source) => TableKey::Ipv4(Ipv4Key::new(source, 5, 80, entry.vip)),
        IpAddr::V6(source) => TableKey::Ipv6(Ipv6Key::new(source, 5, 80, entry.vip)),
    }
}

fn shard(inserted: &[Inserted]) -> Shard {
    let (counters, view) = stats::worker(3);
    let conntrack = Conntrack::on_heap(300, 300);
    let mut shard = Shard { conntrack, counters, view, live: BTreeMap::new() };
    let mut clients = std::collections::BTreeSet::new();
    for one in inserted.iter().take(100) {
        let source = address(one.client, one.is_ipv6);
        if !clients.insert(source) {
            continue;
        }
        let backend = BackendRef {
            id: BackendId((one.backend % 3).into()),
            epoch: BackendEpoch((one.epoch % 2).into()),
        };
        let state = STATES[usize::from(one.state % 4)];
        // Inserted long ago with a short timeout: expired now, and not aged yet.
        let then = if one.is_expired { Tick(0) } else { NOW };
        let flow = Flow::new(backend, state, then, 16_000);
        let entry = FlowEntry {
            source,
            source_port: 5,
            destination_port: 80,
            vip: VipId((one.vip % 3).into()),
            backend,
            state,
            idle_expires_in_ms: 17_000,
        };
        let Conntrack { ipv4, ipv6 } = &mut shard.conntrack;
        let outcome = match key_of(&entry) {
            TableKey::Ipv4(key) => ipv4.insert(key, ipv4.candidates(hash_of(source)), flow, then),
            TableKey::Ipv6(key) => ipv6.insert(key, ipv6.candidates(hash_of(source)), flow, then),
        };
        // At most one that has expired makes room.
        if let Some(removed) = outcome.unwrap().removed {
            assert!(removed.flow().is_expired(NOW));
            shard.counters.close_flow(removed.flow().backend.id);
        }
        shard.counters.open_flow(backend.id);
        if !one.is_expired {
            shard.live.insert(source, entry);
        }
    }
    shard
}

/// Does a job to its end, as worker and management would; returns what it listed and how many
/// matched. The worker neither grows nor moves the job's memory.
fn complete(shard: &mut Shard, mut job: Job, buckets: usize) -> (Vec<FlowEntry>, u64) {
    let mut listed = Vec::new();
    loop {
        let memory = (job.entries.as_ptr(), job.entries.capacity());
        while !job.is_finished() {
            let Shard { conntrack, counters, .. } = shard;
            let visited = job.advance::<_, _, NoPrefetch>(conntrack, NOW, buckets, counters);
            assert!(visited <= buckets.max(2), "{visited}");
        }
        assert_eq!((job.entries.as_ptr(), job.entries.capacity()), memory);
        let finished = FinishedJob(job);
        listed.extend_from_slice(finished.entries());
        let matched = finished.matched();
        match finished.resume() {
            Some(next) => job = next,
            None => return (listed, matched),
        }
    }
}

#[test]
fn list_count_flush_and_find_agree_with_what_was_inserted() {
    bolero::check!().with_iterations(700).with_type::<(Vec<Inserted>, Wanted, u8, u8)>().for_each(
        |(inserted, wanted, capacity, buckets)| {
            let mut shard = shard(inserted);
            let (filter, buckets) = (wanted.filter(), usize::from(buckets % 8) + 1);
            let live: Vec<_> = shard.live.values().copied().collect();
            let (expected, others): (Vec<_>, Vec<_>) =
                live.into_iter().partition(|entry| is_wanted(&filter, entry));

            let job = Job::list(1, filter, (*capacity).into());
            let (mut listed, matched) = complete(&mut shard, job, buckets);
            listed.sort_by_key(|entry| entry.source);
            assert_eq!((&listed, matched), (&expected, expected.len() as u64));
            let (_, counted) = complete(&mut shard, Job::count(2, filter), buckets);
            assert_eq!(counted, matched);
            let (_, flushed) = complete(&mut shard, Job::flush(3, filter), buckets);
            assert_eq!(flushed, matched);

            for entry in others.iter().chain(&expected) {
                let flow = FlowKeyAndHash { key: key_of(entry), hash: hash_of(entry.source) };
                let (found, _) = complete(&mut shard, Job::find(4, flow), buckets);
                let stays = others.contains(entry);
                assert_eq!(found.first(), stays.then_some(entry));
            }
            let stats = shard.view.snapshot();
            assert_eq!(stats.ipv4.removed + stats.ipv6.removed, flushed);
            let flows: u64 = (0..3).map(|id| stats.backend(BackendId(id)).flows).sum();
            let tables = &shard.conntrack;
            assert_eq!(flows, (tables.ipv4.len() + tables.ipv6.len()) as u64);
        },
    );
}

#[test]
fn a_span_is_bounded_and_an_impossible_filter_is_done_at_once() {
    let (mut counters, _view) = stats::worker::<DropReason>(1);
    let mut conntrack = Conntrack::on_heap(100_000, 0);
    assert!(conntrack.ipv4.bucket_count() > 2 * SPAN);
    let mut job = Job::count(1, Filter::default());
    let mut spans = 0;
    loop {
        let mut visited = 0;
        while !job.is_finished() {
            visited += job.advance::<_, _, NoPrefetch>(&mut conntrack, NOW, 8, &mut counters);
        }
        assert!(visited <= SPAN, "{visited}");
        spans += 1;
        match FinishedJob(job).resume() {
            Some(next) => job = next,
            None => break,
        }
    }
    assert_eq!(spans, conntrack.ipv4.bucket_count().div_ceil(SPAN));

    let client = ClientPrefix::new("10.0.0.1".parse().unwrap(), 32);
    let nothing = Filter { family: Some(Family::Ipv6), client, ..Filter::default() };
    assert!(Job::count(1, nothing).is_finished());
    assert!(FinishedJob(Job::count(1, nothing)).is_complete());
}
