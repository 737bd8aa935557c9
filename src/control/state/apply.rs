//! From one configuration to the next: what differs is touched, and nothing else.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::config::{self, Backend, BackendKey, Config, Pool, Service};
use crate::control::backend_slots::SlotsExhausted;
use crate::control::difference::Difference;
use crate::control::standing::{StandingPool, StandingService, admin_state};
use crate::control::vip_ids::VipIdsExhausted;
use crate::forward::{PortService, VipEntry};
use crate::id::{BackendId, PoolId, ServiceId};
use crate::snapshot::Generation;

/// Why a configuration was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Too many backends.
    #[error(transparent)]
    Slots(#[from] SlotsExhausted),
    /// Too many VIPs.
    #[error(transparent)]
    VipIds(#[from] VipIdsExhausted),
    /// Too many services.
    #[error(
        "all {limit} service numbers are in use or resting; remove services, or retry when every \
         worker has adopted the last change"
    )]
    Services {
        /// How many there can be.
        limit: usize,
    },
    /// Too many pools.
    #[error("there can be {limit} pools at most; remove some")]
    Pools {
        /// How many there can be.
        limit: usize,
    },
    /// What cannot change while the daemon runs.
    #[error("{} cannot change while the daemon runs; restart it, or put back the old value", .0.join(", "))]
    NeedsRestart(Vec<&'static str>),
}

/// What a change of configuration was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent answers to different askers")]
pub struct Applied {
    /// Anything at all differs from before.
    pub changed: bool,
    /// What tables are made of differs: compile and publish.
    pub tables: bool,
    /// What is probed differs, or how: monitors, which pools have one, or where their backends are.
    pub targets: bool,
    /// What ports answer for differs, or where packets may go: VIPs or backends.
    pub addresses: bool,
    /// Slots that have a new tenant, whose counters begin now.
    pub backends: Vec<BackendId>,
    /// Numbers that stand for a new service, whose counters begin now.
    pub services: Vec<ServiceId>,
}

impl State {
    /// Takes another configuration; all of it or nothing. What probes found stays for the backends
    /// that stay, as long as their pool has a monitor. `next` is the generation that the first
    /// tables of it will have, `now` any monotonic time.
    ///
    /// The configuration must be valid: one that was made by editing must be validated again.
    ///
    /// # Errors
    /// It changes what needs a restart, or has more than there are numbers for.
    pub fn apply(
        &mut self,
        config: Config,
        next: Generation,
        now: Duration,
    ) -> Result<Applied, ApplyError> {
        if config == *self.config {
            return Ok(Applied::default());
        }
        let fixed = needs_restart(&self.config, &config);
        if !fixed.is_empty() {
            return Err(ApplyError::NeedsRestart(fixed));
        }
        let (old, new) = (Arc::clone(&self.config), Arc::new(config));
        let change = Change::new(&old, &new);
        self.check_room(&change, now)?;
        self.config = Arc::clone(&new);
        self.commit(&change, &old, next, now)
    }

    /// Whether there are numbers for all that joins.
    fn check_room(&mut self, change: &Change<'_>, now: Duration) -> Result<(), ApplyError> {
        self.slots.check_room(change.backends_joined.len())?;
        let vips = change.vips.as_ref();
        self.vip_ids.check_room(vips.map_or(&[], |vips| &vips.joined), now)?;
        if change.services.joined.len() > self.service_ids.available() {
            return Err(ApplyError::Services { limit: self.service_ids.limit() });
        }
        let free_pools = self.pool_ids.available() + change.pools.left.len();
        if change.pools.joined.len() > free_pools {
            return Err(ApplyError::Pools { limit: self.pool_ids.limit() });
        }
        Ok(())
    }

