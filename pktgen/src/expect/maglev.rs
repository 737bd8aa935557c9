//! Which backend has which slot, computed from what `docs/` and the paper say, and by nothing of
//! `lodestone::maglev`: round by round, with another implementation of SipHash.

use siphasher::sip::{SipHasher13, SipHasher24};
use std::net::IpAddr;

/// A slot without a backend.
pub const NOBODY: u16 = u16::MAX;

/// One who gets slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The bytes that all appliances sort and hash by.
    pub identity: Vec<u8>,
    /// Relative share, above 0.
    pub weight: u32,
    /// What stands in its slots.
    pub backend: u16,
}

/// The identity of a backend: 1, the length of the virtual network's name, the name, the address as
/// 16 bytes.
pub fn identity(virtual_network: Option<&str>, address: IpAddr) -> Vec<u8> {
    let network = virtual_network.unwrap_or_default().as_bytes();
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut bytes = vec![1];
    bytes.extend((network.len() as u32).to_be_bytes());
    bytes.extend(network);
    bytes.extend(address.octets());
    bytes
}

/// The owner of every slot of a table with `size` slots, a prime; empty without members.
pub fn populate(mut members: Vec<Member>, size: u32) -> Vec<u16> {
    members.retain(|member| member.weight > 0);
    members.sort_by(|one, other| one.identity.cmp(&other.identity));
    let Some(heaviest) = members.iter().map(|member| member.weight).max() else {
        return Vec::new();
    };
    let mut slots = vec![NOBODY; size as usize];
    let mut walks: Vec<_> =
        members.iter().map(|member| Walk::new(&member.identity, size)).collect();
    let mut had = vec![0_u64; members.len()];
    let mut left = u64::from(size);
    let turns = |weight: u32, rounds: u64| rounds * u64::from(weight) / u64::from(heaviest);
    for round in 1_u64.. {
        let mut takers: Vec<usize> = (0..members.len())
            .filter(|&place| turns(members[place].weight, round) > had[place])
            .collect();
        if takers.len() as u64 > left {
            // The last round: those furthest below their exact share go first.
            let total: i128 = members.iter().map(|member| i128::from(member.weight)).sum();
            takers.sort_by_key(|&place| {
                let exact = i128::from(members[place].weight) * i128::from(size);
                i128::from(had[place]) * total - exact
            });
            takers.truncate(left as usize);
            takers.sort_unstable();
        }
        for &place in &takers {
            let walk = &mut walks[place];
            while slots[walk.at as usize] != NOBODY {
                walk.step();
            }
            slots[walk.at as usize] = members[place].backend;
            had[place] += 1;
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    slots
}

/// A member's order of preference over the slots: offset, offset + skip, … (the paper's §3.4).
struct Walk {
    at: u32,
    skip: u32,
    size: u32,
}

impl Walk {
    fn new(identity: &[u8], size: u32) -> Self {
        let hash = |key: &[u8; 16]| SipHasher24::new_with_key(key).hash(identity);
        let at = hash(b"lodestone-offset") % u64::from(size);
        let skip = hash(b"lodestone-skip\0\0") % u64::from(size - 1) + 1;
        Self { at: at as u32, skip: skip as u32, size }
    }

    fn step(&mut self) {
        self.at = ((u64::from(self.at) + u64::from(self.skip)) % u64::from(self.size)) as u32;
    }
}

/// The flow hash of `docs/flow-hash.md`: SipHash-1-3 over both addresses, both ports and the
/// protocol. `addresses` are 8 or 32 bytes as in the IP header, `ports` 4 as in the upper layer's.
pub fn flow_hash(key: &SipHasher13, addresses: &[u8], ports: [u8; 4], protocol: u8) -> u64 {
    let mut message = [0; 37];
    let len = addresses.len();
    message[..len].copy_from_slice(addresses);
    message[len..len + 4].copy_from_slice(&ports);
    message[len + 4] = protocol;
    key.hash(&message[..len + 5])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the paper's Table 1 has offsets and skips of its own; here the walks
    /// are replaced by those.
    fn seven(walks: &[(u32, u32)]) -> Vec<usize> {
        let mut slots = vec![usize::MAX; 7];
        let mut walks: Vec<_> =
            walks.iter().map(|&(at, skip)| Walk { at, skip, size: 7 }).collect();
        let mut left = 7;
        while left > 0 {
            for (place, walk) in walks.iter_mut().enumerate() {
                if left > 0 {
                    while slots[walk.at as usize] != usize::MAX {
                        walk.step();
                    }
                    slots[walk.at as usize] = place;
                    left -= 1;
                }
            }
        }
        slots
    }

    #[test]
    fn walks_are_those_of_the_paper() {
        assert_eq!(seven(&[(3, 4), (0, 2), (3, 1)]), [1, 0, 1, 0, 2, 2, 0]);
        assert_eq!(seven(&[(3, 4), (3, 1)]), [0, 0, 0, 0, 1, 1, 1]);
    }

    fn member(last: u8, weight: u32) -> Member {
        let address = IpAddr::from([10, 0, 0, last]);
        Member { identity: identity(None, address), weight, backend: last.into() }
    }

    fn share(slots: &[u16], backend: u16) -> usize {
        slots.iter().filter(|&&slot| slot == backend).count()
    }

    // L4-08, field-notes §1e
    #[test]
    fn shares_are_exact() {
        let slots = populate((1..=10).map(|last| member(last, 1)).collect(), 65_537);
        let shares: Vec<_> = (1..=10).map(|last| share(&slots, last)).collect();
        assert!(shares.iter().all(|share| [6553, 6554].contains(share)), "{shares:?}");
        let far = [(1, 2), (2, 13), (3, 111), (4, 10)].map(|(last, weight)| member(last, weight));
        let slots = populate(far.to_vec(), 1021);
        assert_eq!([1, 2, 3, 4].map(|last| share(&slots, last)), [15, 97, 834, 75]);
    }

    #[test]
    fn order_does_not_matter_and_nobody_is_an_empty_table() {
        let forwards: Vec<_> = (1..=5).map(|last| member(last, last.into())).collect();
        let backwards = forwards.iter().rev().cloned().collect();
        assert_eq!(populate(forwards, 1021), populate(backwards, 1021));
        assert!(populate(vec![member(1, 0)], 1021).is_empty());
    }

    /// Two ways to one table: here they meet, so that a test finds which of the two strayed.
    #[test]
    fn the_appliance_computes_the_same() {
        use lodestone::maglev::{Identity, Maglev, Member as Other};
        for weights in [&[1, 1, 1][..], &[1, 2, 3, 4, 5], &[100, 1], &[7, 0, 7, 3]] {
            let address = |place: usize| IpAddr::from([10, 0, 0, place as u8]);
            let ours = weights.iter().enumerate().map(|(place, &weight)| Member {
                identity: identity(Some("blue"), address(place)),
                weight,
                backend: place as u16,
            });
            let theirs: Vec<_> = weights
                .iter()
                .enumerate()
                .map(|(place, &weight)| Other {
                    identity: Identity::backend(Some("blue"), address(place)),
                    weight,
                    owner: place as u16,
                })
                .collect();
            let theirs = Maglev::populate(&theirs, 4093).unwrap();
            assert!(theirs.owners().eq(populate(ours.collect(), 4093)), "{weights:?}");
        }
    }

    // docs/flow-hash.md, vectors
    #[test]
    fn the_flow_hash_has_the_documented_vectors() {
        let key: [u8; 16] = std::array::from_fn(|place| place as u8);
        let key = SipHasher13::new_with_key(&key);
        let ports = [50_000_u16.to_be_bytes(), 443_u16.to_be_bytes()].concat();
        let addresses = [[198, 51, 100, 7], [203, 0, 113, 1]].concat();
        let ports: [u8; 4] = ports.try_into().unwrap();
        assert_eq!(flow_hash(&key, &addresses, ports, 6), 0x553a_792c_5218_b61f);
        assert_eq!(flow_hash(&key, &addresses, ports, 17), 0x9e1b_cc0f_2b2c_130c);
        let v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let addresses = [v6("2001:db8::7"), v6("2001:db8:1::1")].concat();
        assert_eq!(flow_hash(&key, &addresses, ports, 6), 0x00aa_d638_1b40_fcbd);
    }
}
