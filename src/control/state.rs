//! The desired state: the configuration in force and what probes found.
//!
//! Everything that forwards follows from it by [`Compiler::compile`](super::Compiler::compile); the
//! same configuration and the same health give the same tables whatever came before (but for
//! numbers and epochs, which no digest covers).
//!
//! The configuration is all that operators want, admin states among it. It changes by
//! [`State::apply`] alone, which takes a whole new one and touches what differs.

mod apply;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::backend_slots::BackendSlots;
use super::stable_ids::StableIds;
use super::standing::{StandingPool, StandingService};
use super::vip_ids::VipIds;
use crate::config::{self, BackendKey, Config};
use crate::forward::VipEntry;
use crate::id::{BackendId, PoolId, ServiceId};
use crate::maglev::Identity;
use crate::snapshot::Generation;
use crate::stats;
use crate::steer::{AdminState, Decision, Health, PoolState};

pub use apply::{Applied, ApplyError};

/// Backends an appliance can have: what per-backend counters are allocated for.
pub const BACKEND_CAP: usize = 65_535;

/// Services an appliance can have: what per-service counters are allocated for.
pub const SERVICE_CAP: usize = stats::SERVICE_CAP;

/// Pools an appliance can have.
const POOL_CAP: usize = 65_535;

/// The desired state.
#[derive(Debug)]
pub struct State {
    config: Arc<Config>,
    /// Only of backends whose pool has a monitor.
    health: HashMap<BackendKey, Health>,
    slots: BackendSlots,
    vip_ids: VipIds,
    /// Resting since the first generation without the service: workers count by number.
    service_ids: StableIds<String, Generation>,
    /// Nothing but the tables themselves names a pool by number: they need no rest.
    pool_ids: StableIds<String, ()>,
    /// By [`PoolId`].
    pools: Vec<Option<Arc<StandingPool>>>,
    /// By [`ServiceId`].
    services: Vec<Option<Arc<StandingService>>>,
    vips: Arc<[VipEntry]>,
}

impl State {
    /// The state of a configuration, nobody having found anything yet. `next` is the generation
    /// that its tables will have.
    ///
    /// # Errors
    /// More backends, VIPs, services or pools than there are numbers for.
    pub fn new(config: Config, next: Generation) -> Result<Self, ApplyError> {
        let mut state = Self {
            config: Arc::new(Config { pools: Vec::new(), services: Vec::new(), ..config.clone() }),
            health: HashMap::new(),
            slots: BackendSlots::new(BACKEND_CAP),
            vip_ids: VipIds::new(usize::from(u16::MAX) + 1),
            service_ids: StableIds::new(SERVICE_CAP),
            pool_ids: StableIds::new(POOL_CAP),
            pools: Vec::new(),
            services: Vec::new(),
            vips: Arc::from([]),
        };
        state.apply(config, next, Duration::ZERO)?;
        Ok(state)
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The backends' slots.
    #[must_use]
    pub fn slots(&self) -> &BackendSlots {
        &self.slots
    }

    /// The VIPs' ids.
    #[must_use]
    pub fn vip_ids(&self) -> &VipIds {
        &self.vip_ids
    }

    /// The number of a service, which it keeps as long as it is configured.
    #[must_use]
    pub fn service_id(&self, name: &str) -> Option<ServiceId> {
        self.service_ids.find(name).map(ServiceId)
    }

    /// The number of a pool, which it keeps as long as it is configured.
    #[must_use]
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.pool_ids.find(name).map(PoolId)
    }

    /// Every pool as it stands, by [`PoolId`]; `None` where a number is free.
    #[must_use]
    pub fn pools(&self) -> &[Option<Arc<StandingPool>>] {
        &self.pools
    }

    /// Every service as it stands, by [`ServiceId`]; `None` where a number is free or rests.
    #[must_use]
    pub fn services(&self) -> &[Option<Arc<StandingService>>] {
        &self.services
    }

    /// Every VIP with its ports. The same as before, by pointer, unless it changed.
    #[must_use]
    pub fn vips(&self) -> &Arc<[VipEntry]> {
        &self.vips
    }

    /// A pool as it stands.
    #[must_use]
    pub fn standing_pool(&self, id: PoolId) -> Option<&Arc<StandingPool>> {
        self.pools.get(id.index())?.as_ref()
    }

    /// A service as it stands.
    #[must_use]
    pub fn standing_service(&self, id: ServiceId) -> Option<&Arc<StandingService>> {
        self.services.get(id.index())?.as_ref()
    }

    /// What the brain decides for a service; the places in the decision are those in its list of
    /// pools. `None` if there is no such service.
    #[must_use]
    pub fn decide(&self, service: &str) -> Option<Decision> {
        let standing = self.standing_service(self.service_id(service)?)?;
        Some(standing.decide(|id| self.standing_pool(id)))
    }

