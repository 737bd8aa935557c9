use tokio::sync::oneshot::{Receiver, channel};

use super::*;
use crate::conntrack::{Conntrack, EntryState, Flow, Ipv4Bucket, Ipv4Key, Ipv6Bucket, NoPrefetch};
use crate::control::protocol::params::FlowsParams;
use crate::forward::Counters;
use crate::id::{BackendEpoch, BackendId, BackendRef, VipId, WorkerId};
use crate::packet::FlowHash;
use crate::stats;
use crate::time::Tick;
use crate::worker::job::{BackendFilter, TableKey};
use crate::worker::{Mailbox, mailbox};

const NOW: Tick = Tick(1);
const START: Duration = Duration::from_secs(5);

/// A worker without packets.
struct Hand {
    mailbox: Mailbox,
    conntrack: Conntrack<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>>,
    counters: Counters,
}

impl Hand {
    /// Does the jobs that are there; returns how many came to an end.
    fn work(&mut self) -> usize {
        let Self { mailbox, conntrack, counters } = self;
        let mut ended = 0;
        while let Some(job) = mailbox.job() {
            while !job.is_finished() {
                job.advance::<_, _, NoPrefetch>(conntrack, NOW, 8, counters);
            }
            mailbox.give_back_finished();
            ended += 1;
        }
        ended
    }
}

