//! The desired state: configuration, what operators said since, and what probes found.
//!
//! Everything that forwards follows from it by [`State::compile`]; the same state gives the same
//! tables whatever came before (but for slot numbers and epochs, which no digest covers).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::backend_slots::{BackendSlots, SlotsExhausted};
use super::vip_ids::{VipIds, VipIdsExhausted};
use crate::config::{self, BackendKey, Config};
use crate::id::ServiceId;
use crate::snapshot::Generation;
use crate::steer::{AdminState, Health, PoolState};

/// Backends an appliance can have: what per-backend counters are allocated for.
pub const BACKEND_CAP: usize = 65_535;

/// Why a configuration was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Too many backends.
    #[error(transparent)]
    Slots(#[from] SlotsExhausted),
    /// Too many VIPs.
    #[error(transparent)]
    VipIds(#[from] VipIdsExhausted),
    /// What cannot change while the daemon runs.
    #[error("{} cannot change while the daemon runs; restart it, or put back the old value", .0.join(", "))]
    NeedsRestart(Vec<&'static str>),
}

/// The desired state.
#[derive(Debug)]
pub struct State {
    config: Config,
    /// Only those that are not `Enabled`.
    admin: HashMap<BackendKey, AdminState>,
    health: HashMap<BackendKey, Health>,
    slots: BackendSlots,
    vip_ids: VipIds,
}

impl State {
    /// The state of a configuration, nobody having said or found anything yet. `next` is the
    /// generation that its tables will have.
    ///
    /// # Errors
    /// More backends or VIPs than there are numbers for.
    pub fn new(config: Config, next: Generation) -> Result<Self, ApplyError> {
        let mut state = Self {
            slots: BackendSlots::new(BACKEND_CAP),
            vip_ids: VipIds::new(usize::from(u16::MAX) + 1),
            admin: HashMap::new(),
            health: HashMap::new(),
            config,
        };
        state.number(&state.config.clone(), next, Duration::ZERO)?;
        Ok(state)
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The service of an id.
    #[must_use]
    pub fn service(&self, id: ServiceId) -> Option<&config::Service> {
        self.config.services.get(id.index())
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

    /// Takes another configuration; all of it or nothing. What operators said and probes found
    /// stays for the backends that stay. Returns whether anything changed.
    ///
    /// # Errors
    /// It changes what needs a restart, or has more than there are numbers for.
    pub fn apply(
        &mut self,
        config: Config,
        next: Generation,
        now: Duration,
    ) -> Result<bool, ApplyError> {
        if config == self.config {
            return Ok(false);
        }
        let fixed = needs_restart(&self.config, &config);
        if !fixed.is_empty() {
            return Err(ApplyError::NeedsRestart(fixed));
        }
        self.number(&config, next, now)?;
        let keys: std::collections::HashSet<_> = backends(&config).map(|(key, _)| key).collect();
        self.admin.retain(|key, _| keys.contains(key));
        self.health.retain(|key, _| keys.contains(key));
        self.config = config;
        Ok(true)
    }

    fn number(
        &mut self,
        config: &Config,
        next: Generation,
        now: Duration,
    ) -> Result<(), ApplyError> {
        let members: Vec<_> = backends(config).map(|(key, _)| key).collect();
        let mut vips: Vec<_> = vips(config).collect();
        vips.sort_unstable();
        vips.dedup();
        let mut vip_ids = self.vip_ids.clone();
        vip_ids.assign(&vips, now)?;
        self.slots.assign(&members, next)?;
        self.vip_ids = vip_ids;
        Ok(())
    }

    /// The backend that people call `pool`/`name`.
    #[must_use]
    pub fn find(&self, pool: &str, name: &str) -> Option<BackendKey> {
        let pool = self.config.pools.iter().find(|candidate| candidate.name == pool)?;
        let backend = pool.backends.iter().find(|candidate| candidate.name == name)?;
        Some(BackendKey::new(pool, backend))
    }

    /// What the operator said about a backend.
    #[must_use]
    pub fn admin(&self, key: &BackendKey) -> AdminState {
        self.admin.get(key).copied().unwrap_or(AdminState::Enabled)
    }

    /// What the operator wants of a backend: the most restrictive of what the configuration says
    /// of it and its pool, and of what was said since.
    #[must_use]
    pub fn admin_of(&self, pool: &config::Pool, backend: &config::Backend) -> AdminState {
        let configured = match pool.admin_state_of(backend) {
            config::AdminState::Enabled => AdminState::Enabled,
            config::AdminState::Draining => AdminState::Draining,
            config::AdminState::Disabled => AdminState::Disabled,
        };
        let said = self.admin(&BackendKey::new(pool, backend));
        match (configured, said) {
            (AdminState::Enabled, said) => said,
            (AdminState::Draining, AdminState::Enabled) => AdminState::Draining,
            (AdminState::Draining, said) => said,
            (AdminState::Disabled, _) => AdminState::Disabled,
        }
    }

    /// Takes what the operator says about a backend; returns whether it is news.
    pub fn set_admin(&mut self, key: &BackendKey, admin: AdminState) -> bool {
        if self.admin(key) == admin {
            return false;
        }
        if admin == AdminState::Enabled {
            self.admin.remove(key);
        } else {
            self.admin.insert(key.clone(), admin);
        }
        true
    }

    /// What probes found of a backend; without a monitor it is always up.
    #[must_use]
    pub fn health(&self, pool: &config::Pool, key: &BackendKey) -> Health {
        match pool.monitor {
            None => Health::Up,
            Some(_) => self.health.get(key).copied().unwrap_or(Health::Unknown),
        }
    }

    /// Takes what probes found; returns whether it is news. A backend that is not configured any
    /// more is ignored.
    pub fn set_health(&mut self, key: &BackendKey, health: Health) -> bool {
        if self.slots.find(key).is_none() || self.health.get(key) == Some(&health) {
            return false;
        }
        self.health.insert(key.clone(), health);
        true
    }

    /// What probes have found so far.
    pub fn known_health(&self) -> impl Iterator<Item = (BackendKey, Health)> {
        self.health.iter().map(|(key, health)| (key.clone(), *health))
    }

    /// Whether every backend that has a monitor was probed.
    #[must_use]
    pub fn is_probed(&self) -> bool {
        self.config.pools.iter().all(|pool| {
            pool.backends.iter().all(|backend| {
                self.health(pool, &BackendKey::new(pool, backend)) != Health::Unknown
            })
        })
    }

    /// Every worker runs at least this generation: what left before it may be used again.
    pub fn adopted(&mut self, by_all: Generation) {
        self.slots.adopted(by_all);
    }

    /// A pool as the brain sees it.
    #[must_use]
    pub fn pool(&self, pool: &config::Pool) -> PoolState {
        PoolState {
            threshold: pool.threshold,
            backends: pool
                .backends
                .iter()
                .map(|backend| {
                    let key = BackendKey::new(pool, backend);
                    crate::steer::BackendState {
                        admin: self.admin_of(pool, backend),
                        health: self.health(pool, &key),
                        weight: backend.weight,
                    }
                })
                .collect(),
        }
    }
}

/// Every backend of every pool.
fn backends(config: &Config) -> impl Iterator<Item = (BackendKey, &config::Backend)> {
    config.pools.iter().flat_map(|pool| {
        pool.backends.iter().map(|backend| (BackendKey::new(pool, backend), backend))
    })
}

/// Every VIP address and protocol; repeats where services share one.
fn vips(config: &Config) -> impl Iterator<Item = (IpAddr, config::Protocol)> {
    config.services.iter().flat_map(|service| &service.vips).map(|vip| (vip.address, vip.protocol))
}

/// The sections in which two configurations differ that are read at start only.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let mut fixed = Vec::new();
    let mut check = |differs: bool, section| {
        if differs {
            fixed.push(section);
        }
    };
    check(old.appliance.flow_hash_key != new.appliance.flow_hash_key, "appliance.flow_hash_key");
    check(old.cpu != new.cpu, "[cpu]");
    check(old.memory != new.memory, "[memory]");
    check(old.conntrack != new.conntrack, "[conntrack]");
    check(old.admin != new.admin, "[admin]");
    check(old.ports != new.ports, "[[port]]");
    fixed
}
