//! Counters of one worker: written by that worker alone, read by management.
//!
//! A counter has one writer, so counting is a plain load, add and store, without a locked
//! instruction; the lines it lives on are written by no other core. The pipeline adds up a burst in
//! locals and hands the sums over once a burst.
//!
//! Each counter is exact, but a snapshot is not taken between two bursts: counters that belong
//! together may be apart by the burst that is under way. Over a worker at rest it is exact, and then
//! [`StatsSnapshot::conservation`] holds.

mod histogram;
mod totals;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use histogram::Histogram;
pub use totals::{FlowTotals, RuntimeTotals, Totals};
pub use view::{BackendTotals, Imbalance, ServiceTotals, StatsSnapshot, StatsView};

use crate::id::{BackendId, Family, PORT_CAP, PortId, ServiceId};
use crate::padded::Padded;
use histogram::HistogramCells;
use totals::{Cells, FlowCells, RuntimeCells};

/// Services that are counted: those with a [`ServiceId`] below it.
pub const SERVICE_CAP: usize = 16_384;

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

/// The places of one thing's counters in its group of four: half a cache line.
#[derive(Debug)]
struct Group {
    packets: usize,
    bytes: usize,
    new_flows: usize,
    flows: usize,
    stride: usize,
}

const BACKEND: Group = Group { packets: 0, bytes: 1, new_flows: 2, flows: 3, stride: 4 };
/// The fourth is spare: an entry of the connection table does not know its service.
const SERVICE: Group = BACKEND;

/// Written by: the worker. Read by: management.
#[derive(Debug)]
struct Block {
    cells: Padded<Cells>,
    runtime: Padded<RuntimeCells>,
    latency: Padded<HistogramCells>,
    /// By [`Family`].
    flows: [Padded<FlowCells>; 2],
    /// By [`PortId`].
    port_rx: Padded<[Counter; PORT_CAP]>,
    dropped: Row,
    backends: Row,
    backend_capacity: usize,
    services: Row,
    /// One more than the largest service that anything was counted for: a snapshot reads no further.
    service_count: Counter,
}

/// The two ends of a new worker's counters, all zero: `backend_capacity` is the number of
/// [`BackendId`]s it counts by; it drops silently what is counted for others, and for services from
/// [`SERVICE_CAP`] on.
#[must_use]
pub fn worker<R: Reason>(backend_capacity: usize) -> (WorkerCounters<R>, StatsView<R>) {
    let block = Arc::new(Block {
        cells: Padded::default(),
        runtime: Padded::default(),
        latency: Padded::default(),
        flows: [Padded::default(), Padded::default()],
        port_rx: Padded::default(),
        dropped: Row::new(R::COUNT),
        backends: Row::new(backend_capacity.saturating_mul(BACKEND.stride)),
        backend_capacity,
        services: Row::new(SERVICE_CAP * SERVICE.stride),
        service_count: Counter::default(),
    });
    let counters = WorkerCounters { block: Arc::clone(&block), reason: PhantomData };
    (counters, StatsView { block, reason: PhantomData })
}

