//! Packet pools.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use dpdk_sys::rte_mempool;

use super::{BURST, Burst, DpdkError, Eal, Mbuf, NumaNode, last_error_text};

/// What a pool is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolConfig {
    /// Unique in the process, 1 to 25 bytes.
    pub name: String,
    /// Number of buffers; 2^n − 1 uses memory best. See [`Self::mbufs_for`].
    pub mbuf_count: u32,
    /// The largest MTU of the ports that it serves: a frame always fits one buffer.
    pub mtu: u16,
    /// Where its memory lies; `None` for anywhere.
    pub numa: Option<NumaNode>,
}

impl MempoolConfig {
    /// Buffers that are enough for ports of `queues` queues with `descriptors` each: full RX and
    /// TX rings, every worker's cache, and bursts in flight.
    #[must_use]
    pub fn mbufs_for(ports: u32, queues: u32, descriptors: u32) -> u32 {
        let rings = ports.saturating_mul(queues).saturating_mul(descriptors).saturating_mul(2);
        // A cache may hold half as much again as its size before it is flushed.
        let caches = (queues.saturating_add(1)).saturating_mul(CACHE_LEN * 3 / 2 + 128);
        let wanted = rings.saturating_add(caches).min(u32::MAX >> 2);
        (wanted + 1).next_power_of_two() - 1
    }

    /// Bytes of one buffer: headroom and frame.
    fn data_room(&self) -> Option<u16> {
        let frame_len = usize::from(self.mtu) + FRAME_OVERHEAD;
        // Some devices (ixgbe, igb) take receive buffers in KiB and scatter what does not fit the
        // whole ones.
        let buffer_len = frame_len.next_multiple_of(1024).max(DEFAULT_BUFFER_LEN);
        u16::try_from(buffer_len + HEADROOM).ok()
    }
}

/// `RTE_PKTMBUF_HEADROOM`: bytes in front of a received frame.
const HEADROOM: usize = dpdk_sys::RTE_PKTMBUF_HEADROOM as usize;
const _: () = assert!(HEADROOM == crate::packet::HeapBuf::DEFAULT_HEADROOM);

/// Bytes of a frame around the largest IP packet: Ethernet header, two VLAN tags, and the check
/// sequence, which some devices write too.
const FRAME_OVERHEAD: usize = 14 + 4 + 4 + 4;

/// DPDK's usual buffer without its headroom.
const DEFAULT_BUFFER_LEN: usize = 2048;

/// Buffers that a registered thread keeps to itself.
const CACHE_LEN: u32 = 256;

/// `rte_mbuf` and the header of a pool's element, rounded up.
const BUFFER_OVERHEAD: u64 = 128 + 64;

/// DPDK's limit, less the prefix that it puts before the name.
const MAX_NAME_LEN: usize = 25;

/// In [`Eal::pools`]: a port frees its buffers in bulk into the only pool there is.
const SEALED: u32 = 1 << 31;

/// A pool of packet buffers. It lives until the program exits: a pool that is freed while a device
/// holds one of its buffers is a use after free. So this is a handle, cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Mempool {
    raw: NonNull<rte_mempool>,
    mtu: u16,
}

// SAFETY: others may touch the pool at any time (threads with their own handle, drivers), and DPDK
// makes that sound: pools are multi-producer and multi-consumer, and caches are per registered
// thread.
unsafe impl Send for Mempool {}
// SAFETY: as above; there is nothing in the handle to change.
unsafe impl Sync for Mempool {}

const fn is_send_and_sync<T: Send + Sync>() {}
const _: () = is_send_and_sync::<Mempool>();

impl Mempool {
    /// Makes a pool. Every pool must be made before the first port starts.
    ///
    /// # Errors
    ///
    /// A name or count out of range, too little packet memory, or a port that started already.
    pub fn new(eal: &Eal, config: &MempoolConfig) -> Result<Self, DpdkError> {
        let bad = || DpdkError::BadPool { name: config.name.clone() };
        let name = CString::new(config.name.as_str()).map_err(|_| bad())?;
        let is_named = (1..=MAX_NAME_LEN).contains(&config.name.len());
        let data_room = config.data_room().filter(|_| is_named).ok_or_else(bad)?;
        if config.mbuf_count == 0 {
            return Err(bad());
        }
        eal.pools
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |pools| {
                (pools & SEALED == 0).then_some(pools + 1)
            })
            .map_err(|_| DpdkError::PoolAfterPort)?;

