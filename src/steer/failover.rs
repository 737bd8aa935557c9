//! Steering `failover`: the first pool in order that is fit takes all.

use std::borrow::Borrow;

use super::pool::{AdminState, PoolState};

/// A pool's share of a service's new flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Index into the pools that were asked about.
    pub pool: usize,
    /// Share relative to the other quotas of the decision; above 0.
    pub quota: u32,
}

/// Where a service's new flows go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// One for each pool that takes flows, by ascending index; empty if nobody takes any.
    pub quotas: Vec<Quota>,
    /// Why.
    pub reason: Reason,
}

/// Why flows go where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This pool is the first at or above its threshold.
    AtThreshold {
        /// Its index.
        pool: usize,
        /// Its backends that are enabled, up and of weight above 0.
        ready: usize,
        /// How many it needs.
        threshold: usize,
    },
    /// No pool is at its threshold; this one is the first with a ready backend.
    BelowThreshold {
        /// Its index.
        pool: usize,
        /// Its backends that are enabled, up and of weight above 0.
        ready: usize,
        /// How many it needs.
        threshold: usize,
    },
    /// No pool has a ready backend; this one is the first with a usable one.
    LastResort {
        /// Its index.
        pool: usize,
        /// Its backends that are enabled and of weight above 0.
        usable: usize,
    },
    /// No pool has a backend that is enabled and of weight above 0.
    Empty,
    /// The operator drains the service: the flows that it has stay, and it takes no new ones.
    Draining,
    /// The operator disabled the service: nothing of it is carried.
    Disabled,
}

impl Reason {
    /// The pool that takes the flows.
    #[must_use]
    pub const fn pool(self) -> Option<usize> {
        match self {
            Self::AtThreshold { pool, .. }
            | Self::BelowThreshold { pool, .. }
            | Self::LastResort { pool, .. } => Some(pool),
            Self::Empty | Self::Draining | Self::Disabled => None,
        }
    }

    /// The reason as a sentence; `pool_names` are those of the pools that were asked about, in
    /// their order.
    #[must_use]
    pub fn sentence(self, pool_names: &[&str]) -> String {
        let name = |pool: usize| pool_names.get(pool).copied().unwrap_or("?");
        match self {
            Self::AtThreshold { pool, ready, threshold } => format!(
                "pool `{}` takes all new flows: it is the first in order with enough healthy \
                 backends ({ready}, threshold {threshold})",
                name(pool)
            ),
            Self::BelowThreshold { pool, ready, threshold } => format!(
                "pool `{}` takes all new flows: no pool has enough healthy backends, and it is \
                 the first in order that has any ({ready}, threshold {threshold})",
                name(pool)
            ),
            Self::LastResort { pool, usable } => format!(
                "pool `{}` takes all new flows as a last resort: no pool has a healthy backend, \
                 and it is the first in order with enabled ones ({usable})",
                name(pool)
            ),
            Self::Empty => "new flows are dropped: no pool has an enabled backend with a weight \
                            above 0; enable one with `lodectl backend enable`"
                .to_owned(),
            Self::Draining => "new flows are dropped: the service is draining; `lodectl service \
                               enable` ends that"
                .to_owned(),
            Self::Disabled => "all packets are dropped: the service is disabled; `lodectl service \
                               enable` ends that"
                .to_owned(),
        }
    }
}

/// Steers a service that the operator wants in this state over `pools`, in order of preference: by
/// [`failover`] if it is enabled, else nowhere.
#[must_use]
pub fn decide<P: Borrow<PoolState>>(admin: AdminState, pools: &[P]) -> Decision {
    let nowhere = |reason| Decision { quotas: Vec::new(), reason };
    match admin {
        AdminState::Enabled => failover(pools),
        AdminState::Draining => nowhere(Reason::Draining),
        AdminState::Disabled => nowhere(Reason::Disabled),
    }
}

