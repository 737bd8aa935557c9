//! The table of one family: find, insert, touch, remove, age.

mod insert;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::DerefMut;

use super::Prefetch;
use super::entry::{Bucket, Entry, Flow};
use super::key::Key;
use super::state::{EntryState, deadline, must_move};
use crate::packet::FlowHash;
use crate::time::Tick;

pub use insert::{Full, Inserted, Removed};

/// Tracked flows of one family, on storage `S` of buckets `B`.
#[derive(Debug)]
pub struct FlowTable<B, S> {
    buckets: S,
    bucket_count: u32,
    capacity: usize,
    len: usize,
    /// The next bucket to age.
    cursor: u32,
    counters: Counters,
    bucket: PhantomData<B>,
}

/// Where a flow may be, as far as its hash tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    home: u32,
}

/// What has happened in a table since it was made. At every moment `inserted` is the number of
/// entries plus `replaced`, `expired`, `evicted` and `removed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Inserts that made an entry.
    pub inserted: u64,
    /// Inserts for which there was no room.
    pub refused: u64,
    /// Entries that were moved to their other bucket to make room.
    pub moved: u64,
    /// Live entries that gave way to a new one of the same key.
    pub replaced: u64,
    /// Entries that outlived their deadline.
    pub expired: u64,
    /// Live entries that gave way to one of another key.
    pub evicted: u64,
    /// Entries that were removed on request.
    pub removed: u64,
}

/// A place in the table. Only for use inside one call or while [`Found`] borrows the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    bucket: u32,
    entry: usize,
}

/// Odd; see [`FlowTable::candidates`].
const BUCKET_MIX: u64 = 0xd6e8_feb8_6659_fd93;

impl<B: Bucket, S: DerefMut<Target = [B]>> FlowTable<B, S> {
    /// A table on storage that is all zeros. [`Bucket::count_for`] says how long the storage should
    /// be; any length will do, and none holds nothing.
    pub fn new(storage: S) -> Self {
        let capacity = B::capacity_of(storage.len());
        Self::with_capacity(storage, capacity)
    }

    /// A table that is declared full at `capacity` entries.
    pub fn with_capacity(storage: S, capacity: usize) -> Self {
        // An index has 32 bits; longer storage (256 GiB) would not be used to its end.
        let bucket_count = u32::try_from(storage.len()).unwrap_or(u32::MAX);
        Self {
            buckets: storage,
            bucket_count,
            capacity,
            len: 0,
            cursor: 0,
            counters: Counters::default(),
            bucket: PhantomData,
        }
    }

    /// At so many entries the table is declared full.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Entries in use; among them expired ones that ageing has not come past yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no entry is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buckets in the table: what one round of [`Self::age`] or [`Self::scan`] visits.
    #[must_use]
    pub fn bucket_count(&self) -> usize {
        self.bucket_count as usize
    }

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Where the flow of this hash may be.
    ///
    /// Level 2 of the tables uses the low half of the hash modulo a prime, level 1 the high half.
    /// The home bucket is scaled from the high half of the hash times an odd constant, which
    /// depends on all 64 bits: the flows of one backend spread over all buckets.
    #[must_use]
    #[inline]
    pub fn candidates(&self, hash: FlowHash) -> Candidates {
        Candidates {
            home: scale((hash.0.wrapping_mul(BUCKET_MIX) >> 32) as u32, self.bucket_count),
        }
    }

    /// Brings the home bucket into the cache.
    #[inline]
    pub fn prefetch<P: Prefetch>(&self, candidates: Candidates) {
        if let Some(bucket) = self.buckets.get(candidates.home as usize) {
            P::prefetch(bucket);
        }
    }

    /// Brings the alternate bucket into the cache if a lookup of `key` will need it. Reads the home
    /// bucket, so that must have arrived.
    #[inline]
    pub fn prefetch_alternate<P: Prefetch>(&self, key: &B::Key, candidates: Candidates) {
        if self.overflow(candidates.home) != 0
            && let Some(bucket) = self.buckets.get(self.alternate(key, candidates.home) as usize)
        {
            P::prefetch(bucket);
        }
    }

