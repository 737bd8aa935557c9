//! VIP address, protocol and port to service.
//!
//! Two open-addressed tables, one a family, at most half full: the cost of a lookup does not grow
//! with the number of VIPs. Only configured addresses are in them, so a sender cannot lengthen a
//! probe; it can at most probe for an address that is absent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::id::{ServiceId, VipId};

/// Every VIP: address and protocol to its id and its ports.
#[derive(Clone, Debug, Default)]
pub struct VipMap {
    ipv4: AddressTable<(u32, u8)>,
    ipv6: AddressTable<(u128, u8)>,
    /// Sorted; tells a VIP of another protocol from an address that is none. Cold.
    addresses: Box<[IpAddr]>,
}

/// One VIP address and protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VipEntry {
    /// The address.
    pub address: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// What stands for address and protocol in a connection's key.
    pub id: VipId,
    /// Sorted by `first`, without overlap.
    pub ports: Box<[PortService]>,
}

/// A range of L4 ports and the service that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortService {
    /// First port.
    pub first: u16,
    /// Last port, inclusive.
    pub last: u16,
    /// Whose ports these are.
    pub service: ServiceId,
}

impl VipEntry {
    /// The service at `port`. One range costs one comparison; several cost a binary search.
    #[must_use]
    #[inline]
    pub fn service(&self, port: u16) -> Option<ServiceId> {
        let range = match &*self.ports {
            [only] => only,
            ports => {
                let after = ports.partition_point(|range| range.first <= port);
                ports.get(after.checked_sub(1)?)?
            }
        };
        (range.first <= port && port <= range.last).then_some(range.service)
    }
}

impl VipMap {
    /// A map of these entries; each pair of address and protocol at most once (a repeat is
    /// shadowed by the first).
    #[must_use]
    pub fn new(entries: impl IntoIterator<Item = VipEntry>) -> Self {
        let (mut ipv4, mut ipv6, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            addresses.push(entry.address);
            match entry.address {
                IpAddr::V4(address) => ipv4.push(((address.to_bits(), entry.protocol), entry)),
                IpAddr::V6(address) => ipv6.push(((address.to_bits(), entry.protocol), entry)),
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        Self {
            ipv4: AddressTable::new(ipv4),
            ipv6: AddressTable::new(ipv6),
            addresses: addresses.into_boxed_slice(),
        }
    }

    /// The entry of an IPv4 destination.
    #[must_use]
    #[inline]
    pub fn ipv4(&self, destination: Ipv4Addr, protocol: u8) -> Option<&VipEntry> {
        self.ipv4.find((destination.to_bits(), protocol))
    }

    /// The entry of an IPv6 destination.
    #[must_use]
    #[inline]
    pub fn ipv6(&self, destination: Ipv6Addr, protocol: u8) -> Option<&VipEntry> {
        self.ipv6.find((destination.to_bits(), protocol))
    }

    /// Whether the address is a VIP of any protocol.
    #[must_use]
    #[cold]
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }
}

/// What an [`AddressTable`] can be keyed by.
trait AddressKey: Copy + Eq {
    /// A number whose high bits spread over the table.
    fn spread(self) -> u64;
}

/// 2^64 divided by the golden ratio: spreads consecutive addresses.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl AddressKey for (u32, u8) {
    #[inline]
    fn spread(self) -> u64 {
        (u64::from(self.0) | u64::from(self.1) << 32).wrapping_mul(SPREAD)
    }
}

impl AddressKey for (u128, u8) {
    #[inline]
    fn spread(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
        let (high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        ((high.wrapping_mul(SPREAD) ^ low).wrapping_add(u64::from(self.1))).wrapping_mul(SPREAD)
    }
}

/// Open addressing with linear probing. `slots` is a power of two and at least one slot is empty,
/// so every probe ends.
#[derive(Clone, Debug)]
struct AddressTable<K> {
    slots: Box<[Option<(K, u32)>]>,
    entries: Box<[VipEntry]>,
    shift: u32,
}

impl<K> Default for AddressTable<K> {
    fn default() -> Self {
        Self { slots: Box::new([None, None]), entries: Box::new([]), shift: 63 }
    }
}

impl<K: AddressKey> AddressTable<K> {
    fn new(entries: Vec<(K, VipEntry)>) -> Self {
        let count = (entries.len() * 2).next_power_of_two().max(2);
        let mut table = Self {
            slots: vec![None; count].into_boxed_slice(),
            entries: Box::new([]),
            shift: 64 - count.trailing_zeros(),
        };
        let mut kept = Vec::with_capacity(entries.len());
        for (key, entry) in entries {
            let Ok(index) = u32::try_from(kept.len()) else { break };
            let mut slot = table.home(key);
            while let Some(Some((taken, _))) = table.slots.get(slot) {
                if *taken == key {
                    break;
                }
                slot = (slot + 1) % count;
            }
            if let Some(free @ None) = table.slots.get_mut(slot) {
                *free = Some((key, index));
                kept.push(entry);
            }
        }
        table.entries = kept.into_boxed_slice();
        table
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "shifted below the number of slots")]
    fn home(&self, key: K) -> usize {
        (key.spread() >> self.shift) as usize
    }

