//! Jobs: what management wants to know of, or do to, a worker's connection table.
//!
//! Nobody but the worker touches its table, so the worker does the job, a few buckets a round
//! beside its packets ([`JOB_BUCKETS`]). A job brings the memory for its result along, by value, and
//! goes back with it: the worker neither allocates nor frees.
//!
//! A job comes back when it has walked its span, when its memory is full, or at the end of the
//! table; [`FinishedJob::resume`] makes the job that goes on from there. So a job whose client has
//! gone is one that is not resumed, and what it costs the worker is bounded by a span.
//!
//! The walk is no snapshot. An entry that stays where it is while the walk goes on is visited once;
//! one that is moved to its other bucket to make room meanwhile may be visited twice or never. Who
//! must be sure that nothing is left flushes until nothing matches.

mod filter;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::ops::DerefMut;

pub use filter::{BackendFilter, ClientPrefix, Filter};

use crate::conntrack::{
    Bucket, Conntrack, EntryState, Flow, FlowTable, Ipv4Bucket, Ipv4Key, Ipv6Bucket, Ipv6Key, Key,
    Prefetch,
};
use crate::forward::Counters;
use crate::id::{BackendRef, Family, VipId};
use crate::packet::FlowHash;
use crate::time::Tick;

/// The most buckets that a worker visits for jobs in a round.
pub const JOB_BUCKETS: usize = 8;

/// Buckets that a job visits before it comes back: at eight a round, 4,096 rounds.
pub const SPAN: usize = 32_768;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Write down the flows that match, as long as there is memory.
    List,
    /// Count the flows that match.
    Count,
    /// Forget the flows that match, and count them. Their next packets are decided by the tables.
    Flush,
    /// Look up one flow.
    Find(FlowKeyAndHash),
}

/// A flow as the connection table knows it, and its hash, which says where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowKeyAndHash {
    /// The flow.
    pub key: TableKey,
    /// The hash of its 5-tuple under the appliance's key.
    pub hash: FlowHash,
}

/// The key of a flow of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKey {
    /// Over IPv4.
    Ipv4(Ipv4Key),
    /// Over IPv6.
    Ipv6(Ipv6Key),
}

/// A tracked flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// The client's address; its family is the flow's.
    pub source: IpAddr,
    /// The client's port; 0 for a protocol without ports.
    pub source_port: u16,
    /// The VIP's port; 0 for a protocol without ports.
    pub destination_port: u16,
    /// The VIP's address and protocol.
    pub vip: VipId,
    /// Where it goes, while the backend's slot is in this epoch.
    pub backend: BackendRef,
    /// How far it has come.
    pub state: EntryState,
    /// In so many ms it is forgotten if nothing comes.
    pub idle_expires_in_ms: u32,
}

impl FlowEntry {
    /// The flow's family.
    #[must_use]
    pub const fn family(&self) -> Family {
        if self.source.is_ipv6() { Family::Ipv6 } else { Family::Ipv4 }
    }
}

/// Where a walk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    family: Family,
    bucket: usize,
}

/// A job on its way to a worker, and in its hands.
#[derive(Debug)]
pub struct Job {
    id: u64,
    task: Task,
    filter: Filter,
    /// Where to go on; `None` at the end.
    cursor: Option<Cursor>,
    /// Buckets that are left of the span.
    span_left: usize,
    /// No more than its capacity, which the worker does not change.
    entries: Vec<FlowEntry>,
    matched: u64,
    visited: u64,
    /// There is no room for what the next bucket may hold.
    is_full: bool,
}

impl Job {
    /// Lists the flows that match, at most `capacity` (at least 3) at a time. `id` is for who asks:
    /// it comes back.
    #[must_use]
    pub fn list(id: u64, filter: Filter, capacity: usize) -> Self {
        // Else the list could never get past a full bucket.
        let least = Ipv4Bucket::ENTRIES.max(Ipv6Bucket::ENTRIES);
        Self::new(id, Task::List, filter, capacity.max(least))
    }

    /// Counts the flows that match.
    #[must_use]
    pub fn count(id: u64, filter: Filter) -> Self {
        Self::new(id, Task::Count, filter, 0)
    }

    /// Forgets the flows that match.
    #[must_use]
    pub fn flush(id: u64, filter: Filter) -> Self {
        Self::new(id, Task::Flush, filter, 0)
    }

    /// Looks up one flow. Every worker has to be asked: which one has it is up to RSS.
    #[must_use]
    pub fn find(id: u64, flow: FlowKeyAndHash) -> Self {
        Self::new(id, Task::Find(flow), Filter::default(), 1)
    }

    fn new(id: u64, task: Task, filter: Filter, capacity: usize) -> Self {
        let first = if filter.has(Family::Ipv4) { Family::Ipv4 } else { Family::Ipv6 };
        // The client's family and the one that is asked for may exclude each other.
        let cursor = filter.has(first).then_some(Cursor { family: first, bucket: 0 });
        let entries = Vec::with_capacity(capacity);
        let (matched, visited) = (0, 0);
        Self {
            id,
            task,
            filter,
            cursor,
            span_left: SPAN,
            entries,
            matched,
            visited,
            is_full: false,
        }
    }

