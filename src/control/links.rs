//! Ports, neighbours and mailboxes together: frames heard go to the resolver, frames that it wants
//! sent go to worker 0, and links that come up are announced on.

use std::net::IpAddr;
use std::time::Duration;

use super::alarms::{Alarm, AlarmKind};
use super::compile::Links;
use super::conflicts::Conflicts;
use super::events::{Draft, EventKind, Severity};
use super::neighbours::{Neighbour, Neighbours, NextHop, PortIdentity};
use super::ports::{PortNews, Ports, WorkerRemote};
use super::route::route;
use crate::config::Config;
use crate::id::PortId;
use crate::packet::MacAddress;
use crate::worker::Frame;

/// How often links are looked at.
const LINK_INTERVAL: Duration = Duration::from_millis(100);

/// Frames that are taken from one worker's mailbox at a time.
const FRAMES_A_TICK: usize = 256;

/// The ports' links and their neighbours.
#[derive(Debug)]
pub struct NeighbourLinks {
    ports: Vec<LinkedPort>,
    neighbours: Neighbours,
    poll_at: Option<Duration>,
    links_at: Duration,
    conflicts: Conflicts,
    /// How often what tables are made of may have changed.
    revision: u64,
    events: Vec<Draft>,
}

#[derive(Debug)]
struct LinkedPort {
    identity: PortIdentity,
    name: String,
    link_up: bool,
    link_changes: u64,
}

impl NeighbourLinks {
    /// Those of a configuration's ports. Nothing is sent before the first [`Self::tick`].
    #[must_use]
    pub fn new(config: &Config, ports: &dyn Ports) -> Self {
        let mut links = Self {
            ports: Vec::new(),
            neighbours: Neighbours::new(u64::from(std::process::id())),
            poll_at: Some(Duration::ZERO),
            links_at: Duration::ZERO,
            conflicts: Conflicts::default(),
            revision: 0,
            events: Vec::new(),
        };
        links.configure(config, ports, Duration::ZERO);
        links
    }

    /// Takes another configuration: what is owned, and which next hops are wanted.
    pub fn configure(&mut self, config: &Config, ports: &dyn Ports, now: Duration) {
        let ids = (0..=u8::MAX).map(PortId);
        let link_changes: Vec<_> = self.ports.iter().map(|port| port.link_changes).collect();
        self.ports = ids
            .zip(&config.ports)
            .map(|(id, port)| LinkedPort {
                identity: PortIdentity::new(id, port, ports.mac(id), &config.services),
                name: port.name.clone(),
                link_up: ports.link_up(id),
                // Ports keep their numbers: what changes their list needs a restart.
                link_changes: link_changes.get(id.index()).copied().unwrap_or_default(),
            })
            .collect();
        let identities = self.ports.iter().map(|port| port.identity.clone()).collect();
        self.neighbours.set_ports(identities, now);
        let backends = config.pools.iter().flat_map(|pool| &pool.backends);
        let mut hops: Vec<_> = backends
            .filter_map(|backend| route(&config.ports, backend.address))
            .map(|way| NextHop { port: way.port, address: way.next_hop })
            .collect();
        hops.sort_unstable();
        hops.dedup();
        self.neighbours.set_targets(&hops);
        self.poll_at = Some(now);
        self.revision += 1;
    }

    /// Does what is due at `now`; returns whether a next hop's link-layer address changed.
    pub fn tick(&mut self, now: Duration, ports: &dyn Ports, workers: &mut [WorkerRemote]) -> bool {
        let mut changed = false;
        for worker in &mut *workers {
            for frame in (0..FRAMES_A_TICK).map_while(|_| worker.mailbox.next_punted()) {
                changed |= self.hear(&frame, now);
            }
        }
        if now >= self.links_at {
            self.links_at = now + LINK_INTERVAL;
            self.watch_links(ports, now);
            self.watch_conflicts(now);
        }
        if self.poll_at.is_some_and(|at| now >= at) {
            let poll = self.neighbours.poll(now);
            self.poll_at = poll.next;
            for originated in poll.frames {
                let frame = Frame::new(originated.port, &originated.frame);
                let sent = frame.zip(workers.first_mut());
                if !sent.is_some_and(|(frame, worker)| worker.mailbox.send(frame)) {
                    // Worker 0 does not poll; the resolver asks again.
                    tracing::debug!(port = %originated.port, "a neighbour frame was not taken");
                }
            }
        }
        self.revision += u64::from(changed);
        changed
    }

