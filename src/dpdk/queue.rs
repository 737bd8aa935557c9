//! Queues: one thread at a time receives or sends on one, a burst a call.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use super::mbuf::{BURST, Burst};

/// A receive queue and the transmit queue of the same number.
pub type QueuePair = (RxQueue, TxQueue);

/// A receive queue of a started port. There is one value a queue, handed out by
/// [`Port::start`](super::Port::start); it can move to its worker's thread, but not be shared:
///
/// ```compile_fail
/// fn is_sync<T: Sync>() {}
/// is_sync::<lodestone::dpdk::RxQueue>();
/// ```
#[derive(Debug)]
pub struct RxQueue {
    pub(super) port: u16,
    pub(super) queue: u16,
    pub(super) not_sync: PhantomData<Cell<()>>,
}

/// A transmit queue of a started port, on the same terms as [`RxQueue`]:
///
/// ```compile_fail
/// fn is_sync<T: Sync>() {}
/// is_sync::<lodestone::dpdk::TxQueue>();
/// ```
#[derive(Debug)]
pub struct TxQueue {
    pub(super) port: u16,
    pub(super) queue: u16,
    pub(super) not_sync: PhantomData<Cell<()>>,
}

const fn is_send<T: Send>() {}
const _: () = is_send::<RxQueue>();
const _: () = is_send::<TxQueue>();
// DPDK counts a burst in 16 bits.
const _: () = assert!(BURST <= u16::MAX as usize);

impl RxQueue {
    pub(super) fn new(port: u16, queue: u16) -> Self {
        Self { port, queue, not_sync: PhantomData }
    }

    /// Fills the free room of `burst` with what has arrived, and returns how many packets came.
    /// Zero is usual: nothing waits.
    #[inline]
    pub fn rx_burst(&mut self, burst: &mut Burst) -> usize {
        let len = burst.len();
        #[expect(clippy::cast_possible_truncation, reason = "at most BURST")]
        let room = burst.remaining_capacity() as u16;
        // SAFETY: `len` is at most the capacity.
        let free = unsafe { burst.as_mut_ptr().add(len) };
        // SAFETY: the port is started and stays so while one of its queues exists (`Port::stop`),
        // `&mut self` keeps others off the queue, and `free` has room for that many pointers
        // (`Mbuf` is one, transparently).
        let count =
            unsafe { dpdk_sys::lodestone_eth_rx_burst(self.port, self.queue, free.cast(), room) };
        let count = usize::from(count);
        debug_assert!(len + count <= BURST);
        // SAFETY: the driver wrote `count <= room` pointers to buffers, each with a count of 1,
        // and gave them up.
        unsafe { burst.set_len(len + count) };
        count
    }
}

impl TxQueue {
    pub(super) fn new(port: u16, queue: u16) -> Self {
        Self { port, queue, not_sync: PhantomData }
    }

    /// Gives the packets to the device in order and returns how many it took. The others stay in
    /// `burst`, in order.
    #[inline]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        let len = burst.len();
        #[expect(clippy::cast_possible_truncation, reason = "at most BURST")]
        let offered = len as u16;
        // SAFETY: zero is within the capacity. Until the end of this function nobody owns the
        // packets but this function and the driver.
        unsafe { burst.set_len(0) };
        let first = burst.as_mut_ptr();
        // SAFETY: the port is started and stays so while one of its queues exists (`Port::stop`),
        // `&mut self` keeps others off the queue, and `first` leads `offered` pointers to owned
        // buffers (`Mbuf` is one, transparently) of a pool that `Port::start` allowed for.
        let sent = unsafe {
            dpdk_sys::lodestone_eth_tx_burst(self.port, self.queue, first.cast(), offered)
        };
        let sent = usize::from(sent);
        debug_assert!(sent <= len);
        let left = len - sent;
        // SAFETY: `sent` is at most `len`, which is within the capacity.
        let unsent = unsafe { first.add(sent) };
        // SAFETY: both ranges lie in the burst's storage and may overlap; what is overwritten
        // belongs to the driver now.
        unsafe { ptr::copy(unsent, first, left) };
        // SAFETY: the first `left` places hold packets that the driver did not take.
        unsafe { burst.set_len(left) };
        sent
    }
}
