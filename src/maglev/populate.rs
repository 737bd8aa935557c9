//! Filling a table: members take turns, and in its turn a member takes the next slot of its
//! permutation that is still free.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::allotment::{Turns, allot};
use super::permutation::Permutation;

/// A slot that nobody has taken yet. Places of members are below it.
const FREE: u32 = u32::MAX;

/// One who takes turns.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its order of preference over the slots.
    pub(super) permutation: Permutation,
    /// How often it has a turn, relative to the others; not zero.
    pub(super) weight: u32,
}

/// Makes `slots` the place in `candidates` of every slot's owner: empty if there is no candidate.
/// What was in it before does not matter; its memory is used again.
///
/// Turns go by round and, within one, in the order of `candidates`; which round has whose turn is
/// told in [`allot`]. With equal weights this is the paper's pseudocode 1. The work is
/// *size* turns of log *n*, and on average *size* · ln *size* steps of the permutations.
pub(super) fn fill(table_size: u32, mut candidates: Vec<Candidate>, slots: &mut Vec<u32>) {
    slots.clear();
    let weights: Vec<u32> = candidates.iter().map(|candidate| candidate.weight).collect();
    let Some(largest) = weights.iter().copied().max() else { return };
    let turns = Turns { largest };
    let allotted = allot(&weights, table_size);

    slots.resize(table_size as usize, FREE);
    let mut had = vec![0_u32; candidates.len()];
    // Whose turn is next: the earliest round and, within one, the earliest place.
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = (0..candidates.len())
        .filter(|&place| allotted[place] > 0)
        .map(|place| Reverse((turns.round_of(1, weights[place]), place)))
        .collect();
    while let Some(mut turn) = queue.peek_mut() {
        let Reverse((round, place)) = &mut *turn;
        let place = *place;
        let permutation = &mut candidates[place].permutation;
        // Ends: the allotments add up to the table's size, so a slot is free in every turn, and a
        // permutation visits all of them.
        let slot = loop {
            let slot = permutation.step() as usize;
            if slots[slot] == FREE {
                break slot;
            }
        };
        slots[slot] = u32::try_from(place).unwrap_or(FREE);
        had[place] += 1;
        if had[place] < allotted[place] {
            *round = turns.round_of(had[place] + 1, weights[place]);
        } else {
            PeekMut::pop(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B0: (u32, u32) = (3, 4);
    const B1: (u32, u32) = (0, 2);
    const B2: (u32, u32) = (3, 1);

    fn seven(members: &[(u32, u32)]) -> Vec<u32> {
        let candidates = members
            .iter()
            .map(|&(offset, skip)| Candidate {
                permutation: Permutation::new(offset, skip, 7),
                weight: 1,
            })
            .collect();
        // What was there before does not matter.
        let mut slots = vec![5; 9];
        fill(7, candidates, &mut slots);
        slots
    }

    /// The paper's Table 1 and Figure: B0, B1, B2 before, and after B1 has left, when all but the
    /// slots of B1 keep their owner, save slot 6.
    #[test]
    fn worked_example_before_and_after_a_removal() {
        assert_eq!(seven(&[B0, B1, B2]), [1, 0, 1, 0, 2, 2, 0]);
        // In the list without B1, place 1 is B2.
        assert_eq!(seven(&[B0, B2]), [0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn worked_example_after_the_other_removals() {
        assert_eq!(seven(&[B1, B2]), [0, 0, 0, 1, 1, 1, 0], "B1 B1 B1 B2 B2 B2 B1");
        assert_eq!(seven(&[B0, B1]), [1, 0, 1, 0, 0, 0, 1], "B1 B0 B1 B0 B0 B0 B1");
        assert_eq!(seven(&[B0]), [0; 7]);
        assert!(seven(&[]).is_empty());
    }

    /// Why members are sorted before: B2, B1, B0 gives another table.
    #[test]
    fn order_of_candidates_matters() {
        assert_eq!(seven(&[B2, B1, B0]), [1, 2, 1, 0, 2, 0, 0], "B1 B0 B1 B2 B0 B2 B2");
    }

    /// The worst case: as many members as slots, and all want the same ones.
    #[test]
    fn equal_permutations_still_fill_the_table() {
        let candidate = Candidate { permutation: Permutation::new(2, 3, 251), weight: 5 };
        let mut slots = Vec::new();
        fill(251, vec![candidate; 251], &mut slots);
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..251));
    }
}
