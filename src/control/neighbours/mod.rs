//! Neighbours: the MACs of next hops, found by ARP (RFC 826) and neighbour discovery (RFC 4861),
//! and our own addresses, announced. Pure: time and frames come in, frames go out.
//!
//! Workers answer requests for our addresses by themselves and punt everything else of these
//! protocols to management, which feeds it to [`Neighbours::heard`].
//!
//! What is heard is believed only of next hops that were asked for, on the port where they were
//! asked for, and never of our own addresses. An entry never expires: a neighbour that is silent
//! keeps its last MAC and is marked stale.

mod announcer;
mod entry;
mod identity;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use self::announcer::Announcer;
use self::entry::{Ask, Entry};
use crate::health::Jitter;
use crate::id::PortId;
use crate::packet::parse::{self, IpPacket, Link, Network};
use crate::packet::{MacAddress, arp, ndp};

pub use self::entry::NeighbourState;
pub use self::identity::{PortIdentity, link_local};

/// At most so many frames come out of one [`Neighbours::poll`], so that a thousand neighbours or
/// VIPs do not overrun the ring to the worker that sends them.
pub const FRAMES_PER_POLL: usize = 64;

/// When the next frames may follow.
const PACE: Duration = Duration::from_millis(10);

/// A listener query is answered after a random time below this, since many hosts hear it (RFC 3810
/// §6.2; the default of its maximum response delay is ten times as long).
const REPORT_DELAY: Duration = Duration::from_secs(1);

/// Where packets go next: a gateway or an on-link backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The port on whose link it is.
    pub port: PortId,
    /// Its address.
    pub address: IpAddr,
}

/// A frame to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Originated {
    /// Where it is sent.
    pub port: PortId,
    /// From the Ethernet header on, without check sequence.
    pub frame: Vec<u8>,
}

/// What [`Neighbours::poll`] wants done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// To be sent now, in this order.
    pub frames: Vec<Originated>,
    /// When to poll again, if nothing is heard or changed before.
    pub next: Option<Duration>,
}

/// What a frame told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Whether a [`Neighbours::lookup`] now has another answer, so that tables must be compiled.
    pub changed: bool,
    /// Another host claims an address of ours.
    pub conflict: Option<Conflict>,
}

/// Another host claims an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where it was heard.
    pub port: PortId,
    /// Our address.
    pub address: IpAddr,
    /// Who claims it.
    pub mac: MacAddress,
}

/// One next hop, for people to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Which.
    pub hop: NextHop,
    /// Its MAC, if it was ever heard.
    pub mac: Option<MacAddress>,
    /// How it stands.
    pub state: NeighbourState,
    /// When it was last heard, since the daemon's start.
    pub heard: Option<Duration>,
}

/// The neighbours of all ports. Times are since the daemon's start.
#[derive(Debug)]
pub struct Neighbours {
    ports: Vec<PortIdentity>,
    entries: BTreeMap<NextHop, Entry>,
    announcer: Announcer,
    jitter: Jitter,
    conflict_count: u64,
}

