//! `[[service]]` and `[[service.vip]]`

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::super::default;
use super::super::error::Place;
use super::super::key;
use super::super::kind::{address, boolean, duration, name, not_reserved_in, ports, word};
use super::super::model::{AdminState, Affinity, PortRange, Protocol, Service, Steering, Vip};
use super::super::section::{Field, Report, Section, Spec, unique};
use super::{pool, port};

pub(in super::super) const SERVICE: Spec = Spec {
    path: "service",
    keys: &["name", "admin_state", "steering", "pools", "affinity", "idle_timeout", "vip"],
    secrets: &[],
    refused: key::SERVICE,
};

pub(in super::super) const VIP: Spec = Spec {
    path: "service.vip",
    keys: &["address", "protocol", "ports", "encapsulation", "arp"],
    secrets: &[],
    refused: key::VIP,
};

/// Steering policies that other services know, or that come later.
const LATER_STEERING: &[&str] = &[
    "off",
    "random",
    "geo",
    "proximity",
    "dynamic",
    "dynamic_latency",
    "least_outstanding_requests",
    "least_connections",
    "weighted",
    "waterfall",
    "round_robin",
    "hash",
];
const LATER_AFFINITY: &[&str] =
    &["client-ip", "client-ip-proto", "client-ip-no-destination", "client-ip-port", "cookie"];
const LATER_ENCAPSULATION: &[&str] =
    &["gre", "gue", "fou", "vxlan", "geneve", "srv6", "none", "l2"];

/// A service as written.
pub(super) struct Written {
    place: Place,
    name: Option<Field<String>>,
    admin_state: Option<Field<AdminState>>,
    steering: Option<Field<Steering>>,
    pools: Option<Vec<Field<String>>>,
    affinity: Option<Field<Affinity>>,
    idle_timeout: Option<Field<Duration>>,
    vips: Vec<WrittenVip>,
}

/// A VIP as written.
struct WrittenVip {
    place: Place,
    address: Option<Field<IpAddr>>,
    protocol: Option<Field<Protocol>>,
    ports: Option<Field<Vec<PortRange>>>,
    arp: Option<Field<bool>>,
}

impl Written {
    pub(super) fn build(self) -> Option<Service> {
        Some(Service {
            name: self.name?.value,
            admin_state: self.admin_state?.value,
            steering: self.steering?.value,
            pools: self.pools?.into_iter().map(super::value).collect(),
            affinity: self.affinity?.value,
            idle_timeout: self.idle_timeout?.value,
            vips: self.vips.into_iter().map(WrittenVip::build).collect::<Option<_>>()?,
        })
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("service `{}`", name.value),
            None => self.place.key.clone(),
        }
    }
}

impl WrittenVip {
    fn build(self) -> Option<Vip> {
        Some(Vip {
            address: self.address?.value,
            protocol: self.protocol?.value,
            ports: self.ports?.value,
            arp: self.arp?.value,
        })
    }
}

/// Reads every `[[service]]`.
pub(super) fn read(top: &Section<'_>) -> Vec<Written> {
    let read = |section: &Section<'_>| Written {
        place: section.place().clone(),
        name: section.required("name", "name = \"web\"", name),
        admin_state: pool::admin_state(section),
        steering: section.or(
            "steering",
            Steering::default(),
            word(&[("failover", Steering::Failover)], LATER_STEERING),
        ),
        pools: section.list("pools", name),
        affinity: section.or(
            "affinity",
            Affinity::default(),
            word(
                &[
                    ("none", Affinity::ClientIpPortProto),
                    ("client-ip-port-proto", Affinity::ClientIpPortProto),
                ],
                LATER_AFFINITY,
            ),
        ),
        idle_timeout: section.or(
            "idle_timeout",
            default::IDLE_TIMEOUT,
            duration(Duration::from_secs(1)..=Duration::from_hours(16)),
        ),
        vips: section.sections("vip", &VIP).iter().map(read_vip).collect(),
    };
    top.sections("service", &SERVICE).iter().map(read).collect()
}

fn read_vip(section: &Section<'_>) -> WrittenVip {
    // The only one there is so far: it is read so that a file can say it.
    section.or("encapsulation", (), word(&[("ipip", ())], LATER_ENCAPSULATION));
    WrittenVip {
        place: section.place().clone(),
        address: section.required("address", "address = \"192.0.2.100\"", address),
        protocol: section.required(
            "protocol",
            "protocol = \"tcp\" or protocol = \"udp\"",
            word(
                &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)],
                &["sctp", "esp", "gre", "icmp", "any"],
            ),
        ),
        ports: section.required(
            "ports",
            "ports = 80, ports = [80, \"8000-8099\"] or ports = \"any\"",
            ports,
        ),
        arp: section.or("arp", default::ARP, boolean),
    }
}

/// The rules inside services, between services, and with what they refer to.
pub(super) fn check(
    top: &Section<'_>,
    services: &[Written],
    pools: &[pool::Written],
    ports: &[port::Written],
) {
    let report = top.report();
    super::at_most(top, "service", services.len(), super::MAX_ITEMS);
    if !top.has("service") {
        report.warn(top.place(), "there is no service, so no traffic is taken; add a [[service]]");
    }
    super::unique_names(report, services.iter().map(|service| &service.name), "service");

    let pool_names = pools.iter().filter_map(|pool| pool.name.as_ref());
    let pool_names: BTreeSet<_> = pool_names.map(|name| name.value.as_str()).collect();
    let mut used = BTreeSet::new();
    for service in services {
        if let Some(names) = &service.pools {
            if names.is_empty() {
                let place =
                    Place { key: format!("{}.pools", service.place.key), ..service.place.clone() };
                report.mistake(
                    &place,
                    "is missing or empty; name at least one pool, as in [\"web\"]",
                );
            }
            unique(report, names, Clone::clone, "is there twice; name each pool once");
            for name in names {
                super::resolve(report, name, &pool_names, "pool");
                used.insert(name.value.as_str());
            }
        }
        warn_of_admin_state(report, service);
        if service.vips.is_empty() {
            report.mistake(&service.place, "has no VIP; add a [[service.vip]]");
        }
        for vip in &service.vips {
            check_vip(report, vip, ports);
        }
    }
    if services.iter().all(|service| service.pools.is_some()) {
        for name in pools.iter().filter_map(|pool| pool.name.as_ref()) {
            if !used.contains(name.value.as_str()) {
                report.warn(&name.place, "is used by no service; name it in a service's pools");
            }
        }
    }
    check_overlap(report, services);
    warn_of_mixed_arp(report, services);
}

