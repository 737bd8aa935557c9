//! Management's part of a scrape: to copy the numbers. Nothing else of management runs meanwhile, so
//! this must take milliseconds with 10,000 backends: it reads only slots in use, and counts no slots.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::endpoint::Scrape;
use super::observation::{
    BackendObservation, Observation, PoolObservation, PortObservation, ServiceObservation,
    ShardObservation, WorkerObservation,
};
use crate::config::{self, BackendKey};
use crate::control::compile::Links as _;
use crate::control::management::Management;
use crate::control::route::route;
use crate::forward::DropReason;
use crate::id::Family;
use crate::stats::ServiceTotals;
use crate::steer::PoolState;

impl Management {
    /// Answers a scrape.
    pub(in crate::control) fn scrape(&self, scrape: Scrape) {
        scrape.answer(self.observe());
    }

    /// The numbers of this moment.
    pub(in crate::control) fn observe(&self) -> Observation {
        let config = self.state.config();
        let states: Vec<_> = config.pools.iter().map(|pool| self.state.pool(pool)).collect();
        let requests = self.tally.requests().iter();
        Observation {
            appliance: config.appliance.name.clone(),
            start_time: Duration::from_millis(self.started_ms).as_secs_f64(),
            uptime: self.now().as_secs_f64(),
            generation: self.publisher.generation().0,
            tables_digest: self.compiler.tables_digest(),
            management_restarts: self.tally.management_restarts(),
            log_left_out: self.log_left_out.load(Ordering::Relaxed),
            events: *self.events.counts(),
            alarms: self.alarms().into_iter().map(|alarm| (alarm.kind, alarm.subject)).collect(),
            requests: requests
                .map(|(&(method, outcome), &count)| (method, outcome, count))
                .collect(),
            buffers: self.ports.buffers(),
            workers: self.observe_workers(),
            ports: self
                .port_states()
                .map(|(id, port, state)| PortObservation {
                    name: port.name.clone(),
                    state,
                    link_changes: self.neighbours.link_changes(id),
                })
                .collect(),
            services: self.observe_services(),
            pools: config
                .pools
                .iter()
                .zip(&states)
                .map(|(pool, state)| observe_pool(pool, state))
                .collect(),
            backends: self.observe_backends(&states),
        }
    }

    fn observe_workers(&self) -> Vec<WorkerObservation> {
        let lagging = self.lagging();
        let workers = self.workers.iter().enumerate();
        let observe = |(place, worker): (usize, &crate::control::WorkerRemote)| {
            let shard = |family, capacity: usize| ShardObservation {
                family,
                capacity: capacity as u64,
                flows: worker.stats.flows(family),
            };
            let (ipv4, ipv6) = worker.capacity;
            WorkerObservation {
                worker: worker.id.0,
                core: worker.core,
                generation: self.publisher.observed(place).unwrap_or_default().0,
                lagging: lagging.contains(&place),
                totals: worker.stats.totals(),
                runtime: worker.stats.runtime(),
                latency: worker.stats.latency(),
                cycles_per_second: worker.cycles_per_second,
                dropped: DropReason::ALL.map(|reason| worker.stats.dropped(reason)),
                shards: [shard(Family::Ipv4, ipv4), shard(Family::Ipv6, ipv6)],
            }
        };
        workers.map(observe).collect()
    }

    fn observe_backends(&self, states: &[PoolState]) -> Vec<BackendObservation> {
        let config = self.state.config();
        let mut observed = Vec::with_capacity(config.pools.iter().map(|p| p.backends.len()).sum());
        for (place, (pool, state)) in config.pools.iter().zip(states).enumerate() {
            for (backend, said) in pool.backends.iter().zip(&state.backends) {
                let key = BackendKey::new(pool, backend);
                let slot = self.state.slots().find(&key).map(|slot| slot.id);
                let totals = self.counted(&key);
                let way = route(&config.ports, backend.address);
                let next_hop = way.and_then(|w| self.neighbours.next_hop(w.port, w.next_hop));
                observed.push(BackendObservation {
                    pool: place,
                    name: backend.name.clone(),
                    address: backend.address,
                    totals,
                    health: said.health,
                    admin: said.admin,
                    weight: said.weight,
                    slot_share: slot.map(|id| self.shares.of(id)).unwrap_or_default(),
                    resolved: next_hop.is_some(),
                    probes: self.tally.probes_of(&key).copied(),
                });
            }
        }
        observed
    }

    fn observe_services(&self) -> Vec<ServiceObservation> {
        let config = self.state.config();
        let places: HashMap<_, _> =
            config.pools.iter().zip(0..).map(|(pool, place)| (pool.name.as_str(), place)).collect();
        let observe = |service: &config::Service| {
            let quotas = self.state.decide(&service.name).map(|d| d.quotas).unwrap_or_default();
            let total: u32 = quotas.iter().map(|quota| quota.quota).sum();
            let share = |number: usize| {
                let own = quotas.iter().filter(|quota| quota.pool == number);
                let own: u32 = own.map(|quota| quota.quota).sum();
                if total == 0 { 0.0 } else { f64::from(own) / f64::from(total) }
            };
            let pools = service.pools.iter().enumerate();
            let shares = pools
                .filter_map(|(number, name)| Some((*places.get(name.as_str())?, share(number))))
                .collect();
            let id = self.state.service_id(&service.name);
            let totals = id.map_or(ServiceTotals::default(), |id| {
                self.service_baselines.since(id, self.service_totals(id))
            });
            ServiceObservation { name: service.name.clone(), totals, shares }
        };
        config.services.iter().map(observe).collect()
    }
}

fn observe_pool(pool: &config::Pool, state: &PoolState) -> PoolObservation {
    PoolObservation {
        name: pool.name.clone(),
        healthy: state.ready_count() as u64,
        backends: state.backends.len() as u64,
        threshold: pool.threshold as u64,
    }
}
