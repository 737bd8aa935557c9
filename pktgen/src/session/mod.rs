//! A run from beginning to end: over the devices that the command line names, or with the appliance
//! in this process.

mod own_rate;
mod search;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use lodestone::cli::Client;
use lodestone::config::Config;
use lodestone::control::protocol::{Request, params::NoParams, reply};
use lodestone::dpdk::{Eal, EalConfig, Mempool, tsc_hz};
use lodestone::packet::MacAddress;

pub use own_rate::own_rate;

use crate::change::Timeline;
use crate::engine::{self, Bounds, Counts, Wire, Work};
use crate::expect::Expectation;
use crate::expect::fleet::Fleet;
use crate::frame::LinkAddresses;
use crate::in_process::{self, InProcess};
use crate::io::{self, End, Rotation};
use crate::neighbour::{CLIENT_MAC, Hosts};
use crate::pace::{Pace, Rate};
use crate::prebuilt::Prebuilt;
use crate::profile::{Mode, Profile};
use crate::replay;
use crate::report::live::Live;
use crate::report::{RunReport, Verification};
use crate::traffic::Generator;
use crate::verify::violation::Violation;
use crate::verify::{AppliancePorts, Verifier};

/// Packets on their way at most while all are checked, unless the profile says otherwise: half of
/// what a ring in this process holds.
const WINDOW: u32 = in_process::LONG_RING / 2;
/// The same over devices, whose queues are shorter.
const DEVICE_WINDOW: u32 = 512;

/// Where a run happens.
#[derive(Clone, Debug)]
pub struct Place {
    /// The appliance's configuration, of an appliance in this process.
    pub in_process: Option<PathBuf>,
    /// Devices, in the order of the appliance's ports.
    pub devices: Vec<String>,
    /// The configuration of the appliance at the other end, for verifying.
    pub appliance: Option<PathBuf>,
    /// Where that appliance takes changes.
    pub admin_socket: Option<PathBuf>,
    /// The next hop's link-layer address.
    pub destination_mac: Option<MacAddress>,
    /// The generator's core; the appliance's management core if absent and in one process.
    pub core: Option<usize>,
    /// Packet memory may come from hugepages.
    pub hugepages: bool,
    /// The MTU of devices.
    pub mtu: u16,
    /// Nothing is shown meanwhile.
    pub is_quiet: bool,
}

/// Devices, memory, and who is at the other end.
pub struct Session {
    eal: &'static Eal,
    hz: u64,
    pool: Mempool,
    ends: Vec<End>,
    rotation: Rotation,
    hosts: Hosts,
    addresses: LinkAddresses,
    appliance: Option<Config>,
    macs: Vec<Option<MacAddress>>,
    client: Option<Client>,
    in_process: Option<InProcess>,
    is_quiet: bool,
}

impl Session {
    /// Checks all that can be checked, then starts DPDK, the devices and, if it is to run here, the
    /// appliance.
    ///
    /// # Errors
    /// A sentence; nothing was sent.
    pub fn start(place: &Place, profile: &Profile) -> anyhow::Result<Self> {
        match &place.in_process {
            Some(path) => Self::start_in_process(place, path, profile),
            None => Self::start_on_devices(place, profile),
        }
    }

    fn start_in_process(place: &Place, path: &Path, profile: &Profile) -> anyhow::Result<Self> {
        let folder = in_process::folder()?;
        let config = in_process::adapted(path, &folder, place.hugepages)?;
        check(&config, profile)?;
        if let Some(replay) = &profile.replay {
            // A broken capture is told before anything starts.
            replay::read(replay, &unknown_link(), true)?;
        }
        let core = place.core.unwrap_or(config.cpu.management);
        let ring_len = match profile.mode {
            Mode::Verify => in_process::LONG_RING,
            Mode::Count => in_process::SHORT_RING,
        };
        let mut appliance = InProcess::start(&config, path, core, ring_len, folder)?;
        let ends = std::mem::take(&mut appliance.ends);
        // Rings have no address of their own: both ends have the same.
        let macs: Vec<_> = ends.iter().map(|end| Some(end.port.mac())).collect();
        let addresses = LinkAddresses {
            source: CLIENT_MAC,
            destination: macs.first().copied().flatten().unwrap_or_default(),
            vlan: config.ports.first().and_then(|port| port.vlan),
        };
        let mut session = Self {
            eal: appliance.eal,
            hz: tsc_hz(appliance.eal),
            pool: appliance.pool,
            ends,
            rotation: Rotation::new(appliance.pool)?,
            hosts: Hosts::of(&config),
            addresses,
            appliance: Some(config),
            macs,
            client: None,
            in_process: None,
            is_quiet: place.is_quiet,
        };
        let mut client = appliance.client()?;
        in_process::wait_until_ready(&mut client, &mut session.wire())?;
        session.client = Some(client);
        session.in_process = Some(appliance);
        Ok(session)
    }