    /// The flow's entry, to use or change. An expired entry is not found.
    #[inline]
    pub fn find(
        &mut self,
        key: &B::Key,
        candidates: Candidates,
        now: Tick,
    ) -> Option<Found<'_, B, S>> {
        let (slot, flow) = self.locate(key, candidates.home)?;
        if flow.is_expired(now) { None } else { Some(Found { table: self, slot, flow }) }
    }

    /// What is known of the flow, without a hold on its entry. An expired entry is not found.
    #[must_use]
    #[inline]
    pub fn peek(&self, key: &B::Key, candidates: Candidates, now: Tick) -> Option<Flow> {
        let (_, flow) = self.locate(key, candidates.home)?;
        if flow.is_expired(now) { None } else { Some(flow) }
    }

    /// Visits the next `buckets` buckets, and those only, in turn; forgets what has expired there
    /// and hands it to `expired`. More than all buckets is one round.
    pub fn age(&mut self, now: Tick, buckets: usize, mut expired: impl FnMut(Flow)) {
        for _ in 0..buckets.min(self.bucket_count()) {
            let bucket = self.cursor;
            self.cursor = if bucket + 1 < self.bucket_count { bucket + 1 } else { 0 };
            for entry in 0..B::ENTRIES {
                let slot = Slot { bucket, entry };
                if self.flow(slot).is_some_and(|flow| flow.is_expired(now))
                    && let Some(flow) = self.vacate(slot)
                {
                    self.counters.expired += 1;
                    expired(flow);
                }
            }
        }
    }

    /// Shows the live entries of at most `buckets` buckets from bucket `from` on, and returns where
    /// to go on; `None` at the end of the table.
    pub fn scan(
        &self,
        from: usize,
        buckets: usize,
        now: Tick,
        mut visit: impl FnMut(&B::Key, Flow),
    ) -> Option<usize> {
        for bucket in self.buckets.iter().take(self.bucket_count()).skip(from).take(buckets) {
            for entry in bucket.entries() {
                if let Some(flow) = entry.flow().filter(|flow| !flow.is_expired(now)) {
                    visit(entry.key(), flow);
                }
            }
        }
        from.checked_add(buckets).filter(|next| *next < self.bucket_count())
    }

    /// Forgets the live entries of at most `buckets` buckets from bucket `from` on that `unwanted`
    /// wants gone, shows each to `removed`, and returns where to go on; `None` at the end of the
    /// table. What has expired is left to [`Self::age`], which counts it.
    pub fn sweep(
        &mut self,
        from: usize,
        buckets: usize,
        now: Tick,
        mut unwanted: impl FnMut(&B::Key, Flow) -> bool,
        mut removed: impl FnMut(Flow),
    ) -> Option<usize> {
        let next = from.saturating_add(buckets);
        for bucket in from..next.min(self.bucket_count()) {
            // Below the number of buckets, which is a `u32`.
            let Ok(bucket) = u32::try_from(bucket) else { break };
            for entry in 0..B::ENTRIES {
                let slot = Slot { bucket, entry };
                let is_unwanted = self.entry(slot).is_some_and(|entry| {
                    let live = entry.flow().filter(|flow| !flow.is_expired(now));
                    live.is_some_and(|flow| unwanted(entry.key(), flow))
                });
                if is_unwanted && let Some(flow) = self.vacate(slot) {
                    self.counters.removed += 1;
                    removed(flow);
                }
            }
        }
        Some(next).filter(|next| *next < self.bucket_count())
    }

    /// Brings at most `buckets` buckets from bucket `from` on into the cache, for a later
    /// [`Self::scan`] or [`Self::sweep`].
    #[inline]
    pub fn prefetch_buckets<P: Prefetch>(&self, from: usize, buckets: usize) {
        for bucket in self.buckets.iter().take(self.bucket_count()).skip(from).take(buckets) {
            P::prefetch(bucket);
        }
    }

    /// The entry of `key`, expired or not.
    #[inline]
    fn locate(&self, key: &B::Key, home: u32) -> Option<(Slot, Flow)> {
        if let Some(found) = self.locate_in(key, home) {
            return Some(found);
        }
        if self.overflow(home) == 0 {
            return None;
        }
        self.locate_in(key, self.alternate(key, home))
    }

    #[inline]
    fn locate_in(&self, key: &B::Key, bucket: u32) -> Option<(Slot, Flow)> {
        let entries = self.buckets.get(bucket as usize)?.entries();
        let entry = entries.iter().position(|entry| entry.holds(key))?;
        Some((Slot { bucket, entry }, entries.get(entry)?.flow()?))
    }

    /// Empties a place, keeps every count, and returns what was there.
    fn vacate(&mut self, slot: Slot) -> Option<Flow> {
        let entry = self.entry(slot)?;
        let flow = entry.flow()?;
        if entry.is_displaced() {
            let home = self.home_of_displaced(entry.key(), slot.bucket);
            self.add_overflow(home, -1);
        }
        self.entry_mut(slot)?.clear();
        self.len -= 1;
        Some(flow)
    }

    /// Fills an empty place and keeps every count.
    fn fill(&mut self, slot: Slot, key: B::Key, flow: Flow, displaced: bool) {
        if displaced {
            let home = self.home_of_displaced(&key, slot.bucket);
            self.add_overflow(home, 1);
        }
        if let Some(entry) = self.entry_mut(slot) {
            entry.fill(key, flow, displaced);
            self.len += 1;
        }
    }

    /// From home to the alternate bucket: another bucket, unless there is only one.
    #[inline]
    fn alternate(&self, key: &B::Key, home: u32) -> u32 {
        let distance = self.distance(key);
        let to_end = self.bucket_count.saturating_sub(home);
        if distance < to_end { home + distance } else { distance - to_end }
    }

    /// From the alternate bucket back home.
    #[inline]
    fn home_of_displaced(&self, key: &B::Key, alternate: u32) -> u32 {
        let distance = self.distance(key);
        if alternate >= distance {
            alternate - distance
        } else {
            self.bucket_count - (distance - alternate)
        }
    }

    /// 1 ..= buckets − 1, by the key.
    #[inline]
    fn distance(&self, key: &B::Key) -> u32 {
        1 + scale(key.spread(), self.bucket_count.saturating_sub(1))
    }

    #[inline]
    fn overflow(&self, bucket: u32) -> u32 {
        self.buckets.get(bucket as usize).map_or(0, B::overflow)
    }

    #[inline]
    fn add_overflow(&mut self, bucket: u32, change: i32) {
        if let Some(bucket) = self.buckets.get_mut(bucket as usize) {
            bucket.set_overflow(bucket.overflow().saturating_add_signed(change));
        }
    }

    #[inline]
    fn flow(&self, slot: Slot) -> Option<Flow> {
        self.entry(slot)?.flow()
    }

    #[inline]
    fn entry(&self, slot: Slot) -> Option<&Entry<B::Key>> {
        self.buckets.get(slot.bucket as usize)?.entries().get(slot.entry)
    }

    #[inline]
    fn entry_mut(&mut self, slot: Slot) -> Option<&mut Entry<B::Key>> {
        self.buckets.get_mut(slot.bucket as usize)?.entries_mut().get_mut(slot.entry)
    }
}

