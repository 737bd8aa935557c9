//! `show services` and `show pools`.

use std::collections::HashMap;

use super::{configured, count, milliseconds, ports, protocol, ratio};
use crate::config::{self, BackendKey};
use crate::control::management::Management;
use crate::control::protocol::reply::{
    PoolDetail, PoolState, PoolsReply, ServiceState, ServiceTraffic, ServicesReply, VipState,
};
use crate::stats::BackendTotals;
use crate::steer::{self, Basis};

impl Management {
    pub(super) fn services(&self) -> ServicesReply {
        let config = self.state.config();
        let healthy = self.by_pool(|pool| (pool, self.healthy(pool)));
        let services = config
            .services
            .iter()
            .filter_map(|service| {
                let decision = self.state.decide(&service.name)?;
                let names: Vec<_> = service.pools.iter().map(String::as_str).collect();
                let total: u32 = decision.quotas.iter().map(|quota| quota.quota).sum();
                let share = |place: usize| {
                    let own = decision.quotas.iter().filter(|quota| quota.pool == place);
                    ratio(own.map(|quota| u64::from(quota.quota)).sum(), total.into())
                };
                Some(ServiceState {
                    name: service.name.clone(),
                    admin_state: configured(service.admin_state),
                    vips: service.vips.iter().map(vip_state).collect(),
                    steering: match service.steering {
                        config::Steering::Failover => "failover".to_owned(),
                    },
                    affinity: match service.affinity {
                        config::Affinity::ClientIpPortProto => "client-ip-port-proto".to_owned(),
                    },
                    idle_timeout_ms: milliseconds(service.idle_timeout),
                    pools: service
                        .pools
                        .iter()
                        .enumerate()
                        .filter_map(|(place, name)| {
                            let &(pool, (healthy, total)) = healthy.get(name.as_str())?;
                            Some(PoolState {
                                name: pool.name.clone(),
                                healthy,
                                total,
                                threshold: count(pool.threshold),
                                share: share(place),
                            })
                        })
                        .collect(),
                    reason: decision.reason.sentence(&names),
                    traffic: self.traffic(&service.name),
                })
            })
            .collect();
        ServicesReply { services }
    }

    fn traffic(&self, service: &str) -> ServiceTraffic {
        let Some(id) = self.state.service_id(service) else { return ServiceTraffic::default() };
        let counted = self.service_baselines.since(id, self.service_totals(id));
        ServiceTraffic {
            packets: counted.packets,
            bytes: counted.bytes,
            new_flows: counted.new_flows,
        }
    }

    pub(super) fn pools(&self) -> PoolsReply {
        let config = self.state.config();
        let mut users: HashMap<_, Vec<String>> = HashMap::new();
        for service in &config.services {
            for pool in &service.pools {
                users.entry(pool.as_str()).or_default().push(service.name.clone());
            }
        }
        let mut detail = |pool: &config::Pool| {
            let (healthy, total) = self.healthy(pool);
            let mut counted = BackendTotals::default();
            for backend in &pool.backends {
                counted += self.counted(&BackendKey::new(pool, backend));
            }
            PoolDetail {
                name: pool.name.clone(),
                admin_state: configured(pool.admin_state),
                region: pool.region.clone(),
                zone: pool.zone.clone(),
                monitor: pool.monitor.clone(),
                healthy,
                total,
                threshold: count(pool.threshold),
                basis: match steer::eligible(&self.state.pool(pool)).basis {
                    Basis::Ready => "ready".to_owned(),
                    Basis::LastResort => "last-resort".to_owned(),
                    Basis::Nobody => "nobody".to_owned(),
                },
                services: users.remove(pool.name.as_str()).unwrap_or_default(),
                packets: counted.packets,
                bytes: counted.bytes,
                new_flows: counted.new_flows,
                flows: counted.flows,
            }
        };
        PoolsReply { pools: config.pools.iter().map(&mut detail).collect() }
    }
}

fn vip_state(vip: &config::Vip) -> VipState {
    VipState { address: vip.address, protocol: protocol(vip.protocol), ports: ports(&vip.ports) }
}
