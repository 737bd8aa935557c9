//! Which flows a job is about.

use std::net::IpAddr;

use super::ListedKey;
use crate::conntrack::{EntryState, Flow};
use crate::id::{BackendEpoch, BackendId, Family, VipId};

/// Which flows match: those that fulfil every condition that is set. By default all do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Flows of this family.
    pub family: Option<Family>,
    /// Flows to this backend.
    pub backend: Option<BackendFilter>,
    /// Flows to this VIP address and protocol.
    pub vip: Option<VipId>,
    /// Flows of these clients.
    pub client: Option<ClientPrefix>,
    /// Flows in this state.
    pub state: Option<EntryState>,
}

/// A backend's slot, and which of its tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendFilter {
    /// The slot.
    pub id: BackendId,
    /// The tenant; `None` for any that the slot ever had.
    pub epoch: Option<BackendEpoch>,
}

/// Addresses of clients, by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientPrefix(Bits);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    Ipv4 { network: u32, mask: u32 },
    Ipv6 { network: u128, mask: u128 },
}

impl ClientPrefix {
    /// The addresses that share the first `len` bits with `address`; `None` if it has not so many.
    #[must_use]
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let len = u32::from(len);
        let bits = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(u32::BITS.checked_sub(len)?).unwrap_or_default();
                Bits::Ipv4 { network: address.to_bits() & mask, mask }
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(u128::BITS.checked_sub(len)?).unwrap_or_default();
                Bits::Ipv6 { network: address.to_bits() & mask, mask }
            }
        };
        Some(Self(bits))
    }

    /// Whether an address is one of them.
    #[must_use]
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.0, address) {
            (Bits::Ipv4 { network, mask }, IpAddr::V4(address)) => {
                address.to_bits() & mask == network
            }
            (Bits::Ipv6 { network, mask }, IpAddr::V6(address)) => {
                address.to_bits() & mask == network
            }
            _ => false,
        }
    }

    fn family(&self) -> Family {
        match self.0 {
            Bits::Ipv4 { .. } => Family::Ipv4,
            Bits::Ipv6 { .. } => Family::Ipv6,
        }
    }
}

impl Filter {
    /// Whether a flow of this family can match.
    pub(super) fn has(&self, family: Family) -> bool {
        self.family.is_none_or(|wanted| wanted == family)
            && self.client.is_none_or(|client| client.family() == family)
    }

    /// Whether a flow matches; its family does.
    #[inline]
    pub(super) fn matches<K: ListedKey>(&self, key: &K, flow: &Flow) -> bool {
        self.backend.is_none_or(|backend| {
            backend.id == flow.backend.id
                && backend.epoch.is_none_or(|epoch| epoch == flow.backend.epoch)
        }) && self.vip.is_none_or(|vip| vip == key.vip_id())
            && self.state.is_none_or(|state| state == flow.state)
            && self.client.is_none_or(|client| client.contains(key.client()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_what_shares_its_bits() {
        let prefix = |text: &str, len| ClientPrefix::new(text.parse().unwrap(), len);
        let holds = |prefix: ClientPrefix, text: &str| prefix.contains(text.parse().unwrap());
        let ten = prefix("10.1.2.3", 8).unwrap();
        assert!(holds(ten, "10.255.0.1") && !holds(ten, "11.1.2.3") && !holds(ten, "::1"));
        let one = prefix("10.1.2.3", 32).unwrap();
        assert!(holds(one, "10.1.2.3") && !holds(one, "10.1.2.2"));
        let all = prefix("10.1.2.3", 0).unwrap();
        assert!(holds(all, "255.255.255.255") && !holds(all, "::"));
        let six = prefix("2001:db8::1", 32).unwrap();
        assert!(holds(six, "2001:db8:ffff::") && !holds(six, "2001:db9::"));
        assert!(holds(prefix("::", 0).unwrap(), "ff02::1"));
        assert_eq!(prefix("10.0.0.1", 33), None);
        assert_eq!(prefix("::1", 129), None);
    }
}
