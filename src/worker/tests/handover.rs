//! Workers that hand packets over on purpose: whatever is full and whatever a pipeline says, every
//! buffer has one counted end, no packet circles, and flows keep their order.

use std::sync::atomic::AtomicI64;
use std::thread;

use super::*;
use crate::forward::{Errand, Verdicts};
use crate::id::{BackendEpoch, BackendId, BackendRef};
use crate::stats::StatsSnapshot;
use crate::worker::mesh::mesh_with;

/// What a test packet asks of the pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its worker decides.
    Local,
    /// Its owner decides.
    Fragment,
    /// Its owner answers.
    Session,
    /// It looks for its owner; there may be none.
    Icmp,
    /// Its owner hands it over again.
    Again,
    /// Its owner answers though nobody asked.
    Unasked,
    /// Its owner sends it on though it is no relay.
    Missed,
    /// It is to go where there is no worker.
    Nowhere,
    /// It is to go to its own worker.
    Itself,
}

const KINDS: [Kind; 9] = [
    Kind::Local,
    Kind::Fragment,
    Kind::Session,
    Kind::Icmp,
    Kind::Again,
    Kind::Unasked,
    Kind::Missed,
    Kind::Nowhere,
    Kind::Itself,
];

/// A buffer that is counted while it lives: kind, owner, worker of origin, who has seen it, number.
#[derive(Debug)]
struct Tracked {
    bytes: Vec<u8>,
    live: Arc<AtomicI64>,
}

