//! The appliance in this process: its unchanged worker on its core, its management on another
//! thread, and devices that lead nowhere but here.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use core_affinity::CoreId;
use lodestone::cli::Client;
use lodestone::config::{self, Config};
use lodestone::control::Stopper;
use lodestone::control::protocol::{Request, params::NoParams, reply};
use lodestone::daemon::{Appliance, Sockets};
use lodestone::dpdk::{Eal, EalConfig, Mempool, connected_rings};
use lodestone::forward::DropReason;
use lodestone::stats::{Imbalance, StatsView};
use tempfile::TempDir;

use crate::engine::Wire;
use crate::io::{self, End};
use crate::pause;

/// Packets between the two sides at most, less one, while they are verified: enough to go on with
/// while the other side's core does something else.
pub const LONG_RING: u32 = 8192;
/// The same while they are counted: as many as a device's queue has.
pub const SHORT_RING: u32 = 1024;

/// How long the appliance may take to know its neighbours.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// How often it is looked whether its counters add up.
const LAW_LOOKS: u32 = 40;
/// After its neighbours are known: tables with them come at most ten times a second.
const SETTLE: Duration = Duration::from_millis(250);

/// A running appliance, and the generator's ends of its ports.
pub struct InProcess {
    /// DPDK.
    pub eal: &'static Eal,
    /// Where the generator's frames come from.
    pub pool: Mempool,
    /// By the place of the appliance's port.
    pub ends: Vec<End>,
    stats: Vec<StatsView<DropReason>>,
    stopper: Stopper,
    management: JoinHandle<Result<(), String>>,
    /// The admin socket is in it.
    folder: TempDir,
}

/// Reads the configuration of an appliance and makes it one of this process: other devices, an
/// admin socket of its own, no metrics.
///
/// # Errors
/// It cannot be read, or is for more than one worker.
pub fn adapted(path: &Path, folder: &TempDir, hugepages: bool) -> anyhow::Result<Config> {
    let (mut config, _) = config::load(path).map_err(|error| {
        anyhow::anyhow!("{}", error.to_string().lines().collect::<Vec<_>>().join("; "))
    })?;
    ensure!(
        config.cpu.workers.len() == 1,
        "{} has {} workers, and in this process there is one; give `workers` one core",
        path.display(),
        config.cpu.workers.len()
    );
    config.memory.hugepages &= hugepages;
    config.admin.socket = folder.path().join("admin.sock");
    config.admin.group = None;
    config.admin.read_only_socket = None;
    config.admin.read_only_group = None;
    config.metrics.listen = None;
    for (place, port) in config.ports.iter_mut().enumerate() {
        port.device = format!("net_ring_appliance{place}");
        // Rings have no address that could be set.
        port.mac = None;
    }
    Ok(config)
}

/// A folder for the admin socket.
///
/// # Errors
/// There is no place for one.
pub fn folder() -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("pktgen-").tempdir().context("no folder for the admin socket")
}

/// The generator runs on `core`, and all that it starts but the worker.
///
/// # Errors
/// The core is not there.
pub fn pin(core: usize) -> anyhow::Result<()> {
    ensure!(
        core_affinity::set_for_current(CoreId { id: core }),
        "core {core} cannot be used; give --core another"
    );
    Ok(())
}

impl InProcess {
    /// Starts DPDK, the rings and the appliance.
    ///
    /// # Errors
    /// A part does not start.
    pub fn start(
        config: &Config,
        path: &Path,
        core: usize,
        ring_len: u32,
        folder: TempDir,
    ) -> anyhow::Result<Self> {
        ensure!(
            !config.cpu.workers.contains(&core),
            "core {core} is the worker's; give --core another"
        );
        pin(core)?;
        let mtu = config.ports.iter().map(|port| port.mtu).max().unwrap_or(1500);
        let spare = if ring_len > SHORT_RING { io::LONG_SPARE } else { io::SPARE };
        let eal = Eal::init(&EalConfig {
            management_core: core,
            hugepages: config.memory.hugepages,
            packet_memory_mib: config.memory.packet_memory + io::memory_mib(mtu, spare),
            devices: Vec::new(),
        })?;
        // Before any port is started, as all pools must be.
        let pool = io::pool(eal, mtu, spare)?;
        let mut devices = Vec::new();
        for place in 0..config.ports.len() {
            let names = [format!("appliance{place}"), format!("pktgen{place}")];
            let [_, ours] = connected_rings(eal, [&names[0], &names[1]], ring_len)?;
            devices.push(ours);
        }
        let sockets = Sockets::bind(config)?;
        let appliance = Appliance::start(eal, path, config.clone(), sockets, Arc::default())?;
        let (stats, stopper) = (appliance.stats(), appliance.stopper());
        let management = std::thread::Builder::new()
            .name("management".into())
            .spawn(move || appliance.run().map_err(|error| error.to_string()))?;
        let ends = devices
            .iter()
            .map(|device| End::start(eal, &pool, device, mtu))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { eal, pool, ends, stats, stopper, management, folder })
    }

    /// Whether each frame that the worker got, or made itself, was sent or counted as dropped or
    /// punted. It is asked when nothing is on its way; a frame of management may be, so that it is
    /// looked at more than once.
    ///
    /// # Errors
    /// By how many frames the counters are apart.
    pub fn conservation(&self) -> Result<(), Imbalance> {
        let law = || self.stats.iter().try_for_each(|worker| worker.snapshot().conservation());
        for _ in 0..LAW_LOOKS {
            if law().is_ok() {
                return Ok(());
            }
            pause(POLL);
        }
        law()
    }

    /// A connection to its management.
    ///
    /// # Errors
    /// It does not answer.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.folder.path().join("admin.sock"))?)
    }

    /// Stops management and the worker.
    ///
    /// # Errors
    /// Management failed.
    pub fn stop(self) -> anyhow::Result<()> {
        self.stopper.stop();
        match self.management.join() {
            Ok(result) => result.map_err(anyhow::Error::msg),
            Err(_) => bail!("management panicked"),
        }
    }
}

/// Plays the network until the appliance knows all next hops and every worker has tables with them.
///
/// # Errors
/// It does not come to know them.
pub fn wait_until_ready(client: &mut Client, wire: &mut Wire<'_>) -> anyhow::Result<()> {
    for _ in 0..PATIENCE.as_millis() / POLL.as_millis() {
        wire.serve();
        let neighbours: reply::NeighboursReply =
            serde_json::from_str(&client.call(&Request::ShowNeighbours(NoParams {}))?)?;
        if neighbours.neighbours.iter().all(|neighbour| neighbour.mac.is_some()) {
            for _ in 0..SETTLE.as_millis() / POLL.as_millis() {
                wire.serve();
                pause(POLL);
            }
            let status: reply::StatusReply =
                serde_json::from_str(&client.call(&Request::Status(NoParams {}))?)?;
            if status.workers.iter().all(|worker| worker.generation == status.generation) {
                return Ok(());
            }
        }
        pause(POLL);
    }
    bail!("the appliance did not find its next hops; give its ports gateways, or backends on link")
}
