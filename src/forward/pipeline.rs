//! The stage loops over a burst.

use std::marker::PhantomData;
use std::ops::DerefMut;

use arrayvec::ArrayVec;

use super::classify::{Class, VipPacket, classify};
use super::decide::{self, Question};
use super::tables::Tables;
use super::verdict::{Counters, DropReason, Verdict};
use crate::conntrack::{Candidates, Conntrack, Ipv4Bucket, Ipv4Key, Ipv6Bucket, Ipv6Key, Prefetch};
use crate::id::{Family, PortId, ServiceId};
use crate::packet::{FlowHash, FlowHashKey, FlowKey, PacketBuf, ipv4_message};
use crate::time::Tick;

/// Packets that go through the pipeline together.
pub const BURST: usize = 32;

/// Packets whose cache lines are asked for together: half a burst (field-notes.md §6e).
const HALF: usize = BURST / 2;

/// One verdict a frame, in the frames' order.
pub type Verdicts = ArrayVec<Verdict, BURST>;

/// One worker's pipeline: its connections, and nothing else that lasts.
#[derive(Debug)]
pub struct Forwarder<S4, S6, P> {
    /// The worker's connections.
    pub conntrack: Conntrack<S4, S6>,
    prefetch: PhantomData<P>,
}

/// A packet to a VIP between the stages.
#[derive(Clone, Copy)]
struct Pending {
    packet: VipPacket,
    hash: FlowHash,
    candidates: Candidates,
}

/// What became of the frames of half a burst.
type Lanes = ArrayVec<Lane, HALF>;

/// What became of a frame so far.
enum Lane {
    Pending(Pending),
    Done(Verdict),
}

