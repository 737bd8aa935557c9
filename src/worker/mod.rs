//! One core: its queues of every port, its pipeline, its view of the tables, its mailbox, its rings
//! to the other workers.
//!
//! The loop takes no lock, allocates nothing, logs nothing and writes to no other core's cache
//! lines but those of the rings. Generic over queues, pipeline and time, so that it runs in tests
//! with queues that fail on purpose and with a time of the test's own.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

pub mod job;
mod mailbox;
pub mod mesh;
mod pipeline;
mod queue;
mod stopwatch;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;

pub use job::{FinishedJob, FlowEntry, Job};
pub use mailbox::{Frame, JOB_CAP, Mailbox, MailboxRemote, mailbox};
pub use mesh::{Handed, Peers, Purpose, Resolution, Resolutions, mesh};
pub use pipeline::Pipeline;
pub use queue::{Burst, Queues};

use crate::forward::{BURST, Counters, DropReason, Tables, Verdict};
use crate::id::{PORT_CAP, PortId, WorkerId};
use crate::packet::PacketBuf;
use crate::snapshot::Reader;
use crate::stats::BurstCycles;
use crate::time::{Tick, TimeSource};
use mesh::Refused;
use stopwatch::Stopwatch;

/// Buckets of each family that are aged a round.
const AGED_BUCKETS: usize = 8;

/// How often a full transmit queue is tried again before packets are dropped.
const TRANSMIT_RETRIES: usize = 16;

/// Rounds without a packet after which an idle worker gives its core away.
pub const IDLE_ROUNDS: u32 = 64;

/// A worker and all it owns.
pub struct Worker<Q: Queues, F> {
    id: WorkerId,
    ports: ArrayVec<PortQueues<Q>, PORT_CAP>,
    pipeline: F,
    tables: Reader<Tables>,
    counters: Counters,
    mailbox: Mailbox,
    peers: Peers<Q::Buf>,
    stopwatch: Stopwatch,
}

/// A port's queues and the packets that wait for its transmit queue.
struct PortQueues<Q: Queues> {
    queues: Q,
    outgoing: Burst<Q::Buf>,
}