impl Neighbours {
    /// Without ports and next hops. `seed` decides the jitter.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            ports: Vec::new(),
            entries: BTreeMap::new(),
            announcer: Announcer::new(),
            jitter: Jitter::new(seed),
            conflict_count: 0,
        }
    }

    /// Makes `ports` the ports. One that is new or changed announces its addresses and looks for its
    /// neighbours, as after [`Self::link_up`].
    pub fn set_ports(&mut self, ports: Vec<PortIdentity>, now: Duration) {
        let before = std::mem::replace(&mut self.ports, ports);
        self.announcer.retain(&self.ports);
        let fresh = self.ports.iter().filter(|identity| !before.contains(identity));
        for port in fresh.map(|identity| identity.port).collect::<Vec<_>>() {
            self.link_up(port, now);
        }
    }

    /// Makes `hops` the next hops. Those that stay keep what is known of them; a new one is asked
    /// for at the next poll.
    pub fn set_targets(&mut self, hops: &[NextHop]) {
        let mut before = std::mem::take(&mut self.entries);
        for hop in hops {
            let entry = before.remove(hop).unwrap_or_else(Entry::new);
            self.entries.entry(*hop).or_insert(entry);
        }
    }

    /// The link of `port` came up: announces its addresses, and checks its neighbours, which may
    /// not be the same as before.
    pub fn link_up(&mut self, port: PortId, now: Duration) {
        self.announcer.announce(port, now);
        for (_, entry) in self.entries.iter_mut().filter(|(hop, _)| hop.port == port) {
            entry.hasten(now);
        }
    }

    /// What is due at `now`. Polling changes no MAC.
    pub fn poll(&mut self, now: Duration) -> Poll {
        let mut frames = Vec::new();
        for (hop, entry) in &mut self.entries {
            if frames.len() >= FRAMES_PER_POLL {
                break;
            }
            if entry.due() > now {
                continue;
            }
            let identity = self.ports.iter().find(|identity| identity.port == hop.port);
            let asking = identity.filter(|identity| can_ask(identity, hop.address));
            match asking {
                Some(identity) => {
                    let ask = entry.ask(now);
                    frames.extend(question(identity, hop.address, ask));
                }
                None => entry.cannot_ask(now),
            }
        }
        self.announcer.poll(&self.ports, now, &mut frames, FRAMES_PER_POLL);

        let due = self.entries.values().map(Entry::due).chain(self.announcer.next()).min();
        let next = if self.announcer.is_behind() { Some(now + PACE) } else { due };
        Poll { frames, next: next.map(|next| next.max(now + PACE)) }
    }

    /// Takes a punted frame that came in on `port`. What is no valid ARP, neighbour discovery or
    /// listener query is ignored.
    pub fn heard(&mut self, port: PortId, frame: &[u8], now: Duration) -> Heard {
        let Some(index) = self.ports.iter().position(|identity| identity.port == port) else {
            return Heard::default();
        };
        let identity = &self.ports[index];
        let Ok(link) = parse::link(frame) else { return Heard::default() };
        if link.vlan != identity.vlan || link.source == identity.mac {
            return Heard::default();
        }
        let Some(claim) = (match parse::network(frame, &link) {
            Ok(Network::Arp) => arp_claim(&link, frame),
            Ok(Network::Ip(packet)) => {
                self.hear_query(index, &packet, frame, now);
                ndp_claim(&link, &packet, frame)
            }
            Err(_) => None,
        }) else {
            return Heard::default();
        };
        self.hear_claim(index, claim, now)
    }

    /// The MAC of a next hop, if it was ever heard.
    #[must_use]
    pub fn lookup(&self, port: PortId, address: IpAddr) -> Option<MacAddress> {
        self.entries.get(&NextHop { port, address })?.mac()
    }

    /// Every next hop, by port and address.
    pub fn entries(&self) -> impl Iterator<Item = Neighbour> {
        self.entries.iter().map(|(hop, entry)| Neighbour {
            hop: *hop,
            mac: entry.mac(),
            state: entry.state(),
            heard: entry.heard_at(),
        })
    }

    /// How often another host claimed an address of ours.
    #[must_use]
    pub const fn conflict_count(&self) -> u64 {
        self.conflict_count
    }

    fn hear_claim(&mut self, index: usize, claim: Claim, now: Duration) -> Heard {
        let identity = &self.ports[index];
        let port = identity.port;
        // Our own announcement that a bridge sent back is no conflict.
        if claim.mac == Some(identity.mac) {
            return Heard::default();
        }
        if identity.owns(claim.address) {
            self.conflict_count += 1;
            self.announcer.defend(identity, claim.address, now);
            let mac = claim.mac.unwrap_or(claim.frame_source);
            let conflict = Conflict { port, address: claim.address, mac };
            return Heard { changed: false, conflict: Some(conflict) };
        }
        let Some(entry) = self.entries.get_mut(&NextHop { port, address: claim.address }) else {
            return Heard::default();
        };
        let changed = match (claim.mac, entry.mac()) {
            // RFC 4861 §7.2.5: without the override flag a MAC that differs is a hint only.
            (Some(mac), Some(known)) if mac != known && !claim.overrides => {
                entry.check(now);
                false
            }
            (Some(mac), _) => entry.hear(mac, now, &mut self.jitter),
            // An answer to a unicast solicitation may leave the MAC out (§4.4).
            (None, Some(known)) if claim.solicited => entry.hear(known, now, &mut self.jitter),
            (None, _) => false,
        };
        Heard { changed, conflict: None }
    }

    fn hear_query(&mut self, index: usize, packet: &IpPacket, frame: &[u8], now: Duration) {
        let Ok(query) = ndp::listener_query(packet, frame) else { return };
        let identity = &self.ports[index];
        if query.group.is_unspecified() || announcer::groups(identity).contains(&query.group) {
            let delay = self.jitter.between(Duration::ZERO, REPORT_DELAY);
            self.announcer.report(identity.port, now + delay);
        }
    }
}

