//! Packet memory and ports.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, ensure};
use lodestone::dpdk::{
    BURST, Burst, Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, RxQueue, TxQueue, free_burst,
};

use crate::pause;

/// Buffers that take turns: more than 16 MiB of them, so that no cache holds the frames of a run.
pub const ROTATION: usize = 8192;
/// Bytes of a buffer's frame at least.
pub const BUFFER_LEN: usize = 2048;
const _: () = assert!(ROTATION * BUFFER_LEN >= 16 << 20);

/// Buffers beside the rotation, for full rings, caches and bursts in flight: with queues of a
/// device's length, and with the long rings of verifying runs in one process.
pub const SPARE: u32 = 8_191;
/// See [`SPARE`].
pub const LONG_SPARE: u32 = 24_575;

const LINK_PATIENCE: Duration = Duration::from_secs(5);
const LINK_POLL: Duration = Duration::from_millis(20);

/// MiB of packet memory that the generator takes, with so many buffers beside the rotation.
pub fn memory_mib(mtu: u16, spare: u32) -> u32 {
    let buffer = u32::from(mtu).max(2048) + 1024;
    (ROTATION as u32 + spare + 1).saturating_mul(buffer).div_ceil(1 << 20)
}

/// The pool of all frames that are sent.
///
/// # Errors
/// Too little packet memory.
pub fn pool(eal: &Eal, mtu: u16, spare: u32) -> anyhow::Result<Mempool> {
    let config = MempoolConfig {
        name: "pktgen".to_owned(),
        mbuf_count: ROTATION as u32 + spare,
        mtu,
        numa: None,
    };
    Ok(Mempool::new(eal, &config)?)
}

/// Buffers in a queue: each that is taken was at the other end before.
pub struct Rotation {
    pool: Mempool,
    held: VecDeque<Mbuf>,
    fresh: Burst,
}

impl Rotation {
    /// The rotation of a pool.
    ///
    /// # Errors
    /// The pool has too few buffers.
    pub fn new(pool: Mempool) -> anyhow::Result<Self> {
        let mut held = VecDeque::with_capacity(ROTATION + BURST);
        while held.len() < ROTATION {
            held.push_back(pool.alloc().context("the packet pool has too few buffers")?);
        }
        Ok(Self { pool, held, fresh: Burst::new() })
    }

    /// Takes a burst of at most `count` empty buffers.
    #[inline]
    pub fn take(&mut self, burst: &mut Burst, count: usize) {
        let taken = self.pool.alloc_burst(&mut self.fresh, count);
        self.held.extend(self.fresh.drain(..));
        burst.extend(self.held.drain(..taken));
    }
}

/// A started port of the generator.
pub struct End {
    /// The port.
    pub port: Port,
    /// Where frames come in.
    pub rx: RxQueue,
    /// Where frames go out.
    pub tx: TxQueue,
}

impl End {
    /// Starts a device of one queue.
    ///
    /// # Errors
    /// It does not start, or its link stays down.
    pub fn start(eal: &Eal, pool: &Mempool, device: &str, mtu: u16) -> anyhow::Result<Self> {
        let config = PortConfig {
            device: device.to_owned(),
            name: "pktgen".to_owned(),
            queue_count: 1,
            descriptor_count: PortConfig::DEFAULT_DESCRIPTOR_COUNT,
            mtu,
            mac: None,
        };
        let (port, queues) = Port::start(eal, &config, pool)?;
        wait_for_link(&port)?;
        let (rx, tx) = queues.into_iter().next().context("the port has no queue")?;
        Ok(Self { port, rx, tx })
    }

    /// Stops it, so that its device no longer writes to memory.
    ///
    /// # Errors
    /// The device refuses.
    pub fn stop(self, eal: &Eal) -> anyhow::Result<()> {
        Ok(self.port.stop(eal, vec![(self.rx, self.tx)])?)
    }
}

/// Real links come up a while after their port starts, and lose what is sent before.
///
/// # Errors
/// It stays down.
pub fn wait_for_link(port: &Port) -> anyhow::Result<()> {
    let polls = LINK_PATIENCE.as_millis() / LINK_POLL.as_millis();
    for _ in 0..polls {
        if port.link_up() {
            return Ok(());
        }
        pause(LINK_POLL);
    }
    ensure!(
        port.link_up(),
        "the link of device `{}` is down; connect it or bring its interface up",
        port.device()
    );
    Ok(())
}

/// Frees what is left of a burst.
pub fn discard(burst: &mut Burst) -> u64 {
    let count = burst.len() as u64;
    free_burst(burst);
    count
}
