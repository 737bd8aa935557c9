//! State to tables. Pure, but for the pool tables that it keeps from the last time: those whose
//! members did not change are shared, not built again.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::digest::{self, Digest};
use super::neighbours::PortIdentity;
use super::route::route;
use super::state::State;
use crate::config::{self, BackendKey, Config};
use crate::forward::{
    BackendFlags, BackendRecord, Level1, PoolTable, PortRecord, PortService, ServiceTable, Tables,
    VipEntry, VipMap,
};
use crate::id::{BackendEpoch, BackendId, PoolId, PortId, ServiceId};
use crate::maglev::{Identity, Maglev, Member};
use crate::packet::MacAddress;
use crate::packet::encapsulation::{DEFAULT_TTL, OuterConfig, OuterTemplate, outer_template};
use crate::steer;

/// What compiling needs to know of the ports and their neighbours.
pub trait Links {
    /// Who a port is: its link-layer address, and what it answers for.
    fn identity(&self, port: PortId) -> Option<&PortIdentity>;

    /// The link-layer address of a next hop, if it is known.
    fn next_hop(&self, port: PortId, address: IpAddr) -> Option<MacAddress>;
}

/// Slots of level 1, where several pools share a service: a prime, 100 times as many as any
/// service has use for pools.
const LEVEL1_SIZE: u32 = 4_093;

/// Compiles, and remembers pool tables.
#[derive(Debug, Default)]
pub struct Compiler {
    pools: HashMap<String, CompiledPool>,
}

#[derive(Debug)]
struct CompiledPool {
    members: Vec<Member<BackendId>>,
    table_size: u32,
    table: Arc<PoolTable>,
    digest: Digest,
}

impl Compiler {
    /// The tables of a state.
    pub fn compile(&mut self, state: &State, links: &impl Links) -> Tables {
        let config = state.config();
        let pools: Vec<_> = config.pools.iter().map(|pool| state.pool(pool)).collect();
        self.pools.retain(|name, _| config.pools.iter().any(|pool| pool.name == *name));
        let pool_tables = config
            .pools
            .iter()
            .zip(&pools)
            .map(|(pool, pool_state)| self.pool_table(state, pool, pool_state))
            .collect();
        Tables {
            flow_hash_key: config.appliance.flow_hash_key,
            vips: Arc::new(vip_map(state)),
            services: config.services.iter().map(|s| service_table(config, &pools, s)).collect(),
            pools: pool_tables,
            backends: backend_records(state, &pools, links),
            ports: port_records(config, links),
        }
    }

    /// The digest of the tables of a state, as 16 hex digits. Call it after [`Self::compile`].
    #[must_use]
    pub fn digest(&self, state: &State) -> String {
        digest::of_tables(state, |pool| self.pools.get(pool).map(|compiled| compiled.digest))
    }

    fn pool_table(
        &mut self,
        state: &State,
        pool: &config::Pool,
        pool_state: &steer::PoolState,
    ) -> Arc<PoolTable> {
        let members: Vec<_> = steer::eligible(pool_state)
            .members
            .into_iter()
            .filter_map(|place| {
                let backend = pool.backends.get(place)?;
                let slot = state.slots().find(&BackendKey::new(pool, backend))?;
                Some(Member {
                    identity: Identity::backend(
                        backend.virtual_network.as_deref(),
                        backend.address,
                    ),
                    weight: backend.weight,
                    owner: slot.id,
                })
            })
            .collect();
        if let Some(known) = self.pools.get(&pool.name)
            && known.members == members
            && known.table_size == pool.table_size
        {
            return Arc::clone(&known.table);
        }
        // Validation has checked size and identities, so this cannot fail; if it did, the pool
        // would have no backend, and packets a counted reason.
        let current =
            Maglev::populate(&members, pool.table_size).unwrap_or_else(|_| Maglev::empty());
        let digest = digest::of_pool(&members, &current);
        let table = Arc::new(PoolTable { current });
        let table_size = pool.table_size;
        let compiled = CompiledPool { members, table_size, table: Arc::clone(&table), digest };
        self.pools.insert(pool.name.clone(), compiled);
        table
    }
}

fn pool_id(config: &Config, name: &str) -> Option<PoolId> {
    let place = config.pools.iter().position(|pool| pool.name == name)?;
    u16::try_from(place).ok().map(PoolId)
}

/// What the brain decides for a service: its pools in order, and the decision over them.
#[must_use]
pub fn decide(
    config: &Config,
    pools: &[steer::PoolState],
    service: &config::Service,
) -> (Vec<PoolId>, steer::Decision) {
    let ids: Vec<_> = service.pools.iter().filter_map(|name| pool_id(config, name)).collect();
    let states: Vec<_> = ids.iter().filter_map(|id| pools.get(id.index())).cloned().collect();
    let decision = match service.steering {
        config::Steering::Failover => steer::failover(&states),
    };
    (ids, decision)
}

fn service_table(
    config: &Config,
    pools: &[steer::PoolState],
    service: &config::Service,
) -> ServiceTable {
    let (ids, decision) = decide(config, pools, service);
    let quotas: Vec<_> = decision
        .quotas
        .iter()
        .filter_map(|quota| Some((*ids.get(quota.pool)?, quota.quota)))
        .filter(|&(_, quota)| quota != 0)
        .collect();
    let level1 = match *quotas {
        [] => Level1::Empty,
        [(pool, _)] => Level1::Single(pool),
        _ => weighted(config, &quotas),
    };
    ServiceTable {
        level1,
        pools: ids.into_boxed_slice(),
        idle_timeout: u32::try_from(service.idle_timeout.as_millis()).unwrap_or(u32::MAX),
    }
}

