//! Frames that the appliance sends on its own account: to find its neighbours, and to be found.

use std::net::{Ipv4Addr, Ipv6Addr};

use zerocopy::IntoBytes;

use super::arp::{Arp, Operation};
use super::ethernet::{EthernetHeader, MINIMUM_FRAME_LEN, VlanTag, ethertype};
use super::ndp::NeighbourPacket;
use super::{ALL_NODES, Builder, MacAddress, icmpv6, protocol, solicited_node};

/// Where frames come from: a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The port's link-layer address.
    pub mac: MacAddress,
    /// The port's VLAN (1..=4094), if its frames carry a tag.
    pub vlan: Option<u16>,
}

/// All routers that listen to multicast reports (RFC 3810 §5.2.14).
const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

impl Origin {
    /// An ARP request by `source` for `target`, to everyone.
    #[must_use]
    pub fn arp_request(&self, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        self.arp(source, target, MacAddress::BROADCAST)
    }

    /// An ARP request by `source` for `target` to the address where it was last: whether it is
    /// still there (RFC 1122 §2.3.2.1).
    #[must_use]
    pub fn arp_poll(&self, source: Ipv4Addr, target: Ipv4Addr, target_mac: MacAddress) -> Vec<u8> {
        self.arp(source, target, target_mac)
    }

    /// A gratuitous ARP: the announcement that `address` is here (RFC 5227 §2.3).
    #[must_use]
    pub fn arp_announcement(&self, address: Ipv4Addr) -> Vec<u8> {
        self.arp(address, address, MacAddress::BROADCAST)
    }

    fn arp(&self, sender: Ipv4Addr, target: Ipv4Addr, destination: MacAddress) -> Vec<u8> {
        let request = Arp {
            operation: Operation::Request,
            sender_mac: self.mac,
            sender,
            target_mac: MacAddress::default(),
            target,
        };
        self.frame(destination, ethertype::ARP, request.header().as_bytes())
    }

    /// A solicitation by `source` for `target`, to the target's solicited-node group (RFC 4861
    /// §7.2.2).
    #[must_use]
    pub fn neighbour_solicitation(&self, source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let group = solicited_node(target);
        let packet = NeighbourPacket::solicitation(source, group, self.mac, target);
        self.frame(MacAddress::for_ipv6_multicast(group), ethertype::IPV6, packet.as_bytes())
    }

    /// A solicitation by `source` for `target` to the address where it was last: whether it is
    /// still there (RFC 4861 §7.3.3).
    #[must_use]
    pub fn neighbour_poll(
        &self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        target_mac: MacAddress,
    ) -> Vec<u8> {
        let packet = NeighbourPacket::solicitation(source, target, self.mac, target);
        self.frame(target_mac, ethertype::IPV6, packet.as_bytes())
    }

    /// An unsolicited advertisement to all nodes that `address` is here (RFC 4861 §7.2.6).
    #[must_use]
    pub fn neighbour_announcement(&self, address: Ipv6Addr) -> Vec<u8> {
        let packet = NeighbourPacket::advertisement(address, ALL_NODES, self.mac, false);
        self.frame(MacAddress::for_ipv6_multicast(ALL_NODES), ethertype::IPV6, packet.as_bytes())
    }

    /// A report from the port's link-local address that it listens to `groups` (RFC 3810 §5.2): for
    /// each one record that changes its filter to exclude nobody. Groups beyond
    /// [`REPORT_GROUP_CAP`] are left out; send them in another report.
    #[must_use]
    pub fn listener_report(&self, source: Ipv6Addr, groups: &[Ipv6Addr]) -> Vec<u8> {
        let groups = groups.get(..REPORT_GROUP_CAP).unwrap_or(groups);
        let mut report = vec![icmpv6::LISTENER_REPORT_V2, 0, 0, 0, 0, 0];
        // Not more than REPORT_GROUP_CAP, which fits.
        report.extend_from_slice(&u16::try_from(groups.len()).unwrap_or_default().to_be_bytes());
        for group in groups {
            report.extend_from_slice(&[CHANGE_TO_EXCLUDE_MODE, 0, 0, 0]);
            report.extend_from_slice(&group.octets());
        }
        let builder =
            Builder::ethernet(self.mac, MacAddress::for_ipv6_multicast(ALL_MLDV2_ROUTERS));
        let builder = match self.vlan {
            Some(id) => builder.vlan(id),
            None => builder,
        };
        builder
            .ipv6(source, ALL_MLDV2_ROUTERS)
            .ttl(1)
            .extension(protocol::HOP_BY_HOP, &ROUTER_ALERT)
            .icmpv6(&report)
            .build()
    }

    fn frame(&self, destination: MacAddress, ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let outer = if self.vlan.is_some() { ethertype::VLAN } else { ethertype };
        let header = EthernetHeader { destination, source: self.mac, ethertype: outer.into() };
        let mut frame = header.as_bytes().to_vec();
        if let Some(id) = self.vlan {
            let tag = VlanTag { control: id.into(), ethertype: ethertype.into() };
            frame.extend_from_slice(tag.as_bytes());
        }
        frame.extend_from_slice(packet);
        if frame.len() < MINIMUM_FRAME_LEN {
            frame.resize(MINIMUM_FRAME_LEN, 0);
        }
        frame
    }
}

/// How many groups one [`Origin::listener_report`] holds: the frame stays within [`REPORT_CAP`].
pub const REPORT_GROUP_CAP: usize = 9;

/// The longest report as a frame, in bytes: Ethernet header, VLAN tag, IPv6 header, hop-by-hop
/// options, the report's own header, and its records.
pub const REPORT_CAP: usize = 14 + 4 + 40 + 8 + 8 + 20 * REPORT_GROUP_CAP;

/// RFC 3810 §5.2.12: the listener now wants this group from every source.
const CHANGE_TO_EXCLUDE_MODE: u8 = 4;

/// Hop-by-hop options behind their next header and length: router alert for multicast listener
/// discovery (RFC 2711 §2.1), then padding to eight bytes.
const ROUTER_ALERT: [u8; 6] = [5, 2, 0, 0, 1, 0];

// IPv6's smallest MTU.
const _: () = assert!(REPORT_CAP <= 1280);