    #[inline]
    fn find(&self, key: K) -> Option<&VipEntry> {
        let mut slot = self.home(key);
        loop {
            let (taken, index) = (*self.slots.get(slot)?)?;
            if taken == key {
                return self.entries.get(index as usize);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: &str, protocol: u8, id: u16, ports: &[(u16, u16, u16)]) -> VipEntry {
        VipEntry {
            address: address.parse().unwrap(),
            protocol,
            id: VipId(id),
            ports: ports
                .iter()
                .map(|&(first, last, service)| PortService {
                    first,
                    last,
                    service: ServiceId(service),
                })
                .collect(),
        }
    }

    #[test]
    fn address_protocol_and_port_all_count() {
        let map = VipMap::new([
            entry("10.0.0.1", 6, 1, &[(80, 80, 0), (443, 450, 1)]),
            entry("10.0.0.1", 17, 2, &[(0, 65535, 2)]),
            entry("fd00::1", 6, 3, &[(22, 22, 3)]),
        ]);
        let tcp = map.ipv4([10, 0, 0, 1].into(), 6).unwrap();
        assert_eq!(tcp.id, VipId(1));
        for (port, service) in [
            (79, None),
            (80, Some(0)),
            (81, None),
            (442, None),
            (443, Some(1)),
            (450, Some(1)),
            (451, None),
        ] {
            assert_eq!(tcp.service(port), service.map(ServiceId), "port {port}");
        }
        let udp = map.ipv4([10, 0, 0, 1].into(), 17).unwrap();
        assert_eq!([0, 53, 65535].map(|port| udp.service(port)), [Some(ServiceId(2)); 3]);
        assert_eq!(
            map.ipv6("fd00::1".parse().unwrap(), 6).unwrap().service(22),
            Some(ServiceId(3))
        );
        assert!(map.ipv4([10, 0, 0, 2].into(), 6).is_none());
        assert!(map.ipv6("fd00::1".parse().unwrap(), 17).is_none());
        assert!(map.has_address("fd00::1".parse().unwrap()));
        assert!(!map.has_address("fd00::2".parse().unwrap()));
    }

    #[test]
    fn ten_thousand_vips_are_found_and_their_neighbours_are_not() {
        let address = |n: u32| Ipv4Addr::from_bits(0x0a00_0000 + n * 2);
        let entries = (0..10_000u16).map(|n| VipEntry {
            address: address(n.into()).into(),
            protocol: 6,
            id: VipId(n),
            ports: Box::new([PortService { first: 80, last: 80, service: ServiceId(n) }]),
        });
        let map = VipMap::new(entries);
        for n in 0..10_000u16 {
            assert_eq!(map.ipv4(address(n.into()), 6).unwrap().id, VipId(n));
            assert!(map.ipv4(Ipv4Addr::from_bits(address(n.into()).to_bits() + 1), 6).is_none());
        }
    }

    #[test]
    fn an_empty_map_finds_nothing_and_a_repeat_is_shadowed() {
        assert!(VipMap::default().ipv4([0, 0, 0, 0].into(), 0).is_none());
        assert!(VipMap::new([]).ipv6(Ipv6Addr::UNSPECIFIED, 0).is_none());
        let map = VipMap::new([entry("10.0.0.1", 6, 1, &[]), entry("10.0.0.1", 6, 2, &[])]);
        let found = map.ipv4([10, 0, 0, 1].into(), 6).unwrap();
        assert_eq!((found.id, found.service(80)), (VipId(1), None));
    }
}
