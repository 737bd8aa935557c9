//! One core: its queues of every port, its pipeline, its view of the tables, its mailbox.
//!
//! The loop takes no lock, allocates nothing, logs nothing and writes to no other core's cache
//! lines. Generic over the queues, so that it runs in tests with queues that fail on purpose.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod mailbox;
mod queue;
#[cfg(test)]
mod tests;

use std::ops::DerefMut;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;

pub use mailbox::{Frame, Mailbox, MailboxRemote, mailbox};
pub use queue::{Burst, Queues};

use crate::conntrack::{Ipv4Bucket, Ipv6Bucket, Prefetch};
use crate::forward::{BURST, Counters, DropReason, Forwarder, Tables, Verdict};
use crate::id::{PORT_CAP, PortId, WorkerId};
use crate::packet::PacketBuf;
use crate::snapshot::Reader;
use crate::time::Tick;

/// Buckets of each family that are aged a round.
const AGED_BUCKETS: usize = 8;

/// How often a full transmit queue is tried again before packets are dropped.
const TRANSMIT_RETRIES: usize = 16;

/// Rounds without a packet after which an idle worker gives its core away.
const IDLE_ROUNDS: u32 = 64;

/// A worker and all it owns.
pub struct Worker<Q: Queues, S4, S6, P> {
    id: WorkerId,
    ports: ArrayVec<PortQueues<Q>, PORT_CAP>,
    forwarder: Forwarder<S4, S6, P>,
    tables: Reader<Tables>,
    counters: Counters,
    mailbox: Mailbox,
}

/// A port's queues and the packets that wait for its transmit queue.
struct PortQueues<Q: Queues> {
    queues: Q,
    outgoing: Burst<Q::Buf>,
}

impl<Q, S4, S6, P> Worker<Q, S4, S6, P>
where
    Q: Queues,
    S4: DerefMut<Target = [Ipv4Bucket]>,
    S6: DerefMut<Target = [Ipv6Bucket]>,
    P: Prefetch,
{
    /// A worker with its queues of every port, in the order of [`PortId`]; those beyond
    /// [`PORT_CAP`] are not taken.
    pub fn new(
        id: WorkerId,
        queues: impl IntoIterator<Item = Q>,
        forwarder: Forwarder<S4, S6, P>,
        tables: Reader<Tables>,
        counters: Counters,
        mailbox: Mailbox,
    ) -> Self {
        let ports = queues
            .into_iter()
            .take(PORT_CAP)
            .map(|queues| PortQueues { queues, outgoing: Burst::new() })
            .collect();
        Self { id, ports, forwarder, tables, counters, mailbox }
    }

    /// Polls until `stop` is set. `now` is read once a round; `idle` is called when many rounds in
    /// a row brought nothing.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut now: impl FnMut() -> Tick,
        mut idle: impl FnMut(),
    ) {
        let mut empty_rounds = 0;
        while !stop.load(Ordering::Relaxed) {
            if self.poll(now()) == 0 {
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

    /// One round: a burst from every port, management's frames, some ageing. Returns how many
    /// packets were received or originated.
    pub fn poll(&mut self, now: Tick) -> usize {
        // Also without traffic: a verb returns when every worker has adopted its change.
        self.tables.refresh();
        self.counters.set_generation(self.tables.generation().0);
        let mut busy = 0;
        for port in (0..=u8::MAX).map(PortId).take(self.ports.len()) {
            busy += self.receive(now, port);
        }
        busy += self.originate();
        self.forwarder.age(now, AGED_BUCKETS, &mut self.counters);
        busy
    }

    fn receive(&mut self, now: Tick, port: PortId) -> usize {
        let mut burst = Burst::new();
        let Some(PortQueues { queues, .. }) = self.ports.get_mut(port.index()) else { return 0 };
        queues.receive(&mut burst);
        let bytes = burst.iter().map(|buf| buf.bytes().len() as u64).sum();
        self.counters.add_rx(burst.len() as u64, bytes);
        if burst.is_empty() {
            return 0;
        }
        let tables = self.tables.refresh();
        let verdicts = self.forwarder.process(tables, now, port, &mut burst, &mut self.counters);
        let count = burst.len();
        let mut unwanted = Burst::new();
        for (buf, verdict) in burst.drain(..).zip(verdicts) {
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
                    self.ports.get_mut(port.index())
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
            };
            // Each holds as many as a burst has, and all were empty before this one.
            let _ = outgoing.map_or(&mut unwanted, |port| &mut port.outgoing).try_push(buf);
        }
        if let Some(PortQueues { queues, .. }) = self.ports.get_mut(port.index()) {
            queues.free(&mut unwanted);
        }
        self.flush();
        count
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
