//! Sharing one read-mostly value between management and the workers, by generation counter and
//! owned `Arc`.
//!
//! Management publishes; each worker looks once a burst whether there is something newer. That
//! look is one load of a counter that only a publish writes. What matters:
//!
//! * A worker never waits, and never frees: tables are megabytes, and freeing them takes longer
//!   than many bursts. The [`Publisher`] keeps an `Arc` of everything that a [`Reader`] may hold
//!   and drops it after the reader said that it has let go.
//! * Within a burst the value does not change: [`Reader::refresh`] takes `&mut self`, so its
//!   result cannot be held across the next call.
//! * A reader that stops pins memory; hence at most [`MAX_HELD`] old snapshots are held, after which
//!   [`Publisher::publish`] refuses and names the laggards.
//!
//! `tests/loom` checks this under all interleavings; `docs/testing.md` says which
//! mistakes it was seen to catch.

use std::collections::VecDeque;
use std::fmt;

use crate::padded::Padded;
use sync::{Arc, AtomicU64, Mutex, Ordering};

/// The primitives, or loom's models of them.
mod sync {
    #[cfg(lodestone_loom)]
    pub(super) use loom::sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    };
    #[cfg(not(lodestone_loom))]
    pub(super) use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    #[cfg(not(lodestone_loom))]
    #[expect(
        clippy::disallowed_types,
        reason = "workers only ever try this lock, and management holds it for one pointer swap"
    )]
    pub(super) type Mutex<T> = std::sync::Mutex<T>;
}

/// The number of a published snapshot: 0 is the initial one, each publish counts one up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many retired snapshots the publisher holds at most for readers that have not moved on.
pub const MAX_HELD: usize = 8;

/// What a reader that is gone has observed.
const OFFLINE: u64 = u64::MAX;

/// Why a value was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Readers have not moved on for [`MAX_HELD`] generations.
    #[error(
        "{held} old tables are still in use, by worker {}; nothing was published. It is stuck: \
         see `lodectl show workers`, and restart the daemon if its bursts no longer count up",
        list(lagging)
    )]
    TooManyHeld {
        /// Retired snapshots that are held.
        held: usize,
        /// The readers that still use the oldest of them.
        lagging: Vec<usize>,
    },
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// A value and its generation.
#[derive(Debug)]
struct Versioned<T> {
    generation: u64,
    value: T,
}

/// What publisher and readers share.
#[derive(Debug)]
struct Shared<T> {
    /// Written by: publisher, after `current`. Read by: readers, once a burst.
    generation: Padded<AtomicU64>,
    /// Written by: publisher, under the lock for one pointer swap. Read by: readers that saw a new
    /// `generation`, if they get the lock at once.
    current: Mutex<Arc<Versioned<T>>>,
    /// By reader: the generation that it uses, or [`OFFLINE`]. Written by: that reader, after it
    /// let go of what it had before. Read by: publisher.
    observed: Box<[Padded<AtomicU64>]>,
}

/// A publisher of `initial` and `reader_count` readers, which count as having adopted `initial`
/// from birth. There are no later readers: one that is made while the publisher reclaims would
/// need a protocol of its own.
///
/// The publisher must outlive the readers if no reader is to free a snapshot.
#[must_use]
pub fn shared<T>(initial: T, reader_count: usize) -> (Publisher<T>, Vec<Reader<T>>) {
    let initial = Arc::new(Versioned { generation: 0, value: initial });
    let shared = Arc::new(Shared {
        generation: Padded(AtomicU64::new(0)),
        current: Mutex::new(Arc::clone(&initial)),
        observed: (0..reader_count).map(|_| Padded(AtomicU64::new(0))).collect(),
    });
    let readers = (0..reader_count)
        .map(|index| Reader {
            cached: Arc::clone(&initial),
            claim: Claim { shared: Arc::clone(&shared), index },
        })
        .collect();
    (Publisher { newest: initial, retired: VecDeque::new(), shared }, readers)
}

/// The one who publishes and frees: management.
#[derive(Debug)]
pub struct Publisher<T> {
    newest: Arc<Versioned<T>>,
    /// What some reader may still hold, oldest first. As long as an `Arc` is here, a reader's drop
    /// of its own is never the last.
    retired: VecDeque<Arc<Versioned<T>>>,
    shared: Arc<Shared<T>>,
}