    fn hear(&mut self, frame: &Frame, now: Duration) -> bool {
        let heard = self.neighbours.heard(frame.port, &frame.bytes, now);
        // What was heard may be due for an answer.
        self.poll_at = Some(now);
        if let Some(conflict) = heard.conflict {
            self.conflicts.hear(&conflict, now);
        }
        heard.changed
    }

    fn watch_links(&mut self, ports: &dyn Ports, now: Duration) {
        for port in &mut self.ports {
            let id = port.identity.port;
            let link_up = ports.link_up(id);
            if link_up == port.link_up {
                continue;
            }
            port.link_up = link_up;
            port.link_changes += 1;
            let (severity, word) =
                if link_up { (Severity::Info, "up") } else { (Severity::Warning, "down") };
            self.events.push(Draft::new(
                EventKind::LinkChanged,
                severity,
                format!("port {}", port.name),
                format!("the link of port {} is {word}", port.name),
            ));
            if link_up {
                self.neighbours.link_up(id, now);
                self.poll_at = Some(now);
            }
        }
    }

    fn watch_conflicts(&mut self, now: Duration) {
        self.conflicts.expire(now);
        if let Some(news) = self.conflicts.next_news(now) {
            self.events.push(Draft::new(
                EventKind::AddressConflict,
                Severity::Warning,
                self.subject(news.port, news.address),
                self.sentence(news.port, news.address, &[news.mac]),
            ));
        }
    }

    /// What is wrong now.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        let conflicts = self.conflicts.standing();
        let alarm = |(port, address, macs): (PortId, IpAddr, Vec<MacAddress>)| {
            let text = self.sentence(port, address, &macs);
            Alarm::new(AlarmKind::AddressConflict, self.subject(port, address), text)
        };
        conflicts.map(alarm).collect()
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.events)
    }

    /// What a conflict concerns: each address is an alarm of its own.
    fn subject(&self, port: PortId, address: IpAddr) -> String {
        format!("address {address} of port {}", self.port_name(port))
    }

    /// Every next hop.
    pub fn entries(&self) -> impl Iterator<Item = Neighbour> {
        self.neighbours.entries()
    }

    /// How often a port's link came up or went down.
    #[must_use]
    pub fn link_changes(&self, port: PortId) -> u64 {
        self.ports.get(port.index()).map_or(0, |port| port.link_changes)
    }

    /// Notes what happened to a port's device.
    pub fn hear_news(&mut self, news: &PortNews) {
        let name = self.port_name(news.port);
        let (subject, message) = (format!("port {name}"), format!("port {name} {}", news.text));
        let severity = if news.is_trouble { Severity::Warning } else { Severity::Info };
        self.events.push(Draft::new(EventKind::PortReset, severity, subject, message));
    }

    /// A port's name in the configuration.
    #[must_use]
    pub fn port_name(&self, port: PortId) -> &str {
        self.ports.get(port.index()).map_or("?", |port| &port.name)
    }

    fn sentence(&self, port: PortId, address: IpAddr, macs: &[MacAddress]) -> String {
        let port = self.port_name(port);
        let macs: Vec<_> = macs.iter().map(ToString::to_string).collect();
        let host = if macs.len() == 1 { "that host" } else { "those hosts" };
        format!(
            "{address} on port {port} is also claimed by {}; take it from {host} (a backend needs \
             arp_ignore=1 for VIPs on its loopback)",
            macs.join(" and ")
        )
    }
}

impl Links for NeighbourLinks {
    fn identity(&self, port: PortId) -> Option<&PortIdentity> {
        self.ports.get(port.index()).map(|port| &port.identity)
    }

    fn next_hop(&self, port: PortId, address: IpAddr) -> Option<MacAddress> {
        self.neighbours.lookup(port, address)
    }

    fn revision(&self) -> Option<u64> {
        Some(self.revision)
    }
}
