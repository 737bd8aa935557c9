//! The daemon: checks, ports, workers, management, in that order, and the way back.
//!
//! The main thread becomes the management thread. It narrows itself to the management core before
//! anything else starts a thread, so that nothing but the workers may run on a worker's core.

mod cores;
mod error;
pub mod log;
mod ports;
mod watchdog;
mod workers;

use std::path::Path;

pub use error::StartError;
use watchdog::{Watchdog, Watched};

use crate::config::{self, Config};
use crate::control::admin::Server;
use crate::control::{LogLeftOut, Management, ManagementParts, metrics};
use crate::dpdk::{Eal, EalConfig};
use crate::forward::Tables;
use crate::id::WorkerId;
use crate::snapshot;

/// Runs the appliance until it is told to stop (SIGTERM, SIGINT). `log_left_out` is of
/// [`log::init`].
///
/// # Errors
/// Whatever keeps it from starting, in one sentence that says the mend. Once it forwards, only a
/// stop ends it.
pub fn run(config_path: &Path, log_left_out: LogLeftOut) -> Result<(), StartError> {
    cores::check_cpu()?;
    let (config, warnings) = config::load(config_path)?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    cores::check(&config.cpu)?;
    cores::narrow_to_management(&config.cpu)?;
    start(config_path, config, log_left_out)
}

fn start(config_path: &Path, config: Config, log_left_out: LogLeftOut) -> Result<(), StartError> {
    let admin = Server::bind(&config.admin)?;
    let metrics = config.metrics.listen.map(metrics::Endpoint::bind).transpose()?;
    let eal = Eal::init(&EalConfig {
        management_core: config.cpu.management,
        hugepages: config.memory.hugepages,
        packet_memory_mib: config.memory.packet_memory,
        devices: config.ports.iter().map(|port| port.device.clone()).collect(),
    })?;
    let (ports, queues) = ports::start(eal, &config)?;
    let tables = Tables::empty(config.appliance.flow_hash_key);
    let (publisher, readers) = snapshot::shared(tables, config.cpu.workers.len());
    let workers = workers::spawn(eal, &config, queues, readers)?;
    let watched: Vec<_> = workers.remotes.iter().map(Watched::from).collect();
    let mut management = Management::new(ManagementParts {
        config_path: config_path.to_owned(),
        config,
        publisher,
        workers: workers.remotes,
        ports: Box::new(ports),
        admin,
        metrics,
        log_left_out,
    })?;
    let watchdog = Watchdog::start(management.pulse(), &watched)?;
    tracing::info!(version = crate::version::VERSION, "forwarding");
    let result = management.run();
    tracing::info!("stopping");
    drop(watchdog);
    drop(workers.handles);
    result.map_err(StartError::from)
}

/// A worker's number and core.
pub(crate) fn numbered(config: &Config) -> impl Iterator<Item = (WorkerId, usize)> + '_ {
    (0..=u16::MAX).map(WorkerId).zip(config.cpu.workers.iter().copied())
}