impl<T> Publisher<T> {
    /// Makes `value` the one that readers get from their next burst on, frees what no reader
    /// holds any more, and returns the new generation.
    ///
    /// # Errors
    ///
    /// [`PublishError::TooManyHeld`] if readers lag too far behind; `value` is dropped, and what
    /// was published before stays. Try again after they have moved on.
    pub fn publish(&mut self, value: T) -> Result<Generation, PublishError> {
        if !self.has_room() {
            let oldest = self.retired.front().map_or(0, |oldest| oldest.generation);
            return Err(PublishError::TooManyHeld {
                held: self.retired.len(),
                lagging: self.lagging(Generation(oldest + 1)),
            });
        }
        let generation = self.newest.generation + 1;
        let next = Arc::new(Versioned { generation, value });
        // First hold the old one, then take it out of readers' reach.
        self.retired.push_back(std::mem::replace(&mut self.newest, Arc::clone(&next)));
        match self.shared.current.lock() {
            Ok(mut current) => *current = next,
            // Nothing can panic while it holds this lock; if something did, the pointer is whole.
            Err(poisoned) => *poisoned.into_inner() = next,
        }
        // Release: who sees this generation finds `current` at least as new.
        self.shared.generation.store(generation, Ordering::Release);
        self.reclaim();
        Ok(Generation(generation))
    }

    /// Whether [`Self::publish`] would publish: ask before building something costly.
    #[must_use]
    pub fn has_room(&mut self) -> bool {
        self.retired.len() < MAX_HELD || self.reclaim() < MAX_HELD
    }

    /// Frees the snapshots that no reader holds any more, on this thread, and returns how many
    /// retired ones are still held. [`Self::publish`] does it too; call it now and then, so that the
    /// last retired snapshot does not wait for the next publish.
    pub fn reclaim(&mut self) -> usize {
        let acknowledged = self.acknowledged();
        while self.retired.front().is_some_and(|oldest| oldest.generation < acknowledged.0) {
            self.retired.pop_front();
        }
        self.retired.len()
    }

    /// How many retired snapshots are held for readers.
    #[must_use]
    pub fn held(&self) -> usize {
        self.retired.len()
    }

    /// The oldest generation that a reader uses; the newest one if there is no reader.
    #[must_use]
    pub fn acknowledged(&self) -> Generation {
        let oldest = (0..self.shared.observed.len()).filter_map(|reader| self.observed(reader));
        oldest.min().unwrap_or_else(|| self.generation())
    }

    /// The generation that this reader uses; `None` if it is gone or never was.
    #[must_use]
    pub fn observed(&self, reader: usize) -> Option<Generation> {
        // Acquire: what the reader did with the snapshot before is done. Pairs with its Release.
        let observed = self.shared.observed.get(reader)?.load(Ordering::Acquire);
        (observed != OFFLINE).then_some(Generation(observed))
    }

    /// The readers that use something older than `generation`, by index.
    #[must_use]
    pub fn lagging(&self, generation: Generation) -> Vec<usize> {
        let readers = 0..self.shared.observed.len();
        readers.filter(|&reader| self.observed(reader).is_some_and(|at| at < generation)).collect()
    }

    /// The newest generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.newest.generation)
    }

    /// What was published last.
    #[must_use]
    pub fn current(&self) -> &T {
        &self.newest.value
    }
}

/// One who reads: a worker. Dropping it gives up its snapshot and its claim on memory.
#[derive(Debug)]
pub struct Reader<T> {
    // Fields are dropped in this order, and must be: first let go of the snapshot, then say so.
    cached: Arc<Versioned<T>>,
    claim: Claim<T>,
}

/// A reader's place among those that the publisher waits for.
#[derive(Debug)]
struct Claim<T> {
    shared: Arc<Shared<T>>,
    index: usize,
}

impl<T> Claim<T> {
    /// Tells the publisher that everything older than `generation` was let go.
    ///
    /// Release: the drop of the old snapshot comes before. (Loom does not reorder a thread's own
    /// steps and would accept Relaxed; the hardware and the compiler need it.)
    fn observe(&self, generation: u64) {
        if let Some(observed) = self.shared.observed.get(self.index) {
            observed.store(generation, Ordering::Release);
        }
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        self.observe(OFFLINE);
    }
}

impl<T> Reader<T> {
    /// The newest snapshot, for one burst. Never waits: if a publish is under way it is the one
    /// from before, once more.
    #[inline]
    pub fn refresh(&mut self) -> &T {
        if self.claim.shared.generation.load(Ordering::Acquire) != self.cached.generation {
            self.adopt();
        }
        &self.cached.value
    }

    #[cold]
    fn adopt(&mut self) {
        // If management holds the lock now, keep the old snapshot for one more burst.
        let Ok(current) = self.claim.shared.current.try_lock() else { return };
        let next = Arc::clone(&current);
        drop(current);
        // Order matters: give the old snapshot up first, then say so, or this drop could be the
        // last one and free it here.
        self.cached = next;
        self.claim.observe(self.cached.generation);
    }

    /// The generation of what [`Self::refresh`] returned last.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> Generation {
        Generation(self.cached.generation)
    }

    /// This reader's index, by which [`Publisher::lagging`] names it.
    #[must_use]
    pub fn index(&self) -> usize {
        self.claim.index
    }
}

