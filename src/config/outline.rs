//! A configuration as tables of keys and values: what the writer writes and what a diff compares.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::default;
use super::kind::show_duration;
use super::model::{
    AdminState, Affinity, Backend, BackendKey, Config, Idle, Monitor, MonitorKind, Pool, Port,
    PortRange, Protocol, Service, Steering, Vip,
};

/// A value as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Value>),
}

impl fmt::Display for Value {
    /// As people read it: without quotes and brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(flag) => flag.fmt(f),
            Self::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    f.write_str(if index > 0 { ", " } else { "" })?;
                    value.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

/// A key of a table. A key that can have one value only, such as `encapsulation`, has no entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: &'static str,
    /// `None` if there is none, and no default either.
    pub(super) value: Option<Value>,
    /// What it means if the key is absent.
    pub(super) default: Option<Value>,
    /// No message and no diff shows the value.
    pub(super) is_secret: bool,
}

/// A table of the file, and the tables inside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Tells it from the others of its list: unique there, and the same as long as it is the same
    /// object. Empty for what is there once.
    pub(super) identity: String,
    /// What it has in common with the table that it replaces, if the identity changes with a value.
    pub(super) kinship: Option<String>,
    /// What people call it; empty for the whole.
    pub(super) label: String,
    pub(super) entries: Vec<Entry>,
    pub(super) children: Vec<(&'static str, Child)>,
}

/// What a table has inside.
#[derive(Clone, Debug)]
pub(super) enum Child {
    /// `[key]`
    Section(Table),
    /// `[[key]]`
    List {
        tables: Vec<Table>,
        /// Whether their order means something.
        is_ordered: bool,
    },
}

impl Table {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn child(&self, key: &str) -> Option<&Child> {
        self.children.iter().find(|(name, _)| *name == key).map(|(_, child)| child)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "so that `Option::map` takes it by name")]
fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

fn integer(value: impl TryInto<i64>) -> Value {
    // Every number of a configuration is far below this.
    Value::Integer(value.try_into().unwrap_or(i64::MAX))
}

fn list<T>(values: &[T], value: impl Fn(&T) -> Value) -> Value {
    Value::List(values.iter().map(value).collect())
}

/// A part of a millisecond cannot be written: no reader takes the text for it.
fn duration(value: Duration) -> Value {
    if value.subsec_nanos().is_multiple_of(1_000_000) {
        text(show_duration(value))
    } else {
        text(format!("{value:?}"))
    }
}

fn required(key: &'static str, value: Value) -> Entry {
    Entry { key, value: Some(value), default: None, is_secret: false }
}

fn defaulted(key: &'static str, value: Value, default: Value) -> Entry {
    Entry { key, value: Some(value), default: Some(default), is_secret: false }
}

fn optional(key: &'static str, value: Option<Value>) -> Entry {
    Entry { key, value, default: None, is_secret: false }
}

fn admin_state(state: AdminState) -> Entry {
    defaulted("admin_state", text(state), text(AdminState::default()))
}

/// The whole configuration.
pub(super) fn of(config: &Config) -> Table {
    let mut children = process(config);
    children.push(("port", items(&config.ports, true, port)));
    children.push(("monitor", items(&config.monitors, false, monitor)));
    children.push(("pool", items(&config.pools, false, pool)));
    children.push(("service", items(&config.services, false, service)));
    Table { children, ..Table::default() }
}

fn items<T>(items: &[T], is_ordered: bool, table: impl Fn(&T) -> Table) -> Child {
    Child::List { tables: items.iter().map(table).collect(), is_ordered }
}

