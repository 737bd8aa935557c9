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
    /// Whether frames carry an 802.1Q tag.
    is_tagged: bool,
}

impl PooledQueues {
    /// A pair of queues; frames that management sends are allocated from `pool`.
    #[must_use]
    pub fn new((rx, tx): QueuePair, pool: Mempool) -> Self {
        Self { rx, tx, pool, passage: None, is_tagged: false }
    }

    /// The same behind a gate of management's.
    pub(super) fn behind(self, passage: Passage) -> Self {
        Self { passage: Some(passage), ..self }
    }

    /// The same on a port whose frames carry an 802.1Q tag: a tag that the device took off is put back.
    #[must_use]
    pub fn tagged(self, is_tagged: bool) -> Self {
        Self { is_tagged, ..self }
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
        if !self.may_pass() {
            return 0;
        }
        let count = self.rx.rx_burst(burst);
        if self.is_tagged {
            burst.iter_mut().for_each(Mbuf::restore_tag);
        }
        count
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
