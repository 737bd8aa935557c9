//! Laws of [`State::apply`](crate::control::State::apply) over random configurations.
//!
//! Equality is meant with the same health: what probes found is no part of a configuration. It is
//! kept for a backend as long as it is configured in a pool with a monitor, and for no longer.

use std::collections::BTreeMap;

use super::tables::{Appliance, Random, VIPS};
use super::*;
use crate::config::BackendKey;
use crate::control::Applied;
use crate::forward::Tables;
use crate::steer::Health;

const POOLS: [&str; 3] = ["a", "b", "c"];
const ADMIN: [&str; 5] = ["enabled", "enabled", "enabled", "draining", "disabled"];

fn admin(random: &mut Random) -> String {
    format!("admin_state = \"{}\"\n", ADMIN[usize::from(random.below(5))])
}

/// One to three pools with one to five backends, and services over them, in any order.
fn random_config(random: &mut Random) -> String {
    let mut names: Vec<_> = POOLS.into_iter().filter(|_| random.below(4) != 0).collect();
    if names.is_empty() {
        names.push("a");
    }
    let mut parts = Vec::new();
    for name in &names {
        let mut numbers: Vec<u8> = (1..6).filter(|_| random.below(3) != 0).collect();
        if numbers.is_empty() {
            numbers.push(9);
        }
        random.shuffle(&mut numbers);
        let monitor = if random.below(2) == 0 { "monitor = \"probe\"\n" } else { "" };
        let threshold = random.below(u8::try_from(numbers.len()).unwrap()) + 1;
        let more = format!("{monitor}threshold = {threshold}\n{}", admin(random));
        let mut backends: Vec<_> =
            numbers.iter().map(|&n| backend(n, random.below(3).into())).collect();
        // Not all may weigh nothing.
        backends[0].2 += 1;
        let text = pool(name, &more, &backends);
        parts.push(text.split("weight").fold(String::new(), |text, part| {
            let sep = if text.is_empty() { String::new() } else { admin(random) + "weight" };
            text + &sep + part
        }));
    }
    for (service_name, vip) in ["one", "two", "three"].into_iter().zip(VIPS.iter().cycle()) {
        if service_name != "one" && random.below(3) == 0 {
            continue;
        }
        random.shuffle(&mut names);
        let count = usize::from(random.below(u8::try_from(names.len()).unwrap()) + 1);
        let text = service(service_name, &names[..count], vip);
        let text = text.replacen("pools", &(admin(random) + "pools"), 1);
        let port = if service_name == "three" { "ports = [81]" } else { "ports = [80]" };
        parts.push(text.replace("ports = [80]", port));
    }
    random.shuffle(&mut parts);
    // Pools first or services first: sections of one kind are a list of their own.
    text(&parts)
}

/// Probes find something of some backends.
fn report(appliance: &mut Appliance, random: &mut Random) {
    for key in keys(appliance) {
        let health = [Health::Up, Health::Down][usize::from(random.below(2))];
        if random.below(2) == 0 {
            appliance.state.set_health(&key, health);
        }
    }
    appliance.compile();
}

fn keys(appliance: &Appliance) -> Vec<BackendKey> {
    let pools = &appliance.state.config().pools;
    let keys = pools.iter().flat_map(|pool| pool.backends.iter().map(|b| BackendKey::new(pool, b)));
    keys.collect()
}

/// What is known of backends that a monitor watches.
fn known(appliance: &Appliance) -> BTreeMap<BackendKey, Health> {
    appliance.state.known_health().collect()
}

fn watched(appliance: &Appliance) -> Vec<BackendKey> {
    let pools = appliance.state.config().pools.iter().filter(|pool| pool.monitor.is_some());
    pools.flat_map(|pool| pool.backends.iter().map(|b| BackendKey::new(pool, b))).collect()
}

/// Whether two generations share everything.
pub(super) fn is_same(one: &Tables, other: &Tables) -> bool {
    Arc::ptr_eq(&one.vips, &other.vips)
        && Arc::ptr_eq(&one.services, &other.services)
        && Arc::ptr_eq(&one.pools, &other.pools)
        && Arc::ptr_eq(&one.backends, &other.backends)
        && Arc::ptr_eq(&one.ports, &other.ports)
}

#[test]
fn what_was_before_leaves_no_trace() {
    bolero::check!().with_iterations(600).with_type::<u64>().for_each(|&seed| {
        let mut random = Random(seed);
        let mut old = Appliance::new(&random_config(&mut random));
        for _ in 0..2 {
            report(&mut old, &mut random);
            let (before, watched_before) = (known(&old), watched(&old));
            let next = random_config(&mut random);
            old.apply(&next);

            // Health stays for those who were and are watched, and for nobody else.
            let watched_now = watched(&old);
            for (key, health) in &before {
                let stays = watched_before.contains(key) && watched_now.contains(key);
                assert_eq!(known(&old).get(key), stays.then_some(health), "{key:?}");
            }
            assert!(known(&old).keys().all(|key| before.contains_key(key)));

            let mut fresh = Appliance::new(&next);
            for (key, health) in known(&old) {
                assert!(fresh.state.set_health(&key, health));
            }
            fresh.compile();
            let digests = |appliance: &Appliance| appliance.compiler.digests(&appliance.state);
            assert_eq!(digests(&old), digests(&fresh), "{next}");
            for _ in 0..40 {
                let hash = random.next();
                for vip in VIPS {
                    assert_eq!(old.choose(vip, hash), fresh.choose(vip, hash), "{vip}\n{next}");
                }
            }
            assert_eq!(old.keeps(), fresh.keeps(), "{next}");

            // What is applied again changes nothing at all.
            let tables = old.tables.clone();
            assert_eq!(old.apply(&next), Applied::default());
            assert!(is_same(&tables, &old.tables));
        }
    });
}

