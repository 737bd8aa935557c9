//! Pools and services as they stand: configuration, what operators want and what probes found, put
//! together by number.
//!
//! They are never changed, only replaced, and only by one that differs. So whoever made something
//! of one knows by its pointer whether that still holds.

use std::sync::Arc;

use super::backend_slots::BackendSlots;
use crate::config::{self, BackendKey};
use crate::id::{BackendRef, PoolId, ServiceId};
use crate::maglev::Identity;
use crate::steer::{self, AdminState, BackendState, Decision, Health, PoolState};

/// A pool as it stands: all that its tables and the records of its backends depend on, but for the
/// way to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingPool {
    /// Its number.
    pub id: PoolId,
    /// Its name.
    pub name: String,
    /// Slots of its table.
    pub table_size: u32,
    /// What the brain sees of it. Admin states are effective ones: the stricter of the backend's
    /// and the pool's.
    pub state: PoolState,
    /// Its backends, in the order of `state.backends`.
    pub members: Vec<StandingBackend>,
}

/// Who a backend is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingBackend {
    /// Its slot.
    pub slot: BackendRef,
    /// Which one it is, on every appliance.
    pub identity: Identity,
    /// Where its packets go.
    pub address: std::net::IpAddr,
}

/// A service as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingService {
    /// Its number.
    pub id: ServiceId,
    /// Its name.
    pub name: String,
    /// What the operator wants of it.
    pub admin: AdminState,
    /// How the pool is chosen.
    pub steering: config::Steering,
    /// Its pools, in order of preference.
    pub pools: Vec<PoolId>,
    /// How long an established flow may be silent, in milliseconds.
    pub idle_timeout: u32,
}

/// What the configuration says of something, as the brain has it.
#[must_use]
pub const fn admin_state(state: config::AdminState) -> AdminState {
    match state {
        config::AdminState::Enabled => AdminState::Enabled,
        config::AdminState::Draining => AdminState::Draining,
        config::AdminState::Disabled => AdminState::Disabled,
    }
}

/// What the brain sees of a pool, given what probes found of each backend.
pub fn pool_state(pool: &config::Pool, mut health: impl FnMut(&BackendKey) -> Health) -> PoolState {
    let backend_state = |backend: &config::Backend| BackendState {
        admin: admin_state(pool.admin_state_of(backend)),
        health: match pool.monitor {
            None => Health::Up,
            Some(_) => health(&BackendKey::new(pool, backend)),
        },
        weight: backend.weight,
    };
    PoolState {
        threshold: pool.threshold,
        backends: pool.backends.iter().map(backend_state).collect(),
    }
}

impl StandingPool {
    pub(super) fn new(
        id: PoolId,
        pool: &config::Pool,
        slots: &BackendSlots,
        health: impl FnMut(&BackendKey) -> Health,
    ) -> Self {
        let member = |backend: &config::Backend| StandingBackend {
            // Every configured backend has a slot.
            slot: slots.find(&BackendKey::new(pool, backend)).unwrap_or_default(),
            identity: Identity::backend(backend.virtual_network.as_deref(), backend.address),
            address: backend.address,
        };
        Self {
            id,
            name: pool.name.clone(),
            table_size: pool.table_size,
            state: pool_state(pool, health),
            members: pool.backends.iter().map(member).collect(),
        }
    }
}

impl StandingService {
    /// What the brain decides for the service. `pool` gives a pool by number.
    pub fn decide<'a>(&self, pool: impl Fn(PoolId) -> Option<&'a Arc<StandingPool>>) -> Decision {
        // Every pool that a service names exists; one that did not would have nobody.
        static NOBODY: PoolState = PoolState { threshold: 0, backends: Vec::new() };
        let states: Vec<_> =
            self.pools.iter().map(|&id| pool(id).map_or(&NOBODY, |pool| &pool.state)).collect();
        match self.steering {
            config::Steering::Failover => steer::decide(self.admin, &states),
        }
    }
}
