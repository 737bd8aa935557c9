//! Starting the ports, and what management sees of them.

use std::time::Duration;

use super::StartError;
use crate::config::Config;
use crate::control::protocol::reply::{DoneBy, PortFeature};
use crate::control::{PortNews, PortState, Ports};
use crate::dpdk::{
    self, Eal, Feature, Mempool, MempoolConfig, PooledQueues, Port, PortConfig, Restart, Rss,
    Tending,
};
use crate::id::PortId;
use crate::packet::MacAddress;

/// Every port, started.
#[derive(Debug)]
pub(super) struct StartedPorts {
    ports: Vec<StartedPort>,
    pool: Mempool,
}

/// A port, and its way through resets of its device.
#[derive(Debug)]
struct StartedPort {
    port: Port,
    restart: Restart,
}

/// Starts every port of the configuration with one pair of queues a worker. The queues come by
/// worker, then by port.
pub(super) fn start(
    eal: &Eal,
    config: &Config,
) -> Result<(StartedPorts, Vec<Vec<PooledQueues>>), StartError> {
    let worker_count = config.cpu.workers.len();
    let queue_count = u16::try_from(worker_count).unwrap_or(u16::MAX);
    let descriptor_count = descriptors(config);
    let pool = Mempool::new(
        eal,
        &MempoolConfig {
            name: "packets".to_owned(),
            mbuf_count: MempoolConfig::mbufs_for(
                u32::try_from(config.ports.len()).unwrap_or(u32::MAX),
                queue_count.into(),
                descriptor_count.into(),
            ),
            mtu: config.ports.iter().map(|port| port.mtu).max().unwrap_or_default(),
            numa: None,
        },
    )?;
    let mut ports = Vec::new();
    let mut by_worker: Vec<Vec<PooledQueues>> = (0..worker_count).map(|_| Vec::new()).collect();
    for port in &config.ports {
        let wish = PortConfig {
            device: port.device.clone(),
            name: port.name.clone(),
            queue_count,
            descriptor_count,
            mtu: port.mtu,
            mac: port.mac,
        };
        let (started, pairs) = Port::start_tagged(eal, &wish, port.vlan, &pool)?;
        if let Some(alarm) = rss_alarm(&started) {
            tracing::warn!("{alarm}");
        }
        let (restart, queues) = Restart::guard(pairs, pool);
        for (worker, pair) in by_worker.iter_mut().zip(queues) {
            worker.push(pair.tagged(port.vlan.is_some()));
        }
        ports.push(StartedPort { port: started, restart });
    }
    Ok((StartedPorts { ports, pool }, by_worker))
}

/// Descriptors of each queue: fewer where packet memory is small, as in the lab.
fn descriptors(config: &Config) -> u16 {
    if config.memory.packet_memory < 256 { 512 } else { PortConfig::DEFAULT_DESCRIPTOR_COUNT }
}

/// What an operator should know of how a port spreads its flows.
fn rss_alarm(port: &Port) -> Option<String> {
    let name = port.name();
    match port.rss() {
        Rss::NotNeeded | Rss::ByKernel | Rss::On { .. } => None,
        Rss::Missing => Some(format!(
            "port {name} has several queues but no RSS: how flows spread over the workers is up to \
             the device; turn its RSS on (virtio: `rss=on` at the host), or use one worker"
        )),
        Rss::NotTaken => Some(format!(
            "port {name} was told to spread flows by RSS, but says that it spreads none: one worker \
             gets all of its traffic; look for a limit of its driver or host (an SR-IOV function \
             may need RSS allowed by the host), or use one worker"
        )),
    }
}

/// What management tells of a device, as the rest of a sentence about its port.
fn news(tending: &Tending) -> (bool, String) {
    match tending {
        Tending::Reset => {
            (true, "was reset by its device or host; it is being started anew".to_owned())
        }
        Tending::Running => (false, "runs again after a reset".to_owned()),
        Tending::Failed { reason } => (
            true,
            format!("does not start after a reset ({reason}); it is tried again every second"),
        ),
        Tending::Waiting => {
            (true, "waits to be started anew: a worker does not leave its queues alone".to_owned())
        }
        Tending::Removed => (
            true,
            "lost its device, which was taken out of the machine; put it back and restart"
                .to_owned(),
        ),
    }
}

/// Two digits a byte; `None` if there are no bytes.
fn hexadecimal(bytes: &[u8]) -> Option<String> {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    let digits: String =
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    (!digits.is_empty()).then_some(digits)
}

fn told(feature: Feature) -> PortFeature {
    PortFeature {
        name: feature.name.to_owned(),
        done_by: match feature.done_by {
            dpdk::DoneBy::Device => DoneBy::Device,
            dpdk::DoneBy::Software => DoneBy::Software,
            dpdk::DoneBy::Missing => DoneBy::Missing,
            dpdk::DoneBy::NotNeeded => DoneBy::NotNeeded,
        },
        detail: feature.detail,
    }
}

impl StartedPort {
    /// What an operator should know of it, the worst first.
    fn alarm(&self) -> Option<String> {
        let name = self.port.name();
        if self.port.was_removed() {
            return Some(format!("port {name} {}", news(&Tending::Removed).1));
        }
        if self.restart.stands_still() {
            return Some(format!("port {name} stands still after a reset of its device"));
        }
        rss_alarm(&self.port)
    }
}

impl StartedPorts {
    fn port(&self, port: PortId) -> Option<&Port> {
        self.ports.get(port.index()).map(|started| &started.port)
    }
}

impl Ports for StartedPorts {
    fn mac(&self, port: PortId) -> MacAddress {
        self.port(port).map_or(MacAddress::default(), Port::mac)
    }

    fn tend(&mut self, now: Duration) -> Vec<PortNews> {
        let ids = (0..=u8::MAX).map(PortId);
        ids.zip(&mut self.ports)
            .filter_map(|(id, StartedPort { port, restart })| {
                let (is_trouble, text) = news(&restart.tend(port, now)?);
                Some(PortNews { port: id, is_trouble, text })
            })
            .collect()
    }

    fn buffers(&self) -> (u32, u32) {
        let in_use = self.pool.in_use();
        (in_use, in_use + self.pool.available())
    }

    fn state(&self, port: PortId) -> PortState {
        let Some(started) = self.ports.get(port.index()) else { return PortState::default() };
        let StartedPort { port, restart } = started;
        let stats = port.stats();
        let link = port.link();
        PortState {
            link_up: link.is_up,
            rss: matches!(port.rss(), Rss::On { .. }),
            driver: port.driver().to_owned(),
            speed_mbps: link.speed_mbps,
            queues: port.queue_count(),
            spread: port.rss().to_string(),
            rss_key: hexadecimal(&port.rss_layout().key),
            rss_table: port.rss_layout().table.clone(),
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_missed: stats.rx_missed,
            rx_errors: stats.rx_errors,
            rx_no_buffer: stats.rx_no_mbuf,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_errors: stats.tx_errors,
            resets: restart.resets(),
            features: port.features().into_iter().map(told).collect(),
            alarm: started.alarm(),
        }
    }

    fn link_up(&self, port: PortId) -> bool {
        self.port(port).is_some_and(Port::link_up)
    }
}