impl Tracked {
    fn new(kind: u8, owner: u16, origin: WorkerId, number: u32, live: &Arc<AtomicI64>) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        let mut bytes = vec![kind, u8::try_from(owner).unwrap(), origin.0.try_into().unwrap(), 0];
        bytes.extend(number.to_be_bytes());
        Self { bytes, live: Arc::clone(live) }
    }

    fn kind(&self) -> Kind {
        KINDS[usize::from(self.bytes[0])]
    }

    fn owner(&self) -> WorkerId {
        WorkerId(self.bytes[1].into())
    }

    fn origin(&self) -> WorkerId {
        WorkerId(self.bytes[2].into())
    }

    fn number(&self) -> u32 {
        u32::from_be_bytes(self.bytes[4..].try_into().unwrap())
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PacketBuf for Tracked {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn truncate(&mut self, _len: usize) {}

    fn replace_front(&mut self, _old_len: usize, _new_len: usize) -> Option<&mut [u8]> {
        None
    }
}

/// Does with a packet what the packet says.
struct Scripted {
    own: WorkerId,
    count: u16,
}

impl Scripted {
    fn next(&self) -> WorkerId {
        WorkerId((self.own.0 + 1) % self.count)
    }

    fn look(&self, buf: &mut Tracked) {
        assert_eq!(buf.bytes[3] & 1 << self.own.0, 0, "it has been here before: {buf:?}");
        buf.bytes[3] |= 1 << self.own.0;
    }
}

impl Pipeline<Tracked> for Scripted {
    fn process(
        &mut self,
        _tables: &Tables,
        _now: Tick,
        _port: PortId,
        burst: &mut [Tracked],
        _counters: &mut Counters,
        classified: impl FnOnce(),
    ) -> Verdicts {
        classified();
        let decide = |buf: &mut Tracked| {
            let (is_own, owner) = (buf.owner() == self.own, buf.owner());
            assert_eq!(buf.origin(), self.own);
            match buf.kind() {
                Kind::Nowhere => Verdict::Handoff(WorkerId(self.count), Errand::Packet),
                Kind::Itself => Verdict::Handoff(self.own, Errand::Question),
                Kind::Local => Verdict::Transmit(PortId(0)),
                Kind::Icmp => {
                    self.look(buf);
                    if is_own {
                        Verdict::Transmit(PortId(0))
                    } else {
                        Verdict::Handoff(self.next(), Errand::Relay)
                    }
                }
                _ if is_own => Verdict::Transmit(PortId(0)),
                Kind::Session => Verdict::Handoff(owner, Errand::Question),
                _ => Verdict::Handoff(owner, Errand::Packet),
            }
        };
        burst.iter_mut().map(decide).collect()
    }

    fn process_handed(
        &mut self,
        _tables: &Tables,
        _now: Tick,
        burst: &mut [Handed<Tracked>],
        _counters: &mut Counters,
    ) -> Resolutions {
        let transmit = Resolution::Verdict(Verdict::Transmit(PortId(0)));
        let decide = |handed: &mut Handed<Tracked>| {
            let (buf, own) = (&mut handed.buf, self.own);
            assert_eq!(handed.port, PortId(0));
            let decision = BackendRef { id: BackendId(buf.owner().0), epoch: BackendEpoch(7) };
            match handed.purpose {
                Purpose::Packet => {
                    assert_eq!(buf.owner(), own);
                    match buf.kind() {
                        Kind::Again => {
                            Resolution::Verdict(Verdict::Handoff(self.next(), Errand::Packet))
                        }
                        Kind::Unasked => Resolution::Answer(None),
                        Kind::Missed => Resolution::Miss,
                        _ => transmit,
                    }
                }
                Purpose::Question => {
                    assert_eq!((buf.owner(), buf.kind()), (own, Kind::Session));
                    Resolution::Answer(Some(decision))
                }
                Purpose::Answer { backend } => {
                    assert_eq!((buf.origin(), backend), (own, Some(decision)));
                    transmit
                }
                Purpose::Relay { origin, hops_left } => {
                    assert_eq!(buf.origin(), origin);
                    self.look(buf);
                    if buf.owner() == own {
                        transmit
                    } else if hops_left == 0 {
                        assert_eq!(u32::from(self.count), buf.bytes[3].count_ones(), "all looked");
                        transmit
                    } else {
                        Resolution::Miss
                    }
                }
            }
        };
        burst.iter_mut().map(decide).collect()
    }

    fn age(&mut self, _now: Tick, _buckets: usize, _counters: &mut Counters) {}

    fn work(&mut self, _: &mut Job, _: Tick, _: usize, _: &mut Counters) -> usize {
        0
    }
}

/// A port that makes what it receives, and takes what is sent with faults. Order is looked at when
/// a packet leaves: packets of one origin, kind and owner are a flow.
struct Faulty {
    own: WorkerId,
    count: u16,
    /// How many packets are still to come.
    left: u32,
    next: u32,
    /// State of a generator of numbers; its faults and packets follow from it.
    state: u64,
    live: Arc<AtomicI64>,
    sent: u64,
    /// The last number sent, by origin, kind and owner.
    last: Vec<u32>,
}

impl Faulty {
    fn new(own: WorkerId, count: u16, packets: u32, seed: u64, live: &Arc<AtomicI64>) -> Self {
        let flows = usize::from(count) * KINDS.len() * usize::from(count + 1);
        Self {
            own,
            count,
            left: packets,
            next: 1,
            state: seed * 2 + 1,
            live: Arc::clone(live),
            sent: 0,
            last: vec![0; flows],
        }
    }

    /// Marsaglia's xorshift: below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 20) % limit
    }
}

impl Queues for Faulty {
    type Buf = Tracked;

    fn receive(&mut self, burst: &mut Burst<Tracked>) -> usize {
        // A small pool, so that no thread runs away from the others: about a ring's worth, and the
        // last burst before it is empty finds the ring full.
        if self.live.load(Ordering::Relaxed) >= 64 {
            return 0;
        }
        let wish = u32::try_from(self.below(40)).unwrap();
        let count = wish.min(self.left).min(u32::try_from(burst.remaining_capacity()).unwrap());
        for _ in 0..count {
            let kind = u8::try_from(self.below(KINDS.len() as u64)).unwrap();
            // One more than there are: of an ICMP error nobody knows the flow.
            let mut owner = u16::try_from(self.below(u64::from(self.count) + 1)).unwrap();
            if owner == self.count && KINDS[usize::from(kind)] != Kind::Icmp {
                owner = 0;
            }
            burst.push(Tracked::new(kind, owner, self.own, self.next, &self.live));
            self.next += 1;
        }
        self.left -= count;
        count as usize
    }

