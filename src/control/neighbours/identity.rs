//! Who a port is on its link.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::config::{self, Service};
use crate::id::PortId;
use crate::packet::MacAddress;
use crate::packet::originate::Origin;

/// The IPv6 link-local address that a MAC gives: `fe80::/64` and the modified EUI-64 (RFC 4291
/// §2.5.6, appendix A). The appliance owns it on every port that has IPv6.
#[must_use]
pub const fn link_local(mac: MacAddress) -> Ipv6Addr {
    let mac = mac.0;
    // The universal/local bit is inverted.
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        u16::from_be_bytes([mac[0] ^ 2, mac[1]]),
        u16::from_be_bytes([mac[2], 0xff]),
        u16::from_be_bytes([0xfe, mac[3]]),
        u16::from_be_bytes([mac[4], mac[5]]),
    )
}

/// A port's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortIdentity {
    /// Which port.
    pub port: PortId,
    /// Its MAC; never a group's.
    pub mac: MacAddress,
    /// The VLAN of all its frames, 1..=4094.
    pub vlan: Option<u16>,
    /// Its configured addresses, each with the prefix of its network.
    pub addresses: Vec<IpNet>,
    /// The VIPs that it answers for, each once.
    pub vips: Vec<IpAddr>,
}

impl PortIdentity {
    /// The identity of `port` in the configuration, where the device's MAC is `mac`. It answers for
    /// the VIPs with `arp = true` that lie on one of its networks.
    #[must_use]
    pub fn new(id: PortId, port: &config::Port, mac: MacAddress, services: &[Service]) -> Self {
        let mut vips: Vec<_> = services
            .iter()
            .flat_map(|service| &service.vips)
            .filter(|vip| vip.arp && port.addresses.iter().any(|net| net.contains(&vip.address)))
            .map(|vip| vip.address)
            .collect();
        vips.sort_unstable();
        vips.dedup();
        Self { port: id, mac, vlan: port.vlan, addresses: port.addresses.clone(), vips }
    }

    /// Every address that is ours on this port: configured, answered VIPs, link-local.
    pub fn owned(&self) -> impl Iterator<Item = IpAddr> {
        let configured = self.addresses.iter().map(IpNet::addr);
        configured.chain(self.vips.iter().copied()).chain(self.link_local().map(IpAddr::V6))
    }

    /// Whether `address` is ours on this port.
    #[must_use]
    pub fn owns(&self, address: IpAddr) -> bool {
        self.owned().any(|owned| owned == address)
    }

    /// The link-local address, if the port has IPv6.
    #[must_use]
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let mut addresses = self.addresses.iter().map(IpNet::addr).chain(self.vips.iter().copied());
        addresses.any(|address| address.is_ipv6()).then(|| link_local(self.mac))
    }

    /// The IPv4 address to ask for `target` from: the one whose network holds it, or else the
    /// first.
    pub(super) fn ipv4_source(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let nets = || {
            self.addresses.iter().filter_map(|net| match net {
                IpNet::V4(net) => Some(net),
                IpNet::V6(_) => None,
            })
        };
        let net = nets().find(|net| net.contains(&target)).or_else(|| nets().next())?;
        Some(net.addr())
    }

    pub(super) const fn origin(&self) -> Origin {
        Origin { mac: self.mac, vlan: self.vlan }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AdminState, Affinity, PortRange, Protocol, Steering, Vip};

    #[test]
    fn link_local_is_the_modified_eui_64() {
        // RFC 4291 appendix A: 34-56-78-9a-bc-de becomes 3656:78ff:fe9a:bcde.
        let mac = MacAddress([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local(mac).to_string(), "fe80::3656:78ff:fe9a:bcde");
        assert_eq!(link_local(MacAddress([2, 0, 0, 0, 0, 1])).to_string(), "fe80::ff:fe00:1");
    }

    #[test]
    fn a_port_answers_for_the_on_link_vips_that_ask_for_it() {
        let vip = |address: &str, port, arp| Vip {
            address: address.parse().unwrap(),
            protocol: Protocol::Tcp,
            ports: vec![PortRange { first: port, last: port }],
            arp,
        };
        let service = Service {
            name: "web".into(),
            admin_state: AdminState::Enabled,
            steering: Steering::Failover,
            pools: vec!["web".into()],
            affinity: Affinity::ClientIpPortProto,
            idle_timeout: std::time::Duration::from_mins(1),
            vips: vec![
                vip("192.0.2.80", 80, true),
                vip("192.0.2.80", 443, true),
                vip("192.0.2.81", 80, false),
                vip("203.0.113.1", 80, true),
            ],
        };
        let port = config::Port {
            name: "wan".into(),
            device: "net_null0".into(),
            addresses: vec!["192.0.2.1/24".parse().unwrap()],
            gateway_ipv4: None,
            gateway_ipv6: None,
            mtu: 1500,
            vlan: Some(7),
            mac: None,
        };
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let identity = PortIdentity::new(PortId(1), &port, mac, &[service]);
        let owned: Vec<_> = identity.owned().map(|address| address.to_string()).collect();
        assert_eq!(owned, ["192.0.2.1", "192.0.2.80"], "no IPv6, so no link-local address");
        assert!(!identity.owns("192.0.2.81".parse().unwrap()));
    }
}
