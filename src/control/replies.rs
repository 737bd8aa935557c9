//! The answers of the `show` verbs: what management knows, in the protocol's types.

use std::collections::HashMap;
use std::time::Duration;

use super::compile::{Links, decide};
use super::management::Management;
use super::ports::PortState;
use super::protocol::{
    self, BackendState, BackendsReply, ConntrackReply, DropState, DropsReply, Family, PoolBackends,
    PoolState, PoolSummary, PortStatus, ProbeResult, Reply, Request, ServiceState, ServiceSummary,
    ServicesReply, ShardState, StatusReply, VipState, WorkerState, WorkerStatus, WorkersReply,
};
use super::route::route;
use crate::config::{self, BackendKey, PortRange};
use crate::forward::{DropReason, Tables};
use crate::health::{Damping, Outcome};
use crate::id::{BackendId, PortId};
use crate::stats::{BackendTotals, StatsSnapshot};
use crate::steer::{AdminState, Health};
use crate::version;

/// The last results of every backend's probes.
#[derive(Debug, Default)]
pub struct Probes {
    by_backend: HashMap<BackendKey, Damping>,
}

impl Probes {
    /// Takes the newest.
    pub fn record(&mut self, key: BackendKey, damping: Damping) {
        self.by_backend.insert(key, damping);
    }

    /// Forgets the backends that are gone.
    pub fn retain(&mut self, mut stays: impl FnMut(&BackendKey) -> bool) {
        self.by_backend.retain(|key, _| stays(key));
    }

    fn results(&self, key: &BackendKey, now: Duration) -> Vec<ProbeResult> {
        let history = self.by_backend.get(key).map(Damping::history).unwrap_or_default();
        history
            .iter()
            .map(|result| ProbeResult {
                age_ms: milliseconds(now.saturating_sub(result.at)),
                took_ms: milliseconds(result.rtt),
                failure: match &result.outcome {
                    Outcome::Pass => None,
                    Outcome::Fail(cause) => Some(cause.to_string()),
                },
            })
            .collect()
    }
}

impl Management {
    /// Answers a verb that changes nothing.
    pub(super) fn show(&self, request: &Request) -> Reply {
        match request {
            Request::ShowServices => self.services().into(),
            Request::ShowBackends => self.backends().into(),
            Request::ShowWorkers => self.worker_states().into(),
            Request::ShowDrops => self.drops().into(),
            Request::ShowConntrack => self.conntrack().into(),
            _ => self.status().into(),
        }
    }

    fn snapshots(&self) -> Vec<StatsSnapshot<DropReason>> {
        self.workers.iter().map(|worker| worker.stats.snapshot()).collect()
    }

    fn status(&self) -> StatusReply {
        let config = self.state.config();
        let newest = self.publisher.generation();
        let lagging = self.publisher.lagging(newest);
        // A worker may still be about to adopt what was published a moment ago.
        let is_overdue = self.is_overdue();
        let workers: Vec<_> = self
            .workers
            .iter()
            .enumerate()
            .map(|(place, worker)| WorkerStatus {
                worker: worker.id.0,
                core: u32::try_from(worker.core).unwrap_or(u32::MAX),
                generation: self.publisher.observed(place).unwrap_or_default().0,
                lagging: is_overdue && lagging.contains(&place),
            })
            .collect();
        let ports: Vec<_> = self.port_states().collect();
        let mut alarms: Vec<_> = self.neighbours.alarms();
        for worker in workers.iter().filter(|worker| worker.lagging) {
            alarms.push(format!(
                "worker {} runs generation {} and not {newest}; look at `lodectl show workers` \
                 for whether it polls",
                worker.worker, worker.generation
            ));
        }
        for (_, port, state) in &ports {
            alarms.extend(state.alarm.clone());
            if !state.link_up {
                alarms.push(format!("port {} has no link", port.name));
            }
        }
        for service in self.services().services {
            if service.pools.iter().all(|pool| pool.healthy == 0) {
                alarms.push(format!("service {} has no healthy backend", service.name));
            }
        }
        StatusReply {
            name: config.appliance.name.clone(),
            version: version::VERSION.to_owned(),
            commit: version::COMMIT.to_owned(),
            dpdk: version::DPDK.to_owned(),
            uptime_seconds: self.now().as_secs(),
            generation: newest.0,
            tables_digest: self.digest.clone(),
            config_path: self.config_path.display().to_string(),
            workers,
            ports: ports
                .into_iter()
                .map(|(id, port, state)| PortStatus {
                    name: port.name.clone(),
                    device: port.device.clone(),
                    mac: self.ports.mac(id).to_string(),
                    link_up: state.link_up,
                    rss: state.rss,
                    mtu: port.mtu,
                    rx_packets: state.rx_packets,
                    tx_packets: state.tx_packets,
                    rx_missed: state.rx_missed,
                })
                .collect(),
            services: config
                .services
                .iter()
                .map(|service| ServiceSummary {
                    name: service.name.clone(),
                    pools: self.pools_of(service).map(|pool| self.pool_summary(pool)).collect(),
                })
                .collect(),
            alarms,
        }
    }