    fn transmit(&mut self, burst: &mut Burst<Tracked>) -> usize {
        let takes = match self.below(8) {
            0 => 0,
            1 => usize::try_from(self.below(33)).unwrap(),
            _ => burst.len(),
        };
        let takes = takes.min(burst.len());
        for buf in burst.drain(..takes) {
            let flow = buf.origin().index() * KINDS.len() + usize::from(buf.bytes[0]);
            let flow = flow * usize::from(self.count + 1) + buf.owner().index();
            assert!(buf.number() > self.last[flow], "out of order: {buf:?}");
            self.last[flow] = buf.number();
            self.sent += 1;
        }
        takes
    }

    fn allocate(&mut self, _frame: &[u8]) -> Option<Tracked> {
        None
    }
}

struct Crew {
    workers: Vec<Worker<Faulty, Scripted>>,
    views: Vec<StatsView<DropReason>>,
    live: Arc<AtomicI64>,
    _publisher: Publisher<Tables>,
}

/// Workers that will receive so many packets each, with rings for `ring_cap` between them.
fn crew(count: u16, packets: u32, ring_cap: usize, seed: u64) -> Crew {
    let (publisher, readers) = shared(Tables::empty(FlowHashKey([7; 16])), count.into());
    let live = Arc::new(AtomicI64::new(0));
    let (mut workers, mut views) = (Vec::new(), Vec::new());
    let ends = readers.into_iter().zip(mesh_with(count, ring_cap));
    for (own, (reader, peers)) in (0..count).map(WorkerId).zip(ends) {
        let (counters, view) = stats::worker(1);
        let (mailbox, _) = mailbox(1);
        let queues = Faulty::new(own, count, packets, seed + u64::from(own.0), &live);
        let pipeline = Scripted { own, count };
        let worker = Worker::new(own, [queues], pipeline, reader, counters, mailbox);
        workers.push(worker.with_peers(peers));
        views.push(view);
    }
    Crew { workers, views, live, _publisher: publisher }
}

impl Crew {
    fn total(&self) -> StatsSnapshot<DropReason> {
        let mut snapshots = self.views.iter().map(StatsView::snapshot);
        let mut sum = snapshots.next().unwrap();
        snapshots.for_each(|snapshot| sum.add(&snapshot));
        sum
    }

    /// Lets every packet come to its end, and looks at the books.
    fn settle(&mut self, packets: u32) -> StatsSnapshot<DropReason> {
        let mut quiet = 0;
        while quiet < 2 * RINGS_VISITED {
            let busy: usize = self.workers.iter_mut().map(|worker| worker.poll(Tick(1))).sum();
            let is_done = self.workers.iter().all(|worker| worker.ports[0].queues.left == 0);
            quiet = if busy == 0 && is_done { quiet + 1 } else { 0 };
        }
        for view in &self.views {
            view.snapshot().conservation().unwrap();
        }
        let sum = self.total();
        sum.conservation().unwrap();
        assert_eq!(sum.totals.handed_in, sum.totals.handed_out, "at rest");
        assert_eq!(sum.totals.rx_packets, u64::from(packets) * self.workers.len() as u64);
        let sent: u64 = self.workers.iter().map(|worker| worker.ports[0].queues.sent).sum();
        assert_eq!(sum.totals.tx_packets, sent);
        assert_eq!(self.live.load(Ordering::Relaxed), 0, "a buffer that nobody has any more");
        sum
    }
}

/// Rounds in which every ring is looked into: more than any test has workers.
const RINGS_VISITED: usize = 8;

