//! Which [`BackendId`] each member of each pool has.
//!
//! A connection entry names a slot and its epoch, and workers count by slot. So a slot that a
//! member left rests until every worker *forgot* that member (design.md §4.8):
//!
//! * every worker runs tables without it, so that none makes another entry or counts another packet
//!   for it; and
//! * no worker holds an entry of it any more: the sum of its gauges of live flows is 0.
//!
//! After that nothing of the member is left. Its successor inherits no flow, and the epoch, which
//! moves on when a member leaves, may wrap around as it likes: there is no entry that an epoch of
//! old could match. The epoch is what keeps flows of a member that left off the slot's vacant
//! record, and off the same member if it comes back.

use super::stable_ids::StableIds;
use crate::config::BackendKey;
use crate::id::{BackendEpoch, BackendId, BackendRef};
use crate::snapshot::Generation;

/// How many resting slots are looked at each time, so that many of them cost no tick much.
const LOOKS: usize = 256;

/// More members than there are slots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {limit} backend slots are in use or resting; remove backends, or retry when every \
     worker has adopted the last change and the flows of removed backends have ended"
)]
pub struct SlotsExhausted {
    limit: usize,
}

/// The slots, their tenants and their epochs.
#[derive(Clone, Debug)]
pub struct BackendSlots {
    /// Resting since the first generation without the tenant.
    ids: StableIds<BackendKey, Generation>,
    epochs: Vec<BackendEpoch>,
}

impl BackendSlots {
    /// Slots for at most `limit` members (capped at 65,535).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { ids: StableIds::new(limit.min(usize::from(u16::MAX))), epochs: Vec::new() }
    }

    /// The slot and epoch of a member, if it has one.
    #[must_use]
    pub fn find(&self, member: &BackendKey) -> Option<BackendRef> {
        let id = BackendId(self.ids.find(member)?);
        Some(BackendRef { id, epoch: self.epoch(id) })
    }

    /// Whose slot it is.
    #[must_use]
    pub fn tenant(&self, id: BackendId) -> Option<&BackendKey> {
        self.ids.key(id.0)
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

    /// How many slots rest.
    #[must_use]
    pub fn resting_count(&self) -> usize {
        self.ids.resting_count()
    }

    /// Whether so many new members would get a slot.
    ///
    /// # Errors
    /// [`SlotsExhausted`]
    pub fn check_room(&self, joined: usize) -> Result<(), SlotsExhausted> {
        if joined <= self.ids.available() {
            Ok(())
        } else {
            Err(SlotsExhausted { limit: self.ids.limit() })
        }
    }

    /// Lets go of the slots of `left`, and gives every one of `joined` one; returns those that were
    /// given. `next` is the generation that will be the first without `left`.
    ///
    /// # Errors
    /// [`SlotsExhausted`]; nothing has changed then.
    pub fn change(
        &mut self,
        left: &[BackendKey],
        joined: &[BackendKey],
        next: Generation,
    ) -> Result<Vec<BackendId>, SlotsExhausted> {
        self.check_room(joined.len())?;
        for member in left {
            // The epoch moves on at once: tables without the tenant already refuse its entries.
            if let Some(id) = self.ids.leave(member, next)
                && let Some(epoch) = self.epochs.get_mut(usize::from(id))
            {
                epoch.0 = epoch.0.wrapping_add(1);
            }
        }
        let given = joined.iter().filter_map(|member| self.ids.join(member.clone())).map(BackendId);
        let given = given.collect();
        self.epochs.resize(self.ids.count(), BackendEpoch(0));
        Ok(given)
    }

    /// Frees slots that every worker forgot: `by_all` is a generation that all of them run or have
    /// passed, and `flows` tells how many live flows all of them together count for a slot. Some
    /// slots are looked at each time; call it again and again.
    ///
    /// `flows` must be read after `by_all`: then a worker that adopted it has counted all entries
    /// that it will ever make for the tenant.
    pub fn adopted(&mut self, by_all: Generation, mut flows: impl FnMut(BackendId) -> u64) {
        self.ids.settle(LOOKS, |id, &since| since <= by_all && flows(BackendId(id)) == 0);
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

    fn members<const N: usize>(last: [u8; N]) -> [BackendKey; N] {
        last.map(member)
    }

    #[test]
    fn a_member_keeps_its_slot_and_a_left_slot_rests_until_all_adopted() {
        let mut slots = BackendSlots::new(2);
        slots.change(&[], &members([1, 2]), Generation(1)).unwrap();
        let second = slots.find(&member(2)).unwrap();
        slots.change(&members([1]), &[], Generation(2)).unwrap();
        assert_eq!(slots.find(&member(2)), Some(second));
        assert_eq!(slots.find(&member(1)), None);
        assert_eq!((slots.tenant(BackendId(0)), slots.tenant(second.id)), (None, Some(&member(2))));

        let refused = slots.change(&members([2]), &members([3]), Generation(3));
        assert!(refused.unwrap_err().to_string().starts_with("all 2 backend slots"));
        assert_eq!(slots.find(&member(2)), Some(second), "a refusal changes nothing");

        slots.adopted(Generation(1), |_| 0);
        assert!(slots.change(&[], &members([3]), Generation(3)).is_err());
        slots.adopted(Generation(2), |_| 0);
        let given = slots.change(&[], &members([3]), Generation(3)).unwrap();
        assert_eq!(given, [BackendId(0)]);
        assert_eq!(slots.find(&member(3)).unwrap().epoch, BackendEpoch(1));
        assert_eq!(slots.count(), 2);
    }

    // An entry of the old tenant may live for hours after the tables without it were adopted.
    #[test]
    fn a_left_slot_rests_as_long_as_a_worker_holds_a_flow_of_it() {
        let mut slots = BackendSlots::new(1);
        slots.change(&[], &members([1]), Generation(1)).unwrap();
        slots.change(&members([1]), &[], Generation(2)).unwrap();
        slots.adopted(Generation(9), |_| 1);
        assert!(slots.change(&[], &members([2]), Generation(10)).is_err());
        slots.adopted(Generation(9), |_| 0);
        slots.change(&[], &members([2]), Generation(10)).unwrap();
    }

    #[test]
    fn the_epoch_moves_when_the_tenant_leaves_and_not_again_at_reuse() {
        let mut slots = BackendSlots::new(1);
        slots.change(&[], &members([1]), Generation(1)).unwrap();
        let first = slots.find(&member(1)).unwrap();
        slots.change(&members([1]), &[], Generation(2)).unwrap();
        assert_eq!(slots.epoch(first.id), BackendEpoch(1));
        slots.adopted(Generation(2), |_| 0);
        slots.change(&[], &members([1]), Generation(3)).unwrap();
        let again = slots.find(&member(1)).unwrap();
        assert_eq!((again.id, again.epoch), (first.id, BackendEpoch(1)));
    }
}
