//! The hosts that the generator plays: the appliance's gateways and backends, each with a
//! link-layer address of its own, by which is seen where a frame was meant to go.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lodestone::config::Config;
use lodestone::dpdk::Mbuf;
use lodestone::packet::{MacAddress, PacketBuf, reply};

use crate::wire;

/// Whom packets come from, on the link.
pub const CLIENT_MAC: MacAddress = MacAddress([0x02, 0x70, 0, 0, 0, 1]);

/// The link-layer address of a host that is played: locally administered, with the last four bytes
/// of its address.
pub fn mac_of(address: IpAddr) -> MacAddress {
    let [a, b, c, d] = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d]
        }
    };
    MacAddress([0x02, if address.is_ipv6() { 0x76 } else { 0x74 }, a, b, c, d])
}

/// The hosts that answer for themselves.
#[derive(Clone, Debug, Default)]
pub struct Hosts(BTreeSet<IpAddr>);

impl Hosts {
    /// Gateways and backends of an appliance.
    pub fn of(config: &Config) -> Self {
        let gateways = config.ports.iter().flat_map(|port| {
            [port.gateway_ipv4.map(IpAddr::from), port.gateway_ipv6.map(IpAddr::from)]
        });
        let backends = config.pools.iter().flat_map(|pool| &pool.backends);
        Self(gateways.flatten().chain(backends.map(|backend| backend.address)).collect())
    }

    /// One more.
    pub fn add(&mut self, address: IpAddr) {
        self.0.insert(address);
    }

    /// Turns a question for the link-layer address of one of the hosts into its answer; `false`,
    /// with the frame unchanged, for all other frames.
    pub fn answer(&self, frame: &mut Mbuf) -> bool {
        let bytes = frame.bytes();
        match question(bytes) {
            Some(IpAddr::V4(target)) if self.0.contains(&target.into()) => {
                reply::arp(frame.bytes_mut(), mac_of(target.into())).is_ok()
            }
            Some(IpAddr::V6(target)) if self.0.contains(&target.into()) => {
                reply::neighbour_advertisement(frame, mac_of(target.into())).is_ok()
            }
            _ => false,
        }
    }
}

/// Whose link-layer address a frame asks for: an ARP request's or a neighbour solicitation's
/// target.
fn question(frame: &[u8]) -> Option<IpAddr> {
    let at = if wire::u16_at(frame, 12) == 0x8100 { 18 } else { 14 };
    let packet = frame.get(at..)?;
    match wire::u16_at(frame, at - 2) {
        0x0806 if wire::u16_at(packet, 6) == 1 => {
            Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(24..28)?).ok()?))
        }
        0x86dd if packet.get(6) == Some(&58) && packet.get(wire::IPV6) == Some(&135) => {
            Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(48..64)?).ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lodestone::packet::originate::Origin;

    use super::*;

    #[test]
    fn questions_are_told_from_other_frames() {
        let us = Origin { mac: MacAddress([2; 6]), vlan: Some(7) };
        let (v4, v6): (IpAddr, IpAddr) = ([10, 1, 0, 1].into(), "fd01::1".parse().unwrap());
        let arp = us.arp_request([10, 1, 0, 2].into(), [10, 1, 0, 1].into());
        assert_eq!(question(&arp), Some(v4));
        let ask = us.neighbour_solicitation("fd01::2".parse().unwrap(), "fd01::1".parse().unwrap());
        assert_eq!(question(&ask), Some(v6));
        assert!(question(&us.arp_announcement([10, 1, 0, 2].into())).is_some());
        assert_eq!(question(&us.neighbour_announcement("fd01::2".parse().unwrap())), None);
        assert_eq!(question(&[0; 60]), None);
        assert_ne!(mac_of(v4), mac_of(v6));
    }
}
