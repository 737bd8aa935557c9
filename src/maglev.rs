//! Maglev lookup tables (Eisenbud et al., NSDI 2016, §3.4).

use std::marker::PhantomData;

/// A lookup table: slot to owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maglev<T> {
    slots: Box<[u16]>,
    owner: PhantomData<T>,
}

impl<T: Copy + From<u16>> Maglev<T> {
    /// The owner of `hash mod slots`; `None` only in an empty table.
    #[must_use]
    #[inline]
    pub fn lookup(&self, hash: u32) -> Option<T> {
        let count = u32::try_from(self.slots.len()).ok()?;
        let slot = hash.checked_rem(count)? as usize;
        self.slots.get(slot).map(|&owner| T::from(owner))
    }
}
