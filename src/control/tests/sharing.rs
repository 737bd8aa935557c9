//! What one generation shares with the next, what is built anew, and that nothing is left over.

use std::sync::atomic::{AtomicBool, Ordering};

use super::laws::is_same;
use super::tables::{Appliance, Random, VIPS, Wired};
use super::*;
use crate::forward::{Level1, Tables};
use crate::id::{BackendId, ServiceId};
use crate::snapshot::{self, Generation, Publisher};
use crate::steer::{AdminState, Health};

fn two_pools() -> String {
    let pools = [
        pool("a", "monitor = \"probe\"", &[backend(1, 1), backend(2, 1), backend(3, 1)]),
        pool("b", "", &[backend(4, 1), backend(5, 1)]),
    ];
    let services = [service("one", &["a"], VIPS[0]), service("two", &["b"], VIPS[1])];
    text(&[pools.concat(), services.concat()])
}

/// Which pools' tables were shared.
fn shared(old: &Tables, new: &Tables) -> Vec<bool> {
    old.pools.iter().zip(new.pools.iter()).map(|(old, new)| Arc::ptr_eq(old, new)).collect()
}

#[test]
fn what_concerns_one_pool_leaves_all_else_as_it_is() {
    let mut appliance = Appliance::new(&two_pools());
    for name in ["b1", "b2", "b3"] {
        appliance.set("a", name, AdminState::Enabled, Health::Up);
    }
    for (name, admin, health) in [
        ("b1", AdminState::Enabled, Health::Down),
        ("b2", AdminState::Draining, Health::Up),
        ("b2", AdminState::Disabled, Health::Up),
    ] {
        let before = appliance.tables.clone();
        appliance.set("a", name, admin, health);
        let after = &appliance.tables;
        assert!(Arc::ptr_eq(&before.vips, &after.vips));
        assert!(Arc::ptr_eq(&before.services, &after.services));
        assert!(Arc::ptr_eq(&before.ports, &after.ports));
        // From draining to disabled the table does not change, but the record does.
        assert_eq!(shared(&before, after), [admin == AdminState::Disabled, true]);
        let differ = |id: &usize| before.backends[*id] != after.backends[*id];
        let changed: Vec<_> = (0..before.backends.len()).filter(differ).collect();
        let slot = appliance.state.slots().find(&appliance.key("a", name)).unwrap();
        let is_kept = admin == AdminState::Draining && health == Health::Up;
        let expected = if is_kept { vec![] } else { vec![slot.id.index()] };
        assert_eq!(changed, expected, "{name} {admin} {health}");
    }
}

#[test]
fn compiling_again_shares_everything() {
    let mut appliance = Appliance::new(&two_pools());
    let before = appliance.tables.clone();
    appliance.compile();
    assert!(is_same(&before, &appliance.tables));
}

#[test]
fn a_new_vip_touches_no_pool_and_a_new_neighbour_only_records() {
    let mut appliance = Appliance::new(&two_pools());
    let before = appliance.tables.clone();
    appliance.apply(&two_pools().replacen("ports = [80]", "ports = [80, 90]", 1));
    assert!(!Arc::ptr_eq(&before.vips, &appliance.tables.vips));
    assert!(Arc::ptr_eq(&before.services, &appliance.tables.services));
    assert!(Arc::ptr_eq(&before.pools, &appliance.tables.pools));
    assert!(Arc::ptr_eq(&before.backends, &appliance.tables.backends));

    let before = appliance.tables.clone();
    let mut silent = Wired::new(appliance.state.config());
    silent.1 = false;
    appliance.tables = appliance.compiler.compile(&appliance.state, &silent);
    assert!(Arc::ptr_eq(&before.pools, &appliance.tables.pools));
    assert!(Arc::ptr_eq(&before.vips, &appliance.tables.vips));
    assert!(!Arc::ptr_eq(&before.backends, &appliance.tables.backends));
}

#[test]
fn services_and_pools_keep_their_numbers_and_a_left_one_rests() {
    let mut appliance = Appliance::new(&two_pools());
    let id = |appliance: &Appliance, name| appliance.state.service_id(name);
    let (one, two) = (id(&appliance, "one").unwrap(), id(&appliance, "two").unwrap());
    let only_two = two_pools().replace(&service("one", &["a"], VIPS[0]), "");
    let next = Generation(appliance.generation.0 + 1);
    appliance.state.apply(parsed(&only_two), next, std::time::Duration::ZERO).unwrap();
    appliance.compile();
    assert_eq!((id(&appliance, "one"), id(&appliance, "two")), (None, Some(two)));
    let hashes: Vec<u64> = (0..50).map(|n| Random(n).next()).collect();
    assert!(hashes.iter().all(|&hash| appliance.choose(VIPS[1], hash).is_some()));

    // Nobody has adopted that: a new service gets another number, and after that the old one.
    appliance.state.adopted(Generation(next.0 - 1), |_| 0);
    let more = only_two.clone() + &service("three", &["a"], "10.0.0.102");
    let applied = appliance.apply(&more);
    let three = id(&appliance, "three").unwrap();
    assert!(three != one && three != two);
    assert_eq!(applied.services, [three]);
    appliance.apply(&(more + &service("four", &["b"], "10.0.0.103")));
    assert_eq!(id(&appliance, "four"), Some(one));

    // A pool's number is free at once.
    let (a, b) = (appliance.state.pool_id("a").unwrap(), appliance.state.pool_id("b").unwrap());
    let only_b = two_pools().split("[[pool]]\nname = \"a\"").next().unwrap().to_owned()
        + &pool("b", "", &[backend(4, 1), backend(5, 1)])
        + &pool("c", "", &[backend(6, 1)])
        + &service("two", &["c", "b"], VIPS[1]);
    appliance.apply(&only_b);
    assert_eq!(appliance.state.pool_id("b"), Some(b));
    assert_eq!(appliance.state.pool_id("c"), Some(a));
    assert_eq!(appliance.tables.services[one.index()].pools.len(), 0);
}