/// Cycles of one burst by stage; [`RuntimeTotals`] says what belongs to each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstCycles {
    /// Of receiving it.
    pub receive: u64,
    /// Of classifying and hashing it.
    pub classify: u64,
    /// Of deciding and encapsulating it.
    pub decide: u64,
    /// Of sending it.
    pub transmit: u64,
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

    /// Of a poll's frames so many came from this port.
    #[inline]
    pub fn add_port_rx(&mut self, port: PortId, packets: u64) {
        if let Some(counter) = self.block.port_rx.get(port.index()) {
            counter.add(packets);
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

    /// A port did not take all of a burst in the end.
    #[inline]
    pub fn add_tx_full_burst(&mut self) {
        self.block.cells.tx_full_bursts.add(1);
    }

    /// Other workers handed over packets. Each is transmitted, dropped, punted or handed on
    /// afterwards.
    #[inline]
    pub fn add_handed_in(&mut self, packets: u64) {
        self.block.cells.handed_in.add(packets);
    }

    /// Packets were handed over to another worker, which took them.
    #[inline]
    pub fn add_handed_out(&mut self, packets: u64) {
        self.block.cells.handed_out.add(packets);
    }

    /// So many buckets were visited for a job.
    #[inline]
    pub fn add_job_buckets(&mut self, buckets: u64) {
        self.block.cells.job_buckets.add(buckets);
    }

    /// A received burst is done.
    #[inline]
    pub fn add_burst_cycles(&mut self, cycles: BurstCycles) {
        self.add_stages(cycles);
        let BurstCycles { classify, decide, transmit, .. } = cycles;
        self.block.latency.record(classify.wrapping_add(decide).wrapping_add(transmit));
    }

    /// Packets that others handed over are done: no received burst, so no latency.
    #[inline]
    pub fn add_handed_cycles(&mut self, cycles: BurstCycles) {
        self.add_stages(cycles);
    }

    #[inline]
    fn add_stages(&mut self, cycles: BurstCycles) {
        let runtime = &self.block.runtime;
        runtime.receive.add(cycles.receive);
        runtime.classify.add(cycles.classify);
        runtime.decide.add(cycles.decide);
        runtime.transmit.add(cycles.transmit);
    }

    /// The rest of a round that brought something.
    #[inline]
    pub fn add_other_cycles(&mut self, cycles: u64) {
        self.block.runtime.other.add(cycles);
    }

    /// A round that brought nothing.
    #[inline]
    pub fn add_idle_cycles(&mut self, cycles: u64) {
        self.block.runtime.idle.add(cycles);
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

    /// A flow of this service to this backend was decided anew.
    #[inline]
    pub fn new_flow(&mut self, family: Family, service: ServiceId, backend: BackendId) {
        self.flows(family).new.add(1);
        self.add_new_flow(service, backend);
    }

    /// A TCP packet other than a SYN had no entry; the tables chose this backend.
    #[inline]
    pub fn unverified_flow(&mut self, family: Family, service: ServiceId, backend: BackendId) {
        self.flows(family).unverified.add(1);
        self.add_new_flow(service, backend);
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

    /// An entry was removed since management asked for it.
    #[inline]
    pub fn removed_flow(&mut self, family: Family) {
        self.flows(family).removed.add(1);
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
    fn add_new_flow(&mut self, service: ServiceId, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND.new_flows) {
            counter.add(1);
        }
        if let Some(counter) = self.service(service, SERVICE.new_flows) {
            counter.add(1);
        }
    }

    /// Packets of this service were encapsulated; `bytes` are their lengths by their own IP headers.
    #[inline]
    pub fn add_service(&mut self, service: ServiceId, packets: u64, bytes: u64) {
        if let Some(counter) = self.service(service, SERVICE.packets) {
            counter.add(packets);
        }
        if let Some(counter) = self.service(service, SERVICE.bytes) {
            counter.add(bytes);
        }
    }

    #[inline]
    fn service(&self, service: ServiceId, which: usize) -> Option<&Counter> {
        if service.index() >= SERVICE_CAP {
            return None;
        }
        let count = u64::from(service.0) + 1;
        if count > self.block.service_count.read() {
            self.block.service_count.set(count);
        }
        self.block.services.counter(service.index() * SERVICE.stride + which)
    }

    /// Packets were encapsulated to a backend; `bytes` are their lengths by their own IP headers.
    #[inline]
    pub fn add_backend(&mut self, backend: BackendId, packets: u64, bytes: u64) {
        if let Some(counter) = self.backend(backend, BACKEND.packets) {
            counter.add(packets);
        }
        if let Some(counter) = self.backend(backend, BACKEND.bytes) {
            counter.add(bytes);
        }
    }

    /// A flow to this backend is tracked from now on.
    #[inline]
    pub fn open_flow(&mut self, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND.flows) {
            counter.add(1);
        }
    }

    /// A flow to this backend is not tracked any more. Never below zero.
    #[inline]
    pub fn close_flow(&mut self, backend: BackendId) {
        if let Some(counter) = self.backend(backend, BACKEND.flows) {
            counter.set(counter.read().saturating_sub(1));
        }
    }

    #[inline]
    fn backend(&self, backend: BackendId, which: usize) -> Option<&Counter> {
        if backend.index() >= self.block.backend_capacity {
            return None;
        }
        self.block.backends.counter(backend.index() * BACKEND.stride + which)
    }
}

#[cfg(test)]
mod tests;
