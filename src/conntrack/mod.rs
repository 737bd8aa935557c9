//! One RSS shard of flow state: which backend each flow is on. Pure, of fixed capacity.
//!
//! A shard belongs to one worker and nobody else touches it. It never allocates, never panics and
//! does a bounded amount of work a call. IPv4 and IPv6 flows live in tables of their own.
//!
//! # Layout
//!
//! A [`FlowTable`] is an array of [`Bucket`]s of one cache line each, entries inline, full keys
//! compared. A flow has two candidate buckets: its *home*, a function of the keyed flow hash, and
//! its *alternate*, at a distance from home that is a function of the key. An entry that does not
//! fit at home lives in its alternate and is *displaced*; the home bucket counts its displaced
//! entries exactly, so a lookup reads the second line only if that counter is not zero. Since the
//! distance follows from the stored key, home can be found again at expiry without the hash.
//!
//! | | key | entry | entries a bucket | declared full at | bytes a flow |
//! |---|---|---|---|---|---|
//! | IPv4 | 10 | 19 | 3 | 40 % | 53 |
//! | IPv6 | 22 | 31 | 2 | 40 % | 80 |
//!
//! Any number of buckets will do, since an index is scaled, not masked. All-zero bytes are an empty
//! table. Storage is an argument: heap in tests, hugepages on a port.
//!
//! # What an insert does
//!
//! In this order, for a flow that has no entry yet:
//!
//! 1. take an empty or expired place at home;
//! 2. take one in the alternate;
//! 3. move one entry of these two buckets to its own other bucket, and take its place;
//! 4. evict a live entry **at home** that is of less worth;
//! 5. refuse: the flow is forwarded by the tables alone, and the refusal is counted.
//!
//! A table that holds [`FlowTable::capacity`] entries is *declared full*: then steps 2 and 3 are
//! skipped, and step 1 takes only expired places. So an insert into a full table reads no line
//! that the lookup did not load.
//!
//! Worth, from the least: expired, closing, half-open, unverified, established; among equals the
//! one that expires first goes first. A newcomer evicts what is of less worth than itself, and a
//! half-open newcomer also another half-open entry, so that a SYN flood pushes out its own oldest
//! entries. Hence nothing evicts a live established entry, and only an established newcomer evicts
//! a live unverified one.
//!
//! # Time
//!
//! Entries store the tick at which they expire. Expired entries are not found, whether
//! [`FlowTable::age`] has come past or not. Every bucket must be aged within 2^30 ms: then
//! wrapping comparison of ticks is sound, since no deadline lies more than 2^30 ms ahead
//! ([`MAX_TIMEOUT`]).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod entry;
mod key;
mod state;
mod table;

pub use entry::{Bucket, Entry, Flow, Ipv4Bucket, Ipv6Bucket};
pub use key::{Ipv4Key, Ipv6Key, Key};
pub use state::{
    CLOSING_TIMEOUT, EntryState, HALF_OPEN_TIMEOUT, MAX_TIMEOUT, Timeouts, UNVERIFIED_TIMEOUT,
};
pub use table::{Candidates, Counters, FlowTable, Found, Full, Inserted, Removed};

use std::ops::DerefMut;

/// How a line is brought into the cache ahead of its use: a type parameter without size. The real
/// one lives with the ports; [`NoPrefetch`] serves tests.
pub trait Prefetch {
    /// Asks for the first cache line of `target`. A hint: it changes nothing.
    fn prefetch<T>(target: &T);
}

/// Prefetches nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoPrefetch;

impl Prefetch for NoPrefetch {
    #[inline]
    fn prefetch<T>(_target: &T) {}
}

/// The flow state of one worker, both families.
#[derive(Debug)]
pub struct Conntrack<S4, S6> {
    /// Flows over IPv4.
    pub ipv4: FlowTable<Ipv4Bucket, S4>,
    /// Flows over IPv6.
    pub ipv6: FlowTable<Ipv6Bucket, S6>,
}

impl<S4, S6> Conntrack<S4, S6>
where
    S4: DerefMut<Target = [Ipv4Bucket]>,
    S6: DerefMut<Target = [Ipv6Bucket]>,
{
    /// A shard on storage that is all zeros; [`Bucket::count_for`] says how many buckets it takes.
    pub fn new(ipv4: S4, ipv6: S6) -> Self {
        Self { ipv4: FlowTable::new(ipv4), ipv6: FlowTable::new(ipv6) }
    }
}

impl Conntrack<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>> {
    /// A shard on the heap that tracks so many flows.
    #[must_use]
    pub fn on_heap(ipv4_flows: u32, ipv6_flows: u32) -> Self {
        Self::new(Ipv4Bucket::on_heap(ipv4_flows), Ipv6Bucket::on_heap(ipv6_flows))
    }
}
