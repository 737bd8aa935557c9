//! Sends, at a pace, a bounded number of packets to one address.

use std::fmt;
use std::hint;
use std::time::Duration;

use anyhow::Context;
use lodestone::dpdk::{
    BURST, Burst, Eal, EalConfig, Mbuf, Mempool, MempoolConfig, Port, PortConfig, TxQueue, cycles,
    free_burst, tsc_hz,
};
use lodestone::packet::PacketBuf;
use serde::Serialize;

use crate::command::{Arguments, Send};
use crate::flow::Flows;
use crate::io::wait_for_link;
use crate::pause;

const PACKET_MEMORY_MIB: u32 = 64;

/// How long a device may refuse packets, in tries, until they count as not sent.
const TRIES: u32 = 10_000;

/// How long a device may take to send what it has accepted.
const SETTLE_TIME: Duration = Duration::from_millis(20);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Packets that the device took.
    pub packets: u64,
    /// Packets that it did not take, or that there was no buffer for.
    pub not_sent: u64,
    /// Packets that it took and says it did not send.
    pub device_errors: u64,
    /// Bytes of the packets that it took, without the check sequence.
    pub bytes: u64,
    /// From the first packet to the last.
    pub seconds: f64,
    /// Packets taken a second.
    pub packets_per_second: f64,
}

impl Report {
    /// Whether every packet was sent.
    pub fn is_complete(&self) -> bool {
        self.not_sent == 0 && self.device_errors == 0
    }

    /// With what the device says afterwards.
    pub fn with_device_errors(self, device_errors: u64) -> Self {
        Self { device_errors, ..self }
    }

    /// One line of JSON.
    pub fn to_json(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} packets ({} bytes) sent in {:.3} s, {:.0} packets/s; {} not sent, {} device errors",
            self.packets,
            self.bytes,
            self.seconds,
            self.packets_per_second,
            self.not_sent,
            self.device_errors
        )
    }
}

/// Starts the device, sends, and stops it.
///
/// # Errors
/// The device does not start, or its link stays down; nothing was sent then.
pub fn run(task: &Send, arguments: &Arguments) -> anyhow::Result<Report> {
    // What the arguments get wrong is told before DPDK starts.
    let flows = Flows::new(task.source, task.destination, task.kind, task.payload, task.flows)?;
    let place = arguments.place();
    let eal = Eal::init(&EalConfig {
        management_core: place.core.unwrap_or(0),
        hugepages: place.hugepages,
        packet_memory_mib: PACKET_MEMORY_MIB,
        devices: vec![task.device.clone()],
    })?;
    let descriptor_count = PortConfig::DEFAULT_DESCRIPTOR_COUNT;
    let pool = Mempool::new(
        eal,
        &MempoolConfig {
            name: "pktgen".to_owned(),
            mbuf_count: MempoolConfig::mbufs_for(1, 1, descriptor_count.into()),
            mtu: place.mtu,
            numa: None,
        },
    )?;
    let config = PortConfig {
        device: task.device.clone(),
        name: "pktgen".to_owned(),
        queue_count: 1,
        descriptor_count,
        mtu: place.mtu,
        mac: None,
    };
    let (port, mut queues) = Port::start(eal, &config, &pool)?;
    wait_for_link(&port)?;
    let frames = flows.frames(port.mac(), task.destination_mac);
    let (_, tx) = queues.first_mut().context("the port has no queue")?;
    let report = send(eal, &pool, tx, &frames, task.count, task.rate);
    let report = report.with_device_errors(settle(&port));
    port.stop(eal, queues)?;
    Ok(report)
}

/// Sends `count` packets, one frame after the other and round again, at `rate` packets a second.
fn send(
    eal: &Eal,
    pool: &Mempool,
    tx: &mut TxQueue,
    frames: &[Vec<u8>],
    count: u64,
    rate: Option<u64>,
) -> Report {
    let hz = tsc_hz(eal);
    let mut frames = frames.iter().cycle();
    let mut tally = Tally::default();
    let mut burst = Burst::new();
    let start = cycles();
    let mut begun = 0;
    while begun < count {
        let due = due_count(rate, hz, cycles().saturating_sub(start)).min(count);
        let wanted = due.saturating_sub(begun).min(BURST as u64);
        for frame in frames.by_ref().take(usize::try_from(wanted).unwrap_or(BURST)) {
            match filled(pool, frame) {
                Some(mbuf) => burst.push(mbuf),
                None => tally.not_sent += 1,
            }
        }
        begun += wanted;
        transmit(tx, &mut burst, &mut tally);
        if wanted == 0 {
            hint::spin_loop();
        }
    }
    tally.report(seconds(cycles().saturating_sub(start), hz))
}

/// A buffer with this frame, if there is one and the frame fits it.
fn filled(pool: &Mempool, frame: &[u8]) -> Option<Mbuf> {
    let mut mbuf = pool.alloc()?;
    mbuf.fill(frame).then_some(mbuf)
}

/// Waits until the device has had time for what it took, and returns how many of those it lost.
fn settle(port: &Port) -> u64 {
    pause(SETTLE_TIME);
    port.stats().tx_errors
}

#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    not_sent: u64,
}

impl Tally {
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn report(&self, seconds: f64) -> Report {
        Report {
            packets: self.packets,
            not_sent: self.not_sent,
            device_errors: 0,
            bytes: self.bytes,
            seconds,
            packets_per_second: if seconds > 0.0 { self.packets as f64 / seconds } else { 0.0 },
        }
    }
}

/// Sends a burst with a bounded number of tries, and leaves it empty.
fn transmit(tx: &mut TxQueue, burst: &mut Burst, tally: &mut Tally) {
    let mut bytes = total_len(burst);
    for _ in 0..TRIES {
        if burst.is_empty() {
            break;
        }
        tally.packets += tx.tx_burst(burst) as u64;
    }
    bytes -= total_len(burst);
    tally.bytes += bytes;
    tally.not_sent += burst.len() as u64;
    free_burst(burst);
}

fn total_len(burst: &Burst) -> u64 {
    burst.iter().map(|mbuf| mbuf.bytes().len() as u64).sum()
}

/// How many packets may have begun after some cycles; the first is due at once.
fn due_count(rate: Option<u64>, hz: u64, elapsed: u64) -> u64 {
    let Some(rate) = rate else { return u64::MAX };
    let due = u128::from(elapsed) * u128::from(rate) / u128::from(hz.max(1));
    u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
}

#[expect(clippy::cast_precision_loss, reason = "a duration for people")]
fn seconds(cycles: u64, hz: u64) -> f64 {
    cycles as f64 / hz.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_the_rate() {
        let hz = 2_000_000_000;
        assert_eq!(due_count(Some(1000), hz, 0), 1);
        assert_eq!(due_count(Some(1000), hz, hz / 1000 - 1), 1);
        assert_eq!(due_count(Some(1000), hz, hz / 1000), 2);
        assert_eq!(due_count(Some(1000), hz, hz * 3600), 3_600_001);
        assert_eq!(due_count(None, hz, 0), u64::MAX);
    }

    #[test]
    fn only_a_report_without_losses_is_complete() {
        let whole = Tally { packets: 3, bytes: 180, not_sent: 0 }.report(1.5);
        assert!(whole.is_complete());
        assert!((whole.packets_per_second - 2.0).abs() < 1e-9);
        assert!(!whole.with_device_errors(1).is_complete());
        assert!(!Tally { packets: 2, bytes: 120, not_sent: 1 }.report(1.0).is_complete());
    }
}
