//! `status`, and the alarms in it.

use super::count;
use crate::config;
use crate::control::management::Management;
use crate::control::ports::PortState;
use crate::control::protocol::reply::{
    Digests, ManagementStatus, PoolSummary, PortStatus, ServiceSummary, StatusReply, WorkerStatus,
};
use crate::id::PortId;
use crate::version;

impl Management {
    pub(super) fn status(&self) -> StatusReply {
        let config = self.state.config();
        let lagging = self.lagging();
        let workers: Vec<_> = self
            .workers
            .iter()
            .enumerate()
            .map(|(place, worker)| WorkerStatus {
                worker: worker.id.0,
                core: u32::try_from(worker.core).unwrap_or(u32::MAX),
                generation: self.publisher.observed(place).unwrap_or_default().0,
                lagging: lagging.contains(&place),
            })
            .collect();
        let ports: Vec<_> = self.port_states().collect();
        let summaries = self.by_pool(|pool| self.pool_summary(pool));
        let alarms = self.alarms().into_iter().map(|alarm| alarm.text).collect();
        StatusReply {
            name: config.appliance.name.clone(),
            version: version::VERSION.to_owned(),
            commit: version::COMMIT.to_owned(),
            dpdk: version::DPDK.to_owned(),
            uptime_seconds: self.now().as_secs(),
            generation: self.publisher.generation().0,
            digests: self.digests(),
            config_path: self.config_path.display().to_string(),
            unsaved_changes: self.unsaved_changes(),
            workers,
            ports: ports
                .into_iter()
                .map(|(id, port, state)| PortStatus {
                    name: port.name.clone(),
                    device: port.device.clone(),
                    mac: self.ports.mac(id).to_string(),
                    link_up: state.link_up,
                    rss: state.spread,
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
                    pools: service
                        .pools
                        .iter()
                        .filter_map(|name| summaries.get(name.as_str()).cloned())
                        .collect(),
                })
                .collect(),
            management: ManagementStatus {
                core: count(config.cpu.management),
                restarts: u32::try_from(self.tally.management_restarts()).unwrap_or(u32::MAX),
            },
            alarms,
        }
    }

    /// Every port with its id and how it is at the moment.
    pub(in crate::control) fn port_states(
        &self,
    ) -> impl Iterator<Item = (PortId, &config::Port, PortState)> {
        let ids = (0..=u8::MAX).map(PortId);
        ids.zip(&self.state.config().ports).map(|(id, port)| (id, port, self.ports.state(id)))
    }

    /// The three digests that appliances compare.
    pub(super) fn digests(&self) -> Digests {
        let digests = self.compiler.digests(&self.state);
        Digests {
            configuration: digests.configuration,
            inputs: digests.inputs,
            tables: digests.tables,
        }
    }

    fn pool_summary(&self, pool: &config::Pool) -> PoolSummary {
        let (healthy, total) = self.healthy(pool);
        PoolSummary { name: pool.name.clone(), healthy, total }
    }
}
