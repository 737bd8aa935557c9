//! What a change is refused for, and what was so before and is not.

use super::tables::VIPS;
use super::*;
use crate::config::{AdminState, BackendKey};
use crate::control::guard::{Concern, concerns};
use crate::steer::Health;

/// Two pools: `a` with three backends and a threshold of 2, `b` with one. Service `one` has both,
/// service `two` has `b`.
fn base() -> Config {
    let more = "monitor = \"probe\"\nthreshold = 2";
    let pools = [
        pool("a", more, &[backend(1, 1), backend(2, 1), backend(3, 1)]),
        pool("b", "monitor = \"probe\"", &[backend(4, 1)]),
    ];
    let services = [service("one", &["a", "b"], VIPS[0]), service("two", &["b"], VIPS[1])];
    parsed(&text(&[pools.concat(), services.concat()]))
}

/// What an edit of [`base`] would do, when these backends are down and all others up.
fn found(down: &[u8], edit: impl Fn(&mut Config)) -> Vec<Concern> {
    found_after(down, |_| {}, edit)
}

/// The same, after an edit before.
fn found_after(
    down: &[u8],
    before: impl Fn(&mut Config),
    edit: impl Fn(&mut Config),
) -> Vec<Concern> {
    let mut old = base();
    before(&mut old);
    let mut new = old.clone();
    edit(&mut new);
    concerns(&old, &new, |key: &BackendKey| {
        let is_down =
            down.iter().any(|&last| key.address == std::net::IpAddr::from([10, 0, 1, last]));
        if is_down { Health::Down } else { Health::Up }
    })
}

fn set(pool: usize, backend: usize, state: AdminState) -> impl Fn(&mut Config) {
    move |config| config.pools[pool].backends[backend].admin_state = state
}

fn below(ready: usize) -> Concern {
    Concern::BelowThreshold { pool: "a".into(), ready, threshold: 2 }
}

fn nobody(pool: &str) -> Concern {
    Concern::NobodyLeft { pool: pool.into() }
}

fn empty(service: &str) -> Concern {
    Concern::EmptyTable { service: service.into() }
}

#[test]
fn nothing_is_said_of_what_does_no_harm() {
    assert_eq!(found(&[], |_| {}), []);
    assert_eq!(found(&[], set(0, 0, AdminState::Disabled)), []);
    assert_eq!(found(&[], |c| c.pools[0].backends[0].weight = 9), []);
    assert_eq!(found(&[], |c| drop(c.pools[0].backends.pop())), []);
    // A backend that is down takes no flows away.
    assert_eq!(found(&[3], set(0, 2, AdminState::Disabled)), []);
    let enable = set(0, 0, AdminState::Enabled);
    assert_eq!(found_after(&[], set(0, 0, AdminState::Disabled), enable), []);
}

#[test]
fn a_pool_that_falls_under_its_threshold() {
    assert_eq!(found(&[3], set(0, 0, AdminState::Draining)), [below(1)]);
    assert_eq!(found(&[3], |c| drop(c.pools[0].backends.remove(0))), [below(1)]);
    assert_eq!(found(&[3], |c| c.pools[0].backends[0].weight = 0), [below(1)]);
    assert_eq!(found(&[], |c| c.pools[0].backends.truncate(1)), [below(1)]);
    // The threshold itself.
    assert_eq!(found(&[], |c| c.pools[0].threshold = 3), []);
    let raised = found(&[1], |c| c.pools[0].threshold = 3);
    assert_eq!(raised, [Concern::BelowThreshold { pool: "a".into(), ready: 2, threshold: 3 }]);
    // Already so before.
    assert_eq!(found(&[2, 3], set(0, 1, AdminState::Draining)), []);
    assert_eq!(
        found_after(&[3], set(0, 0, AdminState::Draining), |c| c.pools[0].table_size = 4093),
        []
    );
}

#[test]
fn the_last_backend_that_takes_new_flows() {
    // The service `one` still has `a` to go to.
    let last = [nobody("b"), empty("two")];
    assert_eq!(found(&[], set(1, 0, AdminState::Draining)), last);
    assert_eq!(found(&[], set(1, 0, AdminState::Disabled)), last);
    assert_eq!(found(&[], |c| c.pools[1].backends[0].weight = 0), last);
    assert_eq!(found(&[], |c| c.pools[1].admin_state = AdminState::Draining), last);
    assert_eq!(found(&[], |c| c.pools[0].admin_state = AdminState::Disabled), [nobody("a")]);
    // Also if it is down: in the last resort it takes them.
    assert_eq!(found(&[4], set(1, 0, AdminState::Draining)), last);
    // Already so before.
    let drained = set(1, 0, AdminState::Draining);
    assert_eq!(found_after(&[], drained, set(1, 0, AdminState::Disabled)), []);
}

#[test]
fn a_service_without_anyone_to_go_to() {
    let both = |config: &mut Config| {
        config.pools[0].admin_state = AdminState::Disabled;
        config.pools[1].admin_state = AdminState::Disabled;
    };
    assert_eq!(found(&[], both), [nobody("a"), nobody("b"), empty("one"), empty("two")]);
    // It loses the pool that it could go to.
    let gone = set(1, 0, AdminState::Disabled);
    let only_b = |c: &mut Config| drop(c.services[0].pools.remove(0));
    assert_eq!(found_after(&[], gone, only_b), [empty("one")]);
    // Already so before.
    let gone = set(1, 0, AdminState::Disabled);
    let longer = |c: &mut Config| c.services[1].idle_timeout *= 2;
    assert_eq!(found_after(&[], gone, longer), []);
}

