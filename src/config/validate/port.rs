//! `[[port]]`, and what the ports' networks reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::default;
use super::super::error::Place;
use super::super::key;
use super::super::kind::{integer, interface, ipv4, ipv6, mac, name, text};
use super::super::model::{Memory, Port};
use super::super::section::{Field, Report, Section, Spec, unique};
use crate::id::PORT_CAP;
use crate::packet::MacAddress;

pub(in super::super) const PORT: Spec = Spec {
    path: "port",
    keys: &["name", "device", "addresses", "gateway_ipv4", "gateway_ipv6", "mtu", "vlan", "mac"],
    secrets: &[],
    refused: key::PORT,
};

/// RFC 8200 §5: every link carries IPv6 packets of this size.
const IPV6_MIN_MTU: u16 = 1280;

/// A port as written.
pub(super) struct Written {
    place: Place,
    name: Option<Field<String>>,
    device: Option<Field<String>>,
    /// `None` if one of them is wrong.
    pub(super) addresses: Option<Vec<Field<IpNet>>>,
    gateway_ipv4: Option<Field<Ipv4Addr>>,
    gateway_ipv6: Option<Field<Ipv6Addr>>,
    /// A gateway is written, but wrong.
    gateway_is_wrong: bool,
    mtu: Option<Field<u16>>,
    vlan: Option<Field<u16>>,
    mac: Option<Field<MacAddress>>,
}

impl Written {
    /// Its networks; none if one of them is wrong.
    fn networks(&self) -> impl Iterator<Item = &IpNet> {
        self.addresses.iter().flatten().map(|field| &field.value)
    }

    fn gateways(&self) -> impl Iterator<Item = (IpAddr, &Place)> {
        let ipv4 = self.gateway_ipv4.iter().map(|field| (IpAddr::V4(field.value), &field.place));
        let ipv6 = self.gateway_ipv6.iter().map(|field| (IpAddr::V6(field.value), &field.place));
        ipv4.chain(ipv6)
    }

    pub(super) fn build(self) -> Option<Port> {
        Some(Port {
            name: self.name?.value,
            device: self.device?.value,
            addresses: self.addresses?.into_iter().map(super::value).collect(),
            gateway_ipv4: self.gateway_ipv4.map(super::value),
            gateway_ipv6: self.gateway_ipv6.map(super::value),
            mtu: self.mtu?.value,
            vlan: self.vlan.map(super::value),
            mac: self.mac.map(super::value),
        })
    }
}

/// Reads every `[[port]]`.
pub(super) fn read(top: &Section<'_>) -> Vec<Written> {
    let read = |section: &Section<'_>| {
        let gateway_ipv4 = section.optional("gateway_ipv4", ipv4);
        let gateway_ipv6 = section.optional("gateway_ipv6", ipv6);
        let wrong_ipv4 = section.has("gateway_ipv4") && gateway_ipv4.is_none();
        let wrong_ipv6 = section.has("gateway_ipv6") && gateway_ipv6.is_none();
        let addresses = section.list("addresses", interface);
        if addresses.as_ref().is_some_and(Vec::is_empty) {
            section.report().mistake(
                &section.place_of("addresses"),
                "is missing or empty; write the port's own addresses, as in [\"192.0.2.1/24\"]",
            );
        }
        Written {
            place: section.place().clone(),
            name: section.required("name", "name = \"lb0\"", name),
            device: section.required(
                "device",
                "a PCI address or a virtual device, as in device = \"0000:3b:02.0\"",
                |value| text(value).and_then(device),
            ),
            addresses: addresses.filter(|addresses| !addresses.is_empty()),
            gateway_ipv4,
            gateway_ipv6,
            gateway_is_wrong: wrong_ipv4 || wrong_ipv6,
            mtu: section.or("mtu", default::MTU, integer(576..=9200)),
            vlan: section.optional("vlan", integer(1..=4094)),
            mac: section.optional("mac", mac),
        }
    };
    top.sections("port", &PORT).iter().map(read).collect()
}

/// The rules between ports, and inside one.
pub(super) fn check(top: &Section<'_>, ports: &[Written], memory: Option<&Memory>) {
    let report = top.report();
    if ports.is_empty() && !top.has("port") {
        report.mistake(top.place(), "there is no port; add a [[port]]");
    }
    super::at_most(top, "port", ports.len(), PORT_CAP);
    super::unique_names(report, ports.iter().map(|port| &port.name), "port");
    let devices = ports.iter().filter_map(|port| port.device.as_ref());
    unique(report, devices, |device| identity(device), "is one device; use it for one port");
    let addresses = ports.iter().filter_map(|port| port.addresses.as_ref()).flatten();
    unique(report, addresses, IpNet::addr, "is one address; give it to one port, once");

    for port in ports {
        check_one(report, port, ports);
        if let (Some(device), Some(Memory { hugepages: false, .. })) = (&port.device, memory)
            && is_pci(&device.value)
        {
            report.mistake(
                &device.place,
                "is a PCI device, which needs hugepages; set memory.hugepages = true, or use a \
                 virtual device",
            );
        }
    }
    warn_of_ambiguous_routes(report, ports);
}

fn check_one(report: &Report<'_>, port: &Written, all: &[Written]) {
    if let Some(mtu) = &port.mtu
        && mtu.value < IPV6_MIN_MTU
        && port.networks().any(|network| network.addr().is_ipv6())
    {
        let mend = format!("is too small for IPv6; write {IPV6_MIN_MTU} or more");
        report.mistake(&mtu.place, mend);
    }
    if port.addresses.is_none() {
        return;
    }
    for (gateway, place) in port.gateways() {
        if owner_of(all, gateway).is_some() {
            report.mistake(place, "is an address of this appliance; write the router's");
            continue;
        }
        match port.networks().find(|network| network.contains(&gateway)) {
            None => report.mistake(
                place,
                "is on none of the port's networks; write a router's address that is, or add the \
                 port's address on that network",
            ),
            Some(network) => {
                if let Err(mend) = super::super::kind::not_reserved_in(gateway, network) {
                    report.mistake(place, mend);
                }
            }
        }
    }
}