#[test]
fn a_draining_service_keeps_its_flows_and_a_disabled_one_nothing() {
    let with = |state: &str| {
        two_pools().replacen("pools =", &format!("admin_state = \"{state}\"\npools ="), 1)
    };
    let mut appliance = Appliance::new(&two_pools());
    let id = appliance.state.service_id("one").unwrap();
    let before = appliance.tables.clone();
    for (state, takes, keeps) in
        [("draining", false, true), ("disabled", false, false), ("enabled", true, true)]
    {
        appliance.apply(&with(state));
        let table = &appliance.tables.services[id.index()];
        assert_eq!(matches!(table.level1, Level1::Single(_)), takes, "{state}");
        assert_eq!(!table.pools.is_empty(), keeps, "{state}");
        assert!(Arc::ptr_eq(&before.pools, &appliance.tables.pools));
        assert!(Arc::ptr_eq(&before.vips, &appliance.tables.vips), "its packets are still for it");
        assert!(appliance.choose(VIPS[1], 1).is_some());
    }
    assert_eq!(appliance.tables.services[..], before.services[..]);
    assert_eq!(id, ServiceId(0));
}

#[test]
fn of_a_pools_state_and_a_backends_the_stricter_holds() {
    let more = "monitor = \"probe\"\nadmin_state = \"draining\"";
    let pools = pool("a", more, &[backend(1, 1), backend(2, 1)]);
    let text = text(&[pools, service("one", &["a"], VIPS[0])]);
    let text = text.replacen("weight = 1", "weight = 1\nadmin_state = \"disabled\"", 1);
    let appliance = Appliance::new(&text);
    let admin = |name| appliance.state.admin(&appliance.key("a", name));
    assert_eq!((admin("b1"), admin("b2")), (AdminState::Disabled, AdminState::Draining));
    assert_eq!(appliance.choose(VIPS[0], 1), None);
}

/// Publishes when the reader has let go of enough.
fn publish(publisher: &mut Publisher<Tables>, tables: &Tables) {
    while !publisher.has_room() {
        std::thread::yield_now();
    }
    publisher.publish(tables.clone()).unwrap();
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A worker adopts what is published while management changes and frees: its drop of a table is
/// never the last one, so that every slot array comes back to the arena, on management.
#[test]
fn ten_thousand_changes_leave_no_slots_behind() {
    let mut appliance = Appliance::new(&two_pools());
    let (mut publisher, mut readers) = snapshot::shared(appliance.tables.clone(), 1);
    let stop = AtomicBool::new(false);
    let mut random = Random(5);
    let mut most_held = 0;
    std::thread::scope(|scope| {
        let mut reader = readers.remove(0);
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = reader.refresh().backends.first();
                std::thread::yield_now();
            }
        });
        // However this ends, or the scope waits for the reader for ever.
        let _stopper = StopOnDrop(stop);
        let before = (appliance.compiler.arena().held(), appliance.digest());
        for _ in 0..10_000 {
            let names = [("a", "b1"), ("a", "b2"), ("a", "b3"), ("b", "b4"), ("b", "b5")];
            let (pool, name) = names[usize::from(random.below(5))];
            let admin = [AdminState::Enabled, AdminState::Draining, AdminState::Disabled];
            let health = [Health::Up, Health::Down][usize::from(random.below(2))];
            appliance.set(pool, name, admin[usize::from(random.below(3))], health);
            publish(&mut publisher, &appliance.tables);
            most_held = most_held.max(appliance.compiler.arena().held());
        }
        appliance.apply(&two_pools());
        publish(&mut publisher, &appliance.tables);
        while publisher.reclaim() > 0 {
            std::thread::yield_now();
        }
        appliance.compiler.reclaim();
        assert_eq!(appliance.compiler.arena().held(), before.0);
    });
    // Old snapshots are bounded, and so is what they hold.
    let bound = 2 + snapshot::MAX_HELD + 2;
    assert!(most_held <= bound, "{most_held}");
    assert!(appliance.compiler.arena().free() <= bound);
    assert_eq!(appliance.tables.backends.len(), 5);
    assert_eq!(appliance.state.slots().find(&appliance.key("b", "b5")).unwrap().id, BackendId(4));
}