/// Steers by failover over `pools`, in order of preference:
///
/// 1. the first pool at or above its threshold takes all;
/// 2. else the first with any ready backend (enabled, up, of weight above 0): few healthy ones
///    serve better than unhealthy ones;
/// 3. else, as a last resort, the first with any usable backend (enabled, of weight above 0),
///    whatever its health (field-notes §2, "All unhealthy");
/// 4. else nobody.
///
/// In each case the pool's flows are shared by its [`eligible`](super::eligible) backends.
#[must_use]
pub fn failover<P: Borrow<PoolState>>(pools: &[P]) -> Decision {
    let first = |fit: fn(&PoolState) -> bool| {
        pools.iter().map(Borrow::borrow).enumerate().find(|(_, pool)| fit(pool))
    };
    let reason = if let Some((index, pool)) = first(PoolState::reaches_threshold) {
        let (ready, threshold) = (pool.ready_count(), pool.threshold.max(1));
        Reason::AtThreshold { pool: index, ready, threshold }
    } else if let Some((index, pool)) = first(|pool| pool.ready_count() > 0) {
        let (ready, threshold) = (pool.ready_count(), pool.threshold.max(1));
        Reason::BelowThreshold { pool: index, ready, threshold }
    } else if let Some((index, pool)) = first(|pool| pool.usable_count() > 0) {
        Reason::LastResort { pool: index, usable: pool.usable_count() }
    } else {
        Reason::Empty
    };
    let quotas = reason.pool().map(|pool| Quota { pool, quota: 1 }).into_iter().collect();
    Decision { quotas, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::{BackendState, Basis, Health, eligible};

    /// A pool with this threshold whose backends are up (`u`), down (`d`), of unknown health
    /// (`?`), healthy but draining (`D`), healthy but disabled (`X`), or of weight 0 (`0`).
    fn pool(threshold: usize, backends: &str) -> PoolState {
        let state = |letter| {
            let (admin, health, weight) = match letter {
                'u' => (AdminState::Enabled, Health::Up, 1),
                'd' => (AdminState::Enabled, Health::Down, 1),
                '?' => (AdminState::Enabled, Health::Unknown, 1),
                'D' => (AdminState::Draining, Health::Up, 1),
                'X' => (AdminState::Disabled, Health::Up, 1),
                '0' => (AdminState::Enabled, Health::Up, 0),
                _ => panic!("{letter}?"),
            };
            BackendState { admin, health, weight }
        };
        PoolState { threshold, backends: backends.chars().map(state).collect() }
    }

    #[test]
    fn the_first_pool_at_its_threshold_takes_all() {
        for (pools, expected) in [
            (vec![pool(1, "u"), pool(1, "u")], 0),
            (vec![pool(2, "uud"), pool(1, "u")], 0),
            (vec![pool(2, "udd"), pool(1, "u")], 1),
            (vec![pool(2, "uD"), pool(1, "u")], 1),
            (vec![pool(2, "uX"), pool(1, "u")], 1),
            (vec![pool(2, "u0"), pool(1, "u")], 1),
            (vec![pool(1, "?"), pool(2, "ud"), pool(1, "du")], 2),
            (vec![pool(0, "d"), pool(0, "u")], 1),
        ] {
            let decision = failover(&pools);
            assert_eq!(decision.quotas, [Quota { pool: expected, quota: 1 }], "{pools:?}");
            let threshold = pools[expected].threshold.max(1);
            let ready = pools[expected].ready_count();
            let reason = Reason::AtThreshold { pool: expected, ready, threshold };
            assert_eq!(decision.reason, reason);
        }
    }

    #[test]
    fn below_all_thresholds_the_first_with_a_healthy_backend_takes_all() {
        let decision = failover(&[pool(2, "dd"), pool(3, "uud"), pool(2, "ud")]);
        assert_eq!(decision.quotas, [Quota { pool: 1, quota: 1 }]);
        assert_eq!(decision.reason, Reason::BelowThreshold { pool: 1, ready: 2, threshold: 3 });
    }

    // L4-43: in part; `on_all_unhealthy` is not configurable yet.
    #[test]
    fn without_any_healthy_backend_the_first_pool_is_the_last_resort() {
        let pools = [pool(1, "XD"), pool(1, "dd?d0"), pool(1, "d")];
        let decision = failover(&pools);
        assert_eq!(decision.quotas, [Quota { pool: 1, quota: 1 }]);
        assert_eq!(decision.reason, Reason::LastResort { pool: 1, usable: 4 });
        assert_eq!(eligible(&pools[1]).members, [0, 1, 2, 3], "spread over all of them");
    }

    #[test]
    fn nobody_takes_flows_if_nobody_may() {
        for pools in [vec![], vec![pool(1, "")], vec![pool(1, "DX"), pool(1, "0")]] {
            assert_eq!(failover(&pools), Decision { quotas: vec![], reason: Reason::Empty });
        }
    }

    #[test]
    fn sentences_name_the_pool() {
        let names = ["near", "far"];
        let sentence = |pools: &[PoolState]| failover(pools).reason.sentence(&names);
        assert_eq!(
            sentence(&[pool(2, "ud"), pool(1, "u")]),
            "pool `far` takes all new flows: it is the first in order with enough healthy \
             backends (1, threshold 1)"
        );
        assert!(sentence(&[pool(2, "ud"), pool(1, "d")]).starts_with("pool `near` takes all"));
        assert!(sentence(&[pool(1, "d")]).contains("`near` takes all new flows as a last resort"));
        assert!(sentence(&[]).starts_with("new flows are dropped"));
        assert!(failover(&[pool(1, "u")]).reason.sentence(&[]).starts_with("pool `?`"));
    }

    #[test]
    fn a_service_that_is_not_enabled_has_no_pool() {
        let pools = [pool(1, "u")];
        for (admin, reason) in
            [(AdminState::Draining, Reason::Draining), (AdminState::Disabled, Reason::Disabled)]
        {
            assert_eq!(decide(admin, &pools), Decision { quotas: Vec::new(), reason });
            assert!(reason.sentence(&["web"]).contains("`lodectl service enable`"));
        }
        assert_eq!(decide(AdminState::Enabled, &pools), failover(&pools));
    }

    #[test]
    fn any_state_gives_one_sound_decision() {
        type Input = Vec<(u8, Vec<(u8, u8, u8)>)>;
        bolero::check!().with_type::<Input>().for_each(|input| {
            let backend = |&(admin, health, weight): &(u8, u8, u8)| BackendState {
                admin: [AdminState::Enabled, AdminState::Draining, AdminState::Disabled]
                    [usize::from(admin % 3)],
                health: [Health::Up, Health::Down, Health::Unknown][usize::from(health % 3)],
                weight: u32::from(weight % 3),
            };
            let pools: Vec<PoolState> = input
                .iter()
                .map(|(threshold, backends)| PoolState {
                    threshold: usize::from(threshold % 5),
                    backends: backends.iter().map(backend).collect(),
                })
                .collect();

            let Decision { quotas, reason } = failover(&pools);
            let total: u64 = quotas.iter().map(|quota| u64::from(quota.quota)).sum();
            assert_eq!(total == 0, reason == Reason::Empty);
            for quota in &quotas {
                let basis = eligible(&pools[quota.pool]).basis;
                assert_ne!(basis, Basis::Nobody, "a pool with a quota has someone to serve it");
                let last_resort = matches!(reason, Reason::LastResort { .. });
                assert_eq!(basis == Basis::LastResort, last_resort);
            }
            // A pool that is passed over was less fit than the chosen one.
            for passed in &pools[..reason.pool().unwrap_or(pools.len())] {
                match reason {
                    Reason::AtThreshold { .. } => assert!(!passed.reaches_threshold()),
                    Reason::BelowThreshold { .. } => assert_eq!(passed.ready_count(), 0),
                    Reason::LastResort { .. } | Reason::Empty => {
                        assert_eq!(passed.usable_count(), 0);
                    }
                    Reason::Draining | Reason::Disabled => panic!("pools were asked, no service"),
                }
            }
            for pool in &pools {
                for member in eligible(pool).members {
                    assert_eq!(pool.backends[member].admin, AdminState::Enabled);
                    assert!(pool.backends[member].weight > 0);
                }
            }
        });
    }
}