#[test]
fn configurations_that_differ_in_order_only_are_digested_alike() {
    bolero::check!().with_iterations(100).with_type::<u64>().for_each(|&seed| {
        let one = parsed(&random_config(&mut Random(seed)));
        let mut other = one.clone();
        let mut random = Random(seed ^ 1);
        random.shuffle(&mut other.pools);
        random.shuffle(&mut other.services);
        for pool in &mut other.pools {
            random.shuffle(&mut pool.backends);
        }
        // And in what tells one appliance of a cluster from another.
        other.appliance.name = "lb2".into();
        other.appliance.zone = Some("z".into());
        other.admin.socket = "/elsewhere".into();
        other.cpu.workers = vec![3];
        other.ports[0].mtu = 1500;
        other.pools[0].backends[0].probe_address = Some([192, 0, 2, 1].into());
        other.services[0].vips[0].arp ^= true;
        assert_eq!(configuration_digest(&one), configuration_digest(&other));
    });
}

fn configuration_digest(config: &Config) -> String {
    crate::control::digest::of_configuration(config)
}

#[test]
fn whatever_a_cluster_has_in_common_is_in_the_digest_of_the_configuration() {
    let pools = [pool("a", "monitor = \"probe\"", &[backend(1, 1), backend(2, 1)])];
    let base = parsed(&text(&[pools.concat(), service("one", &["a"], VIPS[0])]));
    let edits: [fn(&mut Config); 14] = [
        |c| c.appliance.flow_hash_key.0[0] ^= 1,
        |c| c.monitors[0].port += 1,
        |c| c.monitors[0].fall += 1,
        |c| c.pools[0].name.push('x'),
        |c| c.pools[0].admin_state = config::AdminState::Draining,
        |c| c.pools[0].threshold += 1,
        |c| c.pools[0].table_size = 4093,
        |c| c.pools[0].backends[1].weight += 1,
        |c| c.pools[0].backends[1].name.push('x'),
        |c| c.pools[0].backends[1].admin_state = config::AdminState::Disabled,
        |c| c.services[0].admin_state = config::AdminState::Disabled,
        |c| c.services[0].idle_timeout *= 2,
        |c| c.services[0].vips[0].ports[0].last += 1,
        |c| c.services[0].vips[0].protocol = config::Protocol::Udp,
    ];
    let mut seen = std::collections::BTreeSet::from([configuration_digest(&base)]);
    for (number, edit) in edits.iter().enumerate() {
        let mut config = base.clone();
        edit(&mut config);
        assert!(seen.insert(configuration_digest(&config)), "edit {number}");
    }
}

#[test]
fn health_is_in_the_digest_of_the_inputs_and_admin_states_are_not() {
    let pools = [pool("a", "monitor = \"probe\"", &[backend(1, 1), backend(2, 1)])];
    let parts = text(&[pools.concat(), service("one", &["a"], VIPS[0])]);
    let mut appliance = Appliance::new(&parts);
    let digests = |appliance: &Appliance| appliance.compiler.digests(&appliance.state);
    let before = digests(&appliance);
    let key = appliance.key("a", "b1");
    appliance.state.set_health(&key, Health::Up);
    appliance.compile();
    let up = digests(&appliance);
    assert_eq!(up.configuration, before.configuration);
    assert!(up.inputs != before.inputs && up.tables != before.tables);
    let key = appliance.key("a", "b2");
    appliance.state.set_health(&key, Health::Up);
    let both = digests(&appliance);
    set_admin(&mut appliance.state, "a", "b2", config::AdminState::Draining);
    appliance.compile();
    let drained = digests(&appliance);
    assert!(drained.configuration != both.configuration && drained.inputs == both.inputs);
    assert_eq!(drained.tables, up.tables);
}

// HP-52: the way back is to the configured weights, not to equal ones.
#[test]
fn a_backend_that_comes_back_has_the_weight_that_is_configured() {
    let parts = |weight| {
        let backends = [backend(1, weight), backend(2, 3), backend(3, 1)];
        let pools = [pool("a", "monitor = \"probe\"", &backends)];
        text(&[pools.concat(), service("one", &["a"], VIPS[0])])
    };
    let mut appliance = Appliance::new(&parts(5));
    for key in keys(&appliance) {
        appliance.state.set_health(&key, Health::Up);
    }
    appliance.compile();
    let report = |appliance: &mut Appliance, health| {
        let key = appliance.key("a", "b1");
        assert!(appliance.state.set_health(&key, health));
        appliance.compile();
        appliance.digest()
    };
    let configured = appliance.digest();
    let down = report(&mut appliance, Health::Down);
    assert_ne!(down, configured);
    assert_eq!(report(&mut appliance, Health::Up), configured);

    // The weight changes while it is down, and when it is up again it has the new one.
    assert_eq!(report(&mut appliance, Health::Down), down);
    appliance.apply(&parts(7));
    assert_eq!(appliance.digest(), down, "nothing of it is in the table");
    let mut fresh = Appliance::new(&parts(7));
    for key in keys(&fresh) {
        fresh.state.set_health(&key, Health::Up);
    }
    fresh.compile();
    let back = report(&mut appliance, Health::Up);
    assert_eq!(back, fresh.digest());
    assert_ne!(back, configured);
}
