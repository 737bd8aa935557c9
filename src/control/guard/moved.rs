//! Where the VIPs of a service are after a change: with itself, with others, or gone.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use crate::config::{PortRange, Protocol, Service};
use crate::control::show;

/// Ports of an address and protocol that nobody has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostVip {
    address: IpAddr,
    protocol: Protocol,
    ports: Vec<PortRange>,
}

impl fmt::Display for LostVip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        write!(f, "VIP {} {protocol} {}", self.address, show::ports(&self.ports))
    }
}

/// Whether a service has lost all that it had.
pub(super) fn is_all(lost: &[LostVip], service: &Service) -> bool {
    let has_lost = |vip: &crate::config::Vip| {
        let is_it = |lost: &&LostVip| (lost.address, lost.protocol) == (vip.address, vip.protocol);
        let lost = lost.iter().filter(is_it).flat_map(|lost| &lost.ports).copied();
        let lost: Vec<_> = lost.collect();
        vip.ports.iter().all(|range| rest(*range, &lost).is_empty())
    };
    service.vips.iter().all(has_lost)
}

/// All entry points of a configuration.
pub(super) struct Entrances<'a>(HashMap<(IpAddr, Protocol), Vec<(PortRange, &'a Service)>>);

impl<'a> Entrances<'a> {
    pub(super) fn new(services: &'a [Service]) -> Self {
        let mut entrances = HashMap::<_, Vec<_>>::new();
        for service in services {
            for vip in &service.vips {
                let ranges = vip.ports.iter().map(|range| (*range, service));
                entrances.entry((vip.address, vip.protocol)).or_default().extend(ranges);
            }
        }
        Self(entrances)
    }

    /// Which VIPs of a service are gone here, and which other services than `itself` have some now.
    pub(super) fn follow(
        &self,
        old: &Service,
        itself: Option<&Service>,
    ) -> (Vec<LostVip>, Vec<&'a Service>) {
        let mut lost = Vec::new();
        let mut heirs: Vec<&'a Service> = Vec::new();
        for vip in &old.vips {
            let (address, protocol) = (vip.address, vip.protocol);
            let there = self.0.get(&(address, protocol)).map_or(&[][..], Vec::as_slice);
            let ranges: Vec<_> = there.iter().map(|(range, _)| *range).collect();
            let ports: Vec<_> = vip.ports.iter().flat_map(|range| rest(*range, &ranges)).collect();
            if !ports.is_empty() {
                lost.push(LostVip { address, protocol, ports });
            }
            for (range, service) in there {
                let is_met = vip.ports.iter().any(|old| meets(*old, *range));
                let is_itself = itself.is_some_and(|itself| itself.name == service.name);
                let is_known = heirs.iter().any(|heir| heir.name == service.name);
                if is_met && !is_itself && !is_known {
                    heirs.push(service);
                }
            }
        }
        (lost, heirs)
    }
}

fn meets(one: PortRange, other: PortRange) -> bool {
    one.first <= other.last && other.first <= one.last
}

/// What is left of a range without others, in order.
fn rest(range: PortRange, others: &[PortRange]) -> Vec<PortRange> {
    let mut rest = vec![range];
    for other in others {
        let without = |part: PortRange| {
            if !meets(part, *other) {
                return [Some(part), None];
            }
            let before = (part.first < other.first)
                .then(|| PortRange { first: part.first, last: other.first - 1 });
            let behind = (part.last > other.last)
                .then(|| PortRange { first: other.last + 1, last: part.last });
            [before, behind]
        };
        rest = rest.into_iter().flat_map(without).flatten().collect();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every port is in the rest, or in one of the others, or outside.
    #[test]
    fn the_rest_is_what_no_other_has() {
        bolero::check!().with_type::<(u16, u16, Vec<(u16, u16)>)>().for_each(|(a, b, others)| {
            let range = |a: u16, b: u16| PortRange { first: a.min(b), last: a.max(b) };
            let whole = range(*a, *b);
            let others: Vec<_> = others.iter().map(|(a, b)| range(*a, *b)).collect();
            let rest = rest(whole, &others);
            assert!(rest.windows(2).all(|pair| pair[0].last < pair[1].first), "{rest:?}");
            let has = |ranges: &[PortRange], port| meets_any(ranges, port);
            for port in [*a, *b, whole.first.wrapping_sub(1), 0, u16::MAX]
                .into_iter()
                .chain(others.iter().flat_map(|r| [r.first, r.last, r.first.wrapping_sub(1)]))
            {
                let expected = has(&[whole], port) && !has(&others, port);
                assert_eq!(has(&rest, port), expected, "{port}");
            }
        });
    }

    fn meets_any(ranges: &[PortRange], port: u16) -> bool {
        ranges.iter().any(|range| meets(*range, PortRange { first: port, last: port }))
    }
}
