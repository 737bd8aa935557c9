//! Which [`BackendId`] each member of each pool has.
//!
//! A connection entry names a slot and its epoch. So a slot that a member left must rest until
//! every worker runs tables without that member, and then begins a new epoch with its next tenant:
//! no entry ever follows the slot to another backend (design.md §4.8).

use std::collections::{HashMap, VecDeque};

use crate::config::BackendKey;
use crate::id::{BackendEpoch, BackendId, BackendRef};
use crate::snapshot::Generation;

/// More members than there are slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {limit} backend slots are in use or resting; remove backends, or retry when every \
     worker has adopted the last change"
)]
pub struct SlotsExhausted {
    limit: usize,
}

/// The slots, their tenants and their epochs.
#[derive(Clone, Debug)]
pub struct BackendSlots {
    tenants: HashMap<BackendKey, BackendId>,
    epochs: Vec<BackendEpoch>,
    /// Left slots and the first generation without their tenant, oldest first.
    resting: VecDeque<(BackendId, Generation)>,
    free: VecDeque<BackendId>,
    limit: usize,
}

impl BackendSlots {
    /// Slots for at most `limit` members (capped at 65,535).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            tenants: HashMap::new(),
            epochs: Vec::new(),
            resting: VecDeque::new(),
            free: VecDeque::new(),
            limit: limit.min(usize::from(u16::MAX)),
        }
    }

    /// The slot and epoch of a member, if it has one.
    #[must_use]
    pub fn find(&self, member: &BackendKey) -> Option<BackendRef> {
        let id = *self.tenants.get(member)?;
        Some(BackendRef { id, epoch: self.epoch(id) })
    }

    /// The epoch of a slot.
    #[must_use]
    pub fn epoch(&self, id: BackendId) -> BackendEpoch {
        self.epochs.get(id.index()).copied().unwrap_or_default()
    }

    /// How many slots were ever used: the length of a table by [`BackendId`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.epochs.len()
    }

    /// Gives every one of `members` a slot and lets go of all others'. `next` is the generation
    /// that will be the first without those.
    ///
    /// # Errors
    /// [`SlotsExhausted`]; nothing has changed then.
    pub fn assign(
        &mut self,
        members: &[BackendKey],
        next: Generation,
    ) -> Result<(), SlotsExhausted> {
        let mut changed = self.clone();
        let wanted: std::collections::HashSet<_> = members.iter().collect();
        let mut left: Vec<_> = changed
            .tenants
            .iter()
            .filter(|(member, _)| !wanted.contains(member))
            .map(|(member, &id)| (member.clone(), id))
            .collect();
        left.sort_by_key(|&(_, id)| id);
        for (member, id) in left {
            changed.tenants.remove(&member);
            // The epoch moves on at once: tables without the tenant already refuse its entries.
            if let Some(epoch) = changed.epochs.get_mut(id.index()) {
                epoch.0 = epoch.0.wrapping_add(1);
            }
            changed.resting.push_back((id, next));
        }
        for member in members {
            if changed.tenants.contains_key(member) {
                continue;
            }
            let id = changed.take().ok_or(SlotsExhausted { limit: self.limit })?;
            changed.tenants.insert(member.clone(), id);
        }
        *self = changed;
        Ok(())
    }

    /// Frees the slots that rest since a generation that every worker runs or has passed.
    pub fn adopted(&mut self, by_all: Generation) {
        while let Some(&(id, since)) = self.resting.front() {
            if since > by_all {
                break;
            }
            self.resting.pop_front();
            self.free.push_back(id);
        }
    }

    fn take(&mut self) -> Option<BackendId> {
        // New slots first: a left slot's old entries then have the longest time to expire.
        if self.epochs.len() < self.limit {
            let id = BackendId(u16::try_from(self.epochs.len()).ok()?);
            self.epochs.push(BackendEpoch(0));
            return Some(id);
        }
        self.free.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn member(last: u8) -> BackendKey {
        BackendKey {
            pool: "web".into(),
            virtual_network: None,
            address: IpAddr::from([10, 0, 0, last]),
        }
    }

    #[test]
    fn a_member_keeps_its_slot_and_a_left_slot_rests_until_all_adopted() {
        let mut slots = BackendSlots::new(2);
        slots.assign(&[member(1), member(2)], Generation(1)).unwrap();
        let second = slots.find(&member(2)).unwrap();
        slots.assign(&[member(2)], Generation(2)).unwrap();
        assert_eq!(slots.find(&member(2)), Some(second));
        assert_eq!(slots.find(&member(1)), None);

        let refused = slots.assign(&[member(2), member(3)], Generation(3));
        assert!(refused.unwrap_err().to_string().starts_with("all 2 backend slots"));
        assert_eq!(slots.find(&member(2)), Some(second), "a refusal changes nothing");

        slots.adopted(Generation(1));
        assert!(slots.assign(&[member(2), member(3)], Generation(3)).is_err());
        slots.adopted(Generation(2));
        slots.assign(&[member(2), member(3)], Generation(3)).unwrap();
        let third = slots.find(&member(3)).unwrap();
        assert_eq!((third.id, third.epoch), (BackendId(0), BackendEpoch(1)));
        assert_eq!(slots.count(), 2);
    }

    #[test]
    fn the_epoch_moves_when_the_tenant_leaves_and_not_again_at_reuse() {
        let mut slots = BackendSlots::new(1);
        slots.assign(&[member(1)], Generation(1)).unwrap();
        let first = slots.find(&member(1)).unwrap();
        slots.assign(&[], Generation(2)).unwrap();
        assert_eq!(slots.epoch(first.id), BackendEpoch(1));
        slots.adopted(Generation(2));
        slots.assign(&[member(1)], Generation(3)).unwrap();
        let again = slots.find(&member(1)).unwrap();
        assert_eq!((again.id, again.epoch), (first.id, BackendEpoch(1)));
    }
}
