//! Packets from worker to worker: a ring for every ordered pair (design.md §4.10).
//!
//! RSS chooses the worker that receives a packet, and nothing else. What lives at one worker alone
//! (a session, the fragments of a datagram) is found by handing the packet to that worker. The
//! pipeline says so by [`Verdict::Handoff`](crate::forward::Verdict::Handoff), the worker moves the
//! buffer, and the other worker's pipeline says what becomes of it by a [`Resolution`]:
//!
//! | Errand | What the other worker does | Ends at |
//! |---|---|---|
//! | [`Errand::Packet`] (fragments) | decides and transmits | that worker |
//! | [`Errand::Question`] (sessions) | decides, and sends the packet back as [`Purpose::Answer`] | the flow's own worker, which keeps an entry and transmits |
//! | [`Errand::Relay`] (ICMP errors) | looks for the flow; [`Resolution::Miss`] sends it on to the next worker | the first that knows the flow, or the last of at most n−1, whose tables decide |
//!
//! A packet that was handed over is never handed over again, but by the answer to a question and by
//! the relay, which counts its hops: so no packet circles, whatever the pipelines say. A full ring
//! is a counted drop; nobody waits for anybody. Packets of one flow that go the same way keep their
//! order, since a ring does.
//!
//! A ring that goes frees the packets in it: with the workers all buffers go back to their pool.

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::forward::{BURST, Errand, Verdict};
use crate::id::{BackendRef, PortId, WorkerId};

/// Packets that wait from one worker to another: eight bursts.
pub const RING_CAP: usize = 256;

/// Rings that a worker looks into in a round, in turn: with many workers an empty round must not
/// cost a look at each. With up to nine workers it is all of them.
const RINGS_A_ROUND: usize = 8;

/// The most workers that a mesh is made for: EAL numbers no more threads.
pub const WORKER_CAP: usize = 128;

// What the rings of the largest mesh take, with 512 bytes for a ring's own fields.
const _: () = assert!(
    WORKER_CAP * (WORKER_CAP - 1) * (RING_CAP * size_of::<Handed<usize>>() + 512) < 100_000_000,
    "100 MB"
);

/// Why a packet travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The receiver owns it: it decides and transmits.
    Packet,
    /// The receiver owns the session: it decides and answers.
    Question,
    /// The answer to this worker's question: where the session is, `None` if the owner found no
    /// backend. The receiver keeps an entry for the flow and transmits.
    Answer {
        /// The owner's decision.
        backend: Option<BackendRef>,
    },
    /// An ICMP error that looks for its flow.
    Relay {
        /// The worker that received it from a port, which has looked already.
        origin: WorkerId,
        /// Workers that have not looked yet, beside the receiver; 0: the receiver has to decide.
        hops_left: u16,
    },
}

/// A packet on its way between workers.
#[derive(Debug)]
pub struct Handed<B> {
    /// The packet, as it came from its port.
    pub buf: B,
    /// Why it travels.
    pub purpose: Purpose,
    /// The port by which it came; a reply leaves by it.
    pub port: PortId,
}

/// What the pipeline says about a packet that another worker handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// What it says about any packet. [`Verdict::Handoff`] breaks the rule and is a counted drop.
    Verdict(Verdict),
    /// The decision for a [`Purpose::Question`]; anywhere else it breaks the rule.
    Answer(Option<BackendRef>),
    /// A [`Purpose::Relay`] with hops left is not known here; anywhere else it breaks the rule.
    Miss,
}

/// One a packet, in the packets' order.
pub type Resolutions = ArrayVec<Resolution, BURST>;

/// Why a packet was not handed over; it comes back.
#[derive(Debug)]
pub enum Refused<B> {
    /// The ring is full.
    Full(B),
    /// The rule forbids it, or there is no such worker.
    Loop(B),
}

/// One worker's ends of the rings from and to every other.
#[derive(Debug)]
pub struct Peers<B> {
    own: WorkerId,
    /// By [`WorkerId`]; none to itself.
    to: Vec<Option<Producer<Handed<B>>>>,
    /// The others, in the order in which they are visited.
    from: Vec<(WorkerId, Consumer<Handed<B>>)>,
    /// Which of `from` is visited next.
    next: usize,
}

/// The ends of the rings between `count` workers, by [`WorkerId`].
#[must_use]
pub fn mesh<B>(count: u16) -> Vec<Peers<B>> {
    mesh_with(count, RING_CAP)
}

