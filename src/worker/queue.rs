//! What a worker needs of a port. `dpdk` implements these; tests use doubles that fail on purpose.

use arrayvec::ArrayVec;

use crate::forward::BURST;
use crate::packet::PacketBuf;

/// Packets on their way through a worker.
pub type Burst<B> = ArrayVec<B, BURST>;

/// One worker's queues of one port.
pub trait Queues {
    /// The packets it carries.
    type Buf: PacketBuf;

    /// Fills the free room of `burst` with received packets; returns how many came.
    fn receive(&mut self, burst: &mut Burst<Self::Buf>) -> usize;

    /// Sends from the front of `burst`; what the queue has no room for stays in it, in order.
    /// Returns how many were sent.
    fn transmit(&mut self, burst: &mut Burst<Self::Buf>) -> usize;

    /// A new packet with this content; `None` if there is no buffer, or the content too long.
    fn allocate(&mut self, frame: &[u8]) -> Option<Self::Buf>;

    /// Frees all of `burst`.
    fn free(&mut self, burst: &mut Burst<Self::Buf>) {
        burst.clear();
    }
}