impl<S4, S6, P> Forwarder<S4, S6, P>
where
    S4: DerefMut<Target = [Ipv4Bucket]>,
    S6: DerefMut<Target = [Ipv6Bucket]>,
    P: Prefetch,
{
    /// A pipeline with these connections.
    pub fn new(conntrack: Conntrack<S4, S6>) -> Self {
        Self { conntrack, prefetch: PhantomData }
    }

    /// Decides about at most [`BURST`] frames that came in by `port`; those beyond are left alone.
    /// Frames with the verdicts `Transmit` and `Reply` have been rewritten and are ready to send.
    pub fn process<B: PacketBuf>(
        &mut self,
        tables: &Tables,
        now: Tick,
        port: PortId,
        burst: &mut [B],
        counters: &mut Counters,
    ) -> Verdicts {
        self.process_in_stages(tables, now, port, burst, counters, || {})
    }

    /// As [`Self::process`]; calls `classified` once, when all frames are classified and hashed and
    /// none is decided yet, so that the caller can tell what each stage costs.
    pub fn process_in_stages<B: PacketBuf>(
        &mut self,
        tables: &Tables,
        now: Tick,
        port: PortId,
        burst: &mut [B],
        counters: &mut Counters,
        classified: impl FnOnce(),
    ) -> Verdicts {
        for buf in burst.iter() {
            if let Some(first) = buf.bytes().first() {
                P::prefetch(first);
            }
        }
        let (first, rest) = burst.split_at_mut(burst.len().min(HALF));
        let second = rest.get_mut(..rest.len().min(HALF)).unwrap_or_default();
        let lanes_of_first = self.classify_and_hash(tables, port, first);
        let lanes_of_second = self.classify_and_hash(tables, port, second);
        classified();
        let mut verdicts = Verdicts::new();
        self.decide(tables, now, first, lanes_of_first, counters, &mut verdicts);
        self.decide(tables, now, second, lanes_of_second, counters, &mut verdicts);
        verdicts
    }

    /// Forgets the flows that have expired in the next `buckets` buckets of each family, and says how
    /// many are left.
    pub fn age(&mut self, now: Tick, buckets: usize, counters: &mut Counters) {
        self.conntrack.ipv4.age(now, buckets, |flow| {
            counters.expired_flow(Family::Ipv4);
            counters.close_flow(flow.backend.id);
        });
        self.conntrack.ipv6.age(now, buckets, |flow| {
            counters.expired_flow(Family::Ipv6);
            counters.close_flow(flow.backend.id);
        });
        counters.set_entries(Family::Ipv4, self.conntrack.ipv4.len() as u64);
        counters.set_entries(Family::Ipv6, self.conntrack.ipv6.len() as u64);
    }

    #[inline]
    fn classify_and_hash<B: PacketBuf>(
        &self,
        tables: &Tables,
        port: PortId,
        half: &mut [B],
    ) -> Lanes {
        let mut lanes = Lanes::new();
        let Some(record) = tables.ports.get(port.index()) else {
            lanes.extend(half.iter().map(|_| Lane::Done(Verdict::Drop(DropReason::NotForPort))));
            return lanes;
        };
        // Lanes that are no IPv4 flow are hashed like the rest: it costs less than to leave gaps.
        let mut messages = [[0; 2]; HALF];
        for (buf, message) in half.iter_mut().zip(&mut messages) {
            lanes.push(match classify(tables, record, buf) {
                Class::Done(verdict) => Lane::Done(verdict),
                Class::Vip(packet) => {
                    if let FlowKey::V4 {
                        source,
                        destination,
                        source_port,
                        destination_port,
                        protocol,
                    } = packet.ip.flow
                    {
                        *message = ipv4_message(
                            source,
                            destination,
                            source_port,
                            destination_port,
                            protocol,
                        );
                    }
                    Lane::Pending(Pending {
                        packet,
                        hash: FlowHash(0),
                        candidates: Candidates::default(),
                    })
                }
            });
        }
        self.hash(&tables.flow_hash_key, &messages, &mut lanes);
        lanes
    }

    #[inline]
    fn hash(&self, key: &FlowHashKey, messages: &[[u64; 2]; HALF], lanes: &mut Lanes) {
        let mut hashes = [FlowHash(0); HALF];
        key.hash_ipv4_burst(messages, &mut hashes);
        for (lane, hash) in lanes.iter_mut().zip(hashes) {
            let Lane::Pending(pending) = lane else { continue };
            if pending.packet.ip.flow.is_ipv6() {
                pending.hash = key.hash(&pending.packet.ip.flow);
                pending.candidates = self.conntrack.ipv6.candidates(pending.hash);
                self.conntrack.ipv6.prefetch::<P>(pending.candidates);
            } else {
                pending.hash = hash;
                pending.candidates = self.conntrack.ipv4.candidates(hash);
                self.conntrack.ipv4.prefetch::<P>(pending.candidates);
            }
        }
    }

    #[inline]
    fn decide<B: PacketBuf>(
        &mut self,
        tables: &Tables,
        now: Tick,
        half: &mut [B],
        lanes: Lanes,
        counters: &mut Counters,
        verdicts: &mut Verdicts,
    ) {
        let mut run = ServiceRun::default();
        for (buf, lane) in half.iter_mut().zip(lanes) {
            let verdict = match lane {
                Lane::Done(verdict) => verdict,
                Lane::Pending(pending) => {
                    match self.forward(tables, now, buf, &pending, counters) {
                        Ok(verdict) => {
                            run.add(&pending.packet, counters);
                            verdict
                        }
                        Err(reason) => Verdict::Drop(reason),
                    }
                }
            };
            verdicts.push(verdict);
        }
        run.count(counters);
    }

    #[inline]
    fn forward<B: PacketBuf>(
        &mut self,
        tables: &Tables,
        now: Tick,
        buf: &mut B,
        pending: &Pending,
        counters: &mut Counters,
    ) -> Result<Verdict, DropReason> {
        let Pending { packet, hash, candidates } = pending;
        let (hash, candidates) = (*hash, *candidates);
        let (id, record) = match packet.ip.flow {
            FlowKey::V4 { source, source_port, destination_port, .. } => {
                let key = Ipv4Key::new(source, source_port, destination_port, packet.vip);
                let question = Question { packet, key, hash, candidates };
                decide::backend(tables, &mut self.conntrack.ipv4, &question, now, counters)
            }
            FlowKey::V6 { source, source_port, destination_port, .. } => {
                let key = Ipv6Key::new(source, source_port, destination_port, packet.vip);
                let question = Question { packet, key, hash, candidates };
                decide::backend(tables, &mut self.conntrack.ipv6, &question, now, counters)
            }
        }?;
        let verdict = decide::transmit(tables, record, buf, packet, hash)?;
        counters.add_backend(id, 1, packet.ip.ip_len as u64);
        Ok(verdict)
    }
}

/// Packets of one service in a row, so that a service is counted once a row and not once a packet.
#[derive(Default)]
struct ServiceRun {
    service: ServiceId,
    packets: u64,
    bytes: u64,
}

impl ServiceRun {
    #[inline]
    fn add(&mut self, packet: &VipPacket, counters: &mut Counters) {
        if packet.service != self.service {
            self.count(counters);
            *self = Self { service: packet.service, ..Self::default() };
        }
        self.packets += 1;
        self.bytes += packet.ip.ip_len as u64;
    }

    #[inline]
    fn count(&self, counters: &mut Counters) {
        if self.packets != 0 {
            counters.add_service(self.service, self.packets, self.bytes);
        }
    }
}
