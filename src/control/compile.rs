//! State to tables.
//!
//! Tables are a pure function of state and links, but the compiler remembers what it made the last
//! time and of what: what did not change since is shared between generations, by pointer, and
//! neither built nor copied again.

mod records;

use std::net::IpAddr;
use std::sync::Arc;

use super::digest::{self, Digest, Digests};
use super::neighbours::PortIdentity;
use super::standing::{StandingPool, StandingService};
use super::state::State;
use crate::forward::{BackendRecord, Level1, PoolTable, ServiceTable, Tables, VipEntry, VipMap};
use crate::id::{BackendId, PoolId, PortId};
use crate::maglev::{Identity, Maglev, Member, SlotArena};
use crate::packet::{FlowHashKey, MacAddress};
use crate::steer::{self, AdminState};

/// What compiling needs to know of the ports and their neighbours.
pub trait Links {
    /// Who a port is: its link-layer address, and what it answers for.
    fn identity(&self, port: PortId) -> Option<&PortIdentity>;

    /// The link-layer address of a next hop, if it is known.
    fn next_hop(&self, port: PortId, address: IpAddr) -> Option<MacAddress>;

    /// A number that differs whenever an answer of the other two does; with `None` they are asked
    /// every time.
    fn revision(&self) -> Option<u64> {
        None
    }
}

/// Slots of level 1, where several pools share a service: a prime, 100 times as many as any
/// service has use for pools.
const LEVEL1_SIZE: u32 = 4_093;

/// Compiles, and remembers. One compiler goes with one state.
#[derive(Debug)]
pub struct Compiler {
    arena: SlotArena,
    /// By [`PoolId`].
    pools: Vec<Option<CompiledPool>>,
    /// By [`ServiceId`](crate::id::ServiceId).
    services: Vec<Option<CompiledService>>,
    vips: Arc<[VipEntry]>,
    links: Option<u64>,
    /// What came out the last time.
    tables: Tables,
    /// The table of a pool that has nobody, and of one that does not exist.
    nobody: Arc<PoolTable>,
    /// Tables that were replaced, and that workers may still use. As long as they are here, a
    /// worker's drop of one is never the last.
    retired: Vec<Arc<PoolTable>>,
    /// Made when it is asked for.
    digest: std::cell::OnceCell<String>,
}

#[derive(Debug)]
struct CompiledPool {
    from: Arc<StandingPool>,
    members: Vec<Member<BackendId>>,
    table: Arc<PoolTable>,
    digest: Digest,
}

#[derive(Debug)]
struct CompiledService {
    from: Arc<StandingService>,
    /// Above 0, in the service's order of pools.
    quotas: Vec<(PoolId, u32)>,
}

impl Default for Compiler {
    fn default() -> Self {
        Self {
            arena: SlotArena::default(),
            pools: Vec::new(),
            services: Vec::new(),
            vips: Arc::from([]),
            links: None,
            tables: Tables::empty(FlowHashKey([0; 16])),
            nobody: Arc::new(PoolTable { current: Maglev::empty() }),
            retired: Vec::new(),
            digest: std::cell::OnceCell::new(),
        }
    }
}

impl Compiler {
    /// The tables of a state.
    pub fn compile(&mut self, state: &State, links: &impl Links) -> Tables {
        self.reclaim();
        let config = state.config();
        self.tables.flow_hash_key = config.appliance.flow_hash_key;
        let changed = self.compile_pools(state);
        self.compile_records(state, links, &changed);
        self.compile_services(state, &changed);
        if !Arc::ptr_eq(&self.vips, state.vips()) {
            self.vips = Arc::clone(state.vips());
            self.tables.vips = Arc::new(VipMap::new(self.vips.iter().cloned()));
            self.digest.take();
        }
        self.tables.clone()
    }

    /// Takes back the memory of pools' tables that nobody uses any more. Call it after the
    /// publisher let go of old tables; compiling does it too.
    pub fn reclaim(&mut self) {
        for table in std::mem::take(&mut self.retired) {
            match Arc::try_unwrap(table) {
                Ok(table) => table.current.give_back(&mut self.arena),
                Err(in_use) => self.retired.push(in_use),
            }
        }
    }

    /// The memory of pools' tables.
    #[must_use]
    pub fn arena(&self) -> &SlotArena {
        &self.arena
    }

