//! Counters of one worker: written by that worker alone, read by management.
//!
//! A counter has one writer, so counting is a plain load, add and store, without a locked
//! instruction; the lines it lives on are written by no other core. The pipeline adds up a burst in
//! locals and hands the sums over once a burst.
//!
//! Each counter is exact, but a snapshot is not taken between two bursts: counters that belong
//! together may be apart by the burst that is under way. Over a worker at rest it is exact, and then
//! [`StatsSnapshot::conservation`] holds.

use std::marker::PhantomData;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::{BackendId, Family};
use crate::padded::Padded;

/// What drops are counted by: `forward::DropReason`, which this module must not know.
pub trait Reason: Copy {
    /// How many reasons there are.
    const COUNT: usize;

    /// This reason's number, below [`Self::COUNT`].
    fn index(self) -> usize;
}

/// A number with one writer. Relaxed: no other memory is published through it.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn add(&self, amount: u64) {
        self.0.store(self.read().wrapping_add(amount), Ordering::Relaxed);
    }

    #[inline]
    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! totals {
    ($cells:ident, $(#[$title:meta])* $totals:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        #[derive(Debug, Default)]
        struct $cells {
            $($name: Counter,)+
        }

        impl $cells {
            fn read(&self) -> $totals {
                $totals { $($name: self.$name.read(),)+ }
            }
        }

        $(#[$title])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $totals {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl AddAssign for $totals {
            fn add_assign(&mut self, other: Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)+
            }
        }
    };
}

totals! {
    Cells,
    /// What a worker has counted since it started, but for drops, flows and backends.
    Totals {
        /// Frames received from ports.
        rx_packets,
        /// Their bytes, without the frame check sequence.
        rx_bytes,
        /// Frames that ports took for sending: encapsulated, replies and originated ones.
        tx_packets,
        /// Their bytes, without the frame check sequence.
        tx_bytes,
        /// Frames that management made and this worker was given to send.
        originated,
        /// Received frames that were turned into an answer (ARP, neighbour advertisement, echo reply).
        replies,
        /// Received frames that went to management.
        punted,
        /// Polls that found frames.
        bursts,
        /// Polls that found nothing.
        empty_polls,
        /// Times that a burst was offered to a port again, since it had not taken all of it.
        tx_retries,
    }
}

totals! {
    FlowCells,
    /// What a worker has counted of the flows of one family.
    FlowTotals {
        /// Packets whose flow had an entry that they could follow.
        hits,
        /// Decisions for a TCP SYN, or for a packet of another protocol without an entry: as a rule
        /// the flow's first, but every one of a flow that found no room.
        new,
        /// TCP packets other than a SYN without an entry: decided by the tables.
        unverified,
        /// Decisions that found no room for an entry, so that the tables decide about the flow's
        /// next packet as well, which then counts again.
        refused,
        /// Entries that were removed since they had been silent too long, by ageing or to make
        /// room.
        expired,
        /// Gauge: entries now.
        entries,
    }
}

impl Totals {
    /// Polls in all.
    #[must_use]
    pub const fn polls(&self) -> u64 {
        self.bursts.wrapping_add(self.empty_polls)
    }
}

/// Counters by number, on cache lines that nothing else shares.
#[derive(Debug)]
struct Row(Box<[Padded<[Counter; Self::CHUNK]>]>);

impl Row {
    /// Two cache lines.
    const CHUNK: usize = 16;

    fn new(count: usize) -> Self {
        Self((0..count.div_ceil(Self::CHUNK)).map(|_| Padded::default()).collect())
    }

    #[inline]
    fn counter(&self, number: usize) -> Option<&Counter> {
        self.0.get(number / Self::CHUNK)?.get(number % Self::CHUNK)
    }

    fn read(&self, number: usize) -> u64 {
        self.counter(number).map_or(0, Counter::read)
    }
}

/// Counters of one backend, and their places in a group of four: half a cache line.
const BACKEND_PACKETS: usize = 0;
const BACKEND_BYTES: usize = 1;
const BACKEND_NEW_FLOWS: usize = 2;
const BACKEND_FLOWS: usize = 3;
const BACKEND_STRIDE: usize = 4;

/// Written by: the worker. Read by: management.
#[derive(Debug)]
struct Block {
    cells: Padded<Cells>,
    /// By [`Family`].
    flows: [Padded<FlowCells>; 2],
    generation: Padded<Counter>,
    dropped: Row,
    backends: Row,
    backend_capacity: usize,
}

/// The two ends of a new worker's counters, all zero: `backend_capacity` is the number of
/// [`BackendId`]s it counts by; it drops silently what is counted for others.
#[must_use]
pub fn worker<R: Reason>(backend_capacity: usize) -> (WorkerCounters<R>, StatsView<R>) {
    let block = Arc::new(Block {
        cells: Padded::default(),
        flows: [Padded::default(), Padded::default()],
        generation: Padded::default(),
        dropped: Row::new(R::COUNT),
        backends: Row::new(backend_capacity.saturating_mul(BACKEND_STRIDE)),
        backend_capacity,
    });
    let counters = WorkerCounters { block: Arc::clone(&block), reason: PhantomData };
    (counters, StatsView { block, reason: PhantomData })
}