#[test]
fn one_thread_any_order_any_faults() {
    bolero::check!().with_iterations(300).with_type::<(u8, u8, u16, Vec<u8>)>().for_each(
        |(count, ring_cap, seed, schedule)| {
            let count = u16::from(count % 5) + 1;
            let mut crew = crew(count, 200, usize::from(ring_cap % 40), (*seed).into());
            for turn in schedule {
                let turn = usize::from(*turn) % crew.workers.len();
                crew.workers[turn].poll(Tick(1));
                crew.views[turn].snapshot().conservation().unwrap();
            }
            crew.settle(200);
        },
    );
}

#[test]
fn the_rule_and_full_rings_are_counted() {
    let mut crew = crew(3, 3_000, 1, 5);
    let stats = crew.settle(3_000);
    assert!(stats.dropped(DropReason::HandoffFull) > 100, "rings for one packet");
    assert!(stats.dropped(DropReason::HandoffLoop) > 100);
    // With room for all, only what breaks the rule is dropped: five kinds, three of which need an
    // owner elsewhere.
    let mut crew = self::crew(3, 3_000, 4_096, 5);
    let stats = crew.settle(3_000);
    assert_eq!(stats.dropped(DropReason::HandoffFull), 0);
    let broken = stats.dropped(DropReason::HandoffLoop);
    assert_eq!(broken + stats.totals.tx_packets + stats.dropped(DropReason::TxFull), 9_000);
    assert!((2_500..5_000).contains(&broken), "{broken}");
}

#[test]
fn packets_in_a_ring_are_freed_with_the_workers() {
    let mut crew = crew(2, 32, 64, 9);
    let first = crew.workers.first_mut().unwrap();
    while first.ports[0].queues.left != 0 {
        first.poll(Tick(1));
    }
    let waiting = crew.views[0].snapshot().totals.handed_out;
    assert!(waiting > 0);
    assert_eq!(crew.live.load(Ordering::Relaxed), i64::try_from(waiting).unwrap());
    crew.workers.clear();
    assert_eq!(crew.live.load(Ordering::Relaxed), 0);
}

#[test]
fn real_threads_lose_and_double_nothing() {
    for (count, packets) in [(2, 60_000), (4, 30_000)] {
        let mut crew = crew(count, packets, 64, 11);
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = crew
            .workers
            .drain(..)
            .map(|mut worker| {
                let stop = Arc::clone(&stop);
                thread::spawn(move || {
                    worker.run(&stop, Tick(1), thread::yield_now);
                    worker
                })
            })
            .collect();
        let all = u64::from(packets) * u64::from(count);
        while crew.total().totals.rx_packets < all && threads.iter().all(|t| !t.is_finished()) {
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        crew.workers.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
        let stats = crew.settle(packets);
        assert!(stats.totals.handed_in > all / 4, "{:?}", stats.totals);
        assert!(stats.totals.tx_packets > all / 4);
    }
}

#[test]
fn the_real_pipeline_decides_about_what_it_is_handed() {
    let (mut first, mut second) = (bench(2), bench(2));
    let mut peers = mesh(2).into_iter();
    let mut own: Peers<HeapBuf> = peers.next().unwrap();
    second.worker = second.worker.with_peers(peers.next().unwrap());
    for (errand, n) in [(Errand::Packet, 1), (Errand::Question, 2), (Errand::Relay, 3)] {
        own.hand_over(WorkerId(1), errand, PortId(0), HeapBuf::new(&ping(n))).unwrap();
    }
    assert_eq!(second.worker.poll(Tick(1)), 3);
    assert_eq!(answered(&second.wire.borrow()), [1, 2, 3]);
    let stats = second.view.snapshot();
    stats.conservation().unwrap();
    assert_eq!((stats.totals.handed_in, stats.totals.handed_out), (3, 0));
    assert_eq!(first.worker.poll(Tick(1)), 0);
}
