//! Every packet that comes back: is it whole, is it ours, is it in order, and is it where it
//! belongs?

mod account;
mod inner;
pub mod outer;
pub mod violation;
mod way;

use std::net::IpAddr;

use lodestone::config::Port;
use lodestone::packet::MacAddress;

use crate::expect::Expectation;
use crate::frame::Filling;
use crate::latency::Latency;
use crate::traffic::FlowSet;
use account::{Accounts, Arrival, Flow};
use violation::{Moves, Violation, Violations};
use way::Way;

/// What the verifier knows of the appliance's ports.
#[derive(Clone, Debug)]
pub struct AppliancePorts {
    /// As configured.
    pub ports: Vec<Port>,
    /// Their link-layer addresses, as far as they are known.
    pub macs: Vec<Option<MacAddress>>,
}

/// Checks what comes back, and keeps the accounts.
pub struct Verifier {
    /// What is expected.
    pub expectation: Expectation,
    accounts: Accounts,
    /// By flow set: the service of its packets.
    services: Vec<Option<usize>>,
    appliance: AppliancePorts,
    /// By backend.
    ways: Vec<Option<Way>>,
    filling: Filling,
    seed: u64,
    cycles_per_ms: u64,
    /// What is wrong.
    pub violations: Violations,
    /// How long packets took.
    pub latency: Latency,
    /// Packets that came back, of those that were to come back.
    pub returned: u64,
}

impl Verifier {
    /// A verifier of these flow sets.
    pub fn new(
        expectation: Expectation,
        sets: &[FlowSet],
        appliance: AppliancePorts,
        seed: u64,
        hz: u64,
    ) -> Self {
        let fleet = expectation.fleet();
        let service = |set: &FlowSet| {
            let (address, port) = set.destination;
            fleet.service_of(address, set.protocol(), port)
        };
        let services = sets.iter().map(service).collect();
        let count = sets.last().map_or(0, |last| last.base as usize + last.count as usize);
        Self {
            expectation,
            accounts: Accounts::new(count),
            services,
            appliance,
            ways: Vec::new(),
            filling: Filling::new(),
            seed,
            cycles_per_ms: (hz / 1000).max(1),
            violations: Violations::default(),
            latency: Latency::new(hz),
            returned: 0,
        }
    }

    /// The filling of all packets.
    pub fn filling(&self) -> &Filling {
        &self.filling
    }

    /// A packet of a flow is sent; returns its stamp.
    #[inline]
    pub fn send(&mut self, flow: u32, is_last: bool) -> crate::stamp::Stamp {
        let sequence = self.accounts.flows[flow as usize].send(is_last);
        crate::stamp::Stamp { flow, sequence, version: self.expectation.oldest() }
    }

    /// Connections that are open on a backend.
    pub fn live(&self, backend: u16) -> u64 {
        self.accounts.live(backend)
    }

    /// Flows that moved rightly.
    pub fn moves(&self) -> Moves {
        self.accounts.moves
    }

    /// Checks a frame that came from the appliance's port of this place. `false` if it is no
    /// encapsulated packet, but some other talk of the link.
    #[inline]
    pub fn receive(&mut self, frame: &[u8], port: usize, sets: &[FlowSet], now: u64) -> bool {
        if !outer::is_encapsulated(frame) {
            return false;
        }
        match self.check(frame, port, sets, now) {
            Ok(is_forwarded) => self.returned += u64::from(is_forwarded),
            Err(violation) => {
                // It is here, whatever is wrong with it: it is not missing as well.
                self.returned += u64::from(violation != Violation::NotDropped);
                self.violations.add(violation, 1, || example(frame));
            }
        }
        true
    }

