//! Slots over random histories, with workers that lag and entries that live long: a slot is never
//! given out while anything of its last tenant is left.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::tables::Random;
use crate::config::BackendKey;
use crate::control::backend_slots::BackendSlots;
use crate::id::{BackendId, BackendRef};
use crate::snapshot::Generation;

fn member(number: u8) -> BackendKey {
    BackendKey {
        pool: "web".into(),
        virtual_network: None,
        address: IpAddr::from([10, 0, 0, number]),
    }
}

/// A worker: the generation that it runs, and its entries, each with the member that it was made
/// for.
#[derive(Default)]
struct Worker {
    generation: usize,
    entries: Vec<(BackendRef, u8)>,
}

#[test]
fn a_slot_has_no_new_tenant_while_an_old_entry_could_match() {
    bolero::check!().with_iterations(300).with_type::<u64>().for_each(|&seed| {
        let mut random = Random(seed);
        let mut slots = BackendSlots::new(6);
        let mut configured = BTreeSet::new();
        // By generation: who has which slot.
        let mut published: Vec<BTreeMap<u8, BackendRef>> = vec![BTreeMap::new()];
        let mut workers = [Worker::default(), Worker::default()];
        for _ in 0..120 {
            match random.below(6) {
                0 | 1 => {
                    let number = random.below(8);
                    let next = Generation(published.len() as u64);
                    let given = if configured.remove(&number) {
                        slots.change(&[member(number)], &[], next).unwrap()
                    } else if let Ok(given) = slots.change(&[], &[member(number)], next) {
                        configured.insert(number);
                        given
                    } else {
                        assert_eq!(slots.count(), 6, "refused though slots are free");
                        continue;
                    };
                    for id in given {
                        for worker in &workers {
                            assert!(worker.entries.iter().all(|(entry, _)| entry.id != id));
                            let runs = &published[worker.generation];
                            assert!(runs.values().all(|slot| slot.id != id), "still in use");
                        }
                    }
                    let tenants = configured.iter().map(|&n| (n, slots.find(&member(n)).unwrap()));
                    published.push(tenants.collect());
                }
                2 => {
                    let worker = &mut workers[usize::from(random.below(2))];
                    let newest = published.len() - 1;
                    worker.generation =
                        (worker.generation + 1 + usize::from(random.below(3))).min(newest);
                }
                3 => {
                    let worker = &mut workers[usize::from(random.below(2))];
                    let tenants: Vec<_> = published[worker.generation].iter().collect();
                    let place = usize::from(random.below(8)) % tenants.len().max(1);
                    if let Some((number, slot)) = tenants.get(place) {
                        worker.entries.push((**slot, **number));
                    }
                }
                4 => {
                    let worker = &mut workers[usize::from(random.below(2))];
                    worker.entries.pop();
                }
                _ => {
                    let by_all = workers.iter().map(|worker| worker.generation).min().unwrap();
                    slots.adopted(Generation(by_all as u64), |id: BackendId| {
                        let entries = workers.iter().flat_map(|worker| &worker.entries);
                        entries.filter(|(entry, _)| entry.id == id).count() as u64
                    });
                }
            }
            // Whatever a worker runs and holds: an entry matches its own member only.
            for worker in &workers {
                for (entry, number) in &worker.entries {
                    let tenant =
                        published[worker.generation].iter().find(|(_, slot)| **slot == *entry);
                    assert!(tenant.is_none_or(|(tenant, _)| tenant == number));
                }
            }
        }
        // When all has ended, every slot can be used again.
        for number in std::mem::take(&mut configured) {
            slots.change(&[member(number)], &[], Generation(1_000)).unwrap();
        }
        slots.adopted(Generation(1_000), |_| 0);
        let all: Vec<_> = (0..6).map(member).collect();
        slots.change(&[], &all, Generation(1_001)).unwrap();
        assert_eq!((slots.count(), slots.resting_count()), (6, 0));
    });
}