/// The worker's end: the only writer, hence neither `Clone` nor usable without `&mut`.
#[derive(Debug)]
pub struct WorkerCounters<R> {
    block: Arc<Block>,
    reason: PhantomData<fn(R)>,
}

impl<R: Reason> WorkerCounters<R> {
    /// A poll brought this many frames of this many bytes in all; 0 is an empty poll.
    #[inline]
    pub fn add_rx(&mut self, packets: u64, bytes: u64) {
        let cells = &self.block.cells;
        if packets == 0 {
            cells.empty_polls.add(1);
        } else {
            cells.bursts.add(1);
            cells.rx_packets.add(packets);
            cells.rx_bytes.add(bytes);
        }
    }

    /// A port took frames for sending.
    #[inline]
    pub fn add_tx(&mut self, packets: u64, bytes: u64) {
        self.block.cells.tx_packets.add(packets);
        self.block.cells.tx_bytes.add(bytes);
    }

    /// A port was offered the rest of a burst again.
    #[inline]
    pub fn add_tx_retries(&mut self, retries: u64) {
        self.block.cells.tx_retries.add(retries);
    }

    /// Management handed over frames to send. They are sent or dropped afterwards, as any other.
    #[inline]
    pub fn add_originated(&mut self, packets: u64) {
        self.block.cells.originated.add(packets);
    }

    /// Received frames became answers. They are sent or dropped afterwards, as any other.
    #[inline]
    pub fn add_replies(&mut self, packets: u64) {
        self.block.cells.replies.add(packets);
    }

    /// Received frames went to management.
    #[inline]
    pub fn add_punted(&mut self, packets: u64) {
        self.block.cells.punted.add(packets);
    }

    /// Frames were dropped for this reason.
    #[inline]
    pub fn add_dropped(&mut self, reason: R, packets: u64) {
        if let Some(counter) = self.block.dropped.counter(reason.index()) {
            counter.add(packets);
        }
    }

    /// A packet followed its flow's entry.
    #[inline]
    pub fn conntrack_hit(&mut self, family: Family) {
        self.flows(family).hits.add(1);
    }

    /// A flow to this backend was decided anew.
    #[inline]
    pub fn new_flow(&mut self, family: Family, backend: BackendId) {
        self.flows(family).new.add(1);
        self.add_new_flow(backend);
    }

    /// A TCP packet other than a SYN had no entry; the tables chose this backend.
    #[inline]
    pub fn unverified_flow(&mut self, family: Family, backend: BackendId) {
        self.flows(family).unverified.add(1);
        self.add_new_flow(backend);
    }

    /// A flow found no room.
    #[inline]
    pub fn refused_flow(&mut self, family: Family) {
        self.flows(family).refused.add(1);
    }

    /// An entry expired.
    #[inline]
    pub fn expired_flow(&mut self, family: Family) {
        self.flows(family).expired.add(1);
    }

    /// The family's table now has this many entries.
    #[inline]
    pub fn set_entries(&mut self, family: Family, entries: u64) {
        self.flows(family).entries.set(entries);
    }

    #[inline]
    fn flows(&self, family: Family) -> &FlowCells {
        let [ipv4, ipv6] = &self.block.flows;
        match family {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        }
    }

    #[inline]
    fn add_new_flow(&mut self, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND_NEW_FLOWS) {
            counter.add(1);
        }
    }

    /// Packets were encapsulated to a backend; `bytes` are their lengths by their own IP headers.
    #[inline]
    pub fn add_backend(&mut self, backend: BackendId, packets: u64, bytes: u64) {
        if let Some(counter) = self.backend(backend, BACKEND_PACKETS) {
            counter.add(packets);
        }
        if let Some(counter) = self.backend(backend, BACKEND_BYTES) {
            counter.add(bytes);
        }
    }

    /// A flow to this backend is tracked from now on.
    #[inline]
    pub fn open_flow(&mut self, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND_FLOWS) {
            counter.add(1);
        }
    }

    /// A flow to this backend is not tracked any more. Never below zero.
    #[inline]
    pub fn close_flow(&mut self, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND_FLOWS) {
            counter.set(counter.read().saturating_sub(1));
        }
    }

    /// The number of the tables that the worker uses, a `snapshot::Generation`.
    #[inline]
    pub fn set_generation(&mut self, generation: u64) {
        self.block.generation.set(generation);
    }

    #[inline]
    fn backend(&self, backend: BackendId, which: usize) -> Option<&Counter> {
        if backend.index() >= self.block.backend_capacity {
            return None;
        }
        self.block.backends.counter(backend.index() * BACKEND_STRIDE + which)
    }
}

