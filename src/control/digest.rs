//! The digest of the tables: equal on appliances that choose equally (design.md §4.15).
//!
//! It covers stable keys only: names of services and pools, identities of backends, the slots of
//! `current` by them, and the flow hash key. Slot numbers, epochs, neighbours and history are not
//! in it, nor is the order in which pools and services are written.

use sha2::{Digest as _, Sha256};

use super::compile::decide;
use super::state::State;
use crate::id::BackendId;
use crate::maglev::{Maglev, Member};

/// A SHA-256 digest of parts of the tables.
pub(super) type Digest = [u8; 32];

/// The digest of one pool's table.
pub(super) fn of_pool(members: &[Member<BackendId>], table: &Maglev<BackendId>) -> Digest {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|a, b| a.identity.cmp(&b.identity));
    let mut digest = Sha256::new();
    for member in &sorted {
        put(&mut digest, member.identity.as_bytes());
    }
    let places: std::collections::HashMap<_, _> =
        sorted.iter().zip(0_u32..).map(|(member, place)| (member.owner, place)).collect();
    digest.update((table.slot_count() as u64).to_le_bytes());
    for owner in table.owners() {
        digest.update(places.get(&owner).copied().unwrap_or(u32::MAX).to_le_bytes());
    }
    digest.finalize().into()
}

/// The digest of all tables, as 16 hex digits. `pool` gives the digest of a pool's table.
pub(super) fn of_tables(state: &State, pool: impl Fn(&str) -> Option<Digest>) -> String {
    let config = state.config();
    let pools: Vec<_> = config.pools.iter().map(|pool| state.pool(pool)).collect();
    let mut services: Vec<_> = config.services.iter().collect();
    services.sort_by(|a, b| a.name.cmp(&b.name));
    let mut digest = Sha256::new();
    digest.update(config.appliance.flow_hash_key.0);
    for service in services {
        put(&mut digest, service.name.as_bytes());
        let mut vips: Vec<_> = service
            .vips
            .iter()
            .flat_map(|vip| vip.ports.iter().map(move |ports| (vip.address, vip.protocol, *ports)))
            .collect();
        vips.sort_unstable();
        for (address, protocol, ports) in vips {
            put(&mut digest, address.to_string().as_bytes());
            digest.update([protocol.number()]);
            digest.update(ports.first.to_le_bytes());
            digest.update(ports.last.to_le_bytes());
        }
        let (ids, decision) = decide(config, &pools, service);
        for quota in &decision.quotas {
            let Some(chosen) = ids.get(quota.pool).and_then(|id| config.pools.get(id.index()))
            else {
                continue;
            };
            put(&mut digest, chosen.name.as_bytes());
            digest.update(quota.quota.to_le_bytes());
            digest.update(pool(&chosen.name).unwrap_or_default());
        }
    }
    let digest: Digest = digest.finalize().into();
    digest.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A text with its length, so that two lists of texts never look alike.
fn put(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}
