//! Whether a configuration is valid after edits, at the cost of what the edits concern.
//!
//! There is one set of rules, the reader's. So what was touched is written as the text of a small
//! configuration, with everything that a rule ties it to, and read. A rule belongs to one of these:
//!
//! - It looks at one object. Touched objects are there whole, the others were valid before.
//! - It ties a pool to its monitor or its addresses to ports: they are all there, or named ones are.
//! - It ties addresses: no backend has a VIP's address, no two VIPs have a port in common. Every VIP
//!   and backend with the address of a touched one is there, in a stand-in of its pool or service.
//! - It counts or names over all pools or services. Those rules are here.
//!
//! `tests/config/edit.rs` holds this against the reader on the whole text, for random edits.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::default;
use super::super::error::{Place, Warning};
use super::super::model::{Config, Pool, Service, Vip};
use super::super::outline::{self, Child, Table};
use super::super::validate::MAX_ITEMS;
use super::super::write::to_toml;
use super::{EditError, ObjectKind, Touched};

/// Checks what was touched, and puts it into the form in which the reader returns it. Returns what is
/// worth a look of it.
pub(super) fn validate(config: &mut Config, touched: &Touched) -> Result<Vec<String>, EditError> {
    check_counts(config)?;
    check_references(config, touched)?;
    if touched.pools.is_empty() && touched.services.is_empty() {
        return Ok(Vec::new());
    }
    let part = part_of(config, touched);
    let (read, warnings) = super::super::parse(&to_toml(&part)).map_err(|errors| {
        let outline = outline::of(&part);
        let mistakes = errors.mistakes.iter();
        let mistakes = mistakes.map(|mistake| sentence(&mistake.place, &mistake.mend, &outline));
        EditError::Invalid { mistakes: mistakes.collect() }
    })?;
    let mut told = Vec::new();
    if warnings.iter().any(|warning| is_of_touched(warning, &part, touched)) {
        let outline = outline::of(&part);
        let warnings = warnings.iter().filter(|warning| is_of_touched(warning, &part, touched));
        told.extend(warnings.map(|warning| sentence(&warning.place, &warning.message, &outline)));
    }
    told.extend(unused_pools(config, touched));
    for pool in read.pools.into_iter().filter(|pool| touched.pools.contains(&pool.name)) {
        if let Some(place) = config.pools.iter_mut().find(|other| other.name == pool.name) {
            *place = pool;
        }
    }
    let services = read.services.into_iter();
    for service in services.filter(|service| touched.services.contains(&service.name)) {
        if let Some(place) = config.services.iter_mut().find(|other| other.name == service.name) {
            *place = service;
        }
    }
    Ok(told)
}

/// Whether a warning is about something that was touched, and not about what the edits ask for or
/// about what only the whole configuration shows.
fn is_of_touched(warning: &Warning, part: &Config, touched: &Touched) -> bool {
    let Some((list, rest)) = warning.place.key.split_once('[') else { return false };
    let Some((place, rest)) = rest.split_once(']') else { return false };
    let Ok(place) = place.parse::<usize>() else { return false };
    let is_touched = match list {
        "pool" => part.pools.get(place).is_some_and(|pool| touched.pools.contains(&pool.name)),
        "service" => {
            part.services.get(place).is_some_and(|one| touched.services.contains(&one.name))
        }
        _ => false,
    };
    // The admin state and, of a whole pool, that it is under its threshold is what the edits do; that
    // a pool is used by nobody, which its name is blamed for, the part cannot tell.
    is_touched && !matches!(rest, "" | ".admin_state" | ".name")
}

/// Pools that were touched and that no service uses.
fn unused_pools(config: &Config, touched: &Touched) -> Vec<String> {
    let mut unused: BTreeSet<&String> = touched.pools.iter().collect();
    for pool in config.services.iter().flat_map(|service| &service.pools) {
        if unused.is_empty() {
            break;
        }
        unused.remove(pool);
    }
    unused
        .into_iter()
        .map(|pool| format!("pool {pool} is used by no service; name it in a service's pools"))
        .collect()
}

