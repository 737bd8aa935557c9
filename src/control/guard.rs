//! What a change would do that nobody may want: verbs are refused for it unless they are forced.
//!
//! Only what the change itself causes counts. A pool that was under its threshold before, or a
//! service that had nobody to go to, is no reason to refuse a change that leaves it so. And what counts
//! is the outcome: a service that goes while another takes its VIPs over is judged by the other.

mod moved;

use std::collections::{HashMap, HashSet};

use super::difference::Difference;
use super::standing::{admin_state, pool_state};
use crate::config::{BackendKey, Config, Pool, Service, Steering};
use crate::steer::{self, AdminState, Decision, Health, PoolState};
use moved::Entrances;

/// Something that a change would do, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Concern {
    /// The last backend of a pool that takes new flows would not do so any more.
    #[error(
        "pool {pool} would have no backend that takes new flows; keep one enabled with a weight \
         above 0"
    )]
    NobodyLeft {
        /// The pool.
        pool: String,
    },
    /// A pool would fall under its threshold.
    #[error(
        "pool {pool} would fall to {ready} healthy backends that take new flows, below its \
         threshold of {threshold}; enable others first, or lower the threshold"
    )]
    BelowThreshold {
        /// The pool.
        pool: String,
        /// Its backends that would be enabled, up and of weight above 0.
        ready: usize,
        /// How many it needs.
        threshold: usize,
    },
    /// A service's table would be empty.
    #[error(
        "service {service} would have no backend that takes new flows, so that they are dropped; \
         enable one in one of its pools, or give it another pool"
    )]
    EmptyTable {
        /// The service.
        service: String,
    },
    /// A whole service would take no new flows.
    #[error("service {service} would take no new flows; drain single backends instead")]
    ServiceDrained {
        /// The service.
        service: String,
    },
    /// A whole service would be off.
    #[error("service {service} would carry nothing, and its flows break off; drain it first")]
    ServiceDisabled {
        /// The service.
        service: String,
    },
    /// A service that takes new flows would be gone.
    #[error("service {service} would be gone, and its flows break off; drain it first")]
    ServiceRemoved {
        /// The service.
        service: String,
    },
    /// A service that takes new flows would lose some of its VIPs, and nobody has them then.
    #[error("service {service} would lose {vip}, and its flows to that break off; drain it first")]
    VipRemoved {
        /// The service.
        service: String,
        /// Address, protocol and ports.
        vip: String,
    },
}

/// What a change from one configuration to another would do, given what probes found of each
/// backend. Pure; the cost follows what differs. Pools come first, then services, in the order of
/// the configuration.
#[must_use]
pub fn concerns(
    old: &Config,
    new: &Config,
    health: impl Fn(&BackendKey) -> Health,
) -> Vec<Concern> {
    let pools = Difference::new(&old.pools, &new.pools, |pool| &pool.name);
    let services = Difference::new(&old.services, &new.services, |service| &service.name);
    let mut found: Vec<_> = pools
        .changed
        .iter()
        .filter_map(|(old, new)| of_pool(&pool_state(old, &health), new, &pool_state(new, &health)))
        .collect();

    let (before, after) = (States::new(old, &health), States::new(new, &health));
    let olds: HashMap<&str, &Service> =
        old.services.iter().map(|service| (service.name.as_str(), service)).collect();
    let changed_services: HashSet<&str> =
        services.changed.iter().map(|(_, new)| new.name.as_str()).collect();
    let changed_pools: HashSet<&str> =
        pools.changed.iter().map(|(_, new)| new.name.as_str()).collect();
    let is_touched = |service: &&Service| {
        changed_services.contains(service.name.as_str())
            || service.pools.iter().any(|pool| changed_pools.contains(pool.as_str()))
    };
    for service in new.services.iter().filter(is_touched) {
        let old = olds.get(service.name.as_str());
        found.extend(old.and_then(|old| of_service(&before, old, &after, service)));
    }

    // Of a service that is drained or disabled nothing is lost.
    let is_open = |service: &Service| admin_state(service.admin_state) == AdminState::Enabled;
    let went = services.left.iter().map(|service| (*service, None));
    let fewer = services.changed.iter().filter(|(old, new)| old.vips != new.vips);
    let fewer = fewer.map(|(old, new)| (*old, Some(*new)));
    let affected: Vec<_> = went.chain(fewer).filter(|(old, _)| is_open(old)).collect();
    if affected.is_empty() {
        return found;
    }
    let entrances = Entrances::new(&new.services);
    for (old, itself) in affected {
        let (lost, heirs) = entrances.follow(old, itself);
        for heir in heirs {
            let concern = of_service(&before, old, &after, heir);
            found.extend(concern.filter(|concern| !found.contains(concern)));
        }
        let service = || old.name.clone();
        if itself.is_none() && moved::is_all(&lost, old) {
            found.push(Concern::ServiceRemoved { service: service() });
        } else {
            let lost = lost.iter().map(ToString::to_string);
            found.extend(lost.map(|vip| Concern::VipRemoved { service: service(), vip }));
        }
    }
    found
}

fn of_pool(before: &PoolState, pool: &Pool, after: &PoolState) -> Option<Concern> {
    let name = || pool.name.clone();
    if before.usable_count() > 0 && after.usable_count() == 0 {
        return Some(Concern::NobodyLeft { pool: name() });
    }
    let falls = before.reaches_threshold() && !after.reaches_threshold();
    falls.then(|| Concern::BelowThreshold {
        pool: name(),
        ready: after.ready_count(),
        threshold: after.threshold.max(1),
    })
}

fn of_service<H: Fn(&BackendKey) -> Health>(
    before: &States<'_, H>,
    old: &Service,
    after: &States<'_, H>,
    new: &Service,
) -> Option<Concern> {
    let service = || new.name.clone();
    let (was, is) = (admin_state(old.admin_state), admin_state(new.admin_state));
    // One that was drained has had the time that its flows needed.
    match is {
        AdminState::Disabled if was == AdminState::Enabled => {
            Some(Concern::ServiceDisabled { service: service() })
        }
        AdminState::Draining if was == AdminState::Enabled => {
            Some(Concern::ServiceDrained { service: service() })
        }
        // One that is enabled now and was not before had nobody before.
        _ => {
            let falls =
                !before.decide(old).quotas.is_empty() && after.decide(new).quotas.is_empty();
            falls.then(|| Concern::EmptyTable { service: service() })
        }
    }
}

/// The pools of a configuration with what probes found.
struct States<'a, H> {
    pools: HashMap<&'a str, &'a Pool>,
    health: H,
}

impl<'a, H: Fn(&BackendKey) -> Health> States<'a, H> {
    fn new(config: &'a Config, health: H) -> Self {
        let pools = config.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
        Self { pools, health }
    }

    fn decide(&self, service: &Service) -> Decision {
        let pools = service.pools.iter().filter_map(|name| self.pools.get(name.as_str()));
        let states: Vec<_> = pools.map(|pool| pool_state(pool, &self.health)).collect();
        match service.steering {
            Steering::Failover => steer::decide(admin_state(service.admin_state), &states),
        }
    }
}