/// "`address` is at `mac`", said by a frame.
#[derive(Clone, Copy, Debug)]
struct Claim {
    address: IpAddr,
    /// Unicast and not zero.
    mac: Option<MacAddress>,
    frame_source: MacAddress,
    /// Whether the MAC replaces another one.
    overrides: bool,
    /// Whether it answers a question.
    solicited: bool,
}

/// RFC 826: requests tell where their sender is, as replies do. A probe has no sender (RFC 5227
/// §1.1) and claims nothing yet.
fn arp_claim(link: &Link, frame: &[u8]) -> Option<Claim> {
    let arp = arp::parse(frame.get(link.l3_offset..)?).ok()?;
    if arp.sender.is_unspecified() {
        return None;
    }
    Some(Claim {
        address: IpAddr::V4(arp.sender),
        mac: Some(believable(arp.sender_mac)?),
        frame_source: link.source,
        overrides: true,
        solicited: arp.operation == arp::Operation::Reply,
    })
}

fn ndp_claim(link: &Link, packet: &IpPacket, frame: &[u8]) -> Option<Claim> {
    if let Ok(said) = ndp::advertisement(packet, frame) {
        let mac = match said.target_mac {
            Some(mac) => Some(believable(mac)?),
            None => None,
        };
        return Some(Claim {
            address: IpAddr::V6(said.target),
            mac,
            frame_source: link.source,
            overrides: said.overrides,
            solicited: said.solicited,
        });
    }
    let asked = ndp::solicitation(packet, frame).ok()?;
    if asked.source.is_unspecified() {
        return None;
    }
    Some(Claim {
        address: IpAddr::V6(asked.source),
        mac: Some(believable(asked.source_mac?)?),
        frame_source: link.source,
        // RFC 4861 §7.2.3: the source's entry is created or updated.
        overrides: true,
        solicited: false,
    })
}

/// Frames go to one host only: a next hop at a group address would turn traffic into a flood.
fn believable(mac: MacAddress) -> Option<MacAddress> {
    (!mac.is_group() && mac != MacAddress::default()).then_some(mac)
}

/// Whether the port has an address to ask from, and the next hop is not the port itself.
fn can_ask(identity: &PortIdentity, address: IpAddr) -> bool {
    let has_source = match address {
        IpAddr::V4(address) => identity.ipv4_source(address).is_some(),
        IpAddr::V6(_) => true,
    };
    has_source && !identity.owns(address)
}

fn question(identity: &PortIdentity, address: IpAddr, ask: Ask) -> Option<Originated> {
    let origin = identity.origin();
    let frame = match address {
        IpAddr::V4(target) => {
            let source = identity.ipv4_source(target)?;
            match ask {
                Ask::Unicast(mac) => origin.arp_poll(source, target, mac),
                Ask::Multicast => origin.arp_request(source, target),
            }
        }
        IpAddr::V6(target) => {
            // RFC 4861 §4.3: any address of the port will do; this one needs no configuration.
            let source = link_local(identity.mac);
            match ask {
                Ask::Unicast(mac) => origin.neighbour_poll(source, target, mac),
                Ask::Multicast => origin.neighbour_solicitation(source, target),
            }
        }
    };
    Some(Originated { port: identity.port, frame })
}

#[cfg(test)]
mod tests;