fn numbered(number: u32) -> (Ipv4Key, FlowHash, Flow) {
    let id = BackendId(u16::try_from(number % 4).unwrap());
    let backend = BackendRef { id, epoch: BackendEpoch(0) };
    let key = Ipv4Key::new(number.into(), 4_000, 80, VipId(1));
    let hash = FlowHash(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (key, hash, Flow::new(backend, EntryState::Established, NOW, 32_000))
}

/// Workers that track so many flows each: 0..n on the first, n..2n on the second.
fn workers(count: u16, flows: u32) -> (Vec<WorkerRemote>, Vec<Hand>) {
    let worker = |id: u16| {
        let (counters, view) = stats::worker(16);
        let (own, remote) = mailbox(4);
        let mut conntrack = Conntrack::on_heap(flows.max(8) * 2, 8);
        for number in u32::from(id) * flows..(u32::from(id) + 1) * flows {
            let (key, hash, flow) = numbered(number);
            let table = &mut conntrack.ipv4;
            table.insert(key, table.candidates(hash), flow, NOW).unwrap();
        }
        let remote = WorkerRemote {
            id: WorkerId(id),
            core: 1,
            capacity: (8, 8),
            cycles_per_second: 1,
            stats: view,
            mailbox: remote,
        };
        (remote, Hand { mailbox: own, conntrack, counters })
    };
    (0..count).map(worker).unzip()
}

fn list(limit: usize) -> Question {
    Question::List { filter: Filter::default(), limit }
}

/// Ticks and works until a question is answered.
fn answered(jobs: &mut Jobs, remotes: &mut [WorkerRemote], hands: &mut [Hand]) -> Answered {
    for _ in 0..1_000 {
        if let Some(answered) = jobs.tick(remotes, START).pop() {
            return answered;
        }
        for hand in &mut *hands {
            hand.work();
        }
    }
    panic!("not answered after a thousand ticks");
}

fn ask(
    jobs: &mut Jobs,
    question: Question,
    workers: usize,
) -> Receiver<Result<Reply, RequestError>> {
    let (client, receiver) = channel();
    // Whatever it was: jobs do not look.
    let request = Request::ShowFlows(FlowsParams::default());
    let peer = PeerCredentials { uid: 0, gid: 0, pid: None };
    jobs.ask(question, Asker { request, role: Role::Full, peer, client }, workers, START);
    receiver
}

#[test]
fn a_list_stops_at_its_limit_and_counts_all() {
    let (mut remotes, mut hands) = workers(2, 3_000);
    for (limit, shown) in [(1, 1), (100, 100), (4_000, 4_000), (10_000, 6_000)] {
        let mut jobs = Jobs::default();
        let _receiver = ask(&mut jobs, list(limit), 2);
        let answered = answered(&mut jobs, &mut remotes, &mut hands);
        assert_eq!((answered.flows.len(), answered.matched), (shown, 6_000), "limit {limit}");
        let sources: std::collections::BTreeSet<_> =
            answered.flows.iter().map(|(_, entry)| entry.source).collect();
        assert_eq!(sources.len(), shown, "each flow once");
        assert!(answered.silent.is_empty() && jobs.is_idle());
    }
}

#[test]
fn a_flush_forgets_what_matches_on_every_worker() {
    let (mut remotes, mut hands) = workers(2, 1_000);
    let mut jobs = Jobs::default();
    let backend = Some(BackendFilter { id: BackendId(1), epoch: None });
    let filter = Filter { backend, ..Filter::default() };
    let _receiver = ask(&mut jobs, Question::Flush { filter }, 2);
    assert_eq!(answered(&mut jobs, &mut remotes, &mut hands).matched, 500);
    assert_eq!(hands.iter().map(|hand| hand.conntrack.ipv4.len()).sum::<usize>(), 1_500);
}

#[test]
fn one_flow_is_looked_for_on_every_worker() {
    let (mut remotes, mut hands) = workers(2, 100);
    let (key, hash, flow) = numbered(150);
    let mut jobs = Jobs::default();
    let question = Question::Explain {
        params: ExplainParams {
            source: [0, 0, 0, 150].into(),
            source_port: 4_000,
            destination: [10, 0, 0, 1].into(),
            destination_port: 80,
            protocol: crate::control::protocol::reply::Protocol::Tcp,
        },
        flow: FlowKey::V4 {
            source: [0, 0, 0, 150].into(),
            destination: [10, 0, 0, 1].into(),
            source_port: 4_000,
            destination_port: 80,
            protocol: 6,
        },
        job: FlowKeyAndHash { key: TableKey::Ipv4(key), hash },
    };
    let _receiver = ask(&mut jobs, question, 2);
    let tracked = answered(&mut jobs, &mut remotes, &mut hands).tracked();
    assert_eq!(tracked.len(), 1);
    assert_eq!((tracked[0].worker, tracked[0].backend), (1, flow.backend));
}

#[test]
fn a_worker_that_does_not_poll_is_named_and_its_late_job_is_nobodys() {
    let (mut remotes, mut hands) = workers(2, 10);
    let mut jobs = Jobs::default();
    let _receiver = ask(&mut jobs, list(100), 2);
    assert!(jobs.tick(&mut remotes, START).is_empty());
    hands[1].work();
    assert!(jobs.tick(&mut remotes, START + PATIENCE / 2).is_empty(), "there is time");
    let answered = jobs.tick(&mut remotes, START + PATIENCE).pop().unwrap();
    assert_eq!((answered.silent, answered.flows.len()), (vec![0], 10));
    // It polls again: the job comes back, and nobody waits for it.
    hands[0].work();
    assert!(jobs.tick(&mut remotes, START + PATIENCE).is_empty());
    assert_eq!(remotes[0].mailbox.jobs_in_flight(), 0);
}

#[test]
fn what_a_client_asked_that_has_gone_is_not_gone_on_with() {
    let (mut remotes, mut hands) = workers(1, 5_000);
    let mut jobs = Jobs::default();
    let receiver = ask(&mut jobs, list(5_000), 1);
    assert!(jobs.tick(&mut remotes, START).is_empty());
    assert_eq!(hands[0].work(), 1, "a first piece");
    drop(receiver);
    jobs.tick(&mut remotes, START);
    hands[0].work();
    jobs.tick(&mut remotes, START);
    assert!(jobs.is_idle());
    assert_eq!(hands[0].work(), 0, "no further piece is asked for");
    assert_eq!(remotes[0].mailbox.jobs_in_flight(), 0);
}

#[test]
fn what_a_flush_forgot_is_counted_even_if_nobody_waits_for_its_end() {
    const FLOWS: u32 = 150_000;
    let (mut remotes, mut hands) = workers(2, FLOWS);
    let mut jobs = Jobs::default();
    let receiver = ask(&mut jobs, Question::Flush { filter: Filter::default() }, 2);
    assert!(jobs.tick(&mut remotes, START).is_empty());
    assert_eq!(hands[0].work(), 1, "a first piece");
    assert!(jobs.tick(&mut remotes, START).is_empty(), "there is more to do");
    drop(receiver);
    assert!(jobs.tick(&mut remotes, START).is_empty(), "workers are at it");
    for hand in &mut hands {
        assert_eq!(hand.work(), 1);
    }
    let left = jobs.tick(&mut remotes, START).pop().unwrap();
    let rest: usize = hands.iter().map(|hand| hand.conntrack.ipv4.len()).sum();
    assert!(left.is_left && rest > 0, "{left:?}");
    assert_eq!(left.matched, 2 * u64::from(FLOWS) - rest as u64);
    assert_eq!(hands.iter_mut().map(Hand::work).sum::<usize>(), 0, "nobody goes on");
}

#[test]
fn a_flush_that_nobody_waits_for_any_more_does_not_begin() {
    let (mut remotes, mut hands) = workers(1, 10);
    let mut jobs = Jobs::default();
    drop(ask(&mut jobs, Question::Flush { filter: Filter::default() }, 1));
    let left = jobs.tick(&mut remotes, START).pop().unwrap();
    assert_eq!((left.is_left, left.matched, hands[0].work()), (true, 0, 0));
}

#[test]
fn more_questions_than_can_wait_are_refused_and_all_get_their_turn() {
    let (mut remotes, mut hands) = workers(1, 10);
    let mut jobs = Jobs::default();
    let mut waiting: Vec<_> = (0..QUESTION_CAP)
        .map(|_| {
            jobs.check_room().unwrap();
            ask(&mut jobs, list(1), 1)
        })
        .collect();
    let error = jobs.check_room().unwrap_err();
    assert!(error.message.contains("ask again"), "{}", error.message);
    // A worker holds a few jobs at a time; the rest wait here. However long that takes, a worker
    // that gives jobs back is not silent.
    let mut now = START;
    let mut done = Vec::new();
    for _ in 0..1_000 {
        now += PATIENCE / 2;
        done.extend(jobs.tick(&mut remotes, now));
        hands[0].work();
    }
    assert_eq!(done.len(), QUESTION_CAP);
    assert!(done.iter().all(|answered| answered.silent.is_empty() && answered.flows.len() == 1));
    assert!(waiting.iter_mut().all(|receiver| receiver.try_recv().is_err()), "answered by others");
}