    fn check(
        &mut self,
        frame: &[u8],
        port: usize,
        sets: &[FlowSet],
        now: u64,
    ) -> Result<bool, Violation> {
        let outer = outer::read(frame)?;
        let inner = inner::check(outer.inner, &self.filling, self.seed)?;
        let flow = inner.stamp.flow;
        let place = sets.partition_point(|set| set.base <= flow).wrapping_sub(1);
        let set = sets.get(place).filter(|set| set.contains(flow)).ok_or(Violation::Foreign)?;
        let (source, destination) = inner.header.ends(outer.inner);
        let ports = inner.ports;
        let source_port = u16::from_be_bytes([ports[0], ports[1]]);
        let destination_port = u16::from_be_bytes([ports[2], ports[3]]);
        if (source, source_port) != set.source(flow)
            || (destination, destination_port) != set.destination
        {
            return Err(Violation::Foreign);
        }
        if !set.is_forwarded {
            return Err(Violation::NotDropped);
        }
        let service = self.services[place].ok_or(Violation::NotDropped)?;
        let lives = self.expectation.at(outer.destination);
        let Some(&(_, newest)) = lives.last() else { return Err(Violation::UnknownBackend) };
        let addresses = inner.header.addresses(outer.inner);
        let hash = self.expectation.hash(addresses, ports, inner.header.protocol);
        if outer.flow_label.is_some_and(|label| label != hash as u32 & 0x000f_ffff) {
            return Err(Violation::OuterHeader);
        }
        let is_tcp = inner.header.protocol == crate::wire::PROTOCOL_TCP;
        let arrival = Arrival {
            stamp: inner.stamp,
            service,
            idle_timeout_ms: self.expectation.fleet().services[service].idle_timeout_ms,
            hash,
            lives,
            is_tcp,
            flags: inner.flags,
            now: (now / self.cycles_per_ms) as u32,
        };
        if let Some(sent_at) = inner.sent_at {
            self.latency.record(now.saturating_sub(sent_at));
        }
        // The account is kept even if the packet took a wrong way: its flow went on.
        let (order, choice) = self.accounts.enter(&self.expectation, &arrival);
        for violation in [order, choice].into_iter().flatten() {
            self.violations.add(violation, 1, || example(frame));
        }
        let on_way = self.check_way(&outer, port, newest);
        if let Err(violation) = on_way {
            self.violations.add(violation, 1, || example(frame));
        }
        Ok(true)
    }

    fn check_way(
        &mut self,
        outer: &outer::Outer<'_>,
        port: usize,
        backend: u16,
    ) -> Result<(), Violation> {
        let known = self.expectation.known();
        for known in known.iter().skip(self.ways.len()) {
            self.ways.push(Way::to(known.address, &self.appliance.ports));
        }
        let way = self.ways[usize::from(backend)].ok_or(Violation::UnknownBackend)?;
        if outer.source != way.source {
            return Err(Violation::OuterSource);
        }
        let source_mac = self.appliance.macs.get(way.port).copied().flatten();
        let is_right = way.port == port
            && outer.vlan == way.vlan
            && outer.destination_mac == way.next_hop.0
            && source_mac.is_none_or(|mac| mac.0 == outer.source_mac);
        if is_right { Ok(()) } else { Err(Violation::OuterLink) }
    }

    /// The run is over and nothing comes any more: what did not come back is missing. `forwarded`
    /// packets were to come back.
    pub fn finish(&mut self, forwarded: u64, sets: &[FlowSet]) {
        let missing = forwarded.saturating_sub(self.returned);
        let flows = &self.accounts.flows;
        self.violations.add(Violation::Missing, missing, || {
            let is_short = |(flow, account): &(usize, &Flow)| {
                let set = sets.iter().find(|set| set.contains(*flow as u32));
                set.is_some_and(|set| set.is_forwarded) && account.missing_at_end() > 0
            };
            match flows.iter().enumerate().find(is_short) {
                Some((flow, account)) => {
                    let set = sets.iter().find(|set| set.contains(flow as u32));
                    let source = set.map(|set| set.source(flow as u32));
                    format!(
                        "flow {flow} from {source:?} sent {} packets, and its last {} did not come \
                         back",
                        account.sent,
                        account.missing_at_end()
                    )
                }
                None => "packets are missing between others of their flows".to_owned(),
            }
        });
    }
}

/// A frame in words.
fn example(frame: &[u8]) -> String {
    let ends = |packet: &[u8]| -> Option<(IpAddr, IpAddr)> {
        crate::wire::IpHeader::read(packet).map(|header| header.ends(packet))
    };
    let ports = |packet: &[u8]| {
        let at = usize::from(if packet.first().is_some_and(|first| first >> 4 == 6) {
            40_u8
        } else {
            20
        });
        (crate::wire::u16_at(packet, at), crate::wire::u16_at(packet, at + 2))
    };
    if let Ok(outer) = outer::read(frame)
        && let Some((source, destination)) = ends(outer.inner)
    {
        let (from, to) = ports(outer.inner);
        return format!(
            "{source} port {from} to {destination} port {to}, sent to {}",
            outer.destination
        );
    }
    let bytes: Vec<_> = frame.iter().take(74).map(|byte| format!("{byte:02x}")).collect();
    format!("frame of {} bytes: {}", frame.len(), bytes.join(""))
}