    /// Whether it has to go back.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.cursor.is_none() || self.span_left == 0 || self.is_full
    }

    /// Goes on by at most `buckets` buckets; returns how many were visited. Allocates nothing.
    pub fn advance<S4, S6, P: Prefetch>(
        &mut self,
        conntrack: &mut Conntrack<S4, S6>,
        now: Tick,
        buckets: usize,
        counters: &mut Counters,
    ) -> usize
    where
        S4: DerefMut<Target = [Ipv4Bucket]>,
        S6: DerefMut<Target = [Ipv6Bucket]>,
    {
        let Some(cursor) = self.cursor else { return 0 };
        let visited = match (self.task, cursor.family) {
            (Task::Find(flow), _) => self.look_up(conntrack, flow, now),
            (_, Family::Ipv4) => {
                self.walk::<_, _, P>(&mut conntrack.ipv4, cursor, now, buckets, counters)
            }
            (_, Family::Ipv6) => {
                self.walk::<_, _, P>(&mut conntrack.ipv6, cursor, now, buckets, counters)
            }
        };
        self.visited += visited as u64;
        visited
    }

    fn walk<B, S, P>(
        &mut self,
        table: &mut FlowTable<B, S>,
        cursor: Cursor,
        now: Tick,
        buckets: usize,
        counters: &mut Counters,
    ) -> usize
    where
        B: Bucket<Key: ListedKey>,
        S: DerefMut<Target = [B]>,
        P: Prefetch,
    {
        let Cursor { family, bucket: from } = cursor;
        let mut count = buckets.min(self.span_left);
        if self.task == Task::List {
            count = count.min(room(&self.entries) / B::ENTRIES);
        }
        let Self { filter, entries, matched, .. } = self;
        let next = match self.task {
            Task::Flush => table.sweep(
                from,
                count,
                now,
                |key, flow| filter.matches(key, &flow),
                |flow| {
                    *matched += 1;
                    counters.removed_flow(family);
                    counters.close_flow(flow.backend.id);
                },
            ),
            Task::List | Task::Count | Task::Find(_) => {
                table.scan(from, count, now, |key, flow| {
                    if filter.matches(key, &flow) {
                        *matched += 1;
                        if room(entries) != 0 {
                            entries.push(key.entry(flow, now));
                        }
                    }
                })
            }
        };
        self.span_left -= count;
        self.is_full = self.task == Task::List && room(&self.entries) < B::ENTRIES;
        self.cursor = match next {
            Some(bucket) => Some(Cursor { family, bucket }),
            None if family == Family::Ipv4 && self.filter.has(Family::Ipv6) => {
                Some(Cursor { family: Family::Ipv6, bucket: 0 })
            }
            None => None,
        };
        if let Some(next) = next {
            table.prefetch_buckets::<P>(next, buckets);
        }
        count.min(table.bucket_count().saturating_sub(from))
    }

    /// Reads a flow's home bucket and, if need be, its alternate.
    fn look_up<S4, S6>(
        &mut self,
        conntrack: &Conntrack<S4, S6>,
        flow: FlowKeyAndHash,
        now: Tick,
    ) -> usize
    where
        S4: DerefMut<Target = [Ipv4Bucket]>,
        S6: DerefMut<Target = [Ipv6Bucket]>,
    {
        let found = match flow.key {
            TableKey::Ipv4(key) => {
                let table = &conntrack.ipv4;
                let found = table.peek(&key, table.candidates(flow.hash), now);
                found.map(|flow| key.entry(flow, now))
            }
            TableKey::Ipv6(key) => {
                let table = &conntrack.ipv6;
                let found = table.peek(&key, table.candidates(flow.hash), now);
                found.map(|flow| key.entry(flow, now))
            }
        };
        if let Some(entry) = found
            && room(&self.entries) != 0
        {
            self.matched += 1;
            self.entries.push(entry);
        }
        self.cursor = None;
        2
    }
}

/// How many entries more can be written down without memory from elsewhere.
fn room(entries: &Vec<FlowEntry>) -> usize {
    entries.capacity() - entries.len()
}

/// A job that came back.
#[derive(Debug)]
pub struct FinishedJob(pub(super) Job);

impl FinishedJob {
    /// What the job was started as.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// What it was to do.
    #[must_use]
    pub fn task(&self) -> Task {
        self.0.task
    }

    /// The flows that were found since it was started or resumed last.
    #[must_use]
    pub fn entries(&self) -> &[FlowEntry] {
        &self.0.entries
    }

    /// Flows that matched since it was started first: listed, counted, forgotten or found.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.0.matched
    }

    /// Buckets that were visited since it was started first.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.0.visited
    }

    /// Whether the walk is at its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.0.cursor.is_none()
    }

    /// The job that goes on where this one stopped, with its memory empty again; `None` if there is
    /// nothing more.
    #[must_use]
    pub fn resume(self) -> Option<Job> {
        let mut job = self.0;
        job.cursor?;
        job.entries.clear();
        job.span_left = SPAN;
        job.is_full = false;
        Some(job)
    }
}

/// A key that can be shown.
pub(crate) trait ListedKey: Key {
    /// The client's address.
    fn client(&self) -> IpAddr;

    /// The VIP.
    fn vip_id(&self) -> VipId;

    /// The flow's two ports: the client's and the VIP's.
    fn ports(&self) -> (u16, u16);

    /// The flow in words.
    fn entry(&self, flow: Flow, now: Tick) -> FlowEntry {
        let (source_port, destination_port) = self.ports();
        FlowEntry {
            source: self.client(),
            source_port,
            destination_port,
            vip: self.vip_id(),
            backend: flow.backend,
            state: flow.state,
            idle_expires_in_ms: flow.expiry.since(now),
        }
    }
}

impl ListedKey for Ipv4Key {
    fn client(&self) -> IpAddr {
        self.source().into()
    }

    fn vip_id(&self) -> VipId {
        self.vip()
    }

    fn ports(&self) -> (u16, u16) {
        (self.source_port(), self.destination_port())
    }
}

impl ListedKey for Ipv6Key {
    fn client(&self) -> IpAddr {
        self.source().into()
    }

    fn vip_id(&self) -> VipId {
        self.vip()
    }

    fn ports(&self) -> (u16, u16) {
        (self.source_port(), self.destination_port())
    }
}