#[cfg(all(test, not(lodestone_loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread::{self, ThreadId};

    use super::*;

    /// Counts its live instances, and may be dropped by its owner's thread only.
    #[derive(Debug)]
    struct Owned {
        numbers: [u64; 64],
        owner: ThreadId,
        live: Arc<AtomicUsize>,
    }

    impl Owned {
        fn new(number: u64, live: &Arc<AtomicUsize>) -> Self {
            live.fetch_add(1, Ordering::Relaxed);
            let owner = thread::current().id();
            Self { numbers: [number; 64], owner, live: Arc::clone(live) }
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.owner, "a worker freed a snapshot");
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn readers_get_what_was_published_at_their_next_refresh() {
        let (mut publisher, mut readers) = shared("old", 2);
        assert_eq!(publisher.generation(), Generation(0));
        assert_eq!(*readers[0].refresh(), "old");

        assert_eq!(publisher.publish("new"), Ok(Generation(1)));
        assert_eq!(*publisher.current(), "new");
        assert_eq!(publisher.lagging(Generation(1)), [0, 1]);
        assert_eq!(*readers[0].refresh(), "new");
        assert_eq!(readers[0].generation(), Generation(1));
        assert_eq!(publisher.lagging(Generation(1)), [1], "by reader index");
        assert_eq!(publisher.acknowledged(), Generation(0));
        assert_eq!(*readers[1].refresh(), "new");
        assert_eq!(publisher.acknowledged(), Generation(1));
        assert!(publisher.lagging(Generation(1)).is_empty());
    }

    #[test]
    fn a_snapshot_is_freed_when_the_last_reader_has_moved_on() {
        let live = Arc::new(AtomicUsize::new(0));
        let (mut publisher, mut readers) = shared(Owned::new(0, &live), 2);
        publisher.publish(Owned::new(1, &live)).unwrap();
        assert_eq!(live.load(Ordering::Relaxed), 2);
        readers[0].refresh();
        assert_eq!(publisher.reclaim(), 1, "reader 1 still has it");
        readers[1].refresh();
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!(live.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_stuck_reader_stops_publishing_not_memory() {
        let live = Arc::new(AtomicUsize::new(0));
        let (mut publisher, mut readers) = shared(Owned::new(0, &live), 3);
        for number in 1..=MAX_HELD as u64 {
            publisher.publish(Owned::new(number, &live)).unwrap();
            readers[0].refresh();
            readers[2].refresh();
        }
        assert!(!publisher.has_room());
        let refused = publisher.publish(Owned::new(99, &live)).unwrap_err();
        assert_eq!(refused, PublishError::TooManyHeld { held: MAX_HELD, lagging: vec![1] });
        assert!(refused.to_string().contains("by worker 1;"), "{refused}");
        assert_eq!(live.load(Ordering::Relaxed), MAX_HELD + 1, "the refused one is gone");
        assert_eq!(readers[0].refresh().numbers[0], MAX_HELD as u64);

        readers[1].refresh();
        assert_eq!(publisher.publish(Owned::new(99, &live)), Ok(Generation(9)));
    }

    #[test]
    fn a_reader_that_is_gone_holds_nothing_back() {
        let live = Arc::new(AtomicUsize::new(0));
        let (mut publisher, mut readers) = shared(Owned::new(0, &live), 2);
        drop(readers.pop());
        publisher.publish(Owned::new(1, &live)).unwrap();
        assert_eq!(publisher.observed(1), None);
        assert_eq!(publisher.lagging(Generation(1)), [0]);
        drop(readers.pop());
        assert_eq!(publisher.acknowledged(), Generation(1));
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!(live.load(Ordering::Relaxed), 1);
        assert_eq!(publisher.observed(7), None, "there never was one");
    }

    /// Real threads, real memory: no torn snapshot, no generation that goes back, no free on a
    /// worker (`Owned` asserts it), nothing left over.
    #[test]
    fn stress() {
        const PUBLISHES: u64 = 2_000;
        let live = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicBool::new(false));
        let (mut publisher, readers) = shared(Owned::new(0, &live), 2);
        let workers: Vec<_> = readers
            .into_iter()
            .map(|mut reader| {
                let done = Arc::clone(&done);
                thread::spawn(move || {
                    let mut last = 0;
                    while !done.load(Ordering::Relaxed) {
                        let seen = reader.refresh();
                        let number = seen.numbers[0];
                        assert!(seen.numbers.iter().all(|&other| other == number), "torn");
                        assert!(number >= last, "went back from {last} to {number}");
                        assert_eq!(reader.generation(), Generation(number));
                        if number == last {
                            // There may be fewer cores than threads here.
                            thread::yield_now();
                        }
                        last = number;
                    }
                })
            })
            .collect();
        let mut sent = 0;
        while sent < PUBLISHES && workers.iter().all(|worker| !worker.is_finished()) {
            if publisher.has_room() {
                sent += 1;
                publisher.publish(Owned::new(sent, &live)).unwrap();
                assert!(live.load(Ordering::Relaxed) <= MAX_HELD + 2);
            } else {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(sent, PUBLISHES);
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!(live.load(Ordering::Relaxed), 1);
    }
}
