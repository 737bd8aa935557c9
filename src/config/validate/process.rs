//! `[appliance]`, `[cpu]`, `[memory]`, `[conntrack]`, `[metrics]` and `[admin]`: the daemon itself.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use toml::de::DeValue;

use super::super::default;
use super::super::key;
use super::super::kind::{boolean, flow_hash_key, integer, name, text, word};
use super::super::model::{Admin, Appliance, Conntrack, Cpu, Idle, Memory, Metrics};
use super::super::section::{Field, Section, Spec, unique};

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

pub(in super::super) const METRICS: Spec =
    Spec { path: "metrics", keys: &["listen"], secrets: &[], refused: key::METRICS };

pub(in super::super) const ADMIN: Spec = Spec {
    path: "admin",
    keys: &["socket", "group", "read_only_socket", "read_only_group"],
    secrets: &[],
    refused: key::ADMIN,
};

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
    let management = section.or("management", default::MANAGEMENT_CORE, integer(0..=MAX_CORE));
    let workers = section.list("workers", integer::<usize>(0..=MAX_CORE));
    let words = &[("spin", Idle::Spin), ("yield", Idle::Yield)];
    let idle = section.or("idle", Idle::default(), word(words, &["interrupt"]));

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
        if section.has("workers") { cores } else { default::WORKER_CORES.to_vec() }
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
    let hugepages = section.or("hugepages", default::HUGEPAGES, boolean);
    let packet_memory = section.or("packet_memory", default::PACKET_MEMORY, integer(64..=65_536));
    Some(Memory { hugepages: hugepages?.value, packet_memory: packet_memory?.value })
}

/// `[conntrack]`
pub(super) fn conntrack(section: &Section<'_>) -> Option<Conntrack> {
    let flows = || integer(1_024..=100_000_000);
    let ipv4_flows = section.or("ipv4_flows", default::IPV4_FLOWS, flows());
    let ipv6_flows = section.or("ipv6_flows", default::IPV6_FLOWS, flows());
    Some(Conntrack { ipv4_flows: ipv4_flows?.value, ipv6_flows: ipv6_flows?.value })
}

/// `[metrics]`
pub(super) fn metrics(section: &Section<'_>) -> Option<Metrics> {
    let listen = section.or("listen", None, listen)?;
    if let Some(address) = listen.value.filter(|address| !address.ip().is_loopback()) {
        section.report().warn(
            &listen.place,
            format!(
                "everyone who reaches {address} can read the metrics; write a loopback address, as \
                 in \"127.0.0.1:{}\", or keep others out with a firewall",
                address.port()
            ),
        );
    }
    Some(Metrics { listen: listen.value })
}

/// `"off"`, or the address and port of a server.
fn listen(value: &DeValue<'_>) -> Result<Option<SocketAddr>, String> {
    let written = text(value)?;
    if written == "off" {
        return Ok(None);
    }
    let address: SocketAddr = written.parse().map_err(|_| {
        "is neither \"off\" nor an address with its port; write one of the two, as in \
         \"127.0.0.1:9640\" or \"[::1]:9640\""
            .to_owned()
    })?;
    if address.port() == 0 {
        return Err("has port 0; write a port from 1 to 65535".to_owned());
    }
    let is_broadcast = matches!(address.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    if address.ip().is_multicast() || is_broadcast {
        return Err("is no address to listen at; write one of the kernel's own".to_owned());
    }
    if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
        return Err("has a scope; write the address without %".to_owned());
    }
    Ok(Some(address))
}

/// `[admin]`. Whether the groups exist is known where the daemon starts.
pub(super) fn admin(section: &Section<'_>) -> Option<Admin> {
    let report = section.report();
    let socket = section.or("socket", default::ADMIN_SOCKET.to_owned(), socket_path);
    let read_only_socket = section.optional("read_only_socket", socket_path);
    let group = section.optional("group", group);
    let read_only_group = section.optional("read_only_group", self::group);
    if let Some(Field { place, .. }) = &read_only_group
        && !section.has("read_only_socket")
    {
        report.mistake(place, "has no socket to be for; write read_only_socket too, or remove it");
    }
    // One spelling of a path: `//` and `/./` are `/`.
    let path = |field: Field<String>| PathBuf::from(field.value).components().collect::<PathBuf>();
    let place = read_only_socket.as_ref().map(|field| field.place.clone());
    let socket = path(socket?);
    let read_only_socket = read_only_socket.map(path);
    if let Some(place) = place
        && read_only_socket.as_ref() == Some(&socket)
    {
        report.mistake(&place, "is the path of `socket` too; choose another");
    }
    Some(Admin {
        socket,
        group: group.map(super::value),
        read_only_socket,
        read_only_group: read_only_group.map(super::value),
    })
}

/// The absolute path of a UNIX socket.
fn socket_path(value: &DeValue<'_>) -> Result<String, String> {
    let path = text(value)?;
    if !path.starts_with('/') || path.ends_with('/') {
        return Err("is not the absolute path of a socket; begin it with /".to_owned());
    }
    if path.len() > SOCKET_PATH_CAP {
        return Err(format!("is longer than {SOCKET_PATH_CAP} bytes; choose a shorter path"));
    }
    Ok(path)
}

/// The name of a group of the system.
fn group(value: &DeValue<'_>) -> Result<String, String> {
    let group = text(value)?;
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let starts_well = group.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && group.len() <= 32 && group.chars().all(rest) {
        return Ok(group);
    }
    Err("cannot be the name of a group; write one that `getent group` lists".to_owned())
}