fn check_counts(config: &Config) -> Result<(), EditError> {
    let backends = config.pools.iter().map(|pool| pool.backends.len()).sum();
    for (what, count) in
        [("pools", config.pools.len()), ("backends", backends), ("services", config.services.len())]
    {
        if count > MAX_ITEMS {
            return Err(EditError::TooMany { what, count, most: MAX_ITEMS });
        }
    }
    Ok(())
}

/// Names that nothing has, and counts of a pool: what the reader says of them is for those who write
/// files.
fn check_references(config: &Config, touched: &Touched) -> Result<(), EditError> {
    for pool in &touched.removed_pools {
        let uses = |service: &&Service| service.pools.contains(pool);
        let services: Vec<_> =
            config.services.iter().filter(uses).map(|service| service.name.clone()).collect();
        if !services.is_empty() {
            return Err(EditError::PoolInUse { pool: pool.clone(), services });
        }
    }
    for pool in touched_pools(config, touched) {
        if let Some(monitor) = &pool.monitor {
            let names = || config.monitors.iter().map(|monitor| monitor.name.as_str());
            if !names().any(|name| name == monitor) {
                return Err(EditError::not_found(ObjectKind::Monitor, monitor, names()));
            }
        }
        let (backends, threshold) = (pool.backends.len(), pool.threshold);
        if backends == 0 {
            return Err(EditError::NoBackendLeft { pool: pool.name.clone() });
        }
        if threshold > backends {
            let pool = pool.name.clone();
            return Err(EditError::UnderThreshold { pool, backends, threshold });
        }
    }
    if touched.services.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<_> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    for service in touched_services(config, touched) {
        if let Some(pool) = service.pools.iter().find(|pool| !names.contains(pool.as_str())) {
            return Err(EditError::not_found(ObjectKind::Pool, pool, names.into_iter()));
        }
    }
    Ok(())
}

fn touched_pools<'c>(config: &'c Config, touched: &'c Touched) -> impl Iterator<Item = &'c Pool> {
    config.pools.iter().filter(|pool| touched.pools.contains(&pool.name))
}

fn touched_services<'c>(
    config: &'c Config,
    touched: &'c Touched,
) -> impl Iterator<Item = &'c Service> {
    config.services.iter().filter(|service| touched.services.contains(&service.name))
}

/// The part of a configuration that the rules need to judge what was touched.
fn part_of(config: &Config, touched: &Touched) -> Config {
    let pools: Vec<&Pool> = touched_pools(config, touched).collect();
    let services: Vec<&Service> = touched_services(config, touched).collect();
    let vips: BTreeSet<_> =
        services.iter().flat_map(|service| &service.vips).map(|vip| vip.address).collect();
    let named: BTreeSet<_> =
        services.iter().flat_map(|service| &service.pools).map(String::as_str).collect();
    let mut addresses = vips.clone();
    addresses.extend(pools.iter().flat_map(|pool| &pool.backends).map(|backend| backend.address));
    let monitors: BTreeSet<_> = pools.iter().filter_map(|pool| pool.monitor.as_ref()).collect();

    let pools: Vec<_> = config
        .pools
        .iter()
        .filter_map(|pool| {
            if touched.pools.contains(&pool.name) {
                return Some(pool.clone());
            }
            stand_in_of_pool(pool, &vips, named.contains(pool.name.as_str()))
        })
        .collect();
    // What a stand-in of a service names is there: it stands for the VIPs alone.
    let some_pool = pools.first().map(|pool| pool.name.clone());
    let services = config.services.iter().filter_map(|service| {
        if touched.services.contains(&service.name) {
            return Some(service.clone());
        }
        stand_in_of_service(service, &addresses, some_pool.as_ref()?)
    });
    Config {
        appliance: config.appliance.clone(),
        cpu: config.cpu.clone(),
        memory: config.memory.clone(),
        conntrack: config.conntrack.clone(),
        metrics: config.metrics.clone(),
        admin: config.admin.clone(),
        ports: config.ports.clone(),
        monitors: {
            let is_named = |name| monitors.contains(name);
            config.monitors.iter().filter(|monitor| is_named(&monitor.name)).cloned().collect()
        },
        services: services.collect(),
        pools,
    }
}

