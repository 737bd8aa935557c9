//! What management reads: a worker's counters as plain numbers, and the sum of several.

use std::marker::PhantomData;
use std::ops::AddAssign;
use std::sync::Arc;

use super::histogram::Histogram;
use super::totals::{FlowTotals, RuntimeTotals, Totals};
use super::{BACKEND, Block, Reason, SERVICE};
use crate::id::{BackendId, Family, PORT_CAP, PortId, ServiceId};

/// Management's end.
#[derive(Debug)]
pub struct StatsView<R> {
    pub(super) block: Arc<Block>,
    pub(super) reason: PhantomData<fn(R)>,
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
            runtime: self.block.runtime.read(),
            latency: self.block.latency.read(),
            ports: (0..=u8::MAX).map(PortId).take(PORT_CAP).map(|id| self.port_rx(id)).collect(),
            dropped: (0..R::COUNT).map(|reason| self.block.dropped.read(reason)).collect(),
            backends: (0..self.block.backend_capacity).map(|place| self.at(place)).collect(),
            services: (0..self.block.service_count.read()).map(|id| self.service_at(id)).collect(),
            reason: PhantomData,
        }
    }

    /// All but drops, flows and backends. Unlike [`Self::snapshot`] it allocates nothing.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.block.cells.read()
    }

    /// What the worker's time went into.
    #[must_use]
    pub fn runtime(&self) -> RuntimeTotals {
        self.block.runtime.read()
    }

    /// How long bursts took.
    #[must_use]
    pub fn latency(&self) -> Histogram {
        self.block.latency.read()
    }

    /// The flows of one family.
    #[must_use]
    pub fn flows(&self, family: Family) -> FlowTotals {
        let [ipv4, ipv6] = &self.block.flows;
        match family {
            Family::Ipv4 => ipv4.read(),
            Family::Ipv6 => ipv6.read(),
        }
    }

    /// Frames dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: R) -> u64 {
        self.block.dropped.read(reason.index())
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

    /// Polls since start, of all ports. It moves while the worker polls, whether packets come or
    /// not: a watchdog that reads the same number twice, a second apart, sees a worker that hangs.
    /// Two loads of memory that the worker writes.
    #[must_use]
    pub fn polls(&self) -> u64 {
        let cells = &self.block.cells;
        cells.bursts.read().wrapping_add(cells.empty_polls.read())
    }

    /// Buckets that were visited for jobs since start: one load.
    #[must_use]
    pub fn job_buckets(&self) -> u64 {
        self.block.cells.job_buckets.read()
    }

    /// One service's counters; zeros from [`SERVICE_CAP`](super::SERVICE_CAP) on.
    #[must_use]
    pub fn service(&self, service: ServiceId) -> ServiceTotals {
        self.service_at(service.0.into())
    }

    /// Frames received from one port.
    #[must_use]
    pub fn port_rx(&self, port: PortId) -> u64 {
        self.block.port_rx.get(port.index()).map_or(0, super::Counter::read)
    }

    fn at(&self, place: usize) -> BackendTotals {
        let read = |which| self.block.backends.read(place * BACKEND.stride + which);
        BackendTotals {
            packets: read(BACKEND.packets),
            bytes: read(BACKEND.bytes),
            new_flows: read(BACKEND.new_flows),
            flows: read(BACKEND.flows),
        }
    }

    fn service_at(&self, id: u64) -> ServiceTotals {
        let Ok(place) = usize::try_from(id) else { return ServiceTotals::default() };
        let read = |which| self.block.services.read(place * SERVICE.stride + which);
        ServiceTotals {
            packets: read(SERVICE.packets),
            bytes: read(SERVICE.bytes),
            new_flows: read(SERVICE.new_flows),
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

/// What a worker has counted for one service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTotals {
    /// Packets encapsulated to its backends.
    pub packets: u64,
    /// Bytes of these packets by their own IP headers: neither link layer nor outer header.
    pub bytes: u64,
    /// Decisions for it: once a flow, but for each packet of a flow that found no room.
    pub new_flows: u64,
}

impl AddAssign for ServiceTotals {
    fn add_assign(&mut self, other: Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.new_flows = self.new_flows.wrapping_add(other.new_flows);
    }
}

/// The counters of a worker, or the sum of several, as plain numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSnapshot<R> {
    /// All but drops, flows, backends, services and cycles.
    pub totals: Totals,
    /// IPv4 flows.
    pub ipv4: FlowTotals,
    /// IPv6 flows.
    pub ipv6: FlowTotals,
    /// Where the cycles went.
    pub runtime: RuntimeTotals,
    /// How long received bursts took.
    pub latency: Histogram,
    /// Frames received, by [`PortId`].
    ports: Vec<u64>,
    dropped: Vec<u64>,
    backends: Vec<BackendTotals>,
    services: Vec<ServiceTotals>,
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

    /// One service's counters; zeros beyond the capacity.
    #[must_use]
    pub fn service(&self, service: ServiceId) -> ServiceTotals {
        self.services.get(service.index()).copied().unwrap_or_default()
    }

    /// Frames received from one port.
    #[must_use]
    pub fn port_rx(&self, port: PortId) -> u64 {
        self.ports.get(port.index()).copied().unwrap_or_default()
    }

    /// Adds another worker's counters.
    pub fn add(&mut self, other: &Self) {
        self.totals += other.totals;
        self.ipv4 += other.ipv4;
        self.ipv6 += other.ipv6;
        for (sum, packets) in self.dropped.iter_mut().zip(&other.dropped) {
            *sum = sum.wrapping_add(*packets);
        }
        if self.backends.len() < other.backends.len() {
            self.backends.resize(other.backends.len(), BackendTotals::default());
        }
        for (sum, totals) in self.backends.iter_mut().zip(&other.backends) {
            *sum += *totals;
        }
        if self.services.len() < other.services.len() {
            self.services.resize(other.services.len(), ServiceTotals::default());
        }
        for (sum, totals) in self.services.iter_mut().zip(&other.services) {
            *sum += *totals;
        }
        for (sum, packets) in self.ports.iter_mut().zip(&other.ports) {
            *sum = sum.wrapping_add(*packets);
        }
        self.runtime += other.runtime;
        self.latency.add(&other.latency);
    }

    /// Checks that every frame is accounted for: received + originated + handed in = transmitted +
    /// dropped + punted + handed out. Replies are received and transmitted, and count as both.
    ///
    /// Over the sum of all workers at rest, with empty rings, handed in and out are the same number.
    ///
    /// # Errors
    ///
    /// [`Imbalance`] if a frame was lost or counted twice, or if the worker was amid a burst.
    pub fn conservation(&self) -> Result<(), Imbalance> {
        let Totals { rx_packets, originated, tx_packets, punted, .. } = self.totals;
        let Totals { handed_in, handed_out, .. } = self.totals;
        let came = rx_packets.wrapping_add(originated).wrapping_add(handed_in);
        let went = tx_packets.wrapping_add(self.dropped_total()).wrapping_add(punted);
        let went = went.wrapping_add(handed_out);
        if came == went { Ok(()) } else { Err(Imbalance { came, went }) }
    }
}

/// Frames that came and frames that went are not the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{came} frames received, originated or handed in, but {went} transmitted, dropped, punted or \
     handed out; \
     if the difference stays while no traffic flows, a counter is wrong"
)]
pub struct Imbalance {
    /// Received, originated and handed in.
    pub came: u64,
    /// Transmitted, dropped, punted and handed out.
    pub went: u64,
}