/// The sections of the daemon itself.
fn process(config: &Config) -> Vec<(&'static str, Child)> {
    let section = |label: &'static str, entries| {
        (label, Child::Section(Table { label: label.to_owned(), entries, ..Table::default() }))
    };
    let Config { appliance, cpu, memory, conntrack, metrics, admin, .. } = config;
    let place = |place: &Option<String>| place.as_ref().map(text);
    let idle = |idle| match idle {
        Idle::Spin => text("spin"),
        Idle::Yield => text("yield"),
    };
    let path = |path: &std::path::Path| text(path.display());
    vec![
        section(
            "appliance",
            vec![
                required("name", text(&appliance.name)),
                optional("site", place(&appliance.site)),
                optional("region", place(&appliance.region)),
                optional("zone", place(&appliance.zone)),
                Entry {
                    is_secret: true,
                    ..required("flow_hash_key", flow_hash_key(appliance.flow_hash_key.0))
                },
            ],
        ),
        section(
            "cpu",
            vec![
                defaulted("management", integer(cpu.management), integer(default::MANAGEMENT_CORE)),
                defaulted(
                    "workers",
                    list(&cpu.workers, |core| integer(*core)),
                    list(&default::WORKER_CORES, |core| integer(*core)),
                ),
                defaulted("idle", idle(cpu.idle), idle(Idle::default())),
            ],
        ),
        section(
            "memory",
            vec![
                defaulted(
                    "hugepages",
                    Value::Boolean(memory.hugepages),
                    Value::Boolean(default::HUGEPAGES),
                ),
                defaulted(
                    "packet_memory",
                    integer(memory.packet_memory),
                    integer(default::PACKET_MEMORY),
                ),
            ],
        ),
        section(
            "conntrack",
            vec![
                defaulted(
                    "ipv4_flows",
                    integer(conntrack.ipv4_flows),
                    integer(default::IPV4_FLOWS),
                ),
                defaulted(
                    "ipv6_flows",
                    integer(conntrack.ipv6_flows),
                    integer(default::IPV6_FLOWS),
                ),
            ],
        ),
        section(
            "metrics",
            vec![defaulted(
                "listen",
                metrics.listen.map_or_else(|| text("off"), text),
                text("off"),
            )],
        ),
        section(
            "admin",
            vec![
                defaulted("socket", path(&admin.socket), text(default::ADMIN_SOCKET)),
                optional("group", place(&admin.group)),
                optional("read_only_socket", admin.read_only_socket.as_deref().map(path)),
                optional("read_only_group", place(&admin.read_only_group)),
            ],
        ),
    ]
}

