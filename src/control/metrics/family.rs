//! What a family of metrics is, and how its samples are written. `families` lists them.

use super::observation::{
    BackendObservation, Observation, PoolObservation, PortObservation, ServiceObservation,
    ShardObservation, WorkerObservation,
};
use super::text::{Label, Lines, Value};
use crate::forward::DropReason;
use crate::id::Family as AddressFamily;

/// Metrics of one name.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name, with the unit and, for counters, `_total`.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// The names of its labels; a histogram's buckets have `le` beside them.
    pub labels: &'static [&'static str],
    /// One sentence on what it means.
    pub help: &'static str,
    pub(super) samples: Samples,
}

/// What a number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts from the daemon's start and only grows.
    Counter,
    /// It is what is now.
    Gauge,
    /// It counts how often a size came, by upper bound: `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    /// The word of the text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// From items to samples. What gives a [`Value`] has one sample an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Samples {
    Once(fn(&Observation) -> Value),
    Free(fn(&Observation, &mut Lines<'_>)),
    /// As many as there is trouble, hence one by one.
    Alarms,
    Worker(fn(&WorkerObservation) -> Value),
    Reasons(fn(&WorkerObservation, DropReason) -> Value),
    Shard(fn(&ShardObservation) -> Value),
    Port(fn(&PortObservation) -> Value),
    Pool(fn(&PoolObservation) -> Value),
    Share,
    Service(fn(&ServiceObservation) -> Value),
    WorkerFree(fn(&WorkerObservation, &mut Lines<'_>)),
    Backend(fn(&BackendObservation) -> Value),
    /// With the name of the pool.
    BackendFree(fn(&str, &BackendObservation, &mut Lines<'_>)),
}

impl Family {
    /// How many items [`Self::write`] has.
    pub(super) fn item_count(&self, observation: &Observation) -> usize {
        match self.samples {
            Samples::Once(_) | Samples::Free(_) => 1,
            Samples::Alarms => observation.alarms.len(),
            Samples::Worker(_)
            | Samples::WorkerFree(_)
            | Samples::Reasons(_)
            | Samples::Shard(_) => observation.workers.len(),
            Samples::Port(_) => observation.ports.len(),
            Samples::Pool(_) => observation.pools.len(),
            Samples::Share | Samples::Service(_) => observation.services.len(),
            Samples::Backend(_) | Samples::BackendFree(_) => observation.backends.len(),
        }
    }

    /// Writes the samples of one item; nothing if there is no such item.
    pub(super) fn write(&self, observation: &Observation, item: usize, lines: &mut Lines<'_>) {
        // `None` only for an item that does not exist.
        let _ = self.try_write(observation, item, lines);
    }

    fn try_write(
        &self,
        observation: &Observation,
        item: usize,
        lines: &mut Lines<'_>,
    ) -> Option<()> {
        let Observation { workers, ports, pools, services, backends, .. } = observation;
        match self.samples {
            Samples::Once(value) => lines.sample(&[], value(observation)),
            Samples::Free(write) => write(observation, lines),
            Samples::Alarms => {
                let (kind, subject) = observation.alarms.get(item)?;
                lines.sample(&[("alarm", &kind.name()), ("subject", subject)], true);
            }
            Samples::Worker(value) => {
                let worker = workers.get(item)?;
                lines.sample(&[("worker", &worker.worker)], value(worker));
            }
            Samples::Reasons(value) => {
                let worker = workers.get(item)?;
                for reason in DropReason::ALL {
                    let labels: [Label<'_>; 2] =
                        [("worker", &worker.worker), ("reason", &reason.name())];
                    lines.sample(&labels, value(worker, reason));
                }
            }
            Samples::Shard(value) => {
                let worker = workers.get(item)?;
                for shard in &worker.shards {
                    let family = match shard.family {
                        AddressFamily::Ipv4 => "ipv4",
                        AddressFamily::Ipv6 => "ipv6",
                    };
                    let labels: [Label<'_>; 2] = [("worker", &worker.worker), ("family", &family)];
                    lines.sample(&labels, value(shard));
                }
            }
            Samples::Port(value) => {
                let port = ports.get(item)?;
                lines.sample(&[("port", &port.name)], value(port));
            }
            Samples::Pool(value) => {
                let pool = pools.get(item)?;
                lines.sample(&[("pool", &pool.name)], value(pool));
            }
            Samples::Share => {
                let service = services.get(item)?;
                for (pool, share) in &service.shares {
                    let pool = &pools.get(*pool)?.name;
                    lines.sample(&[("service", &service.name), ("pool", pool)], *share);
                }
            }
            Samples::Service(value) => {
                let service = services.get(item)?;
                lines.sample(&[("service", &service.name)], value(service));
            }
            Samples::WorkerFree(write) => write(workers.get(item)?, lines),
            Samples::Backend(value) => {
                let backend = backends.get(item)?;
                let pool = &pools.get(backend.pool)?.name;
                lines.sample(&[("pool", pool), ("backend", &backend.name)], value(backend));
            }
            Samples::BackendFree(write) => {
                let backend = backends.get(item)?;
                write(&pools.get(backend.pool)?.name, backend, lines);
            }
        }
        Some(())
    }
}
