//! Which [`VipId`] each VIP address and protocol has.
//!
//! Connection entries outlive tables, and the id is the part of their key that stands for the
//! destination. So an id whose VIP is gone rests for as long as the longest-lived entry can, before
//! another VIP may have it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

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
pub struct VipIds {
    in_use: HashMap<(IpAddr, Protocol), VipId>,
    resting: VecDeque<(VipId, Duration)>,
    used: usize,
    limit: usize,
}

impl VipIds {
    /// At most `limit` ids (capped at 65,536).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            in_use: HashMap::new(),
            resting: VecDeque::new(),
            used: 0,
            limit: limit.min(usize::from(u16::MAX) + 1),
        }
    }

    /// The id of a VIP, if it has one.
    #[must_use]
    pub fn find(&self, vip: (IpAddr, Protocol)) -> Option<VipId> {
        self.in_use.get(&vip).copied()
    }

    /// Gives every one of `vips` an id and lets go of all others'. `now` is any monotonic time.
    ///
    /// # Errors
    /// [`VipIdsExhausted`]; nothing has changed then.
    pub fn assign(
        &mut self,
        vips: &[(IpAddr, Protocol)],
        now: Duration,
    ) -> Result<(), VipIdsExhausted> {
        let mut changed = self.clone();
        let wanted: std::collections::HashSet<_> = vips.iter().collect();
        let mut left = Vec::new();
        changed.in_use.retain(|vip, id| {
            let stays = wanted.contains(vip);
            if !stays {
                left.push(*id);
            }
            stays
        });
        left.sort_unstable();
        changed.resting.extend(left.into_iter().map(|id| (id, now)));
        for vip in vips {
            if changed.in_use.contains_key(vip) {
                continue;
            }
            let id = changed.take(now).ok_or(VipIdsExhausted { limit: self.limit })?;
            changed.in_use.insert(*vip, id);
        }
        *self = changed;
        Ok(())
    }

    fn take(&mut self, now: Duration) -> Option<VipId> {
        if self.used < self.limit {
            let id = VipId(u16::try_from(self.used).ok()?);
            self.used += 1;
            return Some(id);
        }
        let &(id, since) = self.resting.front()?;
        if now.saturating_sub(since) < REST {
            return None;
        }
        self.resting.pop_front();
        Some(id)
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
        ids.assign(&[vip(1), vip(2)], Duration::ZERO).unwrap();
        let second = ids.find(vip(2)).unwrap();
        ids.assign(&[vip(2)], Duration::from_secs(1)).unwrap();
        assert_eq!(ids.find(vip(2)), Some(second));
        assert_eq!(ids.find(vip(1)), None);
        assert!(ids.assign(&[vip(2), vip(3)], REST).is_err(), "one second too early");
        assert_eq!(ids.find(vip(2)), Some(second), "a refusal changes nothing");
        ids.assign(&[vip(2), vip(3)], REST + Duration::from_secs(1)).unwrap();
        assert_eq!(ids.find(vip(3)), Some(VipId(0)));
    }

    #[test]
    fn the_protocol_is_part_of_the_vip() {
        let mut ids = VipIds::new(2);
        let address = IpAddr::from([192, 0, 2, 1]);
        ids.assign(&[(address, Protocol::Tcp), (address, Protocol::Udp)], Duration::ZERO).unwrap();
        assert_ne!(ids.find((address, Protocol::Tcp)), ids.find((address, Protocol::Udp)));
    }
}
