//! `[[pool]]` and `[[pool.backend]]`

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::default;
use super::super::error::Place;
use super::super::key;
use super::super::kind::{address, integer, name, not_reserved_in, word};
use super::super::model::{AdminState, Backend, Pool};
use super::super::section::{Field, Report, Section, Spec, unique};
use super::{monitor, port, service};

pub(in super::super) const POOL: Spec = Spec {
    path: "pool",
    keys: &[
        "name",
        "admin_state",
        "region",
        "zone",
        "monitor",
        "threshold",
        "table_size",
        "backend",
    ],
    secrets: &[],
    refused: key::POOL,
};

pub(in super::super) const BACKEND: Spec = Spec {
    path: "pool.backend",
    keys: &["name", "address", "virtual_network", "weight", "admin_state", "probe_address"],
    secrets: &[],
    refused: key::BACKEND,
};

/// 32 MiB a table; also a prime.
const MAX_TABLE_SIZE: u32 = 16_777_213;
/// With fewer slots for a backend than this, shares are more than about 1 % off.
const SLOTS_A_BACKEND: u64 = 100;

/// A pool as written.
pub(super) struct Written {
    place: Place,
    pub(super) name: Option<Field<String>>,
    admin_state: Option<Field<AdminState>>,
    region: Option<Field<String>>,
    zone: Option<Field<String>>,
    monitor: Option<Field<String>>,
    threshold: Option<Field<usize>>,
    table_size: Option<Field<u32>>,
    backends: Vec<WrittenBackend>,
}

/// A backend as written.
struct WrittenBackend {
    name: Option<Field<String>>,
    address: Option<Field<IpAddr>>,
    virtual_network: Option<Field<String>>,
    /// The virtual network is written, but wrong.
    identity_is_open: bool,
    weight: Option<Field<u32>>,
    admin_state: Option<Field<AdminState>>,
    probe_address: Option<Field<IpAddr>>,
}

impl Written {
    pub(super) fn build(self) -> Option<Pool> {
        Some(Pool {
            name: self.name?.value,
            admin_state: self.admin_state?.value,
            region: self.region.map(super::value),
            zone: self.zone.map(super::value),
            monitor: self.monitor.map(super::value),
            threshold: self.threshold?.value,
            table_size: self.table_size?.value,
            backends: self
                .backends
                .into_iter()
                .map(WrittenBackend::build)
                .collect::<Option<_>>()?,
        })
    }
}

impl WrittenBackend {
    fn build(self) -> Option<Backend> {
        Some(Backend {
            name: self.name?.value,
            address: self.address?.value,
            virtual_network: self.virtual_network.map(super::value),
            weight: self.weight?.value,
            admin_state: self.admin_state?.value,
            probe_address: self.probe_address.map(super::value),
        })
    }
}

/// Reads every `[[pool]]`.
pub(super) fn read(top: &Section<'_>) -> Vec<Written> {
    let read = |section: &Section<'_>| Written {
        place: section.place().clone(),
        name: section.required("name", "name = \"web\"", name),
        admin_state: admin_state(section),
        region: section.optional("region", name),
        zone: section.optional("zone", name),
        monitor: section.optional("monitor", name),
        threshold: section.or(
            "threshold",
            default::THRESHOLD,
            integer(1..=super::MAX_ITEMS as u64),
        ),
        table_size: section.or(
            "table_size",
            default::TABLE_SIZE,
            integer(2..=u64::from(MAX_TABLE_SIZE)),
        ),
        backends: section.sections("backend", &BACKEND).iter().map(read_backend).collect(),
    };
    top.sections("pool", &POOL).iter().map(read).collect()
}

/// `admin_state` of a backend, a pool or a service.
pub(super) fn admin_state(section: &Section<'_>) -> Option<Field<AdminState>> {
    section.or("admin_state", AdminState::default(), word(&AdminState::WORDS, &[]))
}

fn read_backend(section: &Section<'_>) -> WrittenBackend {
    let virtual_network = section.optional("virtual_network", name);
    WrittenBackend {
        name: section.required("name", "name = \"b1\"", name),
        // L4-38: public and private addresses (RFC 1918) are the same to us.
        address: section.required("address", "address = \"192.0.2.11\"", address),
        identity_is_open: section.has("virtual_network") && virtual_network.is_none(),
        virtual_network,
        weight: section.or("weight", default::WEIGHT, integer(0..=1_000_000)),
        admin_state: admin_state(section),
        probe_address: section.optional("probe_address", address),
    }
}

/// The rules inside pools, between pools, and with what they refer to.
pub(super) fn check(
    top: &Section<'_>,
    pools: &[Written],
    monitors: &[monitor::Written],
    ports: &[port::Written],
    services: &[service::Written],
) {
    let report = top.report();
    super::at_most(top, "pool", pools.len(), super::MAX_ITEMS);
    let backends: usize = pools.iter().map(|pool| pool.backends.len()).sum();
    if backends > super::MAX_ITEMS {
        let most = super::MAX_ITEMS;
        let place = Place { value: None, ..top.place_of("pool") };
        report.mistake(&place, format!("has {backends} backends in all; at most {most} can be"));
    }
    super::unique_names(report, pools.iter().map(|pool| &pool.name), "pool");

    let monitor_names = monitors.iter().filter_map(|monitor| monitor.name.as_ref());
    let monitor_names: BTreeSet<_> = monitor_names.map(|name| name.value.as_str()).collect();
    for pool in pools {
        if let Some(monitor) = &pool.monitor {
            super::resolve(report, monitor, &monitor_names, "monitor");
        }
        check_counts(report, pool);
        warn_of_admin_states(report, pool);
        let names = pool.backends.iter().map(|backend| &backend.name);
        super::unique_names(report, names, "backend of the pool");
        let identities: Vec<_> = pool.backends.iter().filter_map(identity).collect();
        unique(
            report,
            &identities,
            Clone::clone,
            "is one backend; name it once, or give it a virtual_network of its own",
        );
        for backend in pool.backends.iter().filter_map(|backend| backend.address.as_ref()) {
            check_address(report, backend, ports, services);
        }
    }
}

