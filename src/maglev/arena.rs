//! Memory of tables, used again and again.
//!
//! A table's slots are the largest thing that a change allocates: 128 KiB as a rule, megabytes for
//! large pools. Whoever builds tables keeps an arena: slots of tables that nobody uses any more go
//! back to it and become the next tables', and so does the scratch space of building. So memory
//! stays flat however many changes there are.
//!
//! An arena belongs to one owner: all of it needs `&mut`. A worker, which only ever holds shared
//! tables, cannot enter it.

use std::collections::BTreeMap;

/// How much memory an arena keeps for tables to come, in bytes; what comes back beyond that is
/// freed.
pub const FREE_BYTES_CAP: usize = 64 << 20;

/// How large a table's scratch space is kept, in slots: 4 MiB.
const SCRATCH_CAP: usize = 1 << 20;

/// Slots and scratch space for tables to come.
#[derive(Debug, Default)]
pub struct SlotArena {
    /// By number of slots.
    free: BTreeMap<usize, Vec<Box<[u16]>>>,
    free_bytes: usize,
    held: usize,
    pub(super) scratch: Vec<u32>,
}

impl SlotArena {
    /// How many tables' slots came from here and have not come back.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many tables' slots are here, to be used again.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.values().map(Vec::len).sum()
    }

    /// The memory of these, in bytes; at most [`FREE_BYTES_CAP`].
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Slots for a table, with whatever is in them.
    pub(super) fn take(&mut self, slot_count: usize) -> Box<[u16]> {
        self.held += 1;
        match self.free.get_mut(&slot_count).and_then(Vec::pop) {
            Some(slots) => {
                self.free_bytes -= size_of_val(&*slots);
                slots
            }
            None => vec![0; slot_count].into_boxed_slice(),
        }
    }

    /// Keeps scratch space for the next table, unless it is far more than most tables need.
    pub(super) fn keep_scratch(&mut self, scratch: Vec<u32>) {
        if scratch.capacity() <= SCRATCH_CAP {
            self.scratch = scratch;
        }
    }

    /// Takes the slots of a table that came from here.
    pub(super) fn give_back(&mut self, slots: Box<[u16]>) {
        debug_assert!(self.held > 0, "slots that did not come from here");
        self.held = self.held.saturating_sub(1);
        let bytes = size_of_val(&*slots);
        if self.free_bytes + bytes <= FREE_BYTES_CAP {
            self.free_bytes += bytes;
            self.free.entry(slots.len()).or_default().push(slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_came_back_are_the_next_ones_of_their_size() {
        let mut arena = SlotArena::default();
        let slots = arena.take(7);
        let place = slots.as_ptr();
        let other = arena.take(11);
        arena.give_back(slots);
        assert_eq!((arena.held(), arena.free(), arena.free_bytes()), (1, 1, 14));
        let again = arena.take(7);
        assert_eq!((again.as_ptr(), arena.free(), arena.free_bytes()), (place, 0, 0));
        arena.give_back(other);
        arena.give_back(again);
        assert_eq!((arena.held(), arena.free()), (0, 2));
    }

    #[test]
    fn what_it_keeps_is_bounded() {
        let mut arena = SlotArena::default();
        let size = 655_373;
        let taken: Vec<_> = (0..60).map(|_| arena.take(size)).collect();
        for slots in taken {
            arena.give_back(slots);
            assert!(arena.free_bytes() <= FREE_BYTES_CAP);
        }
        assert_eq!((arena.held(), arena.free()), (0, FREE_BYTES_CAP / (size * 2)));
    }
}
