//! Telling the link that our addresses are here.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use super::{Originated, PortIdentity};
use crate::id::PortId;
use crate::packet::originate::REPORT_GROUP_CAP;
use crate::packet::solicited_node;

/// How often everything is announced at start and link-up: switches may not forward at first, and
/// no announcement is answered.
const ROUNDS: u32 = 3;
/// From one round to the next.
const ROUND: Duration = Duration::from_secs(1);
/// An address that another host claims is defended at most this often (RFC 5227 §2.4).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// What is still to be said, and when.
#[derive(Debug)]
pub(super) struct Announcer {
    /// Rounds to come: how many, and when the next.
    rounds: BTreeMap<PortId, (u32, Duration)>,
    /// Reports that a query asked for.
    reports: BTreeMap<PortId, Duration>,
    /// When an address was last defended.
    defended: BTreeMap<(PortId, IpAddr), Duration>,
    /// Frames that wait for their turn.
    outbox: VecDeque<Originated>,
}

impl Announcer {
    /// With nothing to say.
    pub(super) const fn new() -> Self {
        Self {
            rounds: BTreeMap::new(),
            reports: BTreeMap::new(),
            defended: BTreeMap::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Begins the rounds of a port at `now`.
    pub(super) fn announce(&mut self, port: PortId, now: Duration) {
        self.rounds.insert(port, (ROUNDS, now));
    }

    /// Reports the port's groups at `at`, if not already sooner.
    pub(super) fn report(&mut self, port: PortId, at: Duration) {
        self.reports.entry(port).and_modify(|due| *due = at.min(*due)).or_insert(at);
    }

    /// Says once more that `address` is ours, unless that was said lately: two hosts that defend
    /// one address without a limit would fill the link.
    pub(super) fn defend(&mut self, identity: &PortIdentity, address: IpAddr, now: Duration) {
        let last = self.defended.get(&(identity.port, address));
        if last.is_none_or(|last| now >= *last + DEFEND_INTERVAL) {
            self.defended.insert((identity.port, address), now);
            self.outbox.push_back(announcement(identity, address));
        }
    }

    /// Forgets the ports that are not among `ports`.
    pub(super) fn retain(&mut self, ports: &[PortIdentity]) {
        let exists = |port: PortId| ports.iter().any(|identity| identity.port == port);
        self.rounds.retain(|port, _| exists(*port));
        self.reports.retain(|port, _| exists(*port));
        self.defended.retain(|(port, _), _| exists(*port));
        self.outbox.retain(|originated| exists(originated.port));
    }

    /// Adds what is due to `frames` until they are `cap`; the rest waits.
    pub(super) fn poll(
        &mut self,
        ports: &[PortIdentity],
        now: Duration,
        frames: &mut Vec<Originated>,
        cap: usize,
    ) {
        for identity in ports {
            let round = self.rounds.get_mut(&identity.port).filter(|(_, due)| *due <= now);
            let announces = round.is_some();
            if let Some((left, due)) = round {
                *left -= 1;
                *due = now + ROUND;
                if *left == 0 {
                    self.rounds.remove(&identity.port);
                }
            }
            let asked = self.reports.get(&identity.port).is_some_and(|due| *due <= now);
            if asked || announces {
                self.reports.remove(&identity.port);
                // Before the announcements: a snooping switch then already delivers what they cause.
                self.outbox.extend(reports(identity));
            }
            if announces {
                let owned = identity.owned().map(|address| announcement(identity, address));
                self.outbox.extend(owned);
            }
        }
        let room = cap.saturating_sub(frames.len()).min(self.outbox.len());
        frames.extend(self.outbox.drain(..room));
    }

    /// Whether frames wait for their turn.
    pub(super) fn is_behind(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When something is due.
    pub(super) fn next(&self) -> Option<Duration> {
        let rounds = self.rounds.values().map(|(_, due)| *due);
        rounds.chain(self.reports.values().copied()).min()
    }
}

fn announcement(identity: &PortIdentity, address: IpAddr) -> Originated {
    let frame = match address {
        IpAddr::V4(address) => identity.origin().arp_announcement(address),
        IpAddr::V6(address) => identity.origin().neighbour_announcement(address),
    };
    Originated { port: identity.port, frame }
}

/// The solicited-node groups that a port listens to, each once.
pub(super) fn groups(identity: &PortIdentity) -> Vec<Ipv6Addr> {
    let mut groups: Vec<_> = identity
        .owned()
        .filter_map(|address| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some(solicited_node(address)),
        })
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn reports(identity: &PortIdentity) -> Vec<Originated> {
    let Some(source) = identity.link_local() else { return Vec::new() };
    groups(identity)
        .chunks(REPORT_GROUP_CAP)
        .map(|groups| Originated {
            port: identity.port,
            frame: identity.origin().listener_report(source, groups),
        })
        .collect()
}