    fn port_states(&self) -> impl Iterator<Item = (PortId, &config::Port, PortState)> {
        let ids = (0..=u8::MAX).map(PortId);
        ids.zip(&self.state.config().ports).map(|(id, port)| (id, port, self.ports.state(id)))
    }

    fn pools_of(&self, service: &config::Service) -> impl Iterator<Item = &config::Pool> {
        let pools = &self.state.config().pools;
        service.pools.iter().filter_map(|name| pools.iter().find(|pool| pool.name == *name))
    }

    fn pool_summary(&self, pool: &config::Pool) -> PoolSummary {
        let (healthy, total) = self.healthy(pool);
        PoolSummary { name: pool.name.clone(), healthy, total }
    }

    /// Backends that are up and enabled, and all.
    fn healthy(&self, pool: &config::Pool) -> (u32, u32) {
        let state = self.state.pool(pool);
        let healthy = state
            .backends
            .iter()
            .filter(|backend| backend.admin == AdminState::Enabled && backend.health == Health::Up);
        (count(healthy.count()), count(state.backends.len()))
    }

    fn services(&self) -> ServicesReply {
        let config = self.state.config();
        let pools: Vec<_> = config.pools.iter().map(|pool| self.state.pool(pool)).collect();
        let services = config
            .services
            .iter()
            .map(|service| {
                let (_, decision) = decide(config, &pools, service);
                let names: Vec<_> = service.pools.iter().map(String::as_str).collect();
                let total: u32 = decision.quotas.iter().map(|quota| quota.quota).sum();
                let share = |place: usize| {
                    let own = decision.quotas.iter().filter(|quota| quota.pool == place);
                    ratio(own.map(|quota| u64::from(quota.quota)).sum(), total.into())
                };
                ServiceState {
                    name: service.name.clone(),
                    vips: service.vips.iter().map(vip_state).collect(),
                    steering: match service.steering {
                        config::Steering::Failover => "failover".to_owned(),
                    },
                    affinity: match service.affinity {
                        config::Affinity::ClientIpPortProto => "client-ip-port-proto".to_owned(),
                    },
                    idle_timeout_ms: milliseconds(service.idle_timeout),
                    pools: self
                        .pools_of(service)
                        .enumerate()
                        .map(|(place, pool)| {
                            let (healthy, total) = self.healthy(pool);
                            PoolState {
                                name: pool.name.clone(),
                                healthy,
                                total,
                                threshold: count(pool.threshold),
                                share: share(place),
                            }
                        })
                        .collect(),
                    reason: decision.reason.sentence(&names),
                }
            })
            .collect();
        ServicesReply { services }
    }

    fn backends(&self) -> BackendsReply {
        let config = self.state.config();
        let now = self.now();
        let shares = slot_shares(self.publisher.current());
        let backend_state = |pool: &config::Pool, backend: &config::Backend| {
            let key = BackendKey::new(pool, backend);
            let slot = self.state.slots().find(&key);
            let mut counted = BackendTotals::default();
            for worker in slot.iter().flat_map(|_| &self.workers) {
                counted += worker.stats.backend(slot.unwrap_or_default().id);
            }
            BackendState {
                name: backend.name.clone(),
                address: backend.address,
                admin_state: admin_state(self.state.admin(&key)),
                health: health(self.state.health(pool, &key)),
                weight: backend.weight,
                share: slot.and_then(|slot| shares.get(&slot.id).copied()).unwrap_or_default(),
                packets: counted.packets,
                bytes: counted.bytes,
                new_flows: counted.new_flows,
                flows: counted.flows,
                next_hop: route(&config.ports, backend.address)
                    .and_then(|way| self.neighbours.next_hop(way.port, way.next_hop))
                    .map(|mac| mac.to_string()),
                probes: self.probes.results(&key, now),
            }
        };
        let pools = config.pools.iter().map(|pool| PoolBackends {
            pool: pool.name.clone(),
            backends: pool.backends.iter().map(|backend| backend_state(pool, backend)).collect(),
        });
        BackendsReply { pools: pools.collect() }
    }

