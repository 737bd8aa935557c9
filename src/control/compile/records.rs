//! Records of backends and ports: the last step, where the way to a backend is known.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use super::Links;
use crate::config::Config;
use crate::control::route::route;
use crate::control::standing::StandingPool;
use crate::forward::{BackendFlags, BackendRecord, PortRecord};
use crate::id::{BackendId, PortId};
use crate::packet::encapsulation::{DEFAULT_TTL, OuterConfig, OuterTemplate, outer_template};
use crate::steer;

/// The records of a pool's backends, by slot.
pub(super) fn of_pool(
    config: &Config,
    pool: &StandingPool,
    links: &impl Links,
) -> impl Iterator<Item = (BackendId, BackendRecord)> {
    let basis = steer::eligible(&pool.state).basis;
    pool.members.iter().zip(&pool.state.backends).map(move |(member, said)| {
        let mut record = BackendRecord::vacant(member.slot.epoch);
        record.pool = pool.id;
        let mut flag = |is_set, flag| {
            if is_set {
                record.flags = record.flags.union(flag);
            }
        };
        let keeps = steer::keeps(said.admin, said.health, basis);
        flag(keeps.tcp, BackendFlags::KEEPS_TCP);
        flag(keeps.other, BackendFlags::KEEPS_OTHER);
        if let Some((template, port)) = outer(config, member.address, links) {
            flag(true, BackendFlags::RESOLVED);
            flag(template.shape.vlan, BackendFlags::VLAN);
            flag(template.shape.ipv6, BackendFlags::OUTER_IPV6);
            record.header = template.bytes;
            record.port = port;
        }
        (member.slot.id, record)
    })
}

/// Puts records into their places. The array is copied, at most once, if one of them differs.
pub(super) fn put(
    records: &mut Arc<[BackendRecord]>,
    fresh: impl IntoIterator<Item = (BackendId, BackendRecord)>,
) {
    for (id, record) in fresh {
        if records.get(id.index()).is_some_and(|there| *there != record)
            && let Some(there) = Arc::make_mut(records).get_mut(id.index())
        {
            *there = record;
        }
    }
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

/// The records of the ports.
pub(super) fn of_ports(config: &Config, links: &impl Links) -> Arc<[PortRecord]> {
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