/// A flow's entry. It borrows the table, so that the entry is still that flow's when it is changed.
#[derive(Debug)]
pub struct Found<'a, B, S> {
    table: &'a mut FlowTable<B, S>,
    slot: Slot,
    flow: Flow,
}

impl<B: Bucket, S: DerefMut<Target = [B]>> Found<'_, B, S> {
    /// What the entry says.
    #[must_use]
    #[inline]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Notes that the flow was seen at `now`, is in `state` and may be silent for `timeout`
    /// milliseconds. The line is written only if the state changes or the deadline moves by at
    /// least a sixteenth of the timeout; the flow is remembered for `timeout` at the least.
    #[inline]
    pub fn touch(self, state: EntryState, now: Tick, timeout: u32) {
        let expiry = deadline(now, timeout);
        if (state != self.flow.state || must_move(self.flow.expiry, expiry, timeout))
            && let Some(entry) = self.table.entry_mut(self.slot)
        {
            entry.renew(state, expiry);
        }
    }

    /// Forgets the flow.
    #[must_use = "whoever counts live flows has to count this one down"]
    pub fn remove(self) -> Flow {
        if self.table.vacate(self.slot).is_some() {
            self.table.counters.removed += 1;
        }
        self.flow
    }
}

/// `x` of 2^32 as the same part of `count`: a range reduction without division, for any count.
#[inline]
const fn scale(x: u32, count: u32) -> u32 {
    ((x as u64 * count as u64) >> 32) as u32
}