    /// The digest of the tables that were compiled last, as 16 hex digits: equal on appliances that
    /// choose equally (design.md §4.15).
    #[must_use]
    pub fn tables_digest(&self) -> String {
        let make = || {
            let services = self.services.iter().flatten().map(|service| digest::ServiceParts {
                id: service.from.id,
                name: &service.from.name,
                quotas: service
                    .quotas
                    .iter()
                    .filter_map(|&(pool, quota)| {
                        let pool = self.pool(pool)?;
                        Some((pool.from.name.as_str(), quota, pool.digest))
                    })
                    .collect(),
            });
            digest::of_tables(self.tables.flow_hash_key, services, &self.vips)
        };
        self.digest.get_or_init(make).clone()
    }

    /// The three digests: of what is wanted and found now, and of the tables that were compiled
    /// last. They are computed when they are asked for: milliseconds with ten thousand services.
    #[must_use]
    pub fn digests(&self, state: &State) -> Digests {
        Digests {
            configuration: digest::of_configuration(state.config()),
            inputs: digest::of_inputs(state),
            tables: self.tables_digest(),
        }
    }

    fn pool(&self, id: PoolId) -> Option<&CompiledPool> {
        self.pools.get(id.index())?.as_ref()
    }

    /// Builds the tables of the pools that changed. Returns which did, by [`PoolId`].
    fn compile_pools(&mut self, state: &State) -> Vec<Changed> {
        let count = self.pools.len().max(state.pools().len());
        self.pools.resize_with(count, || None);
        let mut is_new_table = self.tables.pools.len() != count;
        let changed: Vec<_> = (0..count)
            .map(|place| {
                let standing = state.pools().get(place).and_then(Option::as_ref);
                let Some(known) = self.pools.get_mut(place) else { return Changed::No };
                match (&*known, standing) {
                    (None, None) => return Changed::No,
                    (Some(known), Some(standing)) if Arc::ptr_eq(&known.from, standing) => {
                        return Changed::No;
                    }
                    _ => {}
                }
                let old = known.take();
                let was = old.as_ref().map(|pool| Arc::clone(&pool.from));
                let old_table = old.as_ref().map(|pool| Arc::clone(&pool.table));
                let new = if let Some(standing) = standing {
                    Some(self.build(old, standing))
                } else {
                    self.retired.extend(old.map(|old| old.table));
                    None
                };
                is_new_table |= match (&old_table, &new) {
                    (Some(old), Some(new)) => !Arc::ptr_eq(old, &new.table),
                    _ => true,
                };
                if let Some(known) = self.pools.get_mut(place) {
                    *known = new;
                }
                Changed::From(was)
            })
            .collect();
        if is_new_table {
            let table = |pool: &Option<CompiledPool>| {
                Arc::clone(pool.as_ref().map_or(&self.nobody, |pool| &pool.table))
            };
            self.tables.pools = self.pools.iter().map(table).collect();
            self.digest.take();
        }
        changed
    }

    /// A pool as it is now, with the table that it had if its members are the same.
    fn build(&mut self, old: Option<CompiledPool>, pool: &Arc<StandingPool>) -> CompiledPool {
        let from = Arc::clone(pool);
        let members = members(pool);
        if let Some(old) = old {
            if old.members == members && old.from.table_size == pool.table_size {
                return CompiledPool { from, ..old };
            }
            self.retired.push(old.table);
        }
        // Validation has checked size and identities, so this cannot fail; if it did, the pool
        // would have no backend, and packets a counted reason.
        let current = Maglev::populate_in(&mut self.arena, &members, pool.table_size)
            .unwrap_or_else(|_| Maglev::empty());
        let digest = digest::of_pool(&members, &current);
        let table = Arc::new(PoolTable { current });
        CompiledPool { from, members, table, digest }
    }

    fn compile_records(&mut self, state: &State, links: &impl Links, changed: &[Changed]) {
        let slots = state.slots();
        let records = &mut self.tables.backends;
        if records.len() != slots.count() {
            let vacant = |place| {
                let id = u16::try_from(place).unwrap_or(u16::MAX);
                BackendRecord::vacant(slots.epoch(BackendId(id)))
            };
            let more = (records.len()..slots.count()).map(vacant);
            *records = records.iter().copied().chain(more).collect();
        }
        // First those who left their slots, then those who have them.
        for was in changed.iter().filter_map(Changed::was) {
            let vacant = |slot: BackendId| (slot, BackendRecord::vacant(slots.epoch(slot)));
            let left = was.members.iter().map(|member| member.slot);
            let left = left.filter(|slot| slots.epoch(slot.id) != slot.epoch);
            records::put(records, left.map(|slot| vacant(slot.id)));
        }
        let revision = links.revision();
        let all = revision.is_none() || revision != self.links;
        self.links = revision;
        let config = state.config();
        for (pool, changed) in state.pools().iter().zip(changed) {
            if let Some(pool) = pool
                && (all || changed.is_changed())
            {
                records::put(records, records::of_pool(config, pool, links));
            }
        }
        if all {
            let ports = records::of_ports(config, links);
            if *ports != *self.tables.ports {
                self.tables.ports = ports;
            }
        }
    }

