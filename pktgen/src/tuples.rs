//! The sources of a set of flows: address and port of flow *n*, all different, computed and not
//! stored.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::random::mix;

/// The first source port; those below are for well-known services.
pub const FIRST_PORT: u16 = 1024;
/// Source ports of an address.
pub const PORT_COUNT: u64 = (u16::MAX - FIRST_PORT) as u64 + 1;
/// Addresses of a prefix that are used at most.
const HOST_CAP: u64 = 1 << 32;

/// In which order a set takes its sources from the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First over the addresses, then over the ports.
    Grid,
    /// At random, as the seed says.
    Random(u64),
}

/// Address and port of every flow of a set.
#[derive(Clone, Copy, Debug)]
pub struct Tuples {
    source: IpNet,
    hosts: u64,
    order: Order,
    /// Bits of each half of the number that [`Order::Random`] permutes.
    half_bits: u32,
}

impl Tuples {
    /// The sources of a prefix in this order.
    pub fn new(source: IpNet, order: Order) -> Self {
        let hosts = host_count(source).min(HOST_CAP);
        let bits = u64::BITS - (hosts * PORT_COUNT - 1).leading_zeros();
        Self { source, hosts, order, half_bits: bits.div_ceil(2).max(1) }
    }

    /// How many different sources there are.
    pub fn room(&self) -> u64 {
        self.hosts * PORT_COUNT
    }

    /// Address and port of a flow below [`Self::room`].
    #[inline]
    pub fn source(&self, flow: u32) -> (IpAddr, u16) {
        let place = match self.order {
            Order::Grid => u64::from(flow),
            Order::Random(seed) => self.permuted(flow.into(), seed),
        };
        // Below PORT_COUNT, since the place is below the room.
        let port = u16::try_from(place / self.hosts).unwrap_or(0).saturating_add(FIRST_PORT);
        (host_address(self.source, place % self.hosts), port)
    }

    /// A permutation of the places: a Feistel network over the next power of four, walked until it
    /// comes back into the room, four steps at most on average.
    #[inline]
    fn permuted(&self, place: u64, seed: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut place = place;
        loop {
            let (mut left, mut right) = (place >> self.half_bits, place & mask);
            for round in 0..4 {
                let next = left ^ (mix(right ^ seed.wrapping_add(round << 56)) & mask);
                (left, right) = (right, next);
            }
            place = left << self.half_bits | right;
            if place < self.room() {
                return place;
            }
        }
    }
}

/// Addresses that a host may have: all, but for a wide IPv4 network's first and last and a wide
/// IPv6 network's first (RFC 4291 §2.6.1).
pub fn host_count(network: IpNet) -> u64 {
    let bits = network.max_prefix_len() - network.prefix_len();
    let all = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
    match bits {
        0 | 1 => all,
        _ if network.addr().is_ipv4() => all - 2,
        _ => all - 1,
    }
}

/// The address of host `index`, counted from 0.
#[inline]
pub fn host_address(network: IpNet, index: u64) -> IpAddr {
    let bits = network.max_prefix_len() - network.prefix_len();
    let offset = index + u64::from(bits > 1);
    match network {
        IpNet::V4(network) => {
            let first = network.network().to_bits();
            IpAddr::V4(Ipv4Addr::from_bits(first.wrapping_add(offset as u32)))
        }
        IpNet::V6(network) => {
            let first = network.network().to_bits();
            IpAddr::V6(Ipv6Addr::from_bits(first.wrapping_add(offset.into())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flow_differs_and_stays_in_the_prefix() {
        for source in ["198.51.100.0/29", "198.51.100.7/32", "10.0.0.0/8", "2001:db8:5::/64"] {
            let network: IpNet = source.parse().unwrap();
            for order in [Order::Grid, Order::Random(5)] {
                let tuples = Tuples::new(network, order);
                let sources: BTreeSet<_> = (0..20_000).map(|flow| tuples.source(flow)).collect();
                assert_eq!(sources.len(), 20_000, "{source} {order:?}");
                let inside = |(address, port): &(IpAddr, u16)| {
                    network.contains(address) && *port >= FIRST_PORT
                };
                assert!(sources.iter().all(inside));
            }
        }
    }

    #[test]
    fn all_the_room_is_used_once() {
        let tuples = Tuples::new("198.51.100.7/32".parse().unwrap(), Order::Random(1));
        assert_eq!(tuples.room(), PORT_COUNT);
        let room = u32::try_from(PORT_COUNT).unwrap();
        let ports: BTreeSet<_> = (0..room).map(|flow| tuples.source(flow).1).collect();
        assert_eq!(ports.len() as u64, PORT_COUNT);
    }

    #[test]
    fn the_order_at_random_depends_on_the_seed() {
        let network = "10.0.0.0/8".parse().unwrap();
        let first = |seed| Tuples::new(network, Order::Random(seed)).source(0);
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn network_and_broadcast_addresses_are_no_hosts() {
        let tuples = Tuples::new("198.51.100.0/30".parse().unwrap(), Order::Grid);
        let hosts: Vec<_> = (0..4).map(|flow| tuples.source(flow).0.to_string()).collect();
        assert_eq!(hosts, ["198.51.100.1", "198.51.100.2", "198.51.100.1", "198.51.100.2"]);
    }
}