fn flow_hash_key(bytes: [u8; 16]) -> Value {
    Value::Text(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn named(kind: &str, name: &str, entries: Vec<Entry>) -> Table {
    Table {
        identity: name.to_owned(),
        label: format!("{kind} {name}"),
        entries,
        ..Table::default()
    }
}

fn port(port: &Port) -> Table {
    let entries = vec![
        required("name", text(&port.name)),
        required("device", text(&port.device)),
        required("addresses", list(&port.addresses, |address| text(address))),
        optional("gateway_ipv4", port.gateway_ipv4.map(text)),
        optional("gateway_ipv6", port.gateway_ipv6.map(text)),
        defaulted("mtu", integer(port.mtu), integer(default::MTU)),
        optional("vlan", port.vlan.map(integer)),
        optional("mac", port.mac.map(text)),
    ];
    named("port", &port.name, entries)
}

fn monitor(monitor: &Monitor) -> Table {
    let mut entries = vec![
        required("name", text(&monitor.name)),
        required("type", text(if monitor.kind == MonitorKind::Tcp { "tcp" } else { "http" })),
        required("port", integer(monitor.port)),
        defaulted("interval", duration(monitor.interval), duration(default::INTERVAL)),
        defaulted(
            "timeout",
            duration(monitor.timeout),
            duration(default::timeout(monitor.interval)),
        ),
        defaulted("rise", integer(monitor.rise), integer(default::RISE)),
        defaulted("fall", integer(monitor.fall), integer(default::FALL)),
    ];
    match &monitor.kind {
        MonitorKind::Tcp => {
            entries
                .extend(["http_path", "http_host", "http_status"].map(|key| optional(key, None)));
        }
        MonitorKind::Http { path, host, expected_status } => entries.extend([
            defaulted("http_path", text(path), text(default::HTTP_PATH)),
            optional("http_host", host.as_ref().map(text)),
            defaulted(
                "http_status",
                list(expected_status, |code| integer(*code)),
                list(&[default::HTTP_STATUS], |code| integer(*code)),
            ),
        ]),
    }
    named("monitor", &monitor.name, entries)
}

fn pool(pool: &Pool) -> Table {
    let entries = vec![
        required("name", text(&pool.name)),
        admin_state(pool.admin_state),
        optional("region", pool.region.as_ref().map(text)),
        optional("zone", pool.zone.as_ref().map(text)),
        optional("monitor", pool.monitor.as_ref().map(text)),
        defaulted("threshold", integer(pool.threshold), integer(default::THRESHOLD)),
        defaulted("table_size", integer(pool.table_size), integer(default::TABLE_SIZE)),
    ];
    let backends = items(&pool.backends, false, |of| backend(pool, of));
    Table { children: vec![("backend", backends)], ..named("pool", &pool.name, entries) }
}

fn backend(pool: &Pool, backend: &Backend) -> Table {
    let BackendKey { virtual_network, address, .. } = BackendKey::new(pool, backend);
    let identity = match virtual_network {
        Some(network) => format!("{network}@{address}"),
        None => address.to_string(),
    };
    let entries = vec![
        required("name", text(&backend.name)),
        required("address", text(backend.address)),
        optional("virtual_network", backend.virtual_network.as_ref().map(text)),
        defaulted("weight", integer(backend.weight), integer(default::WEIGHT)),
        admin_state(backend.admin_state),
        optional("probe_address", backend.probe_address.map(text)),
    ];
    // A server that moved to another address is another backend, but its name stays in the file.
    Table {
        identity,
        kinship: Some(backend.name.clone()),
        ..named("backend", &backend.name, entries)
    }
}

fn service(service: &Service) -> Table {
    let steering = |steering| match steering {
        Steering::Failover => text("failover"),
    };
    let affinity = |affinity| match affinity {
        Affinity::ClientIpPortProto => text("client-ip-port-proto"),
    };
    let entries = vec![
        required("name", text(&service.name)),
        admin_state(service.admin_state),
        defaulted("steering", steering(service.steering), steering(Steering::default())),
        required("pools", list(&service.pools, |pool| text(pool))),
        defaulted("affinity", affinity(service.affinity), affinity(Affinity::default())),
        defaulted("idle_timeout", duration(service.idle_timeout), duration(default::IDLE_TIMEOUT)),
    ];
    let vips = items(&service.vips, false, vip);
    Table { children: vec![("vip", vips)], ..named("service", &service.name, entries) }
}

fn vip(vip: &Vip) -> Table {
    let protocol = match vip.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    let entries = vec![
        required("address", text(vip.address)),
        required("protocol", text(protocol)),
        required("ports", ports(&vip.ports)),
        defaulted("arp", Value::Boolean(vip.arp), Value::Boolean(default::ARP)),
    ];
    let shown = ports(&vip.ports).to_string().replace(", ", ",");
    let address = match vip.address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    Table {
        identity: format!("{protocol}:{}:{shown}", vip.address),
        kinship: Some(format!("{protocol}:{}", vip.address)),
        label: format!("vip {protocol} {address}:{shown}"),
        entries,
        ..Table::default()
    }
}

/// Ports in the shortest way to write them.
fn ports(ranges: &[PortRange]) -> Value {
    let range = |range: &PortRange| match *range {
        PortRange { first, last } if first == last => integer(first),
        PortRange { first, last } => text(format!("{first}-{last}")),
    };
    match ranges {
        [PortRange::ANY] => text("any"),
        [one] => range(one),
        many => list(many, range),
    }
}
