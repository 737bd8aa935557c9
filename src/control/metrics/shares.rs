//! What part of its pool's slots each backend has, kept up to date from publish to publish.
//!
//! Counting 65,537 slots of 1,000 pools takes longer than a scrape may, so only tables that a publish
//! changed are counted, which takes a fraction of what populating them took.

use std::collections::HashMap;
use std::sync::Arc;

use crate::forward::{PoolTable, Tables};
use crate::id::BackendId;

/// The shares by the tables that were published last.
#[derive(Debug, Default)]
pub struct SlotShares {
    /// Slots by owner, by the address of the pool's table.
    counted: HashMap<usize, Counted>,
    /// By [`BackendId`].
    shares: Vec<f64>,
}

#[derive(Debug)]
struct Counted {
    slot_count: usize,
    owners: Vec<(BackendId, u32)>,
}

impl SlotShares {
    /// Takes the tables that were published now. It must see every publish: then the tables of the
    /// last call still live while those of this one are made, and an address that both have is one
    /// and the same table.
    pub fn follow(&mut self, tables: &Tables) {
        let mut before = std::mem::take(&mut self.counted);
        self.shares.clear();
        self.shares.resize(tables.backends.len(), 0.0);
        for pool in tables.pools.iter() {
            let address = Arc::as_ptr(pool).addr();
            let counted = before.remove(&address).unwrap_or_else(|| count(pool));
            for &(owner, slots) in &counted.owners {
                if let Some(share) = self.shares.get_mut(owner.index()) {
                    *share = ratio(slots, counted.slot_count);
                }
            }
            self.counted.insert(address, counted);
        }
    }

    /// A backend's share of its pool's slots, 0 to 1.
    #[must_use]
    pub fn of(&self, backend: BackendId) -> f64 {
        self.shares.get(backend.index()).copied().unwrap_or_default()
    }
}

fn count(pool: &PoolTable) -> Counted {
    let mut by_owner: Vec<u32> = Vec::new();
    for owner in pool.current.owners() {
        if by_owner.len() <= owner.index() {
            by_owner.resize(owner.index() + 1, 0);
        }
        if let Some(slots) = by_owner.get_mut(owner.index()) {
            *slots += 1;
        }
    }
    let owners = (0..=u16::MAX).map(BackendId).zip(by_owner).filter(|&(_, slots)| slots > 0);
    Counted { slot_count: pool.current.slot_count(), owners: owners.collect() }
}

#[expect(clippy::cast_precision_loss, reason = "tables have far less than 2^52 slots")]
fn ratio(slots: u32, slot_count: usize) -> f64 {
    if slot_count == 0 { 0.0 } else { f64::from(slots) / slot_count as f64 }
}
