//! Making an entry: where it goes, and what gives way to it. The rules are in the module's
//! documentation, the steps here in the same order.

use std::ops::DerefMut;

use super::{Candidates, FlowTable, Slot};
use crate::conntrack::entry::{Bucket, Flow};
use crate::conntrack::state::EntryState;
use crate::time::Tick;

/// The table has no room for the flow, and nothing at its home is of less worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection table has no room for the flow; raise its capacity in [conntrack]")]
pub struct Full;

/// An entry was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The entry that made room for it, if any: at most one.
    pub removed: Option<Removed>,
}

/// Why an entry made room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It was live and had the same key.
    Replaced(Flow),
    /// It had outlived its deadline.
    Expired(Flow),
    /// It was live, of another key, and of less worth.
    Evicted(Flow),
}

impl Removed {
    /// What the entry held.
    #[must_use]
    #[inline]
    pub const fn flow(&self) -> Flow {
        match *self {
            Self::Replaced(flow) | Self::Expired(flow) | Self::Evicted(flow) => flow,
        }
    }
}

impl<B: Bucket, S: DerefMut<Target = [B]>> FlowTable<B, S> {
    /// Makes an entry for the flow; an entry of the same key gives way to it.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room by the rules of the [module](crate::conntrack). Nothing was
    /// changed but the counter of refusals.
    pub fn insert(
        &mut self,
        key: B::Key,
        candidates: Candidates,
        flow: Flow,
        now: Tick,
    ) -> Result<Inserted, Full> {
        let home = candidates.home;
        let Some((slot, removed)) = self.make_room(&key, home, flow.state, now) else {
            self.counters.refused += 1;
            return Err(Full);
        };
        match removed {
            Some(Removed::Replaced(_)) => self.counters.replaced += 1,
            Some(Removed::Expired(_)) => self.counters.expired += 1,
            Some(Removed::Evicted(_)) => self.counters.evicted += 1,
            None => {}
        }
        self.counters.inserted += 1;
        self.fill(slot, key, flow, slot.bucket != home);
        Ok(Inserted { removed })
    }

    /// An empty place for `key` in one of its buckets, and what made room there.
    fn make_room(
        &mut self,
        key: &B::Key,
        home: u32,
        state: EntryState,
        now: Tick,
    ) -> Option<(Slot, Option<Removed>)> {
        // Expired or not: a key must never be in the table twice.
        if let Some((slot, _)) = self.locate(key, home) {
            return Some((slot, self.give_way(slot, now, Removed::Replaced)));
        }
        let is_full = self.len >= self.capacity;
        if let Some(slot) = self.vacancy(home, now, !is_full) {
            return Some((slot, self.give_way(slot, now, Removed::Evicted)));
        }
        if !is_full {
            let alternate = self.alternate(key, home);
            // A counter at its end could not be exact any more.
            let may_displace = self.overflow(home) < B::MAX_OVERFLOW;
            if may_displace && let Some(slot) = self.vacancy(alternate, now, true) {
                return Some((slot, self.give_way(slot, now, Removed::Evicted)));
            }
            if let Some(made) = self.move_one(home, now) {
                return Some(made);
            }
            if may_displace && let Some(made) = self.move_one(alternate, now) {
                return Some(made);
            }
        }
        let slot = self.victim(home, state, now)?;
        Some((slot, self.give_way(slot, now, Removed::Evicted)))
    }

    /// Empties a place; `live` says why a live entry there has to go.
    fn give_way(&mut self, slot: Slot, now: Tick, live: fn(Flow) -> Removed) -> Option<Removed> {
        let flow = self.vacate(slot)?;
        Some(if flow.is_expired(now) { Removed::Expired(flow) } else { live(flow) })
    }

    /// Moves an entry of the full bucket `bucket` to its own other bucket, if any has room there,
    /// and returns its place. Reads at most [`Bucket::ENTRIES`] further lines.
    #[cold]
    fn move_one(&mut self, bucket: u32, now: Tick) -> Option<(Slot, Option<Removed>)> {
        for entry in 0..B::ENTRIES {
            let slot = Slot { bucket, entry };
            let stored = *self.entry(slot)?;
            let (key, flow) = (*stored.key(), stored.flow()?);
            let (other, displaced) = if stored.is_displaced() {
                (self.home_of_displaced(&key, bucket), false)
            } else {
                (self.alternate(&key, bucket), true)
            };
            if displaced && self.overflow(bucket) >= B::MAX_OVERFLOW {
                continue;
            }
            if let Some(target) = self.vacancy(other, now, true) {
                let removed = self.give_way(target, now, Removed::Evicted);
                self.vacate(slot);
                self.fill(target, key, flow, displaced);
                self.counters.moved += 1;
                return Some((slot, removed));
            }
        }
        None
    }

    /// An expired entry's place in `bucket`, or with `empty` also an empty one.
    #[inline]
    fn vacancy(&self, bucket: u32, now: Tick, empty: bool) -> Option<Slot> {
        let entries = self.buckets.get(bucket as usize)?.entries();
        let is_vacant = |flow: Option<Flow>| flow.map_or(empty, |flow| flow.is_expired(now));
        let entry = entries.iter().position(|entry| is_vacant(entry.flow()))?;
        Some(Slot { bucket, entry })
    }

    /// The place of the live entry at `home` that gives way first to a newcomer in state `state`.
    fn victim(&self, home: u32, state: EntryState, now: Tick) -> Option<Slot> {
        let entries = self.buckets.get(home as usize)?.entries().iter().enumerate();
        let (entry, _) = entries
            .filter_map(|(place, entry)| Some((place, entry.flow()?)))
            .filter(|(_, flow)| state.may_evict(flow.state))
            .min_by_key(|(_, flow)| flow.state.eviction_order(flow.expiry, now))?;
        Some(Slot { bucket: home, entry })
    }
}
