//! A worker's queues of one port, with the pool that it allocates from.

use super::{Burst, Mbuf, Mempool, QueuePair, RxQueue, TxQueue, free_burst};
use crate::worker::Queues;

/// [`Queues`] over DPDK.
#[derive(Debug)]
pub struct PooledQueues {
    rx: RxQueue,
    tx: TxQueue,
    pool: Mempool,
}

impl PooledQueues {
    /// A pair of queues; frames that management sends are allocated from `pool`.
    #[must_use]
    pub fn new((rx, tx): QueuePair, pool: Mempool) -> Self {
        Self { rx, tx, pool }
    }
}

impl Queues for PooledQueues {
    type Buf = Mbuf;

    #[inline]
    fn receive(&mut self, burst: &mut Burst) -> usize {
        self.rx.rx_burst(burst)
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        self.tx.tx_burst(burst)
    }

    fn allocate(&mut self, frame: &[u8]) -> Option<Mbuf> {
        let mut buf = self.pool.alloc()?;
        buf.fill(frame).then_some(buf)
    }

    #[inline]
    fn free(&mut self, burst: &mut Burst) {
        free_burst(burst);
    }
}
