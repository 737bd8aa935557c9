//! Jobs through the mailbox, beside traffic.

use super::*;
use crate::conntrack::{EntryState, Flow, Ipv4Key};
use crate::forward::BURST;
use crate::id::{BackendEpoch, BackendRef, VipId};
use crate::id::{BackendId, Family};
use crate::packet::FlowHash;
use crate::worker::job::{BackendFilter, Filter, FlowKeyAndHash, JOB_BUCKETS, TableKey};

const NOW: Tick = Tick(1);

/// A worker whose table tracks `flows` flows of ten backends, counted as the pipeline counts them.
fn tracking(flows: u32) -> Bench {
    let mut bench = bench(4);
    bench.worker.pipeline = Forwarder::new(Conntrack::on_heap(flows * 2, 16));
    for number in 0..flows {
        let (key, hash, flow) = numbered(number);
        let table = &mut bench.worker.pipeline.conntrack.ipv4;
        table.insert(key, table.candidates(hash), flow, NOW).unwrap();
        bench.worker.counters.open_flow(flow.backend.id);
    }
    bench
}

fn numbered(number: u32) -> (Ipv4Key, FlowHash, Flow) {
    let id = BackendId(u16::try_from(number % 4).unwrap());
    let backend = BackendRef { id, epoch: BackendEpoch(0) };
    let key = Ipv4Key::new(number.into(), 4_000, 80, VipId(1));
    let hash = FlowHash(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (key, hash, Flow::new(backend, EntryState::Established, NOW, 32_000))
}

/// Polls until a job comes back; every round brings packets, and visits a bounded number of buckets.
fn run(bench: &mut Bench) -> FinishedJob {
    loop {
        let before = bench.view.job_buckets();
        bench.wire.borrow_mut().incoming.extend((0..5).map(ping));
        bench.worker.poll(NOW);
        let visited = bench.view.job_buckets() - before;
        assert!(visited <= JOB_BUCKETS as u64, "{visited} buckets in a round");
        if let Some(finished) = bench.remote.next_finished() {
            return finished;
        }
    }
}

#[test]
fn a_list_comes_back_in_pieces_and_no_round_visits_more_than_eight_buckets() {
    let mut bench = tracking(3_000);
    let mut job = Some(Job::list(7, Filter::default(), 100));
    let mut seen = std::collections::BTreeSet::new();
    while let Some(next) = job.take() {
        bench.remote.start(next).unwrap();
        let finished = run(&mut bench);
        assert_eq!((finished.id(), finished.entries().len() <= 100), (7, true));
        for entry in finished.entries() {
            assert!(seen.insert(entry.source), "{entry:?} twice");
            assert_eq!((entry.family(), entry.vip), (Family::Ipv4, VipId(1)));
            assert_eq!((entry.source_port, entry.destination_port), (4_000, 80));
            assert_eq!((entry.state, entry.idle_expires_in_ms), (EntryState::Established, 34_000));
        }
        if finished.is_complete() {
            assert_eq!(finished.matched(), 3_000);
            let table = &bench.worker.pipeline.conntrack;
            let buckets = table.ipv4.bucket_count() + table.ipv6.bucket_count();
            assert_eq!(finished.visited(), buckets as u64, "each bucket once");
            assert_eq!(bench.view.job_buckets(), finished.visited());
        }
        job = finished.resume();
    }
    assert_eq!(seen.len(), 3_000);
    assert_eq!(bench.remote.jobs_in_flight(), 0);
    bench.view.snapshot().conservation().unwrap();
}

#[test]
fn a_flush_keeps_every_count() {
    let mut bench = tracking(1_000);
    let backend = Some(BackendFilter { id: BackendId(1), epoch: None });
    let filter = Filter { backend, ..Filter::default() };
    bench.remote.start(Job::flush(1, filter)).unwrap();
    bench.remote.start(Job::count(2, filter)).unwrap();
    bench.remote.start(Job::count(3, Filter::default())).unwrap();
    let flushed = run(&mut bench);
    assert_eq!((flushed.id(), flushed.matched(), flushed.is_complete()), (1, 250, true));
    assert_eq!((run(&mut bench).matched(), run(&mut bench).matched()), (0, 750));
    let stats = bench.view.snapshot();
    assert_eq!((stats.ipv4.removed, stats.ipv4.entries, stats.ipv4.expired), (250, 750, 0));
    assert_eq!((stats.backend(BackendId(1)).flows, stats.backend(BackendId(2)).flows), (0, 250));
    assert_eq!(bench.worker.pipeline.conntrack.ipv4.counters().removed, 250);
}

#[test]
fn one_flow_is_found_by_its_tuple() {
    let mut bench = tracking(100);
    for (number, is_there) in [(42, true), (4_242, false)] {
        let (key, hash, _) = numbered(number);
        let flow = FlowKeyAndHash { key: TableKey::Ipv4(key), hash };
        bench.remote.start(Job::find(9, flow)).unwrap();
        let finished = run(&mut bench);
        assert!(finished.is_complete());
        assert_eq!(finished.matched(), u64::from(is_there));
        let found = finished.entries().first().map(|entry| entry.backend.id);
        assert_eq!(found, is_there.then_some(BackendId(2)));
    }
}

#[test]
fn jobs_are_bounded_wait_for_their_turn_and_cost_no_memory_of_the_worker() {
    let mut bench = tracking(100);
    for id in 0..JOB_CAP as u64 {
        bench.remote.start(Job::count(id, Filter::default())).unwrap();
    }
    let refused = bench.remote.start(Job::count(99, Filter::default())).unwrap_err();
    for _ in 0..1_000 {
        bench.worker.poll(NOW);
    }
    // All are done, but not fetched: still nothing more is taken.
    assert!(bench.remote.start(refused).is_err());
    let ids: Vec<_> = std::iter::from_fn(|| bench.remote.next_finished())
        .map(|finished| (finished.id(), finished.matched()))
        .collect();
    assert_eq!(ids, (0..JOB_CAP as u64).map(|id| (id, 100)).collect::<Vec<_>>());
    bench.remote.start(Job::count(1, Filter::default())).unwrap();
}

#[test]
fn a_worker_goes_on_when_management_goes_amid_a_job() {
    let mut bench = tracking(3_000);
    bench.remote.start(Job::list(1, Filter::default(), 100)).unwrap();
    bench.worker.poll(NOW);
    drop(bench.remote);
    bench.wire.borrow_mut().incoming.extend((0..5).map(ping));
    assert_eq!(bench.worker.poll(NOW), 5);
    for _ in 0..2_000 {
        bench.worker.poll(NOW);
    }
    assert!(answered(&bench.wire.borrow()).len() <= BURST);
    bench.view.snapshot().conservation().unwrap();
}
