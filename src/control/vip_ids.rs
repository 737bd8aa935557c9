//! Which [`VipId`] each VIP address and protocol has.
//!
//! Connection entries outlive tables, and the id is the part of their key that stands for the
//! destination. So an id whose VIP is gone rests for as long as the longest-lived entry can, before
//! another VIP may have it.

use std::net::IpAddr;
use std::time::Duration;

use super::stable_ids::StableIds;
use crate::config::Protocol;
use crate::id::VipId;

/// How long an id rests: the longest idle timeout that a service can have (57,600 s), and an hour
/// for ageing to find the entry.
pub const REST: Duration = Duration::from_hours(16 + 1);

/// More VIPs than there are ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {limit} VIP ids are in use or rest for {} h after removal; remove VIPs", REST.as_secs() / 3_600)]
pub struct VipIdsExhausted {
    limit: usize,
}

/// The ids in use and at rest.
#[derive(Clone, Debug)]
pub struct VipIds(StableIds<(IpAddr, Protocol), Duration>);

impl VipIds {
    /// At most `limit` ids (capped at 65,536).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(StableIds::new(limit))
    }

    /// The id of a VIP, if it has one.
    #[must_use]
    pub fn find(&self, vip: (IpAddr, Protocol)) -> Option<VipId> {
        self.0.find(&vip).map(VipId)
    }

    /// The VIP that has an id.
    #[must_use]
    pub fn vip(&self, id: VipId) -> Option<(IpAddr, Protocol)> {
        self.0.key(id.0).copied()
    }

    /// Whether so many new VIPs would get an id at `now`, any monotonic time.
    ///
    /// # Errors
    /// [`VipIdsExhausted`]
    pub fn check_room(&mut self, joined: usize, now: Duration) -> Result<(), VipIdsExhausted> {
        self.0.settle(usize::MAX, |_, &since| now.saturating_sub(since) >= REST);
        if joined <= self.0.available() {
            Ok(())
        } else {
            Err(VipIdsExhausted { limit: self.0.limit() })
        }
    }

    /// Lets go of the ids of `left`, and gives every one of `joined` one.
    ///
    /// # Errors
    /// [`VipIdsExhausted`]; nothing has changed then.
    pub fn change(
        &mut self,
        left: &[(IpAddr, Protocol)],
        joined: &[(IpAddr, Protocol)],
        now: Duration,
    ) -> Result<(), VipIdsExhausted> {
        self.check_room(joined.len(), now)?;
        for vip in left {
            self.0.leave(vip, now);
        }
        for vip in joined {
            self.0.join(*vip);
        }
        Ok(())
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

    #[test]
    fn the_protocol_is_part_of_the_vip() {
        let mut ids = VipIds::new(2);
        let address = IpAddr::from([192, 0, 2, 1]);
        let both = [(address, Protocol::Tcp), (address, Protocol::Udp)];
        ids.change(&[], &both, Duration::ZERO).unwrap();
        assert_ne!(ids.find((address, Protocol::Tcp)), ids.find((address, Protocol::Udp)));
    }
}