/// A pool with those of its backends that have one of the addresses. If it is named, it has at least
/// one backend.
fn stand_in_of_pool(pool: &Pool, addresses: &BTreeSet<IpAddr>, is_named: bool) -> Option<Pool> {
    let has_address = |place: &usize| addresses.contains(&pool.backends[*place].address);
    let mut places: Vec<_> = if addresses.is_empty() {
        Vec::new()
    } else {
        (0..pool.backends.len()).filter(has_address).collect()
    };
    if places.is_empty() {
        if !is_named {
            return None;
        }
        places.extend((!pool.backends.is_empty()).then_some(0));
    }
    let mut backends: Vec<_> = places.iter().map(|place| pool.backends[*place].clone()).collect();
    for backend in &mut backends {
        backend.weight = default::WEIGHT;
    }
    Some(Pool::new(pool.name.clone(), backends))
}

/// A service with those of its VIPs that have one of the addresses, if it has one.
fn stand_in_of_service(
    service: &Service,
    addresses: &BTreeSet<IpAddr>,
    pool: &str,
) -> Option<Service> {
    let has_address = |vip: &&Vip| addresses.contains(&vip.address);
    if !service.vips.iter().any(|vip| has_address(&vip)) {
        return None;
    }
    Some(Service {
        vips: service.vips.iter().filter(has_address).cloned().collect(),
        pools: vec![pool.to_owned()],
        ..service.clone()
    })
}

/// A mistake of the small text, or a warning, told without its lines: they are no one's.
fn sentence(place: &Place, text: &str, outline: &Table) -> String {
    let (object, key) = object_of(&place.key, outline);
    // Some texts name the key themselves.
    if !key.is_empty() && !object.is_empty() && text.starts_with(key) {
        return format!("{object}: {}", without_places(text, outline));
    }
    let value = place.value.as_ref().map(|value| format!(" = {value}"));
    let subject = match (object.is_empty(), key) {
        (_, "") => object,
        (true, key) => format!("{key}{}", value.unwrap_or_default()),
        (false, key) => format!("{object}: {key}{}", value.unwrap_or_default()),
    };
    let separator = if subject.is_empty() { "" } else { " " };
    format!("{subject}{separator}{}", without_places(text, outline))
}

/// The objects and the key of a path such as `pool[0].backend[1].weight`: what people call the
/// objects, and the rest.
fn object_of<'p>(path: &'p str, outline: &Table) -> (String, &'p str) {
    let mut labels = Vec::new();
    let mut table = outline;
    let mut rest = path;
    while !rest.is_empty() {
        let (segment, after) = rest.split_once('.').unwrap_or((rest, ""));
        let (key, place) = match segment.split_once('[') {
            Some((key, place)) => (key, place.trim_end_matches(']').parse::<usize>().ok()),
            None => (segment, None),
        };
        let inside = match (table.child(key), place) {
            (Some(Child::List { tables, .. }), Some(place)) => tables.get(place),
            (Some(Child::Section(section)), None) => Some(section),
            _ => None,
        };
        let Some(inside) = inside else { break };
        labels.push(inside.label.as_str());
        (table, rest) = (inside, after);
    }
    (labels.join(", "), rest)
}

/// A text with objects instead of paths, and without line numbers.
fn without_places(text: &str, outline: &Table) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let is_start = !out.ends_with(|c: char| c.is_alphanumeric() || "._-`".contains(c));
        if let Some(after) = after_line(rest) {
            rest = after;
        } else if is_start
            && ["port[", "monitor[", "pool[", "service["].iter().any(|kind| rest.starts_with(kind))
        {
            let is_path = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
            let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
            let (path, after) = rest.split_at(end);
            out.push_str(&object_of(path, outline).0);
            rest = after;
        } else {
            out.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    out
}

/// What follows ` (line 7)` or `, line 7`, if the text begins with that.
fn after_line(text: &str) -> Option<&str> {
    let (before, end) = match text.strip_prefix(" (line ") {
        Some(before) => (before, ")"),
        None => (text.strip_prefix(", line ")?, ""),
    };
    let after = before.trim_start_matches(|c: char| c.is_ascii_digit());
    (after.len() < before.len()).then_some(())?;
    after.strip_prefix(end)
}
