//! Numbers that stay with their things while others come and go.
//!
//! Tables are arrays by number, workers count by number, and entries of connections name numbers.
//! So a number must not change hands while any of these can still mean the thing that had it
//! before: it *rests* first. How long is the business of who uses this; here is the bookkeeping.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The numbers of things that are known by a `K`. `R` is what is remembered of a number that rests:
/// since when.
#[derive(Clone, Debug)]
pub struct StableIds<K, R> {
    in_use: HashMap<K, u16>,
    /// By number: whose it is.
    keys: Vec<Option<K>>,
    /// Oldest first, but for those that were looked at and have to rest on.
    resting: VecDeque<(u16, R)>,
    free: VecDeque<u16>,
    limit: usize,
}

impl<K: Clone + Eq + Hash, R> StableIds<K, R> {
    /// The numbers below `limit` (at most 65,536 of them).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            in_use: HashMap::new(),
            keys: Vec::new(),
            resting: VecDeque::new(),
            free: VecDeque::new(),
            limit: limit.min(usize::from(u16::MAX) + 1),
        }
    }

    /// The number of a thing, if it has one.
    #[must_use]
    pub fn find<Q>(&self, key: &Q) -> Option<u16>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.in_use.get(key).copied()
    }

    /// Whose number it is.
    #[must_use]
    pub fn key(&self, number: u16) -> Option<&K> {
        self.keys.get(usize::from(number))?.as_ref()
    }

    /// The length of an array by number: one more than the largest that was ever given out.
    #[must_use]
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// How many numbers there are in all.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many [`Self::join`]s would get a number now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.free.len() + (self.limit - self.count())
    }

    /// How many numbers rest.
    #[must_use]
    pub fn resting_count(&self) -> usize {
        self.resting.len()
    }

    /// The number of a thing that may be new: the one that it has, else a free one that others had,
    /// so that arrays stay short, else one that nobody had. `None` if there is none left.
    pub fn join(&mut self, key: K) -> Option<u16> {
        if let Some(&id) = self.in_use.get(&key) {
            return Some(id);
        }
        let id = self.free.pop_front().or_else(|| {
            let fresh = u16::try_from(self.count()).ok()?;
            (self.count() < self.limit).then(|| self.keys.push(None))?;
            Some(fresh)
        })?;
        self.put(id, Some(key.clone()));
        self.in_use.insert(key, id);
        Some(id)
    }

    /// Takes a thing's number away, and lets it rest. Returns it, if there was one.
    pub fn leave<Q>(&mut self, key: &Q, since: R) -> Option<u16>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let id = self.in_use.remove(key)?;
        self.put(id, None);
        self.resting.push_back((id, since));
        Some(id)
    }

    fn put(&mut self, number: u16, key: Option<K>) {
        if let Some(place) = self.keys.get_mut(usize::from(number)) {
            *place = key;
        }
    }

    /// Looks at up to `at_most` resting numbers, and frees those that `is_rested` says have rested
    /// enough. Who has not goes to the end, so that every one is looked at in turn.
    pub fn settle(&mut self, at_most: usize, mut is_rested: impl FnMut(u16, &R) -> bool) {
        for _ in 0..at_most.min(self.resting.len()) {
            let Some((id, since)) = self.resting.pop_front() else { break };
            if is_rested(id, &since) {
                self.free.push_back(id);
            } else {
                self.resting.push_back((id, since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_rests_and_is_given_out_again() {
        let mut ids = StableIds::<&str, u8>::new(2);
        assert_eq!((ids.join("a"), ids.join("b"), ids.join("a")), (Some(0), Some(1), Some(0)));
        assert_eq!((ids.join("c"), ids.available()), (None, 0));
        assert_eq!((ids.leave("a", 1), ids.leave("a", 1)), (Some(0), None));
        assert_eq!((ids.find("a"), ids.join("c")), (None, None));
        assert_eq!((ids.key(0), ids.key(1), ids.key(2)), (None, Some(&"b"), None));
        ids.settle(8, |_, &since| since > 1);
        assert_eq!((ids.resting_count(), ids.join("c")), (1, None));
        ids.settle(8, |id, &since| id == 0 && since == 1);
        assert_eq!((ids.available(), ids.join("c"), ids.count()), (1, Some(0), 2));
        assert_eq!(ids.key(0), Some(&"c"));
    }

    #[test]
    fn free_numbers_come_before_fresh_ones_so_that_arrays_stay_short() {
        let mut ids = StableIds::<u32, ()>::new(usize::MAX);
        for key in 0..100_000 {
            ids.join(key).unwrap();
            ids.leave(&key, ());
            ids.settle(1, |_, ()| true);
        }
        assert_eq!((ids.count(), ids.limit()), (1, 65_536));
    }

    #[test]
    fn whoever_is_not_rested_is_looked_at_again_after_the_others() {
        let mut ids = StableIds::<u32, ()>::new(3);
        for key in 0..3 {
            ids.join(key);
            ids.leave(&key, ());
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            ids.settle(2, |id, ()| {
                seen.push(id);
                false
            });
        }
        assert_eq!(seen, [0, 1, 2, 0, 1, 2]);
    }
}