    /// The backend that people call `pool`/`name`.
    #[must_use]
    pub fn find(&self, pool: &str, name: &str) -> Option<BackendKey> {
        let pool = self.config.pools.iter().find(|candidate| candidate.name == pool)?;
        let backend = pool.backends.iter().find(|candidate| candidate.name == name)?;
        Some(BackendKey::new(pool, backend))
    }

    /// What the configuration says of a backend, and of its pool.
    #[must_use]
    pub fn configured(&self, key: &BackendKey) -> Option<(&config::Pool, &config::Backend)> {
        let pool = self.config.pools.iter().find(|pool| pool.name == key.pool)?;
        let is_it = |backend: &&config::Backend| {
            backend.virtual_network == key.virtual_network && backend.address == key.address
        };
        Some((pool, pool.backends.iter().find(is_it)?))
    }

    /// What people call a backend: `pool/name`.
    #[must_use]
    pub fn name_of(&self, key: &BackendKey) -> Option<String> {
        self.configured(key).map(|(pool, backend)| format!("{}/{}", pool.name, backend.name))
    }

    /// What the operator wants of a backend: the stricter of its own state and its pool's.
    #[must_use]
    pub fn admin(&self, key: &BackendKey) -> AdminState {
        self.locate(key)
            .and_then(|(pool, place)| pool.state.backends.get(place))
            .map_or(AdminState::Enabled, |backend| backend.admin)
    }

    /// What probes found of a backend; without a monitor it is always up.
    #[must_use]
    pub fn health(&self, pool: &config::Pool, key: &BackendKey) -> Health {
        match pool.monitor {
            None => Health::Up,
            Some(_) => self.found(key),
        }
    }

    /// What probes found of a backend that is probed.
    pub(super) fn found(&self, key: &BackendKey) -> Health {
        self.health.get(key).copied().unwrap_or(Health::Unknown)
    }

    /// Takes what probes found; returns whether it is news. A backend that is not configured any
    /// more, or not probed any more, is ignored.
    pub fn set_health(&mut self, key: &BackendKey, health: Health) -> bool {
        if self.health.get(key) == Some(&health) {
            return false;
        }
        let Some((pool, place)) = self.locate(key) else { return false };
        let id = pool.id;
        if !self.has_monitor(&key.pool) {
            return false;
        }
        let Some(Some(standing)) = self.pools.get_mut(id.index()) else { return false };
        // Whoever made something of the pool as it was holds it, and then this replaces it.
        if let Some(backend) = Arc::make_mut(standing).state.backends.get_mut(place) {
            backend.health = health;
        }
        self.health.insert(key.clone(), health);
        true
    }

    /// Whether a backend is configured and its pool has a monitor.
    #[must_use]
    pub fn is_monitored(&self, key: &BackendKey) -> bool {
        self.slots.find(key).is_some() && self.has_monitor(&key.pool)
    }

    fn has_monitor(&self, pool: &str) -> bool {
        self.config.pools.iter().any(|one| one.name == pool && one.monitor.is_some())
    }

    /// The pool of a backend, and the backend's place in it.
    fn locate(&self, key: &BackendKey) -> Option<(&Arc<StandingPool>, usize)> {
        let pool = self.standing_pool(self.pool_id(&key.pool)?)?;
        let identity = Identity::backend(key.virtual_network.as_deref(), key.address);
        let place = pool.members.iter().position(|member| member.identity == identity)?;
        Some((pool, place))
    }

    /// What probes have found so far.
    pub fn known_health(&self) -> impl Iterator<Item = (BackendKey, Health)> {
        self.health.iter().map(|(key, health)| (key.clone(), *health))
    }

    /// Whether every backend that has a monitor was probed.
    #[must_use]
    pub fn is_probed(&self) -> bool {
        let states = self.pools.iter().flatten().flat_map(|pool| &pool.state.backends);
        states.into_iter().all(|backend| backend.health != Health::Unknown)
    }

    /// Every worker runs at least the generation `by_all`, and all of them together count `flows`
    /// live flows for a backend's slot: numbers that nothing means any more may be used again. Call
    /// it now and then; a call looks at a bounded number of slots. `flows` must be read after
    /// `by_all` (see [`BackendSlots::adopted`]).
    pub fn adopted(&mut self, by_all: Generation, flows: impl FnMut(BackendId) -> u64) {
        self.slots.adopted(by_all, flows);
        self.service_ids.settle(usize::MAX, |_, &since| since <= by_all);
    }

    /// A pool as the brain sees it.
    #[must_use]
    pub fn pool(&self, pool: &config::Pool) -> PoolState {
        let standing = self.pool_id(&pool.name).and_then(|id| self.standing_pool(id));
        standing.map(|pool| pool.state.clone()).unwrap_or_default()
    }
}
