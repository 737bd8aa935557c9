//! `show backends`, `show health` and `show drains`.

use super::{configured, health, milliseconds};
use crate::config::{self, BackendKey};
use crate::control::compile::Links as _;
use crate::control::management::Management;
use crate::control::protocol::reply::{
    BackendHealth, BackendState, BackendsReply, DrainState, DrainsReply, HealthReply, PoolBackends,
};
use crate::control::route::route;
use crate::id::{BackendId, ServiceId};
use crate::stats::{BackendTotals, ServiceTotals};

impl Management {
    pub(super) fn backends(&self) -> BackendsReply {
        let config = self.state.config();
        let now = self.now();
        let backend_state = |pool: &config::Pool, backend: &config::Backend| {
            let key = BackendKey::new(pool, backend);
            let slot = self.state.slots().find(&key);
            let counted = self.counted(&key);
            BackendState {
                name: backend.name.clone(),
                address: backend.address,
                admin_state: configured(pool.admin_state_of(backend)),
                health: health(self.state.health(pool, &key)),
                weight: backend.weight,
                share: slot.map(|slot| self.shares.of(slot.id)).unwrap_or_default(),
                packets: counted.packets,
                bytes: counted.bytes,
                new_flows: counted.new_flows,
                flows: counted.flows,
                next_hop: route(&config.ports, backend.address)
                    .and_then(|way| self.neighbours.next_hop(way.port, way.next_hop))
                    .map(|mac| mac.to_string()),
                probes: self.probes.results(&key, now),
            }
        };
        let pools = config.pools.iter().map(|pool| PoolBackends {
            pool: pool.name.clone(),
            backends: pool.backends.iter().map(|backend| backend_state(pool, backend)).collect(),
        });
        BackendsReply { pools: pools.collect() }
    }

    /// What all workers have counted for a backend.
    pub(in crate::control) fn counted(&self, key: &BackendKey) -> BackendTotals {
        let Some(slot) = self.state.slots().find(key) else { return BackendTotals::default() };
        self.backend_baselines.since(slot.id, self.backend_totals(slot.id))
    }

    /// What all workers have counted for a slot, for whatever backend.
    pub(in crate::control) fn backend_totals(&self, slot: BackendId) -> BackendTotals {
        let mut totals = BackendTotals::default();
        for worker in &self.workers {
            totals += worker.stats.backend(slot);
        }
        totals
    }

    /// What all workers have counted for a service's number, for whatever service.
    pub(in crate::control) fn service_totals(&self, service: ServiceId) -> ServiceTotals {
        let mut totals = ServiceTotals::default();
        for worker in &self.workers {
            totals += worker.stats.service(service);
        }
        totals
    }

    pub(super) fn health(&self) -> HealthReply {
        let config = self.state.config();
        let now = self.now();
        let backends = config.pools.iter().flat_map(|pool| {
            pool.backends.iter().map(move |backend| {
                let key = BackendKey::new(pool, backend);
                BackendHealth {
                    backend: format!("{}/{}", pool.name, backend.name),
                    monitor: pool.monitor.clone(),
                    address: backend.probe_address.unwrap_or(backend.address),
                    health: health(self.state.health(pool, &key)),
                    since_ms: self
                        .probes
                        .since(&key)
                        .map(|since| milliseconds(now.saturating_sub(since))),
                    cause: self.probes.last_failure(&key),
                    probes: self.probes.results(&key, now),
                }
            })
        });
        HealthReply { backends: backends.collect() }
    }

    pub(super) fn drains(&self) -> DrainsReply {
        let now = self.now();
        let mut drains = Vec::new();
        for pool in &self.state.config().pools {
            for backend in &pool.backends {
                let key = BackendKey::new(pool, backend);
                let Some(began) = self.drains.get(&key) else { continue };
                let counted = self.counted(&key);
                let by_pool = pool.admin_state > backend.admin_state;
                drains.push(DrainState {
                    backend: format!("{}/{}", pool.name, backend.name),
                    by: if by_pool { "pool".to_owned() } else { "backend".to_owned() },
                    since_ms: milliseconds(now.saturating_sub(began.at)),
                    flows_at_start: began.flows,
                    flows: counted.flows,
                    packets: counted.packets.saturating_sub(began.packets),
                });
            }
        }
        DrainsReply { drains }
    }
}