/// See `pool::warn_of_admin_states`.
fn warn_of_admin_state(report: &Report<'_>, service: &Written) {
    let Some(Field { value: state, place }) = &service.admin_state else { return };
    let what = match state {
        AdminState::Enabled => return,
        AdminState::Draining => "takes no new flows",
        AdminState::Disabled => "forwards nothing",
    };
    report.warn(place, format!("the service is {state} and {what}; enable it, or remove it"));
}

fn check_vip(report: &Report<'_>, vip: &WrittenVip, ports: &[port::Written]) {
    let Some(Field { value: address, place }) = &vip.address else { return };
    if let Some(owner) = port::owner_of(ports, *address) {
        let mend = format!("is a port's own address ({}); choose another for the VIP", owner.key);
        report.mistake(place, mend);
        return;
    }
    if let Some(gateway) = port::gateway_at(ports, *address) {
        let mend = format!("is the router's address ({}); choose another for the VIP", gateway.key);
        report.mistake(place, mend);
        return;
    }
    match port::on_link(ports, *address) {
        Some(network) => {
            if let Err(mend) = not_reserved_in(*address, network) {
                report.mistake(place, mend);
            }
        }
        None if ports.iter().all(|port| port.addresses.is_some()) => {
            if let Some(arp) = vip.arp.as_ref().filter(|arp| arp.value) {
                report.warn(
                    &arp.place,
                    format!(
                        "arp = true has no effect: {address} is on no port's network, so it must be \
                         routed to this appliance; set arp = false"
                    ),
                );
            }
        }
        None => {}
    }
}

/// One range of a VIP's ports.
struct Claim<'w> {
    range: PortRange,
    service: &'w Written,
    vip: &'w WrittenVip,
    ports: &'w Place,
}

/// Notes ports of an address and protocol that two VIPs have.
///
/// In the order of their first ports, a range that meets any earlier one meets the one that reaches
/// farthest so far: it is enough to compare with that.
fn check_overlap(report: &Report<'_>, services: &[Written]) {
    let mut groups: BTreeMap<_, Vec<Claim<'_>>> = BTreeMap::new();
    for service in services {
        for vip in &service.vips {
            let (Some(address), Some(protocol), Some(ports)) =
                (&vip.address, &vip.protocol, &vip.ports)
            else {
                continue;
            };
            let claim =
                |range: &PortRange| Claim { range: *range, service, vip, ports: &ports.place };
            let group = groups.entry((protocol.value, address.value)).or_default();
            group.extend(ports.value.iter().map(claim));
        }
    }
    for ((protocol, address), mut claims) in groups {
        claims.sort_by_key(|claim| (claim.range, claim.vip.place.line));
        // Two VIPs can meet in many ranges; once is enough to tell.
        let mut told = BTreeSet::new();
        let mut farthest: Option<&Claim<'_>> = None;
        for claim in &claims {
            if let Some(other) = farthest.filter(|other| claim.range.first <= other.range.last) {
                let mut pair = [other, claim];
                pair.sort_by_key(|claim| claim.vip.place.line);
                if told.insert(pair.map(|claim| claim.vip.place.key.as_str())) {
                    let subject =
                        format!("{} port {} of {address}", label(protocol), claim.range.first);
                    note_overlap(report, pair, &subject);
                }
            }
            if farthest.is_none_or(|other| claim.range.last > other.range.last) {
                farthest = Some(claim);
            }
        }
    }
}

fn note_overlap(report: &Report<'_>, [first, second]: [&Claim<'_>; 2], subject: &str) {
    report.mistake(
        second.ports,
        format!(
            "{subject} belongs to {} already ({}, line {}); choose other ports for {}, or another \
             address",
            first.service.label(),
            first.vip.place.key,
            first.vip.place.line,
            second.service.label(),
        ),
    );
}

const fn label(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

/// ARP answers for an address, not for a port: one `true` is enough.
fn warn_of_mixed_arp(report: &Report<'_>, services: &[Written]) {
    let mut first: BTreeMap<IpAddr, &Field<bool>> = BTreeMap::new();
    for vip in services.iter().flat_map(|service| &service.vips) {
        let (Some(address), Some(arp)) = (&vip.address, &vip.arp) else { continue };
        let other = *first.entry(address.value).or_insert(arp);
        if other.value != arp.value {
            report.warn(
                &arp.place,
                format!(
                    "{} (line {}) says the opposite for the same address, and `true` holds; write the \
                     same in both",
                    other.place.key, other.place.line
                ),
            );
        }
    }
}

/// The place of a VIP with this address.
pub(super) fn vip_at(services: &[Written], address: IpAddr) -> Option<&Place> {
    let vips = services.iter().flat_map(|service| &service.vips);
    let mut addresses = vips.filter_map(|vip| vip.address.as_ref());
    addresses.find(|field| field.value == address).map(|field| &field.place)
}
