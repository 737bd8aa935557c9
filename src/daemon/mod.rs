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
use crate::control::{LogLeftOut, Management, ManagementParts, Stopper, metrics};
use crate::dpdk::{Eal, EalConfig};
use crate::forward::{DropReason, Tables};
use crate::id::WorkerId;
use crate::snapshot;
use crate::stats::StatsView;

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
    let sockets = Sockets::bind(&config)?;
    let eal = Eal::init(&EalConfig {
        management_core: config.cpu.management,
        hugepages: config.memory.hugepages,
        packet_memory_mib: config.memory.packet_memory,
        devices: config.ports.iter().map(|port| port.device.clone()).collect(),
    })?;
    Appliance::start(eal, config_path, config, sockets, log_left_out)?.run()
}

/// The sockets that others connect to. They are bound before anything else starts, so that a taken
/// address is told at once.
pub struct Sockets {
    admin: Server,
    metrics: Option<metrics::Endpoint>,
}

impl Sockets {
    /// Binds what the configuration names.
    ///
    /// # Errors
    /// A path or an address that is taken or may not be used.
    pub fn bind(config: &Config) -> Result<Self, StartError> {
        Ok(Self {
            admin: Server::bind(&config.admin)?,
            metrics: config.metrics.listen.map(metrics::Endpoint::bind).transpose()?,
        })
    }
}

/// An appliance whose workers poll. The daemon is one; a generator that measures the appliance in
/// its own process starts another over devices that it made.
pub struct Appliance {
    stats: Vec<StatsView<DropReason>>,
    management: Management,
    watchdog: Watchdog,
    workers: workers::Handles,
}

impl Appliance {
    /// Starts ports and workers. The devices of the configuration's ports exist already, and
    /// whoever calls has checked the cores and narrowed its threads to the management core.
    ///
    /// # Errors
    /// Whatever keeps it from starting, in one sentence that says the mend.
    pub fn start(
        eal: &'static Eal,
        config_path: &Path,
        config: Config,
        sockets: Sockets,
        log_left_out: LogLeftOut,
    ) -> Result<Self, StartError> {
        let (ports, queues) = ports::start(eal, &config)?;
        let tables = Tables::empty(config.appliance.flow_hash_key);
        let (publisher, readers) = snapshot::shared(tables, config.cpu.workers.len());
        let workers = workers::spawn(eal, &config, queues, readers)?;
        let stats = workers.remotes.iter().map(|worker| worker.stats.clone()).collect();
        let watched: Vec<_> = workers.remotes.iter().map(Watched::from).collect();
        let management = Management::new(ManagementParts {
            config_path: config_path.to_owned(),
            config,
            publisher,
            workers: workers.remotes,
            ports: Box::new(ports),
            admin: sockets.admin,
            metrics: sockets.metrics,
            log_left_out,
        })?;
        let watchdog = Watchdog::start(management.pulse(), &watched)?;
        tracing::info!(version = crate::version::VERSION, "forwarding");
        Ok(Self { stats, management, watchdog, workers: workers.handles })
    }

    /// What ends [`Self::run`] from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.management.stopper()
    }

    /// What each worker counts, to be read from any thread.
    #[must_use]
    pub fn stats(&self) -> Vec<StatsView<DropReason>> {
        self.stats.clone()
    }

    /// Manages until it is told to stop, then stops the workers.
    ///
    /// # Errors
    /// Management cannot run.
    pub fn run(mut self) -> Result<(), StartError> {
        let result = self.management.run();
        tracing::info!("stopping");
        drop(self.watchdog);
        drop(self.workers);
        result.map_err(StartError::from)
    }
}

/// A worker's number and core.
pub(crate) fn numbered(config: &Config) -> impl Iterator<Item = (WorkerId, usize)> + '_ {
    (0..=u16::MAX).map(WorkerId).zip(config.cpu.workers.iter().copied())
}
