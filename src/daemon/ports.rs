//! Starting the ports, and what management sees of them.

use super::StartError;
use crate::config::Config;
use crate::control::{PortState, Ports};
use crate::dpdk::{Eal, Mempool, MempoolConfig, PooledQueues, Port, PortConfig, Rss};
use crate::id::PortId;
use crate::packet::MacAddress;

/// Every port, started.
#[derive(Debug)]
pub(super) struct StartedPorts {
    ports: Vec<Port>,
    pool: Mempool,
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
        let (started, queues) = Port::start(eal, &wish, &pool)?;
        if let Some(alarm) = rss_alarm(&started) {
            tracing::warn!("{alarm}");
        }
        for (worker, pair) in by_worker.iter_mut().zip(queues) {
            worker.push(PooledQueues::new(pair, pool));
        }
        ports.push(started);
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

impl Ports for StartedPorts {
    fn mac(&self, port: PortId) -> MacAddress {
        self.ports.get(port.index()).map_or(MacAddress::default(), Port::mac)
    }

    fn buffers(&self) -> (u32, u32) {
        let in_use = self.pool.in_use();
        (in_use, in_use + self.pool.available())
    }

    fn state(&self, port: PortId) -> PortState {
        let Some(port) = self.ports.get(port.index()) else { return PortState::default() };
        let stats = port.stats();
        let link = port.link();
        PortState {
            link_up: link.is_up,
            rss: matches!(port.rss(), Rss::On { .. }),
            driver: port.driver().to_owned(),
            speed_mbps: link.speed_mbps,
            queues: port.queue_count(),
            spread: port.rss().to_string(),
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            rx_missed: stats.rx_missed,
            rx_errors: stats.rx_errors,
            rx_no_buffer: stats.rx_no_mbuf,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            tx_errors: stats.tx_errors,
            alarm: rss_alarm(port),
        }
    }

    fn link_up(&self, port: PortId) -> bool {
        self.ports.get(port.index()).is_some_and(Port::link_up)
    }
}