    fn worker_states(&self) -> WorkersReply {
        let states = self.workers.iter().enumerate().map(|(place, worker)| {
            let stats = worker.stats.snapshot();
            let totals = stats.totals;
            WorkerState {
                worker: worker.id.0,
                core: u32::try_from(worker.core).unwrap_or(u32::MAX),
                generation: self.publisher.observed(place).unwrap_or_default().0,
                rx_packets: totals.rx_packets,
                tx_packets: totals.tx_packets,
                replies: totals.replies,
                punted: totals.punted,
                dropped: stats.dropped_total(),
                polls: totals.polls(),
                empty_polls: totals.empty_polls,
                packets_per_burst: ratio(totals.rx_packets, totals.bursts),
            }
        });
        WorkersReply { workers: states.collect() }
    }

    fn drops(&self) -> DropsReply {
        let snapshots = self.snapshots();
        let reasons = DropReason::ALL.into_iter().map(|reason| {
            let per_worker: Vec<_> = snapshots.iter().map(|stats| stats.dropped(reason)).collect();
            DropState {
                reason: reason.name().to_owned(),
                description: reason.description().to_owned(),
                total: per_worker.iter().sum(),
                per_worker,
            }
        });
        DropsReply {
            workers: self.workers.iter().map(|worker| worker.id.0).collect(),
            reasons: reasons.collect(),
        }
    }

    fn conntrack(&self) -> ConntrackReply {
        let shards = self.workers.iter().flat_map(|worker| {
            let stats = worker.stats.snapshot();
            let families = [
                (Family::Ipv4, stats.ipv4, worker.capacity.0),
                (Family::Ipv6, stats.ipv6, worker.capacity.1),
            ];
            families.map(|(family, flows, capacity)| ShardState {
                worker: worker.id.0,
                family,
                entries: flows.entries,
                capacity: capacity as u64,
                hits: flows.hits,
                new: flows.new,
                unverified: flows.unverified,
                refused: flows.refused,
                expired: flows.expired,
            })
        });
        ConntrackReply { shards: shards.collect() }
    }
}

fn vip_state(vip: &config::Vip) -> VipState {
    let range = |range: &PortRange| match *range {
        PortRange::ANY => "any".to_owned(),
        PortRange { first, last } if first == last => first.to_string(),
        PortRange { first, last } => format!("{first}-{last}"),
    };
    VipState {
        address: vip.address,
        protocol: match vip.protocol {
            config::Protocol::Tcp => "tcp".to_owned(),
            config::Protocol::Udp => "udp".to_owned(),
        },
        ports: vip.ports.iter().map(range).collect::<Vec<_>>().join(","),
    }
}

/// What part of its pool's slots each backend has.
fn slot_shares(tables: &Tables) -> HashMap<BackendId, f64> {
    let mut shares = HashMap::new();
    for pool in tables.pools.iter() {
        let mut slots: HashMap<BackendId, u64> = HashMap::new();
        for owner in pool.current.owners() {
            *slots.entry(owner).or_default() += 1;
        }
        let all = pool.current.slot_count() as u64;
        shares.extend(slots.into_iter().map(|(owner, own)| (owner, ratio(own, all))));
    }
    shares
}

fn admin_state(state: AdminState) -> protocol::AdminState {
    match state {
        AdminState::Enabled => protocol::AdminState::Enabled,
        AdminState::Draining => protocol::AdminState::Draining,
        AdminState::Disabled => protocol::AdminState::Disabled,
    }
}

fn health(health: Health) -> protocol::Health {
    match health {
        Health::Up => protocol::Health::Up,
        Health::Down => protocol::Health::Down,
        Health::Unknown => protocol::Health::Unknown,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
