//! Which packet comes next: flow sets by their shares, flows by their order, sizes by their list.

use std::net::IpAddr;

use crate::frame::{LinkAddresses, Template};
use crate::life::Connections;
use crate::profile::{Expect, Kind, Profile, Set, Traffic};
use crate::random::Random;
use crate::tuples::Tuples;
use crate::wire;
use crate::zipf::Zipf;

/// Attempts to find a flow that has no connection, before the next in order is taken.
const TRIES: u32 = 64;

/// A flow set at work.
pub struct FlowSet {
    /// What its frames have in common.
    pub template: Template,
    /// The number of its first flow among all of the run.
    pub base: u32,
    /// How many flows it has.
    pub count: u32,
    /// What its packets are.
    pub kind: Kind,
    /// Its packets come back.
    pub is_forwarded: bool,
    /// Where its packets go.
    pub destination: (IpAddr, u16),
    tuples: Tuples,
    zipf: Option<Zipf>,
    next: u32,
    sizes: Vec<u16>,
    next_size: usize,
    connections: Option<Connections>,
    /// By flow, if they have connections.
    is_open: Vec<bool>,
    random: Random,
}

/// A packet that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The place of its flow set.
    pub set: usize,
    /// The flow, counted over all sets.
    pub flow: u32,
    /// Where it comes from.
    pub source: (IpAddr, u16),
    /// TCP's control bits.
    pub flags: u8,
    /// Length of the IP packet.
    pub ip_len: usize,
    /// The flow ends with it, for now.
    pub is_last: bool,
}

impl FlowSet {
    fn new(traffic: &Traffic, base: u32, seed: u64, addresses: &LinkAddresses) -> Self {
        let zipf = match traffic.set {
            Set::Zipf(exponent) => Some(Zipf::new(traffic.flows, exponent)),
            Set::Grid | Set::Random => None,
        };
        let connections = traffic.life.as_ref().map(|life| Connections::new(life, seed));
        let is_open = vec![false; if connections.is_some() { traffic.flows as usize } else { 0 }];
        Self {
            template: Template::new(traffic, addresses),
            base,
            count: traffic.flows,
            kind: traffic.kind,
            is_forwarded: traffic.expect == Expect::Forwarded,
            destination: (traffic.destination, traffic.port),
            tuples: traffic.tuples(),
            zipf,
            next: 0,
            sizes: traffic.sizes.clone(),
            next_size: 0,
            connections,
            is_open,
            random: Random::new(seed),
        }
    }

    /// Address and port of a flow of the run that is of this set.
    #[inline]
    pub fn source(&self, flow: u32) -> (IpAddr, u16) {
        self.tuples.source(flow - self.base)
    }

    /// Whether a flow of the run is of this set.
    #[inline]
    pub fn contains(&self, flow: u32) -> bool {
        flow.wrapping_sub(self.base) < self.count
    }

    /// The protocol of its packets.
    pub fn protocol(&self) -> u8 {
        match self.kind {
            Kind::Udp | Kind::UdpFragments => wire::PROTOCOL_UDP,
            _ => wire::PROTOCOL_TCP,
        }
    }

    #[inline]
    fn in_turn(&mut self) -> u32 {
        let flow = self.next;
        self.next = if flow + 1 == self.count { 0 } else { flow + 1 };
        flow
    }

    #[inline]
    fn pick(&mut self) -> u32 {
        match self.zipf {
            Some(zipf) => zipf.sample(&mut self.random),
            None => self.in_turn(),
        }
    }

    /// A flow that has no connection; there is one, since no more are open than there are flows.
    fn pick_closed(&mut self) -> u32 {
        for _ in 0..TRIES {
            let flow = self.pick();
            if !self.is_open[flow as usize] {
                return flow;
            }
        }
        loop {
            let flow = self.in_turn();
            if !self.is_open[flow as usize] {
                return flow;
            }
        }
    }

    #[inline]
    fn plan(&mut self, set: usize) -> Planned {
        let (flow, flags, is_last) = self.next_step();
        let size = usize::from(self.sizes[self.next_size]);
        self.next_size =
            if self.next_size + 1 == self.sizes.len() { 0 } else { self.next_size + 1 };
        let ip_len = size.saturating_sub(self.template.link_len()).max(self.template.least_len());
        Planned {
            set,
            flow: self.base + flow,
            source: self.tuples.source(flow),
            flags,
            ip_len,
            is_last,
        }
    }

