//! The generator alone: how fast it sends and counts with nothing at the other end.

use lodestone::dpdk::{Eal, EalConfig, Mempool, connected_rings, tsc_hz};
use serde::Serialize;

use super::{Place, unknown_link};
use crate::engine::{self, Bounds, Wire, Work};
use crate::in_process;
use crate::io::{self, End, Rotation};
use crate::neighbour::Hosts;
use crate::pace::Pace;
use crate::prebuilt::Prebuilt;
use crate::profile::Profile;
use crate::replay;
use crate::traffic::Generator;

/// For how long it is measured.
const SECONDS: f64 = 0.3;

/// How fast the generator itself is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OwnRate {
    /// Packets a second, sent and counted.
    pub generator_packets_per_second: f64,
    /// Cycles of the time stamp counter a packet.
    pub cycles_per_packet: f64,
    /// The counter's cycles a second.
    pub tsc_hz: u64,
}

/// Measures the generator with the frames of a profile and no device but rings of its own.
///
/// # Errors
/// DPDK does not start.
pub fn own_rate(place: &Place, profile: &Profile) -> anyhow::Result<OwnRate> {
    let addresses = unknown_link();
    let mut frames = match &profile.replay {
        Some(replay) => replay::read(replay, &addresses, false)?.0,
        None => Prebuilt::new(profile, &mut Generator::new(profile, &addresses), false),
    };
    let core = place.core.unwrap_or(0);
    in_process::pin(core)?;
    let eal = Eal::init(&EalConfig {
        management_core: core,
        hugepages: place.hugepages,
        packet_memory_mib: io::memory_mib(place.mtu, io::SPARE) + 64,
        devices: Vec::new(),
    })?;
    let pool = io::pool(eal, place.mtu, io::SPARE)?;
    measure(eal, &pool, &mut Rotation::new(pool)?, &mut frames)
}

/// Measures with DPDK running already.
///
/// # Errors
/// DPDK refuses two more devices.
pub(super) fn measure(
    eal: &'static Eal,
    pool: &Mempool,
    rotation: &mut Rotation,
    frames: &mut Prebuilt,
) -> anyhow::Result<OwnRate> {
    let hz = tsc_hz(eal);
    let names = connected_rings(eal, ["pktgen_self0", "pktgen_self1"], in_process::SHORT_RING)?;
    let mut ends = names
        .iter()
        .map(|name| End::start(eal, pool, name, pool.mtu()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    frames.is_encapsulated = false;
    let hosts = &mut Hosts::default();
    let mut wire = Wire { ends: &mut ends, sender: 0, rotation, hosts };
    let bounds = Bounds {
        packets: None,
        cycles: Some((SECONDS * hz as f64) as u64),
        window: None,
        hz,
        seed: 0,
    };
    let mut pace = Pace::new(None, hz, 0);
    let counts = engine::run(&mut wire, Work::Count(frames), &mut pace, bounds, |_, _, _| {})?;
    for end in ends {
        end.stop(eal)?;
    }
    let packets = counts.returned.max(1) as f64;
    Ok(OwnRate {
        generator_packets_per_second: packets * hz as f64 / counts.cycles.max(1) as f64,
        cycles_per_packet: counts.cycles as f64 / packets,
        tsc_hz: hz,
    })
}