    fn start_on_devices(place: &Place, profile: &Profile) -> anyhow::Result<Self> {
        ensure!(!place.devices.is_empty(), "where to? give --device, or --in-process CONFIG");
        let appliance = match &place.appliance {
            Some(path) => {
                let (config, _) = lodestone::config::load(path)
                    .map_err(|error| anyhow::anyhow!(error.to_string().replace('\n', "; ")))?;
                check(&config, profile)?;
                Some(config)
            }
            None if profile.mode == Mode::Verify => {
                bail!(
                    "what is expected? give --appliance CONFIG, or a profile with mode = \"count\""
                )
            }
            None => None,
        };
        if !profile.changes.is_empty() {
            ensure!(place.admin_socket.is_some(), "who changes? give --admin-socket PATH");
        }
        let destination_mac =
            place.destination_mac.context("give --destination-mac of the next hop")?;
        if let Some(replay) = &profile.replay {
            replay::read(replay, &unknown_link(), false)?;
        }
        let core = place.core.unwrap_or(0);
        in_process::pin(core)?;
        let eal = Eal::init(&EalConfig {
            management_core: core,
            hugepages: place.hugepages,
            packet_memory_mib: io::memory_mib(place.mtu, io::SPARE) + 64,
            devices: place.devices.clone(),
        })?;
        let pool = io::pool(eal, place.mtu, io::SPARE)?;
        let ends = place
            .devices
            .iter()
            .map(|device| End::start(eal, &pool, device, place.mtu))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut macs = vec![None; ends.len()];
        macs[0] = Some(destination_mac);
        let vlan =
            appliance.as_ref().and_then(|config| config.ports.first().and_then(|port| port.vlan));
        let source = ends[0].port.mac();
        Ok(Self {
            eal,
            hz: tsc_hz(eal),
            pool,
            ends,
            rotation: Rotation::new(pool)?,
            hosts: appliance.as_ref().map(Hosts::of).unwrap_or_default(),
            addresses: LinkAddresses { source, destination: destination_mac, vlan },
            appliance,
            macs,
            client: place.admin_socket.as_ref().map(|path| Client::connect(path)).transpose()?,
            in_process: None,
            is_quiet: place.is_quiet,
        })
    }

