//! The rules of the configuration, one file for each section.
//!
//! Each section is first read as written: every field on its own, each with its place. Then come
//! the rules that tie fields and sections together, and last the model is made, if nothing was
//! wrong. A rule is silent about what another has found wrong already.

mod monitor;
mod pool;
mod port;
mod process;
mod service;

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::key;
use super::model::Config;
use super::section::{Field, Report, Section, Spec, unique};

/// Pools, services, VIPs and backends have 16-bit numbers, some of which wait before they are used
/// again.
pub(super) const MAX_ITEMS: usize = 50_000;

const TOP: Spec = Spec {
    path: "",
    keys: &[
        "appliance",
        "cpu",
        "memory",
        "conntrack",
        "metrics",
        "admin",
        "port",
        "monitor",
        "pool",
        "service",
    ],
    secrets: &[],
    refused: key::TOP,
};

/// Every section but the document itself.
pub(super) const SPECS: [&Spec; 12] = [
    &process::APPLIANCE,
    &process::CPU,
    &process::MEMORY,
    &process::CONNTRACK,
    &process::METRICS,
    &process::ADMIN,
    &port::PORT,
    &monitor::MONITOR,
    &pool::POOL,
    &pool::BACKEND,
    &service::SERVICE,
    &service::VIP,
];

/// The model of a document. `None` if it has mistakes; `report` has them. It may have mistakes also
/// if there is a model.
pub(super) fn config<'a>(report: &'a Report<'a>, table: &'a DeTable<'a>) -> Option<Config> {
    let empty = DeTable::new();
    let top = Section::document(report, table, &TOP);

    let appliance = process::appliance(&top.section("appliance", &process::APPLIANCE, &empty));
    let cpu = process::cpu(&top.section("cpu", &process::CPU, &empty));
    let memory = process::memory(&top.section("memory", &process::MEMORY, &empty));
    let conntrack = process::conntrack(&top.section("conntrack", &process::CONNTRACK, &empty));
    let metrics = process::metrics(&top.section("metrics", &process::METRICS, &empty));
    let admin = process::admin(&top.section("admin", &process::ADMIN, &empty));

    let ports = port::read(&top);
    let monitors = monitor::read(&top);
    let pools = pool::read(&top);
    let services = service::read(&top);

    port::check(&top, &ports, memory.as_ref());
    monitor::check(report, &monitors);
    pool::check(&top, &pools, &monitors, &ports, &services);
    service::check(&top, &services, &pools, &ports);

    Some(Config {
        appliance: appliance?,
        cpu: cpu?,
        memory: memory?,
        conntrack: conntrack?,
        metrics: metrics?,
        admin: admin?,
        ports: ports.into_iter().map(port::Written::build).collect::<Option<_>>()?,
        monitors: monitors.into_iter().map(monitor::Written::build).collect::<Option<_>>()?,
        pools: pools.into_iter().map(pool::Written::build).collect::<Option<_>>()?,
        services: services.into_iter().map(service::Written::build).collect::<Option<_>>()?,
    })
}

/// Notes names that are used twice.
fn unique_names<'f>(
    report: &Report<'_>,
    names: impl Iterator<Item = &'f Option<Field<String>>>,
    kind: &str,
) {
    let mend = format!("is the name of another {kind}; choose a name of its own");
    unique(report, names.flatten(), Clone::clone, &mend);
}

/// Notes a section that is there too often.
fn at_most(section: &Section<'_>, key: &str, count: usize, most: usize) {
    if count > most {
        let place = super::Place { value: None, ..section.place_of(key) };
        section.report().mistake(&place, format!("is there {count} times; at most {most} can be"));
    }
}

/// Notes a reference to a name that nothing has.
fn resolve(report: &Report<'_>, reference: &Field<String>, names: &BTreeSet<&str>, kind: &str) {
    if names.contains(reference.value.as_str()) {
        return;
    }
    let known = names.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    let mend = if known.is_empty() {
        format!("names a {kind} that does not exist; add a [[{kind}]] of that name")
    } else {
        format!("names a {kind} that does not exist; the names are {known}")
    };
    report.mistake(&reference.place, mend);
}

/// The value, without its place.
fn value<T>(field: Field<T>) -> T {
    field.value
}
