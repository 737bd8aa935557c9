//! `[appliance]`, `[cpu]`, `[memory]`, `[conntrack]` and `[admin]`: the daemon itself.

use std::path::PathBuf;

use super::super::key;
use super::super::kind::{boolean, flow_hash_key, integer, name, text, word};
use super::super::model::{Admin, Appliance, Conntrack, Cpu, Idle, Memory};
use super::super::section::{Section, Spec, unique};

pub(in super::super) const APPLIANCE: Spec = Spec {
    path: "appliance",
    keys: &["name", "site", "region", "zone", "flow_hash_key"],
    secrets: &["flow_hash_key"],
    refused: &[],
};

pub(in super::super) const CPU: Spec =
    Spec { path: "cpu", keys: &["management", "workers", "idle"], secrets: &[], refused: &[] };

pub(in super::super) const MEMORY: Spec =
    Spec { path: "memory", keys: &["hugepages", "packet_memory"], secrets: &[], refused: &[] };

pub(in super::super) const CONNTRACK: Spec =
    Spec { path: "conntrack", keys: &["ipv4_flows", "ipv6_flows"], secrets: &[], refused: &[] };

pub(in super::super) const ADMIN: Spec =
    Spec { path: "admin", keys: &["socket"], secrets: &[], refused: key::ADMIN };

/// Cores are numbered by the kernel; DPDK knows at most this many.
const MAX_CORE: u64 = 1_535;
/// As many queues as a port of a large NIC has.
const MAX_WORKERS: usize = 128;
/// A path longer than this does not fit into `sun_path` (unix(7)).
const SOCKET_PATH_CAP: usize = 107;

/// `[appliance]`
pub(super) fn appliance(section: &Section<'_>) -> Option<Appliance> {
    let own_name = section.required("name", "name = \"lb1\"", name);
    let site = section.optional("site", name);
    let region = section.optional("region", name);
    let zone = section.optional("zone", name);
    let flow_hash_key = section.required("flow_hash_key", &key_example(), flow_hash_key);

    let flow_hash_key = flow_hash_key?;
    let bytes = flow_hash_key.value.0;
    if bytes.iter().all(|byte| *byte == bytes[0]) {
        section.report().warn(
            &flow_hash_key.place,
            format!(
                "is easy to guess, and who knows it can aim flows at one backend; make one with: {}",
                super::super::kind::MAKE_KEY
            ),
        );
    }
    Some(Appliance {
        name: own_name?.value,
        site: site.map(super::value),
        region: region.map(super::value),
        zone: zone.map(super::value),
        flow_hash_key: flow_hash_key.value,
    })
}

fn key_example() -> String {
    format!("32 hex digits; make them with: {}", super::super::kind::MAKE_KEY)
}

/// `[cpu]`. Whether the cores exist is known where the daemon starts.
pub(super) fn cpu(section: &Section<'_>) -> Option<Cpu> {
    let report = section.report();
    let management = section.or("management", 0, integer(0..=MAX_CORE));
    let workers = section.list("workers", integer::<usize>(0..=MAX_CORE));
    let words = &[("spin", Idle::Spin), ("yield", Idle::Yield)];
    let idle = section.or("idle", Idle::Spin, word(words, &["interrupt"]));

    let workers = workers.map(|written| {
        unique(
            report,
            &written,
            |core| *core,
            "has a worker already; give each worker its own core",
        );
        let place = section.place_of("workers");
        if section.has("workers") && written.is_empty() {
            report.mistake(&place, "is empty; name at least one core, as in [1]");
        }
        if written.len() > MAX_WORKERS {
            report.mistake(&place, format!("has more than {MAX_WORKERS} cores; remove some"));
        }
        let cores: Vec<_> = written.into_iter().map(super::value).collect();
        if section.has("workers") { cores } else { vec![1] }
    })?;
    let (management, idle) = (management?, idle?.value);

    if workers.contains(&management.value) {
        if idle == Idle::Spin {
            report.mistake(
                &management.place,
                format!(
                    "core {} is also in `workers`, and a worker that spins leaves it no time; choose \
                     another core, or set idle = \"yield\"",
                    management.value
                ),
            );
        } else {
            report.warn(
                &management.place,
                format!(
                    "core {} is also a worker's; under load, probes and the admin socket are slow",
                    management.value
                ),
            );
        }
    }
    Some(Cpu { management: management.value, workers, idle })
}

/// `[memory]`
pub(super) fn memory(section: &Section<'_>) -> Option<Memory> {
    let hugepages = section.or("hugepages", true, boolean);
    let packet_memory = section.or("packet_memory", 256, integer(64..=65_536));
    Some(Memory { hugepages: hugepages?.value, packet_memory: packet_memory?.value })
}

/// `[conntrack]`
pub(super) fn conntrack(section: &Section<'_>) -> Option<Conntrack> {
    let flows = || integer(1_024..=100_000_000);
    let ipv4_flows = section.or("ipv4_flows", 1_000_000, flows());
    let ipv6_flows = section.or("ipv6_flows", 250_000, flows());
    Some(Conntrack { ipv4_flows: ipv4_flows?.value, ipv6_flows: ipv6_flows?.value })
}

/// `[admin]`
pub(super) fn admin(section: &Section<'_>) -> Option<Admin> {
    let default = "/run/lodestone/admin.sock".to_owned();
    let socket = section.or("socket", default, |value| {
        let path = text(value)?;
        if !path.starts_with('/') || path.ends_with('/') {
            return Err("is not the absolute path of a socket; begin it with /".to_owned());
        }
        if path.len() > SOCKET_PATH_CAP {
            return Err(format!("is longer than {SOCKET_PATH_CAP} bytes; choose a shorter path"));
        }
        Ok(path)
    });
    Some(Admin { socket: PathBuf::from(socket?.value) })
}