fn warn_of_ambiguous_routes(report: &Report<'_>, ports: &[Written]) {
    for (index, port) in ports.iter().enumerate() {
        let earlier = ports.get(..index).unwrap_or_default();
        for address in port.addresses.iter().flatten() {
            let overlaps = |other: &&IpNet| {
                other.contains(&address.value.trunc()) || address.value.contains(&other.trunc())
            };
            if let Some(other) =
                earlier.iter().find(|other| other.networks().any(|net| overlaps(&net)))
            {
                report.warn(
                    &address.place,
                    format!(
                        "overlaps a network of {}; the longer prefix, else the first port, is used",
                        other.place.key
                    ),
                );
            }
        }
        for (gateway, place) in port.gateways() {
            let same_family = |(other, _): (IpAddr, &Place)| other.is_ipv4() == gateway.is_ipv4();
            if let Some(other) = earlier.iter().find(|other| other.gateways().any(same_family)) {
                report.warn(
                    place,
                    format!(
                        "is not used; {} has a gateway of that family already",
                        other.place.key
                    ),
                );
            }
        }
    }
}

/// Checks the shape of a device string. Whether there is such a device is known at start.
fn device(text: String) -> Result<String, String> {
    if is_pci(&text) {
        return Ok(text);
    }
    let driver = text.split(',').next().unwrap_or("");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_driver = ["net_", "virtio_user", "eth_"].iter().any(|start| driver.starts_with(start));
    if is_driver && driver.chars().all(plain) && !text.contains(char::is_whitespace) {
        return Ok(text);
    }
    Err("is neither a PCI address, as in \"0000:3b:02.0\", nor a virtual device, as in \
         \"net_af_packet0,iface=eth1\"; write one of the two"
        .to_owned())
}

/// Whether a device string is a PCI address (`domain:bus:device.function`, the domain may be left
/// out), with or without arguments.
fn is_pci(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or("");
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let Some((front, function)) = address.split_once('.') else { return false };
    let parts: Vec<_> = front.split(':').collect();
    let shape = match parts[..] {
        [domain, bus, device] => hex(domain, 4) && hex(bus, 2) && hex(device, 2),
        [bus, device] => hex(bus, 2) && hex(device, 2),
        _ => false,
    };
    shape && matches!(function.as_bytes(), [b'0'..=b'7'])
}

/// What two spellings of one device have in common.
fn identity(device: &str) -> String {
    let address = device.split(',').next().unwrap_or("").to_ascii_lowercase();
    if is_pci(&address) && address.len() == "3b:02.0".len() {
        return format!("0000:{address}");
    }
    address
}

/// The place where an address is given to a port.
pub(super) fn owner_of(ports: &[Written], address: IpAddr) -> Option<&Place> {
    let fields = ports.iter().filter_map(|port| port.addresses.as_ref()).flatten();
    fields.into_iter().find(|field| field.value.addr() == address).map(|field| &field.place)
}

/// The place where an address is some port's gateway.
pub(super) fn gateway_at(ports: &[Written], address: IpAddr) -> Option<&Place> {
    let mut gateways = ports.iter().flat_map(Written::gateways);
    gateways.find(|(gateway, _)| *gateway == address).map(|(_, place)| place)
}

/// The network of a port that an address is on.
pub(super) fn on_link(ports: &[Written], address: IpAddr) -> Option<&IpNet> {
    ports.iter().flat_map(Written::networks).find(|network| network.contains(&address))
}

/// Why packets cannot be sent to `address`, if so. Silent where a port's own mistakes leave it open.
pub(super) fn unreachable(ports: &[Written], address: IpAddr) -> Option<String> {
    if on_link(ports, address).is_some()
        || ports.is_empty()
        || ports.iter().any(|port| port.addresses.is_none() || port.gateway_is_wrong)
    {
        return None;
    }
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let same = |other: IpAddr| other.is_ipv4() == address.is_ipv4();
    if !ports.iter().flat_map(Written::networks).any(|network| same(network.addr())) {
        return Some(format!(
            "cannot be reached: no port has an {family} address to send from; add one to a port's \
             addresses"
        ));
    }
    if ports.iter().flat_map(Written::gateways).any(|(gateway, _)| same(gateway)) {
        return None;
    }
    let key = if address.is_ipv4() { "gateway_ipv4" } else { "gateway_ipv6" };
    Some(format!(
        "cannot be reached: it is on no port's network, and no port has a {key}; add one, or correct \
         the address"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_apart_and_spellings_are_not() {
        for pci in ["0000:3b:02.0", "3b:02.7", "0000:3B:02.0,arg=1"] {
            assert!(is_pci(pci), "{pci}");
        }
        for other in ["", ".", "0000:3b:02.8", "0000:3b:2.0", "net_tap0", "0:3b:02.0", "3b:02.0.0"]
        {
            assert!(!is_pci(other), "{other}");
        }
        assert_eq!(identity("3B:02.0,a=1"), identity("0000:3b:02.0"));
        assert_eq!(identity("net_tap0,iface=a"), identity("net_tap0,iface=b"));
        assert_ne!(identity("net_tap0"), identity("net_tap1"));
    }
}