        // DPDK wants a cache of at most two thirds of the pool.
        let cache_len = CACHE_LEN.min(config.mbuf_count / 3 * 2);
        let socket = config.numa.map_or(dpdk_sys::SOCKET_ID_ANY, |node| node.0.into());
        // SAFETY: EAL runs (`eal`), and the name is a valid C string that DPDK copies.
        let raw = unsafe {
            dpdk_sys::rte_pktmbuf_pool_create(
                name.as_ptr(),
                config.mbuf_count,
                cache_len,
                0,
                data_room,
                socket,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let reason = last_error_text();
            eal.pools.fetch_sub(1, Ordering::AcqRel);
            let bytes = u64::from(config.mbuf_count) * (u64::from(data_room) + BUFFER_OVERHEAD);
            return Err(DpdkError::PoolCreate {
                name: config.name.clone(),
                mbuf_count: config.mbuf_count,
                wanted_mib: bytes.div_ceil(1 << 20),
                reason,
            });
        };
        Ok(Self { raw, mtu: config.mtu })
    }

    /// An empty buffer with DPDK's headroom (128 bytes); `None` if the pool is exhausted.
    #[must_use]
    #[inline]
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool lives until exit.
        let raw = unsafe { dpdk_sys::lodestone_pktmbuf_alloc(self.raw.as_ptr()) };
        // SAFETY: a buffer fresh from the pool is reset, has one segment and a count of 1, and is
        // nobody else's.
        NonNull::new(raw).map(|raw| unsafe { Mbuf::from_raw(raw) })
    }

    /// Fills the free room of `burst` with empty buffers, at most `count` of them, all or none;
    /// returns how many.
    #[inline]
    pub fn alloc_burst(&self, burst: &mut Burst, count: usize) -> usize {
        let len = burst.len();
        let count = count.min(burst.remaining_capacity());
        debug_assert!(len + count <= BURST);
        // SAFETY: `len` is at most the capacity.
        let free = unsafe { burst.as_mut_ptr().add(len) };
        #[expect(clippy::cast_possible_truncation, reason = "at most BURST")]
        let wanted = count as u32;
        // SAFETY: the pool lives until exit, and `free` has room for that many pointers (`Mbuf` is
        // one, transparently).
        let status = unsafe {
            dpdk_sys::lodestone_pktmbuf_alloc_bulk(self.raw.as_ptr(), free.cast(), wanted)
        };
        if status != 0 {
            return 0;
        }
        // SAFETY: DPDK wrote `count` pointers to buffers fresh from the pool: reset, of one segment,
        // with a count of 1, and nobody else's.
        unsafe { burst.set_len(len + count) };
        count
    }

    /// Buffers that are in the pool or in a thread's cache. Walks all caches: not for a worker.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives until exit; the count is taken without a lock and may be stale.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }

    /// Buffers that are owned by the program or a device. Walks all caches: not for a worker.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: as in `available`.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.raw.as_ptr()) }
    }

    /// The largest MTU whose frames fit one buffer.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    pub(super) fn as_ptr(self) -> *mut rte_mempool {
        self.raw.as_ptr()
    }
}

/// Whether there is one pool, and from now on only that one: what a port may free in bulk without
/// a look at each buffer's pool (`RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE`).
pub(super) fn seal_the_only_one(pools: &AtomicU32) -> bool {
    match pools.compare_exchange(1, 1 | SEALED, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(current) => current == 1 | SEALED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mtu: u16) -> MempoolConfig {
        MempoolConfig { name: "p".to_owned(), mbuf_count: 1023, mtu, numa: None }
    }

    #[test]
    fn a_frame_of_the_mtu_fits_one_buffer_whose_size_is_whole_kib() {
        assert_eq!(config(576).data_room(), Some(2176));
        assert_eq!(config(1500).data_room(), Some(2176));
        assert_eq!(config(9000).data_room(), Some(9 * 1024 + 128));
        assert_eq!(config(9200).data_room(), Some(10 * 1024 + 128));
        assert_eq!(config(u16::MAX).data_room(), None);
    }

    #[test]
    fn pools_hold_more_than_all_rings() {
        assert_eq!(MempoolConfig::mbufs_for(1, 1, 1024), 4095);
        assert!(MempoolConfig::mbufs_for(2, 4, 1024) >= 16 * 1024);
        assert!(MempoolConfig::mbufs_for(u32::MAX, 2, 2) > 1 << 29);
    }

    #[test]
    fn only_a_lone_pool_is_sealed() {
        for (before, after, sealed) in
            [(0, 0, false), (1, 1 | SEALED, true), (2, 2, false), (1 | SEALED, 1 | SEALED, true)]
        {
            let pools = AtomicU32::new(before);
            assert_eq!(seal_the_only_one(&pools), sealed);
            assert_eq!(pools.load(Ordering::Relaxed), after);
        }
    }
}
