//! Which port leads to an address, through which next hop and from which source.

use std::net::IpAddr;

use crate::config::Port;
use crate::id::PortId;

/// The way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The port that sends.
    pub port: PortId,
    /// Whose link-layer address the frame gets: the destination itself, or a gateway.
    pub next_hop: IpAddr,
    /// The port's own address that packets to there are sent from.
    pub source: IpAddr,
}

/// The route to `destination`: the longest on-link prefix of any port, else the first port with a
/// gateway of that family. `None` if there is neither, or no source address of that family.
#[must_use]
pub fn route(ports: &[Port], destination: IpAddr) -> Option<Route> {
    on_link(ports, destination).or_else(|| by_gateway(ports, destination))
}

fn on_link(ports: &[Port], destination: IpAddr) -> Option<Route> {
    numbered(ports)
        .flat_map(|(id, port)| port.addresses.iter().map(move |net| (id, net)))
        .filter(|(_, net)| net.contains(&destination))
        .max_by_key(|(id, net)| (net.prefix_len(), std::cmp::Reverse(*id)))
        .map(|(port, net)| Route { port, next_hop: destination, source: net.addr() })
}

fn by_gateway(ports: &[Port], destination: IpAddr) -> Option<Route> {
    numbered(ports).find_map(|(id, port)| {
        let next_hop = match destination {
            IpAddr::V4(_) => IpAddr::V4(port.gateway_ipv4?),
            IpAddr::V6(_) => IpAddr::V6(port.gateway_ipv6?),
        };
        let same_family =
            || port.addresses.iter().filter(|net| net.addr().is_ipv4() == next_hop.is_ipv4());
        let source =
            same_family().find(|net| net.contains(&next_hop)).or_else(|| same_family().next())?;
        Some(Route { port: id, next_hop, source: source.addr() })
    })
}

fn numbered(ports: &[Port]) -> impl Iterator<Item = (PortId, &Port)> {
    (0..=u8::MAX).map(PortId).zip(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(addresses: &[&str], gateway_ipv4: Option<&str>, gateway_ipv6: Option<&str>) -> Port {
        Port {
            name: "p".into(),
            device: "d".into(),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            gateway_ipv4: gateway_ipv4.map(|a| a.parse().unwrap()),
            gateway_ipv6: gateway_ipv6.map(|a| a.parse().unwrap()),
            mtu: 1500,
            vlan: None,
            mac: None,
        }
    }

    fn way(ports: &[Port], to: &str) -> Option<(u8, String, String)> {
        route(ports, to.parse().unwrap())
            .map(|r| (r.port.0, r.next_hop.to_string(), r.source.to_string()))
    }

    #[test]
    fn on_link_beats_gateway_and_the_longer_prefix_wins() {
        let ports = [
            port(&["10.0.0.2/8", "fd00::2/64"], Some("10.0.0.1"), None),
            port(&["10.1.0.2/16", "fd01::2/64"], None, Some("fd01::1")),
        ];
        let expect =
            |port, hop: &str, source: &str| Some((port, hop.to_owned(), source.to_owned()));
        assert_eq!(way(&ports, "10.1.0.9"), expect(1, "10.1.0.9", "10.1.0.2"));
        assert_eq!(way(&ports, "10.2.0.9"), expect(0, "10.2.0.9", "10.0.0.2"));
        assert_eq!(way(&ports, "192.0.2.9"), expect(0, "10.0.0.1", "10.0.0.2"));
        assert_eq!(way(&ports, "fd00::9"), expect(0, "fd00::9", "fd00::2"));
        assert_eq!(way(&ports, "2001:db8::9"), expect(1, "fd01::1", "fd01::2"));
        assert_eq!(way(&ports[..1], "2001:db8::9"), None);
    }

    #[test]
    fn a_gateway_needs_a_source_of_its_family() {
        assert_eq!(way(&[port(&["10.0.0.2/8"], None, Some("fe80::1"))], "2001:db8::9"), None);
        let ports = [port(&["fd00::2/64"], None, Some("fe80::1"))];
        assert_eq!(way(&ports, "2001:db8::9").unwrap().1, "fe80::1");
    }
}
