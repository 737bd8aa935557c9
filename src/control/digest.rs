//! Three digests, by which appliances of a cluster are compared (design.md §4.15).
//!
//! * **configuration**: what is wanted. It covers what all appliances of a cluster have in common,
//!   and nothing that tells one from another.
//! * **inputs**: what was found, the health of every backend, and the quotas that each service gives
//!   its pools for it.
//! * **tables**: what follows, which backend a new flow goes to.
//!
//! Equal configurations and inputs give equal tables. So if tables differ, the other two say
//! whether appliances are configured otherwise or see backends otherwise.
//!
//! Digests cover stable keys only: names of pools and services, identities of backends. Numbers,
//! epochs, neighbours and history are not in them, nor is the order in which pools, backends,
//! services and monitors are written.
//!
//! What of the configuration is covered:
//!
//! | Section | Covered | Not covered |
//! |---|---|---|
//! | `[appliance]` | `flow_hash_key` | `name`, `site`, `region`, `zone`: where this one stands |
//! | `[cpu]` `[memory]` `[conntrack]` `[metrics]` `[admin]` `[[port]]` | | all: this machine's size, paths and links |
//! | `[[monitor]]` | all, where a pool uses it | |
//! | `[[pool]]` | all | |
//! | `[[pool.backend]]` | all but … | `probe_address`: how this one reaches it |
//! | `[[service]]` | all | |
//! | `[[service.vip]]` | all but … | `arp`: on whose link it is |

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::standing::StandingPool;
use super::state::State;
use crate::config::{
    Affinity, Backend, Config, Monitor, MonitorKind, Pool, Service, Steering, Vip,
};
use crate::forward::VipEntry;
use crate::id::{BackendId, ServiceId};
use crate::maglev::{Maglev, Member};
use crate::packet::FlowHashKey;
use crate::steer::{AdminState, Health};

/// A SHA-256 digest of parts.
pub(super) type Digest = [u8; 32];

/// The three digests, as 16 hex digits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Of what is wanted.
    pub configuration: String,
    /// Of what was found.
    pub inputs: String,
    /// Of what follows.
    pub tables: String,
}

/// The digest of one pool's table. `members` are in the order of their identities.
pub(super) fn of_pool(members: &[Member<BackendId>], table: &Maglev<BackendId>) -> Digest {
    let mut writer = Writer::default();
    for member in members {
        writer.bytes(member.identity.as_bytes());
    }
    let places: std::collections::HashMap<_, _> =
        members.iter().zip(0_u16..).map(|(member, place)| (member.owner, place)).collect();
    writer.number(table.slot_count() as u64);
    // In one piece: the hash is a good deal faster over it than over its slots.
    let owners = table.owners().flat_map(|owner| {
        let place = places.get(&owner).copied().unwrap_or(u16::MAX);
        place.to_le_bytes()
    });
    writer.bytes(&owners.collect::<Vec<_>>());
    writer.finish()
}

/// What the digest of the tables covers of a service.
pub(super) struct ServiceParts<'a> {
    pub id: ServiceId,
    pub name: &'a str,
    /// Name, quota and digest of each pool that takes new flows.
    pub quotas: Vec<(&'a str, u32, Digest)>,
}

/// The digest of all tables, as 16 hex digits.
pub(super) fn of_tables<'a>(
    key: FlowHashKey,
    services: impl Iterator<Item = ServiceParts<'a>>,
    vips: &[VipEntry],
) -> String {
    let mut services: Vec<_> = services.collect();
    services.sort_unstable_by_key(|service| service.name);
    let mut ranges: Vec<_> = vips
        .iter()
        .flat_map(|vip| {
            let range = |range: &crate::forward::PortService| {
                (range.service, vip.address, vip.protocol, range.first, range.last)
            };
            vip.ports.iter().map(range)
        })
        .collect();
    ranges.sort_unstable();
    let mut writer = Writer::default();
    writer.bytes(&key.0);
    for service in services {
        writer.text(service.name);
        let first = ranges.partition_point(|range| range.0 < service.id);
        let own = ranges.iter().skip(first).take_while(|range| range.0 == service.id);
        for &(_, address, protocol, first, last) in own {
            writer.address(address);
            writer.bytes(&[protocol]);
            writer.number(first.into());
            writer.number(last.into());
        }
        for (pool, quota, digest) in service.quotas {
            writer.text(pool);
            writer.number(quota.into());
            writer.bytes(&digest);
        }
    }
    writer.hex()
}

/// The digest of what was found, as 16 hex digits.
pub(super) fn of_inputs(state: &State) -> String {
    let mut writer = Writer::default();
    let mut pools: Vec<&StandingPool> = state.pools().iter().flatten().map(|p| &**p).collect();
    pools.sort_unstable_by_key(|pool| pool.name.as_str());
    for pool in pools {
        writer.text(&pool.name);
        let mut found: Vec<_> = pool
            .members
            .iter()
            .zip(&pool.state.backends)
            .map(|(member, backend)| (&member.identity, backend.health))
            .collect();
        found.sort_unstable_by_key(|&(identity, _)| identity);
        writer.number(found.len() as u64);
        for (identity, health) in found {
            writer.bytes(identity.as_bytes());
            writer.number(match health {
                Health::Up => 0,
                Health::Down => 1,
                Health::Unknown => 2,
            });
        }
    }
    let mut services: Vec<_> = state.services().iter().flatten().collect();
    services.sort_unstable_by_key(|service| service.name.as_str());
    for service in services {
        writer.text(&service.name);
        let decision = service.decide(|id| state.standing_pool(id));
        writer.number(decision.quotas.len() as u64);
        for quota in decision.quotas {
            let pool = service.pools.get(quota.pool).and_then(|&id| state.standing_pool(id));
            writer.text(pool.map_or("", |pool| &pool.name));
            writer.number(quota.quota.into());
        }
    }
    writer.hex()
}

