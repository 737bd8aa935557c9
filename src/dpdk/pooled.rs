//! A worker's queues of one port, with the pool that it allocates from.

use super::gate::Passage;
use super::{Burst, Mbuf, Mempool, QueuePair, RxQueue, TxQueue, free_burst};
use crate::worker::Queues;

/// [`Queues`] over DPDK.
#[derive(Debug)]
pub struct PooledQueues {
    rx: RxQueue,
    tx: TxQueue,
    pool: Mempool,
    /// Closed while management starts the device anew.
    passage: Option<Passage>,
}

impl PooledQueues {
    /// A pair of queues; frames that management sends are allocated from `pool`.
    #[must_use]
    pub fn new((rx, tx): QueuePair, pool: Mempool) -> Self {
        Self { rx, tx, pool, passage: None }
    }

    /// The same behind a gate of management's.
    pub(super) fn behind(self, passage: Passage) -> Self {
        Self { passage: Some(passage), ..self }
    }

    #[inline]
    fn may_pass(&self) -> bool {
        self.passage.as_ref().is_none_or(Passage::may_pass)
    }
}

impl Queues for PooledQueues {
    type Buf = Mbuf;

    #[inline]
    fn receive(&mut self, burst: &mut Burst) -> usize {
        if self.may_pass() { self.rx.rx_burst(burst) } else { 0 }
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst) -> usize {
        if self.may_pass() { self.tx.tx_burst(burst) } else { 0 }
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