    /// Takes a change for which there is room: no error comes from here.
    fn commit(
        &mut self,
        change: &Change<'_>,
        old: &Config,
        next: Generation,
        now: Duration,
    ) -> Result<Applied, ApplyError> {
        let Change { pools, services, backends_left, backends_joined, vips } = change;
        let given = self.slots.change(backends_left, backends_joined, next)?;
        self.forget_health(change);
        let mut tables = false;
        for pool in &pools.left {
            if let Some(id) = self.pool_ids.leave(&pool.name, ()) {
                put(&mut self.pools, id.into(), None);
                tables = true;
            }
        }
        self.pool_ids.settle(usize::MAX, |_, ()| true);
        for pool in pools.changed.iter().map(|(_, new)| new).chain(&pools.joined) {
            let Some(id) = self.pool_ids.join(pool.name.clone()) else { continue };
            let health = |key: &BackendKey| self.found(key);
            let standing = StandingPool::new(PoolId(id), pool, &self.slots, health);
            tables |= put(&mut self.pools, id.into(), Some(standing));
        }
        for service in &services.left {
            if let Some(id) = self.service_ids.leave(&service.name, next) {
                put(&mut self.services, id.into(), None);
                tables = true;
            }
        }
        let mut numbered = Vec::new();
        for service in services.changed.iter().map(|(_, new)| new).chain(&services.joined) {
            let is_new = self.service_ids.find(&service.name).is_none();
            let Some(id) = self.service_ids.join(service.name.clone()) else { continue };
            numbered.extend(is_new.then_some(ServiceId(id)));
            let standing = self.standing(ServiceId(id), service);
            tables |= put(&mut self.services, id.into(), Some(standing));
        }
        if let Some(vips) = vips {
            self.vip_ids.change(&vips.left, &vips.joined, now)?;
            let entries = self.vip_entries();
            if *self.vips != *entries {
                self.vips = entries.into();
                tables = true;
            }
        }
        let hops_changed = !(backends_left.is_empty() && backends_joined.is_empty());
        let is_probed = |pool: &&Pool| pool.monitor.is_some();
        let targets = old.monitors != self.config.monitors
            || pools.left.iter().chain(&pools.joined).any(is_probed)
            || pools.changed.iter().any(|(old, new)| is_probed_otherwise(old, new));
        Ok(Applied {
            changed: true,
            tables,
            targets,
            addresses: vips.is_some() || hops_changed,
            backends: given,
            services: numbered,
        })
    }

    /// Forgets what probes found of backends that left, or that nobody probes any more.
    fn forget_health(&mut self, change: &Change<'_>) {
        for key in &change.backends_left {
            self.health.remove(key);
        }
        for (old, new) in &change.pools.changed {
            if old.monitor.is_some() && new.monitor.is_none() {
                for backend in &new.backends {
                    self.health.remove(&BackendKey::new(new, backend));
                }
            }
        }
    }

    fn standing(&self, id: ServiceId, service: &Service) -> StandingService {
        StandingService {
            id,
            name: service.name.clone(),
            admin: admin_state(service.admin_state),
            steering: service.steering,
            pools: service.pools.iter().filter_map(|name| self.pool_id(name)).collect(),
            idle_timeout: u32::try_from(service.idle_timeout.as_millis()).unwrap_or(u32::MAX),
        }
    }

    /// Every VIP with its ports, of all services, whatever operators want of these: a packet to a
    /// service that is disabled is dropped for that, and not as one to nobody.
    fn vip_entries(&self) -> Vec<VipEntry> {
        let mut ports = std::collections::BTreeMap::<VipAddress, Vec<PortService>>::new();
        for service in &self.config.services {
            let Some(id) = self.service_id(&service.name) else { continue };
            for vip in &service.vips {
                let ranges = vip.ports.iter().map(|range| PortService {
                    first: range.first,
                    last: range.last,
                    service: id,
                });
                ports.entry((vip.address, vip.protocol)).or_default().extend(ranges);
            }
        }
        let entry = |(vip, mut ports): (VipAddress, Vec<PortService>)| {
            ports.sort_unstable_by_key(|range| range.first);
            let id = self.vip_ids.find(vip)?;
            let (address, protocol) = (vip.0, vip.1.number());
            Some(VipEntry { address, protocol, id, ports: ports.into_boxed_slice() })
        };
        ports.into_iter().filter_map(entry).collect()
    }
}