fn weighted(config: &Config, quotas: &[(PoolId, u32)]) -> Level1 {
    let members: Vec<_> = quotas
        .iter()
        .filter_map(|&(owner, weight)| {
            let name = &config.pools.get(owner.index())?.name;
            Some(Member { identity: Identity::pool(name), weight, owner })
        })
        .collect();
    Maglev::populate(&members, LEVEL1_SIZE)
        .map_or(Level1::Empty, |pools| Level1::Weighted(Arc::new(pools)))
}

fn vip_map(state: &State) -> VipMap {
    let mut entries: Vec<VipEntry> = Vec::new();
    let mut places = HashMap::new();
    for (service, number) in state.config().services.iter().zip(0..=u16::MAX) {
        for vip in &service.vips {
            let Some(id) = state.vip_ids().find((vip.address, vip.protocol)) else { continue };
            let place = *places.entry(id).or_insert_with(|| {
                entries.push(VipEntry {
                    address: vip.address,
                    protocol: vip.protocol.number(),
                    id,
                    ports: Box::new([]),
                });
                entries.len() - 1
            });
            let Some(entry) = entries.get_mut(place) else { continue };
            let more = vip.ports.iter().map(|range| PortService {
                first: range.first,
                last: range.last,
                service: ServiceId(number),
            });
            let mut ports: Vec<_> = entry.ports.iter().copied().chain(more).collect();
            ports.sort_unstable_by_key(|range| range.first);
            entry.ports = ports.into_boxed_slice();
        }
    }
    VipMap::new(entries)
}

fn backend_records(
    state: &State,
    pools: &[steer::PoolState],
    links: &impl Links,
) -> Arc<[BackendRecord]> {
    let slots = state.slots();
    let epoch = |place: usize| {
        u16::try_from(place).map_or(BackendEpoch(0), |id| slots.epoch(BackendId(id)))
    };
    let mut records: Vec<_> =
        (0..slots.count()).map(|place| BackendRecord::vacant(epoch(place))).collect();
    let config = state.config();
    for ((pool, pool_state), number) in config.pools.iter().zip(pools).zip(0..=u16::MAX) {
        let basis = steer::eligible(pool_state).basis;
        for (backend, said) in pool.backends.iter().zip(&pool_state.backends) {
            let keeps = steer::keeps(said.admin, said.health, basis);
            let Some(slot) = slots.find(&BackendKey::new(pool, backend)) else { continue };
            let Some(record) = records.get_mut(slot.id.index()) else { continue };
            record.pool = PoolId(number);
            if keeps.tcp {
                record.flags = record.flags.union(BackendFlags::KEEPS_TCP);
            }
            if keeps.other {
                record.flags = record.flags.union(BackendFlags::KEEPS_OTHER);
            }
            if let Some((template, port)) = outer(config, backend.address, links) {
                record.header = template.bytes;
                record.port = port;
                record.flags = record.flags.union(BackendFlags::RESOLVED);
                if template.shape.vlan {
                    record.flags = record.flags.union(BackendFlags::VLAN);
                }
                if template.shape.ipv6 {
                    record.flags = record.flags.union(BackendFlags::OUTER_IPV6);
                }
            }
        }
    }
    records.into()
}

/// The outer header toward a backend, if its next hop is known.
fn outer(
    config: &Config,
    destination: IpAddr,
    links: &impl Links,
) -> Option<(OuterTemplate, PortId)> {
    let way = route(&config.ports, destination)?;
    let template = outer_template(&OuterConfig {
        source_mac: links.identity(way.port)?.mac,
        destination_mac: links.next_hop(way.port, way.next_hop)?,
        vlan: config.ports.get(way.port.index())?.vlan,
        source: way.source,
        destination,
        ttl: DEFAULT_TTL,
    });
    Some((template.ok()?, way.port))
}

fn port_records(config: &Config, links: &impl Links) -> Arc<[PortRecord]> {
    let ids = (0..=u8::MAX).map(PortId);
    ids.zip(&config.ports)
        .map_while(|(id, port)| {
            let identity = links.identity(id)?;
            let link_local = identity.link_local().map(IpAddr::V6);
            let own: Vec<_> =
                identity.addresses.iter().map(IpNet::addr).chain(link_local).collect();
            let owned: Vec<_> = identity.owned().collect();
            Some(PortRecord {
                mac: identity.mac,
                vlan: port.vlan,
                mtu: port.mtu,
                arp: sorted(owned.iter().filter_map(ipv4)),
                neighbour_discovery: sorted(owned.iter().filter_map(ipv6)),
                ipv4: sorted(own.iter().filter_map(ipv4)),
                ipv6: sorted(own.iter().filter_map(ipv6)),
            })
        })
        .collect()
}

fn sorted<T: Ord>(addresses: impl Iterator<Item = T>) -> Box<[T]> {
    addresses.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn ipv4(address: &IpAddr) -> Option<Ipv4Addr> {
    if let IpAddr::V4(address) = address { Some(*address) } else { None }
}

fn ipv6(address: &IpAddr) -> Option<Ipv6Addr> {
    if let IpAddr::V6(address) = address { Some(*address) } else { None }
}
