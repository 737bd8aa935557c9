//! Other hosts that claim addresses of the appliance: which claims stand, and which are still to be
//! told. Pure: time and claims come in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::neighbours::Conflict;
use crate::id::PortId;
use crate::packet::MacAddress;

/// How long a claim stands after it was last heard.
const MEMORY: Duration = Duration::from_mins(1);

/// Claims are told at most this often: a host that invents claimants must not fill the log.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// Claimants of one address that are remembered. One that has no room is taken when another one's
/// claim stands no more.
const CLAIMANT_CAP: usize = 8;

/// The claims that stand.
#[derive(Debug, Default)]
pub struct Conflicts {
    claims: BTreeMap<(PortId, IpAddr), Vec<Claim>>,
    told_at: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    mac: MacAddress,
    heard: Duration,
    is_told: bool,
}

impl Conflicts {
    /// A claim was heard at `now`, any monotonic time.
    pub fn hear(&mut self, conflict: &Conflict, now: Duration) {
        let Conflict { port, address, mac } = *conflict;
        let claims = self.claims.entry((port, address)).or_default();
        if let Some(claim) = claims.iter_mut().find(|claim| claim.mac == mac) {
            claim.heard = now;
        } else if claims.len() < CLAIMANT_CAP {
            claims.push(Claim { mac, heard: now, is_told: false });
        }
    }

    /// Forgets at `now` what has not been heard for a minute.
    pub fn expire(&mut self, now: Duration) {
        self.claims.retain(|_, claims| {
            claims.retain(|claim| now.saturating_sub(claim.heard) <= MEMORY);
            !claims.is_empty()
        });
    }

    /// A claim that was not told yet, if one may be told at `now`; it counts as told from now on.
    pub fn next_news(&mut self, now: Duration) -> Option<Conflict> {
        if self.told_at.is_some_and(|told| now.saturating_sub(told) < TELL_INTERVAL) {
            return None;
        }
        let mut all = self.claims.iter_mut();
        let (port, address, claim) = all.find_map(|(&(port, address), claims)| {
            Some((port, address, claims.iter_mut().find(|claim| !claim.is_told)?))
        })?;
        claim.is_told = true;
        self.told_at = Some(now);
        Some(Conflict { port, address, mac: claim.mac })
    }

    /// Every address that another host claims, by its port, and who claims it.
    pub fn standing(&self) -> impl Iterator<Item = (PortId, IpAddr, Vec<MacAddress>)> {
        self.claims.iter().map(|(&(port, address), claims)| {
            (port, address, claims.iter().map(|claim| claim.mac).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(port: u8, address: u8, mac: u8) -> Conflict {
        let address = IpAddr::from([10, 0, 0, address]);
        Conflict { port: PortId(port), address, mac: MacAddress([2, 0, 0, 0, 0, mac]) }
    }

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn claims_in_turn_are_one_standing_conflict_each_and_told_once() {
        let mut conflicts = Conflicts::default();
        let claims = [conflict(0, 2, 7), conflict(1, 2, 7), conflict(0, 3, 7), conflict(0, 3, 8)];
        let mut told = Vec::new();
        for step in 0..600 {
            let now = ms(step * 100);
            conflicts.hear(&claims[usize::try_from(step).unwrap() % claims.len()], now);
            conflicts.expire(now);
            if step >= 3 {
                assert_eq!(conflicts.standing().count(), 3, "at {now:?}");
            }
            told.extend(conflicts.next_news(now).map(|news| (step, news)));
        }
        let mut news: Vec<_> = told.iter().map(|&(_, news)| news).collect();
        assert_eq!(news.len(), claims.len(), "{told:?}");
        news.retain(|news| !claims.contains(news));
        assert_eq!(news, [], "each of them");
        assert!(told.windows(2).all(|two| two[1].0 >= two[0].0 + 10), "{told:?}");
        let last: Vec<_> = conflicts.standing().map(|(_, _, macs)| macs.len()).collect();
        assert_eq!(last, [1, 2, 1], "by port and address");
    }

    #[test]
    fn a_claim_that_is_not_heard_for_a_minute_stands_no_more_and_is_news_again_later() {
        let mut conflicts = Conflicts::default();
        let claim = conflict(0, 2, 7);
        conflicts.hear(&claim, ms(0));
        assert_eq!(conflicts.next_news(ms(0)), Some(claim));
        conflicts.expire(MEMORY);
        assert_eq!(conflicts.standing().count(), 1);
        conflicts.expire(MEMORY + ms(1));
        assert_eq!(conflicts.standing().count(), 0);
        conflicts.hear(&claim, MEMORY * 2);
        assert_eq!(conflicts.next_news(MEMORY * 2), Some(claim));
    }

    #[test]
    fn claimants_without_number_are_bounded_and_the_conflict_stands() {
        let mut conflicts = Conflicts::default();
        let mut told = 0;
        for step in 0..200_u8 {
            let now = Duration::from_secs(step.into());
            conflicts.hear(&conflict(0, 2, step), now);
            conflicts.expire(now);
            told += usize::from(conflicts.next_news(now).is_some());
            let standing: Vec<_> = conflicts.standing().collect();
            assert_eq!(standing.len(), 1);
            assert!(standing[0].2.len() <= CLAIMANT_CAP);
        }
        assert!((CLAIMANT_CAP..=4 * CLAIMANT_CAP).contains(&told), "{told}");
    }
}
