//! Which [`VipId`] each VIP address and protocol has.
//!
//! Connection entries outlive tables, and the id is the part of their key that stands for the
//! destination. So an id whose VIP is gone rests for as long as the longest-lived entry can, before
//! *another* VIP may have it. The same VIP may have it back at any time: what entries say of it is what
//! they said before it went. So a VIP that comes and goes uses one id, however often it does.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::stable_ids::StableIds;
use crate::config::Protocol;
use crate::id::VipId;

/// How long an id rests: the longest idle timeout that a service can have (57,600 s), and an hour
/// for ageing to find the entry.
pub const REST: Duration = Duration::from_hours(16 + 1);

/// A VIP as its id is known by.
type VipAddress = (IpAddr, Protocol);

/// More VIPs than there are ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "all {limit} VIP ids are in use, or rest for {} h after the removal of their VIPs; remove VIPs, or \
     bring back some that were removed",
    REST.as_secs() / 3_600
)]
pub struct VipIdsExhausted {
    limit: usize,
}

/// The ids in use and at rest.
#[derive(Clone, Debug)]
pub struct VipIds {
    /// Also those of VIPs that are gone.
    ids: StableIds<VipAddress, ()>,
    /// The VIPs whose ids rest, and since when.
    gone: HashMap<VipAddress, Duration>,
}

impl VipIds {
    /// At most `limit` ids (capped at 65,536).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { ids: StableIds::new(limit), gone: HashMap::new() }
    }

    /// The id of a VIP, if it has one.
    #[must_use]
    pub fn find(&self, vip: VipAddress) -> Option<VipId> {
        if self.gone.contains_key(&vip) {
            return None;
        }
        self.ids.find(&vip).map(VipId)
    }

    /// The VIP that an id stands for, also in entries of one that is gone.
    #[must_use]
    pub fn vip(&self, id: VipId) -> Option<VipAddress> {
        self.ids.key(id.0).copied()
    }

    /// Whether every one of `joined` would get an id at `now`, any monotonic time.
    ///
    /// # Errors
    /// [`VipIdsExhausted`]
    pub fn check_room(
        &mut self,
        joined: &[VipAddress],
        now: Duration,
    ) -> Result<(), VipIdsExhausted> {
        let new = joined.iter().filter(|vip| !self.gone.contains_key(vip)).count();
        if new > self.ids.available() {
            self.free_rested(now, joined);
        }
        if new <= self.ids.available() {
            Ok(())
        } else {
            Err(VipIdsExhausted { limit: self.ids.limit() })
        }
    }

    /// Lets go of the ids of `left`, and gives every one of `joined` one: its own, if that still rests.
    ///
    /// # Errors
    /// [`VipIdsExhausted`]; nothing has changed then.
    pub fn change(
        &mut self,
        left: &[VipAddress],
        joined: &[VipAddress],
        now: Duration,
    ) -> Result<(), VipIdsExhausted> {
        self.check_room(joined, now)?;
        for vip in left {
            if self.ids.find(vip).is_some() {
                self.gone.insert(*vip, now);
            }
        }
        for vip in joined {
            self.gone.remove(vip);
            self.ids.join(*vip);
        }
        Ok(())
    }

    /// Frees the ids that have rested, but for those of `kept`.
    fn free_rested(&mut self, now: Duration, kept: &[VipAddress]) {
        let ids = &mut self.ids;
        self.gone.retain(|vip, since| {
            let rests = now.saturating_sub(*since) < REST || kept.contains(vip);
            if !rests {
                ids.leave(vip, ());
            }
            rests
        });
        ids.settle(usize::MAX, |_, ()| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vip(last: u8) -> (IpAddr, Protocol) {
        (IpAddr::from([192, 0, 2, last]), Protocol::Tcp)
    }

    #[test]
    fn an_id_rests_before_another_vip_has_it() {
        let mut ids = VipIds::new(2);
        ids.change(&[], &[vip(1), vip(2)], Duration::ZERO).unwrap();
        let second = ids.find(vip(2)).unwrap();
        ids.change(&[vip(1)], &[], Duration::from_secs(1)).unwrap();
        assert_eq!(ids.find(vip(2)), Some(second));
        assert_eq!(ids.find(vip(1)), None);
        assert!(ids.change(&[vip(2)], &[vip(3)], REST).is_err(), "one second too early");
        assert_eq!(ids.find(vip(2)), Some(second), "a refusal changes nothing");
        ids.change(&[], &[vip(3)], REST + Duration::from_secs(1)).unwrap();
        assert_eq!(ids.find(vip(3)), Some(VipId(0)));
    }

    // However often it does: here more often than there are ids.
    #[test]
    fn a_vip_that_comes_and_goes_uses_one_id() {
        let mut ids = VipIds::new(2);
        ids.change(&[], &[vip(1), vip(2)], Duration::ZERO).unwrap();
        let first = ids.find(vip(1)).unwrap();
        for round in 0..200_000 {
            let now = Duration::from_millis(round);
            ids.change(&[vip(1)], &[], now).unwrap();
            assert_eq!(ids.find(vip(1)), None);
            assert_eq!(ids.vip(first), Some(vip(1)), "what its entries are told by");
            ids.change(&[], &[vip(1)], now).unwrap();
            assert_eq!(ids.find(vip(1)), Some(first));
        }
        assert!(ids.change(&[], &[vip(3)], REST).is_err());
    }

    #[test]
    fn one_that_comes_back_late_has_its_id_beside_those_that_need_room() {
        let mut ids = VipIds::new(2);
        ids.change(&[], &[vip(1), vip(2)], Duration::ZERO).unwrap();
        ids.change(&[vip(1), vip(2)], &[], Duration::ZERO).unwrap();
        ids.change(&[], &[vip(2), vip(3)], REST).unwrap();
        assert_eq!(ids.find(vip(2)), Some(VipId(1)));
        assert_eq!(ids.find(vip(3)), Some(VipId(0)));
        assert_eq!(ids.vip(VipId(0)), Some(vip(3)));
    }

    #[test]
    fn the_protocol_is_part_of_the_vip() {
        let mut ids = VipIds::new(2);
        let address = IpAddr::from([192, 0, 2, 1]);
        let both = [(address, Protocol::Tcp), (address, Protocol::Udp)];
        ids.change(&[], &both, Duration::ZERO).unwrap();
        assert_ne!(ids.find((address, Protocol::Tcp)), ids.find((address, Protocol::Udp)));
    }
}
