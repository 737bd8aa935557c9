//! Entries and the buckets that hold them, to the byte.

use zerocopy::native_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::key::{Ipv4Key, Ipv6Key, Key};
use super::state::{EntryState, deadline};
use crate::id::{BackendEpoch, BackendId, BackendRef};
use crate::time::Tick;

/// What the shard knows about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes. It counts only while the backend's slot is in the same epoch.
    pub backend: BackendRef,
    /// How far it has come.
    pub state: EntryState,
    /// From this tick on it is forgotten.
    pub expiry: Tick,
}

impl Flow {
    /// A flow that was last seen at `now` and may be silent for `timeout` milliseconds.
    #[must_use]
    #[inline]
    pub const fn new(backend: BackendRef, state: EntryState, now: Tick, timeout: u32) -> Self {
        Self { backend, state, expiry: deadline(now, timeout) }
    }

    /// Whether it is forgotten at `now`.
    #[must_use]
    #[inline]
    pub const fn is_expired(&self, now: Tick) -> bool {
        !self.expiry.is_after(now)
    }
}

/// One tracked flow as it is stored: the key and nine bytes. All zeros, and any unknown state, is
/// an empty entry; so every pattern of bytes is a valid one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Entry<K> {
    key: K,
    backend: U16,
    epoch: U16,
    expiry: U32,
    /// [`EntryState`] in the low three bits, 0 = empty; [`DISPLACED`]; the rest is 0.
    state: u8,
}

const STATE_MASK: u8 = 0x07;
/// The entry lives in its alternate bucket, and its home bucket counts it.
const DISPLACED: u8 = 0x80;

impl<K: Key> Entry<K> {
    /// Whether it holds `key`, expired or not.
    #[inline]
    pub(super) fn holds(&self, key: &K) -> bool {
        self.key == *key && self.flow().is_some()
    }

    #[inline]
    pub(super) fn key(&self) -> &K {
        &self.key
    }

    /// The flow, expired or not; `None` if the entry is empty.
    #[inline]
    pub(super) fn flow(&self) -> Option<Flow> {
        Some(Flow {
            state: EntryState::from_bits(self.state & STATE_MASK)?,
            backend: BackendRef {
                id: BackendId(self.backend.get()),
                epoch: BackendEpoch(self.epoch.get()),
            },
            expiry: Tick(self.expiry.get()),
        })
    }

    #[inline]
    pub(super) fn is_displaced(&self) -> bool {
        self.state & DISPLACED != 0
    }

    #[inline]
    pub(super) fn fill(&mut self, key: K, flow: Flow, displaced: bool) {
        *self = Self {
            key,
            backend: U16::new(flow.backend.id.0),
            epoch: U16::new(flow.backend.epoch.0),
            expiry: U32::new(flow.expiry.0),
            state: flow.state as u8 | if displaced { DISPLACED } else { 0 },
        };
    }

    /// Changes state and deadline of an entry that is not empty.
    #[inline]
    pub(super) fn renew(&mut self, state: EntryState, expiry: Tick) {
        self.state = (self.state & !STATE_MASK) | state as u8;
        self.expiry = U32::new(expiry.0);
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.zero();
    }
}

/// The unit of lookup: some entries, and how many entries of this home are displaced. All zeros is
/// an empty bucket.
pub trait Bucket: Copy + FromBytes + IntoBytes + Immutable + KnownLayout {
    /// The family's key.
    type Key: Key;

    /// Entries in a bucket.
    const ENTRIES: usize;
    /// A table is declared full when this part of its entries is in use.
    const FULL_PERCENT: usize;
    /// The largest overflow count that can be stored.
    const MAX_OVERFLOW: u32;

    /// The entries.
    fn entries(&self) -> &[Entry<Self::Key>];
    /// The entries, to change.
    fn entries_mut(&mut self) -> &mut [Entry<Self::Key>];
    /// How many entries whose home this is live in their alternate.
    fn overflow(&self) -> u32;
    /// Sets [`Self::overflow`], to at most [`Self::MAX_OVERFLOW`].
    fn set_overflow(&mut self, count: u32);

    /// How many buckets a table needs to track `flows` flows.
    #[must_use]
    fn count_for(flows: u32) -> usize {
        (flows as usize * 100).div_ceil(Self::ENTRIES * Self::FULL_PERCENT)
    }

    /// How many flows a table of `buckets` buckets tracks before it is declared full.
    #[must_use]
    fn capacity_of(buckets: usize) -> usize {
        buckets * Self::ENTRIES * Self::FULL_PERCENT / 100
    }

    /// Storage on the heap for a table that tracks `flows` flows.
    #[must_use]
    fn on_heap(flows: u32) -> Box<[Self]> {
        vec![Self::new_zeroed(); Self::count_for(flows)].into_boxed_slice()
    }
}

/// One cache line: three IPv4 entries. The three spare bytes are reserved, and 0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Ipv4Bucket {
    entries: [Entry<Ipv4Key>; 3],
    spare: [u8; 3],
    overflow: u32,
}

/// One cache line: two IPv6 entries (`docs/decisions/0008-ipv6-conntrack-entry.md`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct Ipv6Bucket {
    entries: [Entry<Ipv6Key>; 2],
    overflow: u16,
}

const _: () = assert!(size_of::<Ipv4Bucket>() == 64 && align_of::<Ipv4Bucket>() == 64);
const _: () = assert!(size_of::<Ipv6Bucket>() == 64 && align_of::<Ipv6Bucket>() == 64);
// At most 64 bytes a tracked IPv4 flow, at capacity.
const _: () =
    assert!(64 * 100 <= 64 * Ipv4Bucket::ENTRIES * Ipv4Bucket::FULL_PERCENT, "bytes a flow");

impl Bucket for Ipv4Bucket {
    type Key = Ipv4Key;
    const ENTRIES: usize = 3;
    const FULL_PERCENT: usize = 40;
    const MAX_OVERFLOW: u32 = u32::MAX;

    #[inline]
    fn entries(&self) -> &[Entry<Ipv4Key>] {
        &self.entries
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut [Entry<Ipv4Key>] {
        &mut self.entries
    }

    #[inline]
    fn overflow(&self) -> u32 {
        self.overflow
    }

    #[inline]
    fn set_overflow(&mut self, count: u32) {
        self.overflow = count;
    }
}

impl Bucket for Ipv6Bucket {
    type Key = Ipv6Key;
    const ENTRIES: usize = 2;
    const FULL_PERCENT: usize = 40;
    const MAX_OVERFLOW: u32 = u16::MAX as u32;

    #[inline]
    fn entries(&self) -> &[Entry<Ipv6Key>] {
        &self.entries
    }

    #[inline]
    fn entries_mut(&mut self) -> &mut [Entry<Ipv6Key>] {
        &mut self.entries
    }

    #[inline]
    fn overflow(&self) -> u32 {
        self.overflow.into()
    }

    #[inline]
    fn set_overflow(&mut self, count: u32) {
        self.overflow = u16::try_from(count).unwrap_or(u16::MAX);
    }
}
