//! By which way a backend is reached: worked out from the configuration's ports, apart from the
//! appliance's own routing.

use std::net::IpAddr;

use lodestone::config::Port;
use lodestone::packet::MacAddress;

use crate::neighbour::mac_of;

/// How an encapsulated packet must look on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The appliance's port that sends it, by place.
    pub port: usize,
    /// The tunnel's near end.
    pub source: IpAddr,
    /// Whose link-layer address it goes to.
    pub next_hop: MacAddress,
    /// The port's VLAN.
    pub vlan: Option<u16>,
}

impl Way {
    /// The way to an address: the port with the longest prefix that has it, else the first with a
    /// gateway of its family.
    pub fn to(destination: IpAddr, ports: &[Port]) -> Option<Self> {
        let mut best: Option<(u8, Self)> = None;
        for (place, port) in ports.iter().enumerate() {
            for network in port.addresses.iter().filter(|network| network.contains(&destination)) {
                if best.is_none_or(|(len, _)| network.prefix_len() > len) {
                    let next_hop = mac_of(destination);
                    let source = network.addr();
                    let way = Self { port: place, source, next_hop, vlan: port.vlan };
                    best = Some((network.prefix_len(), way));
                }
            }
        }
        best.map(|(_, way)| way).or_else(|| Self::by_gateway(destination, ports))
    }

    fn by_gateway(destination: IpAddr, ports: &[Port]) -> Option<Self> {
        ports.iter().enumerate().find_map(|(place, port)| {
            let gateway = match destination {
                IpAddr::V4(_) => IpAddr::V4(port.gateway_ipv4?),
                IpAddr::V6(_) => IpAddr::V6(port.gateway_ipv6?),
            };
            let of_family = || {
                let is = |network: &&ipnet::IpNet| network.addr().is_ipv4() == gateway.is_ipv4();
                port.addresses.iter().filter(is)
            };
            let near = of_family().find(|network| network.contains(&gateway));
            let source = near.or_else(|| of_family().next())?.addr();
            Some(Self { port: place, source, next_hop: mac_of(gateway), vlan: port.vlan })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::tests::CONFIG;

    #[test]
    fn what_is_on_link_goes_straight_and_the_rest_by_the_gateway() {
        let ports = lodestone::config::parse(CONFIG).unwrap().0.ports;
        let way = |text: &str| Way::to(text.parse().unwrap(), &ports).unwrap();
        let mac = |text: &str| mac_of(text.parse().unwrap());
        assert_eq!(way("10.1.0.9").next_hop, mac("10.1.0.9"));
        assert_eq!(way("10.9.0.1").next_hop, mac("10.1.0.1"));
        assert_eq!(way("10.9.0.1").source.to_string(), "10.1.0.2");
        assert_eq!(way("fd09::1").next_hop, mac("fd01::1"));
        assert_eq!(way("fd09::1").source.to_string(), "fd01::2");
        assert_eq!(Way::to([10, 9, 0, 1].into(), &[]), None);
    }
}