    #[inline]
    fn next_step(&mut self) -> (u32, u8, bool) {
        if let Some(mut connections) = self.connections.take() {
            let step = connections.step(|| self.pick_closed());
            self.connections = Some(connections);
            self.is_open[step.flow as usize] = !step.is_last;
            return (step.flow, step.flags, step.is_last);
        }
        let flags = match self.kind {
            Kind::Syn => wire::SYN,
            Kind::SynAck => wire::SYN | wire::ACK,
            Kind::RandomFlags => self.random.next() as u8,
            Kind::Tcp | Kind::Ack | Kind::Udp | Kind::UdpFragments => wire::ACK,
        };
        (self.pick(), flags, false)
    }
}

/// All flow sets.
pub struct Generator {
    sets: Vec<FlowSet>,
    /// By set: the sum of the shares up to it, of 2³².
    shares: Vec<u32>,
    random: Random,
}

impl Generator {
    /// The flow sets of a profile, on a link.
    pub fn new(profile: &Profile, addresses: &LinkAddresses) -> Self {
        let mut base = 0;
        let mut random = Random::new(profile.seed);
        let sets: Vec<_> = profile
            .traffic
            .iter()
            .map(|traffic| {
                let set = FlowSet::new(traffic, base, random.next(), addresses);
                base += traffic.flows;
                set
            })
            .collect();
        let total: f64 = profile.traffic.iter().map(|traffic| traffic.share).sum();
        let mut sum = 0.0;
        let share = |traffic: &Traffic| {
            sum += traffic.share;
            (sum / total * f64::from(u32::MAX)) as u32
        };
        let shares = profile.traffic.iter().map(share).collect();
        Self { sets, shares, random }
    }

    /// The next packet.
    #[inline]
    pub fn plan(&mut self) -> Planned {
        let set = if self.sets.len() == 1 {
            0
        } else {
            let at = self.random.next() as u32;
            self.shares.partition_point(|&share| share < at).min(self.sets.len() - 1)
        };
        self.sets[set].plan(set)
    }

    /// The flow sets.
    pub fn sets(&self) -> &[FlowSet] {
        &self.sets
    }
}

#[cfg(test)]
mod tests {
    use lodestone::packet::MacAddress;

    use super::*;
    use crate::profile::tests::profile;

    fn generator(text: &str) -> Generator {
        let addresses = LinkAddresses {
            source: MacAddress([2; 6]),
            destination: MacAddress([4; 6]),
            vlan: None,
        };
        Generator::new(&profile(text), &addresses)
    }

    const MIX: &str = r#"
mode = "verify"
packets = 1000
[[traffic]]
share = 3
kind = "tcp"
source = "198.51.100.0/24"
destination = "203.0.113.1"
port = 80
flows = 50
set = "zipf"
life = { concurrent = 40, length = [2, 5] }
size = [60, 100]
[[traffic]]
kind = "udp"
source = "2001:db8::/64"
destination = "2001:db8:1::1"
port = 53
flows = 7
"#;

    #[test]
    fn shares_sizes_and_flows_are_as_asked_for() {
        let mut generator = generator(MIX);
        let mut by_set = [0_u32; 2];
        for _ in 0..10_000 {
            let planned = generator.plan();
            by_set[planned.set] += 1;
            let set = &generator.sets()[planned.set];
            assert!(set.contains(planned.flow));
            assert_eq!(set.source(planned.flow), planned.source);
            if planned.set == 0 {
                assert!([46, 86].contains(&planned.ip_len), "{planned:?}");
            } else {
                assert_eq!(planned.ip_len, 60, "the least that has a stamp");
                assert!((50..57).contains(&planned.flow));
            }
        }
        assert!((7300..7700).contains(&by_set[0]), "{by_set:?}");
    }

    #[test]
    fn no_flow_has_two_connections_at_once() {
        let mut generator = generator(MIX);
        let mut open = [false; 50];
        for _ in 0..20_000 {
            let planned = generator.plan();
            if planned.set == 0 {
                let is_open = &mut open[planned.flow as usize];
                assert_eq!(*is_open, planned.flags != wire::SYN, "{planned:?}");
                *is_open = !planned.is_last;
            }
        }
    }

    #[test]
    fn floods_have_their_flags() {
        for (kind, flags) in [("syn", wire::SYN), ("syn-ack", 0x12), ("ack", wire::ACK)] {
            let text = MIX.replace("\"udp\"", &format!("\"{kind}\""));
            let mut generator = generator(&text);
            let found = (0..100).map(|_| generator.plan()).find(|planned| planned.set == 1);
            assert_eq!(found.unwrap().flags, flags);
        }
    }
}