/// The digest of what is wanted, as 16 hex digits. Everything is taken apart here, so that a new
/// key does not compile before it was decided whether it belongs to the cluster or to the machine.
#[must_use]
pub fn of_configuration(config: &Config) -> String {
    let Config {
        appliance,
        cpu: _,
        memory: _,
        conntrack: _,
        metrics: _,
        admin: _,
        ports: _,
        monitors,
        pools,
        services,
    } = config;
    let mut writer = Writer::default();
    writer.bytes(&appliance.flow_hash_key.0);
    let monitors: std::collections::HashMap<_, _> =
        monitors.iter().map(|monitor| (monitor.name.as_str(), monitor)).collect();
    writer.sorted(
        pools,
        |pool| pool.name.as_str(),
        |writer, pool| {
            let monitor = pool.monitor.as_deref().and_then(|name| monitors.get(name).copied());
            writer.pool(pool, monitor);
        },
    );
    writer.sorted(services, |service| service.name.as_str(), Writer::service);
    writer.hex()
}

/// Takes values one after the other, so that no two different sequences of them look alike.
#[derive(Default)]
struct Writer(Sha256);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(text.is_some().into());
        self.text(text.unwrap_or_default());
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.bytes(&address.octets()),
            IpAddr::V6(address) => self.bytes(&address.octets()),
        }
    }

    /// How many items there are, and each, in the order of their keys.
    fn sorted<'a, T, K: Ord>(
        &mut self,
        items: &'a [T],
        key: impl Fn(&'a T) -> K,
        mut write: impl FnMut(&mut Self, &'a T),
    ) {
        let mut sorted: Vec<_> = items.iter().collect();
        sorted.sort_by_key(|item| key(item));
        self.number(sorted.len() as u64);
        for item in sorted {
            write(self, item);
        }
    }

    fn admin_state(&mut self, state: crate::config::AdminState) {
        self.number(match super::standing::admin_state(state) {
            AdminState::Enabled => 0,
            AdminState::Draining => 1,
            AdminState::Disabled => 2,
        });
    }

    fn pool(&mut self, pool: &Pool, of: Option<&Monitor>) {
        let Pool { name, admin_state, region, zone, monitor, threshold, table_size, backends } =
            pool;
        self.text(name);
        self.admin_state(*admin_state);
        self.optional(region.as_deref());
        self.optional(zone.as_deref());
        self.optional(monitor.as_deref());
        if let Some(monitor) = of {
            self.monitor(monitor);
        }
        self.number(*threshold as u64);
        self.number((*table_size).into());
        self.sorted(
            backends,
            |b| (&b.virtual_network, b.address),
            |writer, backend| {
                let Backend {
                    name,
                    address,
                    virtual_network,
                    weight,
                    admin_state,
                    probe_address: _,
                } = backend;
                writer.text(name);
                writer.address(*address);
                writer.optional(virtual_network.as_deref());
                writer.number((*weight).into());
                writer.admin_state(*admin_state);
            },
        );
    }

    fn monitor(&mut self, monitor: &Monitor) {
        let Monitor { name: _, kind, port, interval, timeout, rise, fall } = monitor;
        match kind {
            MonitorKind::Tcp => self.text("tcp"),
            MonitorKind::Http { path, host, expected_status } => {
                self.text("http");
                self.text(path);
                self.optional(host.as_deref());
                self.sorted(
                    expected_status,
                    |status| *status,
                    |writer, status| {
                        writer.number((*status).into());
                    },
                );
            }
        }
        self.number((*port).into());
        for time in [interval, timeout] {
            self.number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        }
        self.number((*rise).into());
        self.number((*fall).into());
    }

    fn service(&mut self, service: &Service) {
        let Service { name, admin_state, steering, pools, affinity, idle_timeout, vips } = service;
        self.text(name);
        self.admin_state(*admin_state);
        self.text(match steering {
            Steering::Failover => "failover",
        });
        // In order of preference.
        self.number(pools.len() as u64);
        for pool in pools {
            self.text(pool);
        }
        self.text(match affinity {
            Affinity::ClientIpPortProto => "client-ip-port-proto",
        });
        self.number(u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX));
        let key = |vip: &Vip| (vip.address, vip.protocol, vip.ports.clone());
        self.sorted(vips, key, |writer, vip| {
            let Vip { address, protocol, ports, arp: _ } = vip;
            writer.address(*address);
            writer.bytes(&[protocol.number()]);
            writer.number(ports.len() as u64);
            for range in ports {
                writer.number(range.first.into());
                writer.number(range.last.into());
            }
        });
    }

    fn finish(self) -> Digest {
        self.0.finalize().into()
    }

    fn hex(self) -> String {
        self.finish().iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}
