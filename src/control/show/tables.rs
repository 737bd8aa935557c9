//! `show tables`.

use super::{count, ratio};
use crate::config::{self, BackendKey, Pool};
use crate::control::management::Management;
use crate::control::protocol::reply::{PoolTableState, ServiceTableState, TablesReply};
use crate::forward::Level1;

impl Management {
    pub(super) fn tables(&self) -> TablesReply {
        let config = self.state.config();
        let tables = self.publisher.current();
        let of_service = |service: &config::Service| {
            let table = tables.services.get(self.state.service_id(&service.name)?.index())?;
            let decision = self.state.decide(&service.name)?;
            let names = decision.quotas.iter().filter_map(|quota| service.pools.get(quota.pool));
            Some(ServiceTableState {
                service: service.name.clone(),
                level1: match table.level1 {
                    Level1::Empty => "empty".to_owned(),
                    Level1::Single(_) => "single".to_owned(),
                    Level1::Weighted(_) => "weighted".to_owned(),
                },
                pools: names.cloned().collect(),
            })
        };
        let of_pool = |pool: &config::Pool| {
            let table = tables.pools.get(self.state.pool_id(&pool.name)?.index())?;
            let (members, evenness) = self.evenness(pool);
            Some(PoolTableState {
                pool: pool.name.clone(),
                slots: count(table.current.slot_count()),
                members,
                evenness,
            })
        };
        TablesReply {
            generation: self.publisher.generation().0,
            digests: self.digests(),
            held: count(self.publisher.held()),
            slot_arrays: count(self.compiler.arena().held()),
            slot_arrays_free: count(self.compiler.arena().free()),
            services: config.services.iter().filter_map(of_service).collect(),
            pools: config.pools.iter().filter_map(of_pool).collect(),
        }
    }

    /// How many backends have slots, and the worst ratio of slots to what the weight promises.
    fn evenness(&self, pool: &Pool) -> (u32, f64) {
        let weights: Vec<_> = pool
            .backends
            .iter()
            .filter_map(|backend| {
                let slot = self.state.slots().find(&BackendKey::new(pool, backend))?;
                let share = self.shares.of(slot.id);
                (share > 0.0).then_some((share, u64::from(backend.weight)))
            })
            .collect();
        let all: u64 = weights.iter().map(|(_, weight)| weight).sum();
        let worst = weights
            .iter()
            .map(|&(share, weight)| share / ratio(weight, all).max(f64::MIN_POSITIVE))
            .fold(1.0, f64::min);
        (count(weights.len()), worst)
    }
}
