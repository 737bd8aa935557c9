//! The flows of packets to one address, and their frames.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::ensure;
use ipnet::IpNet;
use lodestone::packet::{Builder, MacAddress, TcpFlags};

use crate::command::Kind;
use crate::tuples::{Order, Tuples};

/// Flows to one destination, all different: first over the addresses, then over the ports.
#[derive(Debug)]
pub struct Flows {
    tuples: Tuples,
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
        let tuples = Tuples::new(source, Order::Grid);
        let room = tuples.room();
        ensure!(
            u64::from(count) <= room,
            "--source {source} has room for {room} flows, fewer than --flows {count}; widen the \
             prefix or ask for fewer"
        );
        let payload = vec![b'.'; payload_len.into()];
        Ok(Self { tuples, destination, kind, payload, count })
    }

    /// One frame a flow.
    pub fn frames(&self, source_mac: MacAddress, destination_mac: MacAddress) -> Vec<Vec<u8>> {
        (0..self.count)
            .map(|flow| {
                let (address, source_port) = self.tuples.source(flow);
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
}

fn to_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use lodestone::packet::parse;

    use super::*;

    fn flows(source: &str, count: u32) -> anyhow::Result<Flows> {
        let destination = if source.contains(':') { "2001:db8::1" } else { "203.0.113.1" };
        let destination = (destination.parse()?, 443);
        Flows::new(source.parse()?, destination, Kind::Udp, 10, count)
    }

    #[test]
    fn the_last_flow_that_there_is_room_for_has_the_last_port() {
        let room = 64_512;
        let last = flows("198.51.100.7/32", room).unwrap().tuples.source(room - 1);
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