    /// Decides anew for the services that changed, and for those of pools that did.
    fn compile_services(&mut self, state: &State, changed: &[Changed]) {
        let count = self.services.len().max(state.services().len());
        self.services.resize_with(count, || None);
        if self.tables.services.len() != count {
            let known = self.tables.services.iter().cloned();
            let vacant = std::iter::repeat_with(ServiceTable::vacant);
            self.tables.services = known.chain(vacant).take(count).collect();
        }
        let is_changed = |pool: &PoolId| changed.get(pool.index()).is_some_and(Changed::is_changed);
        for place in 0..count {
            let standing = state.services().get(place).and_then(Option::as_ref);
            let Some(known) = self.services.get_mut(place) else { continue };
            match (&*known, standing) {
                (None, None) => continue,
                (Some(known), Some(standing))
                    if Arc::ptr_eq(&known.from, standing)
                        && !standing.pools.iter().any(is_changed) =>
                {
                    continue;
                }
                _ => {}
            }
            let quotas = standing.map_or_else(Vec::new, |service| quotas(state, service));
            let table = standing.map_or_else(ServiceTable::vacant, |service| {
                service_table(state, service, &quotas)
            });
            let new = standing.map(|from| CompiledService { from: Arc::clone(from), quotas });
            if known.as_ref().map(CompiledService::choice)
                != new.as_ref().map(CompiledService::choice)
            {
                self.digest.take();
            }
            *known = new;
            if self.tables.services.get(place).is_some_and(|there| *there != table)
                && let Some(there) = Arc::make_mut(&mut self.tables.services).get_mut(place)
            {
                *there = table;
            }
        }
    }
}

/// Whether a pool changed since the last time, and what it was.
#[derive(Debug)]
enum Changed {
    No,
    From(Option<Arc<StandingPool>>),
}

impl Changed {
    const fn is_changed(&self) -> bool {
        matches!(self, Self::From(_))
    }

    const fn was(&self) -> Option<&Arc<StandingPool>> {
        match self {
            Self::From(Some(was)) => Some(was),
            _ => None,
        }
    }
}

impl CompiledService {
    /// What the digest of the tables covers.
    fn choice(&self) -> (&str, &[(PoolId, u32)]) {
        (&self.from.name, &self.quotas)
    }
}

/// The backends that get slots, in the order of their identities: their order in the file changes
/// nothing.
fn members(pool: &StandingPool) -> Vec<Member<BackendId>> {
    let eligible = steer::eligible(&pool.state).members;
    let mut members: Vec<_> = eligible
        .into_iter()
        .filter_map(|place| {
            let member = pool.members.get(place)?;
            Some(Member {
                identity: member.identity.clone(),
                weight: pool.state.backends.get(place)?.weight,
                owner: member.slot.id,
            })
        })
        .collect();
    members.sort_unstable_by(|one, other| one.identity.cmp(&other.identity));
    members
}

/// What part of a service's new flows each of its pools takes.
fn quotas(state: &State, service: &StandingService) -> Vec<(PoolId, u32)> {
    let decision = service.decide(|id| state.standing_pool(id));
    let quota = |quota: &steer::Quota| Some((*service.pools.get(quota.pool)?, quota.quota));
    decision.quotas.iter().filter_map(quota).filter(|&(_, quota)| quota != 0).collect()
}

fn service_table(
    state: &State,
    service: &StandingService,
    quotas: &[(PoolId, u32)],
) -> ServiceTable {
    let level1 = match *quotas {
        [] => Level1::Empty,
        [(pool, _)] => Level1::Single(pool),
        _ => weighted(state, quotas),
    };
    // Flows of a disabled service have no pool to stay in.
    let keeps = service.admin != AdminState::Disabled;
    let pools = service.pools.iter().copied().filter(|_| keeps).collect();
    ServiceTable { level1, pools, idle_timeout: service.idle_timeout }
}

fn weighted(state: &State, quotas: &[(PoolId, u32)]) -> Level1 {
    let members: Vec<_> = quotas
        .iter()
        .filter_map(|&(owner, weight)| {
            let name = &state.standing_pool(owner)?.name;
            Some(Member { identity: Identity::pool(name), weight, owner })
        })
        .collect();
    Maglev::populate(&members, LEVEL1_SIZE)
        .map_or(Level1::Empty, |pools| Level1::Weighted(Arc::new(pools)))
}