/// Virtual network and address, at the place of the address.
fn identity(backend: &WrittenBackend) -> Option<Field<(Option<&str>, IpAddr)>> {
    let address = backend.address.as_ref().filter(|_| !backend.identity_is_open)?;
    let network = backend.virtual_network.as_ref().map(|network| network.value.as_str());
    Some(Field { value: (network, address.value), place: address.place.clone() })
}

/// What depends on the number of backends and on their weights.
fn check_counts(report: &Report<'_>, pool: &Written) {
    let count = pool.backends.len();
    if count == 0 {
        report.mistake(&pool.place, "has no backend; add a [[pool.backend]]");
        return;
    }
    let weights = pool.backends.iter().map(|backend| backend.weight.as_ref());
    if weights.into_iter().all(|weight| weight.is_some_and(|weight| weight.value == 0)) {
        report.mistake(
            &pool.place,
            "gives every backend weight 0, so that none takes a flow; give one a weight of 1 or more",
        );
    }
    if let Some(threshold) = pool.threshold.as_ref().filter(|field| field.value > count) {
        let mend = format!("is more than the pool has backends; write 1 to {count}");
        report.mistake(&threshold.place, mend);
    }
    let Some(size) = &pool.table_size else { return };
    if !is_prime(size.value) {
        let prime = (size.value..=MAX_TABLE_SIZE).find(|number| is_prime(*number));
        let prime = prime.unwrap_or(MAX_TABLE_SIZE);
        report.mistake(&size.place, format!("is not a prime; write one, such as {prime}"));
    } else if u64::from(size.value) < count as u64 {
        let mend = format!("is less than the pool's {count} backends; write a larger prime");
        report.mistake(&size.place, mend);
    } else if u64::from(size.value) < count as u64 * SLOTS_A_BACKEND {
        report.warn(
            &size.place,
            format!(
                "is less than {SLOTS_A_BACKEND} slots for each of {count} backends, so that shares \
                 are uneven; write a larger prime"
            ),
        );
    }
}

/// A pool that takes no new flows because the file says so works, but that may have been forgotten.
fn warn_of_admin_states(report: &Report<'_>, pool: &Written) {
    let Some(state) = &pool.admin_state else { return };
    if state.value > AdminState::Enabled {
        let message = match state.value {
            AdminState::Disabled => "so that its backends have no flows",
            _ => "so that its backends take no new flows",
        };
        report.warn(
            &state.place,
            format!("the pool is {}, {message}; enable it, or remove it", state.value),
        );
        return;
    }
    let takes_flows = |backend: &&WrittenBackend| {
        let is_enabled = |state: &Field<AdminState>| state.value == AdminState::Enabled;
        backend.admin_state.as_ref().is_none_or(is_enabled)
            && backend.weight.as_ref().is_none_or(|weight| weight.value > 0)
    };
    let enabled = pool.backends.iter().filter(takes_flows).count();
    let Some(threshold) = &pool.threshold else { return };
    if enabled < threshold.value && threshold.value <= pool.backends.len() {
        report.warn(
            &pool.place,
            format!(
                "has fewer backends that are enabled with a weight above 0 ({enabled}) than its \
                 threshold ({}), so that others are preferred; enable one, or lower the threshold",
                threshold.value
            ),
        );
    }
}

/// Whether packets can go to a backend.
fn check_address(
    report: &Report<'_>,
    address: &Field<IpAddr>,
    ports: &[port::Written],
    services: &[service::Written],
) {
    let Field { value: ip, place } = address;
    if let Some(owner) = port::owner_of(ports, *ip) {
        let mend = format!("is the appliance's own address ({}); write the backend's", owner.key);
        report.mistake(place, mend);
    } else if let Some(vip) = service::vip_at(services, *ip) {
        let mend = format!(
            "is a VIP ({}); write the backend's own address: the VIP belongs on its loopback",
            vip.key
        );
        report.mistake(place, mend);
    } else if let Some(mend) = port::unreachable(ports, *ip) {
        report.mistake(place, mend);
    } else if let Some(Err(mend)) = port::on_link(ports, *ip).map(|net| not_reserved_in(*ip, net)) {
        report.mistake(place, mend);
    }
}

/// Trial division: at most 2048 odd divisors for a table size.
fn is_prime(number: u32) -> bool {
    let odd = (3..).step_by(2).take_while(|divisor| u64::from(*divisor).pow(2) <= number.into());
    number == 2
        || number > 2
            && number % 2 == 1
            && odd.into_iter().all(|divisor: u32| !number.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes() {
        let primes: Vec<_> = (0..32).filter(|number| is_prime(*number)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]);
        assert!(is_prime(default::TABLE_SIZE) && is_prime(MAX_TABLE_SIZE));
        assert!(!is_prime(65_536) && !is_prime(4_093 * 4_093));
    }
}
