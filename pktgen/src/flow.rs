//! Which flows there are, and their frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::ensure;
use ipnet::IpNet;
use lodestone::packet::{Builder, MacAddress, TcpFlags};

use crate::Kind;

/// The first source port; those below are for well-known services.
const FIRST_PORT: u16 = 1024;
const PORT_COUNT: u64 = (u16::MAX - FIRST_PORT) as u64 + 1;

/// Flows to one destination, all different: first over the addresses, then over the ports.
#[derive(Debug)]
pub struct Flows {
    source: IpNet,
    destination: (IpAddr, u16),
    kind: Kind,
    payload: Vec<u8>,
    count: u32,
}

impl Flows {
    /// `count` flows from the addresses of `source`.
    pub fn new(
        source: IpNet,
        destination: (IpAddr, u16),
        kind: Kind,
        payload_len: u16,
        count: u32,
    ) -> anyhow::Result<Self> {
        ensure!(
            source.addr().is_ipv4() == destination.0.is_ipv4(),
            "--source {source} and --destination {} are of two IP versions; use one",
            destination.0
        );
        let room = host_count(source).saturating_mul(PORT_COUNT);
        ensure!(
            u64::from(count) <= room,
            "--source {source} has room for {room} flows, fewer than --flows {count}; widen the \
             prefix or ask for fewer"
        );
        let payload = vec![b'.'; payload_len.into()];
        Ok(Self { source, destination, kind, payload, count })
    }

    /// One frame a flow.
    pub fn frames(&self, source_mac: MacAddress, destination_mac: MacAddress) -> Vec<Vec<u8>> {
        (0..self.count)
            .map(|flow| {
                let (address, source_port) = self.source(flow);
                let builder = Builder::ethernet(source_mac, destination_mac);
                let builder = match (address, self.destination.0) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        builder.ipv4(source, destination)
                    }
                    (source, destination) => builder.ipv6(to_ipv6(source), to_ipv6(destination)),
                };
                let port = self.destination.1;
                let builder = match self.kind {
                    Kind::TcpSyn => builder.tcp(source_port, port, TcpFlags::SYN),
                    Kind::TcpAck => builder.tcp(source_port, port, TcpFlags::ACK),
                    Kind::Udp => builder.udp(source_port, port),
                };
                // The shortest frame of Ethernet, less the check sequence that the device adds.
                builder.payload(&self.payload).pad_to(60).build()
            })
            .collect()
    }

    /// Source address and port of a flow.
    fn source(&self, flow: u32) -> (IpAddr, u16) {
        let hosts = host_count(self.source);
        let host = u64::from(flow) % hosts;
        // Below PORT_COUNT, since there is room for every flow.
        let port = u16::try_from(u64::from(flow) / hosts).unwrap_or(u16::MAX - FIRST_PORT);
        (host_address(self.source, host), FIRST_PORT.saturating_add(port))
    }
}

/// Addresses that a host may have: all, but for a wide IPv4 network's first and last and a wide
/// IPv6 network's first (RFC 4291 §2.6.1).
fn host_count(network: IpNet) -> u64 {
    let bits = network.max_prefix_len() - network.prefix_len();
    let all = 1_u64.checked_shl(bits.into()).unwrap_or(u64::MAX);
    match bits {
        0 | 1 => all,
        _ if network.addr().is_ipv4() => all - 2,
        _ => all - 1,
    }
}

/// The address of host `index`, counted from 0.
fn host_address(network: IpNet, index: u64) -> IpAddr {
    let bits = network.max_prefix_len() - network.prefix_len();
    let offset = index + u64::from(bits > 1);
    match network.network() {
        IpAddr::V4(first) => {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().wrapping_add(offset)))
        }
        IpAddr::V6(first) => {
            IpAddr::V6(Ipv6Addr::from_bits(first.to_bits().wrapping_add(offset.into())))
        }
    }
}

fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lodestone::packet::parse;

    use super::*;

    fn flows(source: &str, count: u32) -> anyhow::Result<Flows> {
        let destination = if source.contains(':') { "2001:db8::1" } else { "203.0.113.1" };
        let destination = (destination.parse()?, 443);
        Flows::new(source.parse()?, destination, Kind::Udp, 10, count)
    }

    #[test]
    fn every_flow_differs_and_stays_in_the_prefix() {
        for source in ["198.51.100.0/29", "198.51.100.7/32", "2001:db8:5::/64", "2001:db8:5::/126"]
        {
            let flows = flows(source, 1000).unwrap();
            let sources: BTreeSet<_> = (0..1000).map(|flow| flows.source(flow)).collect();
            assert_eq!(sources.len(), 1000, "{source}");
            let network: IpNet = source.parse().unwrap();
            assert!(
                sources
                    .iter()
                    .all(|(address, port)| { network.contains(address) && *port >= FIRST_PORT })
            );
        }
    }

    #[test]
    fn network_and_broadcast_addresses_are_no_hosts() {
        let flows = flows("198.51.100.0/30", 4).unwrap();
        let hosts: Vec<_> = (0..4).map(|flow| flows.source(flow).0.to_string()).collect();
        assert_eq!(hosts, ["198.51.100.1", "198.51.100.2", "198.51.100.1", "198.51.100.2"]);
    }

    #[test]
    fn the_last_flow_that_there_is_room_for_has_the_last_port() {
        let room = u32::try_from(PORT_COUNT).unwrap();
        let last = flows("198.51.100.7/32", room).unwrap().source(room - 1);
        assert_eq!(last.1, u16::MAX);
        let error = flows("198.51.100.7/32", room + 1).unwrap_err().to_string();
        assert!(error.contains("room for 64512 flows"), "{error}");
    }

    #[test]
    fn frames_parse_as_what_was_asked_for() {
        for source in ["198.51.100.0/24", "2001:db8:5::/64"] {
            let flows = flows(source, 3).unwrap();
            let frames = flows.frames(MacAddress([2; 6]), MacAddress([4; 6]));
            assert_eq!(frames.len(), 3);
            for frame in frames {
                assert!(frame.len() >= 60);
                assert!(parse::parse(&frame).is_ok());
            }
        }
    }

    #[test]
    fn two_ip_versions_are_refused() {
        let destination = ("2001:db8::1".parse().unwrap(), 443);
        let source = "198.51.100.0/24".parse().unwrap();
        let error = Flows::new(source, destination, Kind::TcpSyn, 0, 1).unwrap_err().to_string();
        assert!(error.contains("two IP versions"), "{error}");
    }
}
