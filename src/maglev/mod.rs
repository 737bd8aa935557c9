//! Maglev lookup tables (Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load
//! Balancer*, NSDI 2016, §3.4), with weights.
//!
//! A table has a prime number of slots, each with an owner: a backend of a pool, or a pool of a
//! service. It is a pure function of its members' identities and weights; order, names, ids and
//! history do not matter, so all appliances of a cluster with the same members have the same
//! table. When a member leaves, its slots go to the others and nearly all other slots stay.

mod allotment;
mod arena;
mod hash;
mod identity;
mod permutation;
mod populate;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

pub use arena::{FREE_BYTES_CAP, SlotArena};
pub use identity::Identity;
use permutation::Permutation;
use populate::Candidate;

/// The number of slots unless the configuration says otherwise: 2^16 + 1, a prime, and enough for
/// 655 members of equal share within 1 %.
pub const DEFAULT_TABLE_SIZE: u32 = 65_537;

/// A lookup table: slot to owner.
///
/// `T` is a 16-bit id (`BackendId`, `PoolId`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maglev<T> {
    slots: Box<[u16]>,
    warning: Option<MaglevWarning>,
    owner: PhantomData<T>,
}

/// One who gets slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<T> {
    /// Which one it is, on every appliance.
    pub identity: Identity,
    /// Its share of the slots, relative to the other members; 0 gets none.
    pub weight: u32,
    /// What a lookup returns for its slots.
    pub owner: T,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaglevError {
    /// The permutations of a size that is not prime do not visit every slot.
    #[error("a table size of {0} is not a prime number; use 65537, or 655373 for large pools")]
    NotPrime(u32),
    /// Some members would get no slot.
    #[error(
        "{members} members with a weight do not fit into {table_size} slots; \
         use a prime table size above {members}00"
    )]
    TooManyMembers {
        /// Members with a weight above 0.
        members: usize,
        /// Slots.
        table_size: u32,
    },
    /// Two members with the same identity would take the share of two.
    #[error("{0} is listed twice; keep one and give it the weight of both")]
    Duplicate(Identity),
}

/// What is unwise about a table that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaglevWarning {
    /// Fewer than 100 slots a member: equal weights may differ by more than 1 % in their load.
    #[error(
        "{members} members share {table_size} slots, so equal weights may get shares that differ \
         by more than 1 %; use a prime table size above {members}00"
    )]
    Coarse {
        /// Members with a weight above 0.
        members: usize,
        /// Slots.
        table_size: u32,
    },
}

impl<T> Maglev<T> {
    /// The table without slots: every lookup is `None`.
    #[must_use]
    pub fn empty() -> Self {
        Self { slots: Box::default(), warning: None, owner: PhantomData }
    }

    /// Whether there are no slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of slots: the prime that the table was populated with, or 0.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// What is unwise about the table, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<MaglevWarning> {
        self.warning
    }
}

impl<T> Maglev<T> {
    /// Gives the memory of a table back to the arena that it was populated in.
    pub fn give_back(self, arena: &mut SlotArena) {
        // The table without slots took none.
        if !self.slots.is_empty() {
            arena.give_back(self.slots);
        }
    }
}

impl<T> Default for Maglev<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Copy + From<u16>> Maglev<T> {
    /// The owner of slot `hash mod slots`; `None` only in an empty table.
    ///
    /// 2^32 is no multiple of a prime, but for 65537 slots the bias is below 2^-16.
    #[must_use]
    #[inline]
    pub fn lookup(&self, hash: u32) -> Option<T> {
        self.slots.get(self.slot(hash)?).map(|&owner| T::from(owner))
    }

    /// The slot that a hash points to; `None` only in an empty table.
    #[must_use]
    #[inline]
    pub fn slot(&self, hash: u32) -> Option<usize> {
        let count = u32::try_from(self.slots.len()).ok()?;
        Some(hash.checked_rem(count)? as usize)
    }

    /// The owner of every slot, from slot 0 on. Owners are local ids: a digest that appliances
    /// compare maps them to identities first.
    #[must_use]
    pub fn owners(&self) -> impl ExactSizeIterator<Item = T> + '_ {
        self.slots.iter().map(|&owner| T::from(owner))
    }
}

impl<T: Copy + Into<u16>> Maglev<T> {
    /// Builds the table of `members`, in whatever order, with `table_size` slots. Without a member
    /// of weight above 0 it is the empty table.
    ///
    /// Slots are shared by weight: equal weights differ by at most one slot, scaling all weights
    /// changes nothing, and nobody gets less than `weight · table_size / Σ weights` rounded down.
    ///
    /// It allocates 4 bytes a slot while it runs and keeps 2.
    ///
    /// # Errors
    ///
    /// [`MaglevError`] if `table_size` is no prime, if there are more members with a weight than
    /// slots, or if two members (whatever their weights) have the same identity.
    pub fn populate(members: &[Member<T>], table_size: u32) -> Result<Self, MaglevError> {
        Self::populate_in(&mut SlotArena::default(), members, table_size)
    }

    /// The same, with memory from an arena. Give the table back with [`Self::give_back`] when
    /// nobody uses it any more.
    ///
    /// # Errors
    ///
    /// As [`Self::populate`]; nothing was taken from the arena then.
    pub fn populate_in(
        arena: &mut SlotArena,
        members: &[Member<T>],
        table_size: u32,
    ) -> Result<Self, MaglevError> {
        if !is_prime(table_size) {
            return Err(MaglevError::NotPrime(table_size));
        }
        // The canonical order. It decides who comes first in a round, hence the table.
        let mut sorted: Vec<&Member<T>> = members.iter().collect();
        sorted.sort_unstable_by(|one, other| one.identity.cmp(&other.identity));
        if let Some([twin, _]) =
            sorted.array_windows::<2>().find(|[one, other]| one.identity == other.identity)
        {
            return Err(MaglevError::Duplicate(twin.identity.clone()));
        }
        sorted.retain(|member| member.weight > 0);
        let members = sorted.len();
        if members > table_size as usize {
            return Err(MaglevError::TooManyMembers { members, table_size });
        }

        let candidates = sorted
            .iter()
            .map(|member| Candidate {
                permutation: Permutation::of(&member.identity, table_size),
                weight: member.weight,
            })
            .collect();
        if members == 0 {
            return Ok(Self::empty());
        }
        let mut places = std::mem::take(&mut arena.scratch);
        populate::fill(table_size, candidates, &mut places);
        let mut slots = arena.take(places.len());
        for (slot, &place) in slots.iter_mut().zip(&places) {
            *slot = sorted[place as usize].owner.into();
        }
        arena.keep_scratch(places);
        let warning = (members > table_size as usize / 100)
            .then_some(MaglevWarning::Coarse { members, table_size });
        Ok(Self { slots, warning, owner: PhantomData })
    }
}

/// Whether a table may have this many slots. Trial division: at most 2^15 steps.
#[must_use]
pub fn is_prime(number: u32) -> bool {
    let number = u64::from(number);
    number == 2
        || number > 2
            && !number.is_multiple_of(2)
            && (3..)
                .step_by(2)
                .take_while(|divisor| divisor * divisor <= number)
                .all(|divisor| !number.is_multiple_of(divisor))
}