/// Management's end.
#[derive(Debug)]
pub struct StatsView<R> {
    block: Arc<Block>,
    reason: PhantomData<fn(R)>,
}

impl<R> Clone for StatsView<R> {
    fn clone(&self) -> Self {
        Self { block: Arc::clone(&self.block), reason: PhantomData }
    }
}

impl<R: Reason> StatsView<R> {
    /// All counters as they are now.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot<R> {
        StatsSnapshot {
            totals: self.block.cells.read(),
            ipv4: self.block.flows[0].read(),
            ipv6: self.block.flows[1].read(),
            generation: self.generation(),
            dropped: (0..R::COUNT).map(|reason| self.block.dropped.read(reason)).collect(),
            backends: (0..self.block.backend_capacity).map(|place| self.at(place)).collect(),
            reason: PhantomData,
        }
    }

    /// The number of the tables that the worker uses.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.block.generation.read()
    }

    /// One backend's counters; zeros beyond the capacity.
    #[must_use]
    pub fn backend(&self, backend: BackendId) -> BackendTotals {
        if backend.index() < self.block.backend_capacity {
            self.at(backend.index())
        } else {
            BackendTotals::default()
        }
    }

    fn at(&self, place: usize) -> BackendTotals {
        let read = |which| self.block.backends.read(place * BACKEND_STRIDE + which);
        BackendTotals {
            packets: read(BACKEND_PACKETS),
            bytes: read(BACKEND_BYTES),
            new_flows: read(BACKEND_NEW_FLOWS),
            flows: read(BACKEND_FLOWS),
        }
    }
}

/// What a worker has counted for one slot of backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendTotals {
    /// Packets encapsulated to it.
    pub packets: u64,
    /// Bytes of these packets by their own IP headers: neither link layer nor outer header.
    pub bytes: u64,
    /// How often it was chosen: once a flow, but for each packet of a flow that found no room.
    pub new_flows: u64,
    /// Gauge: flows to it that are tracked now.
    pub flows: u64,
}

impl AddAssign for BackendTotals {
    fn add_assign(&mut self, other: Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.new_flows = self.new_flows.wrapping_add(other.new_flows);
        self.flows = self.flows.wrapping_add(other.flows);
    }
}

/// The counters of a worker, or the sum of several, as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSnapshot<R> {
    /// All but drops and backends.
    pub totals: Totals,
    /// IPv4 flows.
    pub ipv4: FlowTotals,
    /// IPv6 flows.
    pub ipv6: FlowTotals,
    /// The number of the tables in use; of several workers the oldest.
    pub generation: u64,
    dropped: Vec<u64>,
    backends: Vec<BackendTotals>,
    reason: PhantomData<fn(R)>,
}

impl<R: Reason> StatsSnapshot<R> {
    /// Frames dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: R) -> u64 {
        self.dropped.get(reason.index()).copied().unwrap_or_default()
    }

    /// Frames dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().fold(0, |sum, &packets| sum.wrapping_add(packets))
    }

    /// One backend's counters; zeros beyond the capacity.
    #[must_use]
    pub fn backend(&self, backend: BackendId) -> BackendTotals {
        self.backends.get(backend.index()).copied().unwrap_or_default()
    }

    /// Adds another worker's counters.
    pub fn add(&mut self, other: &Self) {
        self.totals += other.totals;
        self.ipv4 += other.ipv4;
        self.ipv6 += other.ipv6;
        self.generation = self.generation.min(other.generation);
        for (sum, packets) in self.dropped.iter_mut().zip(&other.dropped) {
            *sum = sum.wrapping_add(*packets);
        }
        if self.backends.len() < other.backends.len() {
            self.backends.resize(other.backends.len(), BackendTotals::default());
        }
        for (sum, totals) in self.backends.iter_mut().zip(&other.backends) {
            *sum += *totals;
        }
    }

    /// Checks that every frame is accounted for: received + originated = transmitted + dropped +
    /// punted. Replies are received and transmitted, and count as both.
    ///
    /// # Errors
    ///
    /// [`Imbalance`] if a frame was lost or counted twice, or if the worker was amid a burst.
    pub fn conservation(&self) -> Result<(), Imbalance> {
        let Totals { rx_packets, originated, tx_packets, punted, .. } = self.totals;
        let came = rx_packets.wrapping_add(originated);
        let went = tx_packets.wrapping_add(self.dropped_total()).wrapping_add(punted);
        if came == went { Ok(()) } else { Err(Imbalance { came, went }) }
    }
}

/// Frames that came and frames that went are not the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{came} frames received or originated, but {went} transmitted, dropped or punted; \
     if the difference stays while no traffic flows, a counter is wrong"
)]
pub struct Imbalance {
    /// Received and originated.
    pub came: u64,
    /// Transmitted, dropped and punted.
    pub went: u64,
}

#[cfg(test)]
mod tests;