impl<Q, F> Worker<Q, F>
where
    Q: Queues,
    F: Pipeline<Q::Buf>,
{
    /// The only worker, with its queues of every port, in the order of [`PortId`]; those beyond
    /// [`PORT_CAP`] are not taken.
    pub fn new(
        id: WorkerId,
        queues: impl IntoIterator<Item = Q>,
        pipeline: F,
        tables: Reader<Tables>,
        counters: Counters,
        mailbox: Mailbox,
    ) -> Self {
        let ports = queues
            .into_iter()
            .take(PORT_CAP)
            .map(|queues| PortQueues { queues, outgoing: Burst::new() })
            .collect();
        let (peers, stopwatch) = (Peers::none(id), Stopwatch::default());
        Self { id, ports, pipeline, tables, counters, mailbox, peers, stopwatch }
    }

    /// The worker as one of several: its ends of their [`mesh`].
    #[must_use]
    pub fn with_peers(self, peers: Peers<Q::Buf>) -> Self {
        Self { peers, ..self }
    }

    /// Polls until `stop` is set. The time is read once a round, and four times more a burst; `idle`
    /// is called when [`IDLE_ROUNDS`] rounds in a row brought no packet. The loop itself makes no
    /// system call: whether there is one at all is up to `idle`.
    pub fn run(&mut self, stop: &AtomicBool, mut time: impl TimeSource, mut idle: impl FnMut()) {
        let mut empty_rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            if self.poll(&mut time) == 0 {
                empty_rounds += 1;
                if empty_rounds >= IDLE_ROUNDS {
                    empty_rounds = 0;
                    idle();
                }
            } else {
                empty_rounds = 0;
            }
        }
    }

    /// One round: a burst from every port, one from the other workers, management's frames, some
    /// ageing, some of a job. Returns how many packets were received, handed in or originated.
    pub fn poll(&mut self, mut time: impl TimeSource) -> usize {
        let start = time.cycles();
        let now = time.tick(start);
        self.stopwatch.begin(start, &mut self.counters);
        // Also without traffic: a verb returns when every worker has adopted its change.
        self.tables.refresh();
        let mut busy = 0;
        for port in (0..=u8::MAX).map(PortId).take(self.ports.len()) {
            busy += self.receive(now, port, &mut time);
        }
        busy += self.receive_handed(now, &mut time);
        busy += self.originate();
        self.pipeline.age(now, AGED_BUCKETS, &mut self.counters);
        let has_worked = self.work(now);
        self.stopwatch.end(busy != 0 || has_worked);
        busy
    }

    fn receive(&mut self, now: Tick, port: PortId, time: &mut impl TimeSource) -> usize {
        let mut burst = Burst::new();
        let Some(PortQueues { queues, .. }) = self.ports.get_mut(port.index()) else { return 0 };
        queues.receive(&mut burst);
        if burst.is_empty() {
            self.counters.add_rx(0, 0);
            return 0;
        }
        let received = time.cycles();
        let count = burst.len();
        let bytes = burst.iter().map(|buf| buf.bytes().len() as u64).sum();
        self.counters.add_rx(count as u64, bytes);
        self.counters.add_port_rx(port, count as u64);
        let mut classified = received;
        let verdicts = self.pipeline.process(
            self.tables.refresh(),
            now,
            port,
            &mut burst,
            &mut self.counters,
            || classified = time.cycles(),
        );
        let decided = time.cycles();
        let mut unwanted = Burst::new();
        for (buf, verdict) in burst.drain(..).zip(verdicts) {
            if let Verdict::Handoff(to, errand) = verdict {
                let outcome = self.peers.hand_over(to, errand, port, buf);
                self.count_handover(outcome, &mut unwanted);
            } else {
                self.settle(buf, port, verdict, &mut unwanted);
            }
        }
        self.send_and_free(port, &mut unwanted);
        let cycles = BurstCycles {
            receive: self.stopwatch.lap(received),
            classify: self.stopwatch.lap(classified),
            decide: self.stopwatch.lap(decided),
            transmit: self.stopwatch.lap(time.cycles()),
        };
        self.counters.add_burst_cycles(cycles);
        count
    }

    /// Handles a burst of what other workers handed over.
    fn receive_handed(&mut self, now: Tick, time: &mut impl TimeSource) -> usize {
        if self.peers.is_empty() {
            return 0;
        }
        let (mut burst, mut senders) = (ArrayVec::new(), ArrayVec::new());
        self.peers.take(&mut burst, &mut senders);
        if burst.is_empty() {
            return 0;
        }
        let received = time.cycles();
        let count = burst.len();
        self.counters.add_handed_in(count as u64);
        let tables = self.tables.refresh();
        let resolutions = self.pipeline.process_handed(tables, now, &mut burst, &mut self.counters);
        let decided = time.cycles();
        let mut unwanted = Burst::new();
        for ((handed, from), resolution) in burst.drain(..).zip(senders).zip(resolutions) {
            let outcome = match resolution {
                Resolution::Verdict(Verdict::Handoff(..)) => Err(Refused::Loop(handed.buf)),
                Resolution::Verdict(verdict) => {
                    self.settle(handed.buf, handed.port, verdict, &mut unwanted);
                    continue;
                }
                Resolution::Answer(backend) => self.peers.answer(from, handed, backend),
                Resolution::Miss => self.peers.relay(handed),
            };
            self.count_handover(outcome, &mut unwanted);
        }
        self.send_and_free(PortId(0), &mut unwanted);
        let cycles = BurstCycles {
            receive: self.stopwatch.lap(received),
            classify: 0,
            decide: self.stopwatch.lap(decided),
            transmit: self.stopwatch.lap(time.cycles()),
        };
        self.counters.add_handed_cycles(cycles);
        count
    }

    /// Puts a packet where its verdict wants it, and counts it.
    #[inline]
    fn settle(
        &mut self,
        buf: Q::Buf,
        port: PortId,
        verdict: Verdict,
        unwanted: &mut Burst<Q::Buf>,
    ) {
        let outgoing = match verdict {
            Verdict::Transmit(egress) => {
                let egress = self.ports.get_mut(egress.index());
                if egress.is_none() {
                    // Tables name a port that this worker has no queues of.
                    self.counters.add_dropped(DropReason::NoNextHop, 1);
                }
                egress
            }
            Verdict::Reply => {
                self.counters.add_replies(1);
                let egress = self.ports.get_mut(port.index());
                if egress.is_none() {
                    self.counters.add_dropped(DropReason::NoNextHop, 1);
                }
                egress
            }
            Verdict::Punt(_) => {
                let frame = Frame::new(port, buf.bytes());
                if frame.is_some_and(|frame| self.mailbox.punt(frame)) {
                    self.counters.add_punted(1);
                } else {
                    self.counters.add_dropped(DropReason::PuntFull, 1);
                }
                None
            }
            Verdict::Drop(reason) => {
                self.counters.add_dropped(reason, 1);
                None
            }
            Verdict::Handoff(..) => {
                self.counters.add_dropped(DropReason::HandoffLoop, 1);
                None
            }
        };
        // Each holds as many as a burst has, and all were empty before this one.
        let _ = outgoing.map_or(unwanted, |port| &mut port.outgoing).try_push(buf);
    }

    /// Counts a packet that went to another worker, or did not.
    fn count_handover(
        &mut self,
        outcome: Result<(), Refused<Q::Buf>>,
        unwanted: &mut Burst<Q::Buf>,
    ) {
        let (reason, buf) = match outcome {
            Ok(()) => return self.counters.add_handed_out(1),
            Err(Refused::Full(buf)) => (DropReason::HandoffFull, buf),
            Err(Refused::Loop(buf)) => (DropReason::HandoffLoop, buf),
        };
        self.counters.add_dropped(reason, 1);
        // It holds as many as a burst has.
        let _ = unwanted.try_push(buf);
    }

    /// Ends a burst: what waits is sent, what is unwanted goes back to the pool.
    #[inline]
    fn send_and_free(&mut self, port: PortId, unwanted: &mut Burst<Q::Buf>) {
        if let Some(PortQueues { queues, .. }) = self.ports.get_mut(port.index()) {
            queues.free(unwanted);
        }
        self.flush();
    }

    /// Goes on with management's job, if there is one.
    #[inline]
    fn work(&mut self, now: Tick) -> bool {
        let Some(job) = self.mailbox.job() else { return false };
        let visited = self.pipeline.work(job, now, job::JOB_BUCKETS, &mut self.counters);
        self.counters.add_job_buckets(visited as u64);
        self.mailbox.give_back_finished();
        true
    }

    /// Sends what management asks for.
    fn originate(&mut self) -> usize {
        let mut count = 0;
        while count < BURST
            && let Some(frame) = self.mailbox.next_outgoing()
        {
            count += 1;
            self.counters.add_originated(1);
            let sent = self.ports.get_mut(frame.port.index()).and_then(|port| {
                port.queues.allocate(&frame.bytes).map(|buf| port.outgoing.try_push(buf))
            });
            if !matches!(sent, Some(Ok(()))) {
                self.counters.add_dropped(DropReason::NoBuffer, 1);
            }
        }
        if count != 0 {
            self.flush();
        }
        count
    }

    /// Empties every port's waiting packets into its transmit queue, or drops them.
    fn flush(&mut self) {
        for PortQueues { queues, outgoing } in &mut self.ports {
            let mut tries = 0;
            while !outgoing.is_empty() {
                let bytes: u64 = outgoing.iter().map(|buf| buf.bytes().len() as u64).sum();
                let sent = queues.transmit(outgoing) as u64;
                let left: u64 = outgoing.iter().map(|buf| buf.bytes().len() as u64).sum();
                self.counters.add_tx(sent, bytes.saturating_sub(left));
                if outgoing.is_empty() {
                    break;
                }
                tries += 1;
                if tries > TRANSMIT_RETRIES {
                    self.counters.add_dropped(DropReason::TxFull, outgoing.len() as u64);
                    self.counters.add_tx_full_burst();
                    queues.free(outgoing);
                    break;
                }
                self.counters.add_tx_retries(1);
            }
        }
    }

    /// Which worker this is.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }
}