/// Whether monitors see something else in a pool than before.
fn is_probed_otherwise(old: &Pool, new: &Pool) -> bool {
    let seen = |backend: &Backend| {
        (backend.virtual_network.clone(), backend.address, backend.probe_address)
    };
    old.monitor != new.monitor
        || new.monitor.is_some() && !old.backends.iter().map(seen).eq(new.backends.iter().map(seen))
}

/// Puts an item into its place, unless what is there is equal; returns whether it did.
fn put<T: PartialEq>(places: &mut Vec<Option<Arc<T>>>, place: usize, item: Option<T>) -> bool {
    if places.len() <= place {
        places.resize_with(place + 1, || None);
    }
    let Some(there) = places.get_mut(place) else { return false };
    if there.as_deref() == item.as_ref() {
        return false;
    }
    *there = item.map(Arc::new);
    true
}

/// A VIP, as its number is known by.
type VipAddress = (IpAddr, config::Protocol);

/// What differs between two configurations.
struct Change<'a> {
    pools: Difference<'a, Pool>,
    services: Difference<'a, Service>,
    backends_left: Vec<BackendKey>,
    backends_joined: Vec<BackendKey>,
    /// `None` if no service's VIPs differ.
    vips: Option<VipChange>,
}

struct VipChange {
    left: Vec<VipAddress>,
    joined: Vec<VipAddress>,
}

impl<'a> Change<'a> {
    fn new(old: &'a Config, new: &'a Config) -> Self {
        let pools = Difference::new(&old.pools, &new.pools, |pool| &pool.name);
        let services = Difference::new(&old.services, &new.services, |service| &service.name);
        let all = |pools: &[&Pool]| -> Vec<BackendKey> {
            let keys = |pool: &&Pool| {
                let key = |backend| BackendKey::new(pool, backend);
                pool.backends.iter().map(key).collect::<Vec<_>>()
            };
            pools.iter().flat_map(keys).collect()
        };
        let (mut backends_left, mut backends_joined) = (all(&pools.left), all(&pools.joined));
        for (old, new) in &pools.changed {
            let who = |backend: &'a Backend| (&backend.virtual_network, backend.address);
            let backends = Difference::new(&old.backends, &new.backends, who);
            backends_left.extend(backends.left.iter().map(|backend| BackendKey::new(old, backend)));
            let joined = backends.joined.iter().map(|backend| BackendKey::new(new, backend));
            backends_joined.extend(joined);
        }
        let vips_differ = !services.left.is_empty()
            || !services.joined.is_empty()
            || services.changed.iter().any(|(old, new)| old.vips != new.vips);
        let vips = vips_differ.then(|| VipChange::new(old, new));
        Self { pools, services, backends_left, backends_joined, vips }
    }
}

impl VipChange {
    fn new(old: &Config, new: &Config) -> Self {
        // Services may share an address.
        let all = |config: &Config| -> HashSet<VipAddress> {
            let vips = config.services.iter().flat_map(|service| &service.vips);
            vips.map(|vip| (vip.address, vip.protocol)).collect()
        };
        let (old, new) = (all(old), all(new));
        let without = |some: &HashSet<_>, others: &HashSet<_>| {
            let mut left: Vec<VipAddress> = some.difference(others).copied().collect();
            left.sort_unstable();
            left
        };
        Self { left: without(&old, &new), joined: without(&new, &old) }
    }
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
    check(old.metrics != new.metrics, "[metrics]");
    check(old.admin != new.admin, "[admin]");
    check(old.ports != new.ports, "[[port]]");
    fixed
}