#[test]
fn a_whole_service() {
    let two = || "two".to_owned();
    let state = |state| move |c: &mut Config| c.services[1].admin_state = state;
    let drained = [Concern::ServiceDrained { service: two() }];
    let disabled = [Concern::ServiceDisabled { service: two() }];
    let removed = [Concern::ServiceRemoved { service: two() }];
    let remove = |c: &mut Config| drop(c.services.pop());
    assert_eq!(found(&[], state(AdminState::Draining)), drained);
    assert_eq!(found(&[], state(AdminState::Disabled)), disabled);
    assert_eq!(found(&[], remove), removed);
    // Already so before.
    assert_eq!(found_after(&[], state(AdminState::Disabled), state(AdminState::Draining)), []);
    assert_eq!(found_after(&[], state(AdminState::Draining), state(AdminState::Enabled)), []);
    assert_eq!(found_after(&[], state(AdminState::Disabled), remove), []);
    // It was drained first, as the refusals advise.
    assert_eq!(found_after(&[], state(AdminState::Draining), state(AdminState::Disabled)), []);
    assert_eq!(found_after(&[], state(AdminState::Draining), remove), []);
    // What a drained service has to go to is no concern of it.
    let last = set(1, 0, AdminState::Disabled);
    assert_eq!(found_after(&[], state(AdminState::Draining), last), [nobody("b")]);
}

/// Service `one` goes and this one comes, in one change.
fn replaced_by(change: impl Fn(&mut Config)) -> impl Fn(&mut Config) {
    move |config| {
        let mut service = config.services.remove(0);
        service.name = "other".into();
        config.services.push(service);
        change(config);
    }
}

#[test]
fn a_service_that_goes_and_comes_in_one_change_is_judged_by_the_outcome() {
    let again = |change: fn(&mut Config)| {
        move |config: &mut Config| {
            let service = config.services.remove(0);
            config.services.push(service);
            change(config);
        }
    };
    assert_eq!(found(&[], again(|_| {})), []);
    assert_eq!(found(&[], again(|c| c.services[1].idle_timeout *= 2)), []);
    let other = |c: &mut Config| c.services[1].vips[0].address = [10, 0, 0, 77].into();
    let lost =
        |service: &str, vip: &str| Concern::VipRemoved { service: service.into(), vip: vip.into() };
    let vip = format!("VIP {} tcp 80", VIPS[0]);
    assert_eq!(found(&[], again(other)), [lost("one", &vip)]);

    // Under another name.
    assert_eq!(found(&[], replaced_by(|_| {})), []);
    let removed = Concern::ServiceRemoved { service: "one".into() };
    assert_eq!(found(&[], replaced_by(other)), [removed]);
    let drained = |c: &mut Config| c.services[1].admin_state = AdminState::Draining;
    let heir = || "other".to_owned();
    assert_eq!(found(&[], replaced_by(drained)), [Concern::ServiceDrained { service: heir() }]);
    let disabled = |c: &mut Config| c.services[1].admin_state = AdminState::Disabled;
    assert_eq!(found(&[], replaced_by(disabled)), [Concern::ServiceDisabled { service: heir() }]);
    let nobody_up = |c: &mut Config| c.services[1].pools = vec!["b".into()];
    let gone = set(1, 0, AdminState::Disabled);
    assert_eq!(found_after(&[], &gone, replaced_by(nobody_up)), [empty("other")]);
    // It was drained before.
    let before = |c: &mut Config| c.services[0].admin_state = AdminState::Draining;
    assert_eq!(found_after(&[], before, replaced_by(other)), []);
}

#[test]
fn a_part_of_a_services_vips() {
    use crate::config::PortRange;
    let ranges = |ranges: &[(u16, u16)]| -> Vec<_> {
        ranges.iter().map(|&(first, last)| PortRange { first, last }).collect()
    };
    let before = |c: &mut Config| c.services[0].vips[0].ports = ranges(&[(10, 19), (30, 39)]);
    let to = |ports: &'static [(u16, u16)]| {
        move |c: &mut Config| c.services[0].vips[0].ports = ranges(ports)
    };
    let lost = |ports: &str| {
        let vip = format!("VIP {} tcp {ports}", VIPS[0]);
        [Concern::VipRemoved { service: "one".into(), vip }]
    };
    assert_eq!(found_after(&[], before, to(&[(0, 65_535)])), []);
    assert_eq!(found_after(&[], before, to(&[(12, 14), (16, 33)])), lost("10-11,15,34-39"));
    // What one gives up another takes.
    let shared = |c: &mut Config| {
        let mut vip = c.services[0].vips[0].clone();
        c.services[0].vips[0].ports = ranges(&[(10, 19)]);
        vip.ports = ranges(&[(30, 35)]);
        c.services[1].vips.push(vip);
    };
    assert_eq!(found_after(&[], before, shared), lost("36-39"));
    let udp = |c: &mut Config| c.services[0].vips[0].protocol = crate::config::Protocol::Udp;
    assert_eq!(found_after(&[], before, udp), lost("10-19,30-39"));
}

#[test]
fn every_concern_is_a_sentence_that_names_what_it_is_about() {
    for concern in [
        below(1),
        nobody("a"),
        empty("a"),
        Concern::ServiceDrained { service: "a".into() },
        Concern::ServiceDisabled { service: "a".into() },
        Concern::ServiceRemoved { service: "a".into() },
        Concern::VipRemoved { service: "a".into(), vip: "VIP 10.0.0.1 tcp 80".into() },
    ] {
        let sentence = concern.to_string();
        assert!(sentence.contains(" a would ") && sentence.contains("; "), "{sentence}");
    }
}