/// As [`mesh`], with rings for `ring_cap` packets each.
#[must_use]
pub fn mesh_with<B>(count: u16, ring_cap: usize) -> Vec<Peers<B>> {
    let mut peers: Vec<_> = (0..count)
        .map(|own| Peers {
            own: WorkerId(own),
            to: (0..count).map(|_| None).collect(),
            from: Vec::new(),
            next: 0,
        })
        .collect();
    for from in (0..count).map(WorkerId) {
        // Visited from its successor on, so that not all begin with worker 0.
        for step in 1..count {
            let to = WorkerId((from.0 + step) % count);
            let (producer, consumer) = RingBuffer::new(ring_cap);
            if let Some(place) =
                peers.get_mut(from.index()).and_then(|peers| peers.to.get_mut(to.index()))
            {
                *place = Some(producer);
            }
            if let Some(peers) = peers.get_mut(to.index()) {
                peers.from.push((from, consumer));
            }
        }
    }
    peers
}

impl<B> Peers<B> {
    /// Those of the only worker.
    #[must_use]
    pub fn none(own: WorkerId) -> Self {
        Self { own, to: Vec::new(), from: Vec::new(), next: 0 }
    }

    /// How many other workers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.from.len()
    }

    /// Whether this is the only worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from.is_empty()
    }

    /// Hands over a packet that this worker received from `port`.
    pub(super) fn hand_over(
        &mut self,
        to: WorkerId,
        errand: Errand,
        port: PortId,
        buf: B,
    ) -> Result<(), Refused<B>> {
        let purpose = match errand {
            Errand::Packet => Purpose::Packet,
            Errand::Question => Purpose::Question,
            Errand::Relay => Purpose::Relay { origin: self.own, hops_left: self.hops_after(1) },
        };
        self.push(to, Handed { buf, purpose, port })
    }

    /// Sends a question's packet back to `from`, who asked.
    pub(super) fn answer(
        &mut self,
        from: WorkerId,
        handed: Handed<B>,
        backend: Option<BackendRef>,
    ) -> Result<(), Refused<B>> {
        let Handed { buf, purpose, port } = handed;
        if purpose != Purpose::Question {
            return Err(Refused::Loop(buf));
        }
        self.push(from, Handed { buf, purpose: Purpose::Answer { backend }, port })
    }

    /// Sends a relayed packet on to the next worker, which is never the one that it began with.
    pub(super) fn relay(&mut self, handed: Handed<B>) -> Result<(), Refused<B>> {
        let Handed { buf, purpose, port } = handed;
        let Purpose::Relay { origin, hops_left } = purpose else { return Err(Refused::Loop(buf)) };
        let Some(hops_left) = hops_left.checked_sub(1) else { return Err(Refused::Loop(buf)) };
        let mut to = self.after(self.own);
        if to == origin {
            to = self.after(to);
        }
        self.push(to, Handed { buf, purpose: Purpose::Relay { origin, hops_left }, port })
    }

    /// Takes packets of other workers, as many as `burst` has room for, and who handed each over.
    /// Looks into a bounded number of rings, and next time into those that follow.
    pub(super) fn take(
        &mut self,
        burst: &mut ArrayVec<Handed<B>, BURST>,
        from: &mut ArrayVec<WorkerId, BURST>,
    ) {
        for _ in 0..self.from.len().min(RINGS_A_ROUND) {
            let Some((worker, ring)) = self.from.get_mut(self.next) else { return };
            self.next =
                if self.next + 1 < self.to.len().saturating_sub(1) { self.next + 1 } else { 0 };
            while !burst.is_full()
                && let Ok(handed) = ring.pop()
            {
                burst.push(handed);
                from.push(*worker);
            }
            if burst.is_full() {
                return;
            }
        }
    }

    /// Workers that have not looked, after so many hops of a relay.
    fn hops_after(&self, hops: usize) -> u16 {
        u16::try_from(self.from.len().saturating_sub(hops)).unwrap_or(u16::MAX)
    }

    fn after(&self, worker: WorkerId) -> WorkerId {
        let next = WorkerId(worker.0.wrapping_add(1));
        if next.index() < self.to.len() { next } else { WorkerId(0) }
    }

    fn push(&mut self, to: WorkerId, handed: Handed<B>) -> Result<(), Refused<B>> {
        match self.to.get_mut(to.index()) {
            Some(Some(ring)) => {
                ring.push(handed).map_err(|PushError::Full(handed)| Refused::Full(handed.buf))
            }
            Some(None) | None => Err(Refused::Loop(handed.buf)),
        }
    }
}