    fn wire(&mut self) -> Wire<'_> {
        Wire {
            ends: &mut self.ends,
            sender: 0,
            rotation: &mut self.rotation,
            hosts: &mut self.hosts,
        }
    }

    fn bounds(&self, profile: &Profile, window: Option<u32>) -> Bounds {
        Bounds {
            packets: profile.packets,
            cycles: profile.duration.map(|seconds| (seconds * self.hz as f64) as u64),
            window: profile.window.or(window).map(u64::from),
            hz: self.hz,
            seed: profile.seed,
        }
    }

    /// A run of a profile without a search.
    ///
    /// # Errors
    /// A change is refused, or a capture cannot be read.
    pub fn run(&mut self, profile: &Profile) -> anyhow::Result<RunReport> {
        match profile.mode {
            Mode::Verify => self.verify(profile),
            Mode::Count => {
                let own_rate = self.own_rate(profile)?;
                let mut frames = self.frames(profile, false)?;
                let counts = self.count(profile, &mut frames, profile.rate)?;
                let mut report = RunReport::new(Mode::Count, &counts, self.hz);
                report.generator_packets_per_second = Some(own_rate);
                report.appliance_drops = self.drops()?;
                Ok(report)
            }
        }
    }

    fn verify(&mut self, profile: &Profile) -> anyhow::Result<RunReport> {
        let config = self.appliance.clone().context("there is no appliance to verify")?;
        let mut generator = Generator::new(profile, &self.addresses);
        let expectation = Expectation::new(Fleet::new(&config)?, config.appliance.flow_hash_key.0);
        let ports = AppliancePorts { ports: config.ports.clone(), macs: self.macs.clone() };
        let mut verifier =
            Verifier::new(expectation, generator.sets(), ports, profile.seed, self.hz);
        let mut timeline = match (profile.changes.is_empty(), &self.in_process) {
            (true, _) => None,
            (false, Some(appliance)) => {
                Some(Timeline::new(profile.changes.clone(), appliance.client()?)?)
            }
            (false, None) => {
                let client = self.client.take().context("who changes? give --admin-socket PATH")?;
                Some(Timeline::new(profile.changes.clone(), client)?)
            }
        };
        let mut pace = Pace::new(profile.rate, self.hz, profile.seed);
        let window = if self.in_process.is_some() { WINDOW } else { DEVICE_WINDOW };
        let bounds = self.bounds(profile, Some(window));
        let mut live = Live::new(self.hz, self.is_quiet);
        let work = Work::Verify {
            generator: &mut generator,
            verifier: &mut verifier,
            timeline: timeline.as_mut(),
        };
        let outcome =
            engine::run(&mut self.wire(), work, &mut pace, bounds, |counts, verifier, at| {
                live.show(counts, verifier, at);
            });
        live.end();
        let counts = outcome?;
        verifier.finish(counts.forwarded, generator.sets());
        if let Some(Err(imbalance)) = self.in_process.as_ref().map(InProcess::conservation) {
            let apart = imbalance.came.abs_diff(imbalance.went);
            verifier.violations.add(Violation::Uncounted, apart, || imbalance.to_string());
        }
        let mut verification = Verification::new(&verifier);
        if let Some(timeline) = timeline {
            verification.change_left_out = timeline.waits_for();
            verification.changes = timeline.reports;
        }
        let mut report = RunReport::new(Mode::Verify, &counts, self.hz);
        report.verification = Some(verification);
        report.appliance_drops = self.drops()?;
        Ok(report)
    }

    /// What the appliance in this process says it dropped, by reason.
    fn drops(&mut self) -> anyhow::Result<Option<BTreeMap<String, u64>>> {
        if self.in_process.is_none() {
            return Ok(None);
        }
        let Some(client) = &mut self.client else { return Ok(None) };
        let answer = client.call(&Request::ShowDrops(NoParams {}))?;
        let drops: reply::DropsReply = serde_json::from_str(&answer)?;
        let counted = drops.reasons.into_iter().filter(|reason| reason.total > 0);
        Ok(Some(counted.map(|reason| (reason.reason, reason.total)).collect()))
    }

    fn frames(&self, profile: &Profile, is_timed: bool) -> anyhow::Result<Prebuilt> {
        let is_encapsulated = self.appliance.is_some();
        if let Some(replay) = &profile.replay {
            let (frames, _) = replay::read(replay, &self.addresses, is_encapsulated)?;
            return Ok(frames);
        }
        let mut generator = Generator::new(profile, &self.addresses);
        let mut frames = Prebuilt::new(profile, &mut generator, is_encapsulated);
        if is_timed {
            frames.keep_time(self.hz);
        }
        Ok(frames)
    }

    fn count(
        &mut self,
        profile: &Profile,
        frames: &mut Prebuilt,
        rate: Option<Rate>,
    ) -> anyhow::Result<Counts> {
        let mut pace = Pace::new(rate, self.hz, profile.seed);
        let bounds = self.bounds(profile, None);
        let mut live = Live::new(self.hz, self.is_quiet);
        let work = Work::Count(frames);
        let counts = engine::run(&mut self.wire(), work, &mut pace, bounds, |counts, _, at| {
            live.show(counts, None, at);
        })?;
        live.end();
        Ok(counts)
    }

    /// The rate of sending and counting, without anything at the other end: packets a second.
    fn own_rate(&mut self, profile: &Profile) -> anyhow::Result<f64> {
        let mut frames = self.frames(profile, false)?;
        let own = own_rate::measure(self.eal, &self.pool, &mut self.rotation, &mut frames)?;
        Ok(own.generator_packets_per_second)
    }

    /// Stops what was started.
    ///
    /// # Errors
    /// A part does not stop in order.
    pub fn stop(self) -> anyhow::Result<()> {
        let Self { eal, ends, rotation, in_process, .. } = self;
        if let Some(appliance) = in_process {
            appliance.stop()?;
        }
        drop(rotation);
        for end in ends {
            end.stop(eal)?;
        }
        Ok(())
    }
}

fn unknown_link() -> LinkAddresses {
    LinkAddresses { source: MacAddress::default(), destination: MacAddress::default(), vlan: None }
}

/// Whether an appliance is one that this profile can be run against.
fn check(config: &Config, profile: &Profile) -> anyhow::Result<()> {
    if profile.mode == Mode::Count {
        return Ok(());
    }
    let fleet = Fleet::new(config)?;
    for traffic in &profile.traffic {
        let protocol = match traffic.kind {
            crate::profile::Kind::Udp | crate::profile::Kind::UdpFragments => 17,
            _ => 6,
        };
        let service = fleet.service_of(traffic.destination, protocol, traffic.port);
        ensure!(
            service.is_some() || traffic.expect == crate::profile::Expect::Dropped,
            "no service of the appliance has {} port {}; correct the profile, or give expect = \
             \"dropped\"",
            traffic.destination,
            traffic.port
        );
    }
    let mut fleet = fleet;
    for change in &profile.changes {
        fleet = fleet.after(&change.request)?;
    }
    Ok(())
}
