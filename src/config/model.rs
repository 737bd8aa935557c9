//! The validated configuration. What has this type is consistent: names resolve, ranges hold,
//! addresses have routes. Only `config::load`, `config::parse` and `Config::edit` make it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::default;
use crate::packet::{FlowHashKey, MacAddress};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Who this appliance is.
    pub appliance: Appliance,
    /// Which cores do what.
    pub cpu: Cpu,
    /// Packet memory.
    pub memory: Memory,
    /// The connection tables.
    pub conntrack: Conntrack,
    /// The metrics endpoint.
    pub metrics: Metrics,
    /// The admin sockets.
    pub admin: Admin,
    /// At least one.
    pub ports: Vec<Port>,
    /// Probe templates.
    pub monitors: Vec<Monitor>,
    /// Pools, in the file's order.
    pub pools: Vec<Pool>,
    /// Services, in the file's order.
    pub services: Vec<Service>,
}

/// `[appliance]`
#[derive(Clone, Debug, PartialEq)]
pub struct Appliance {
    /// Unique in its cluster.
    pub name: String,
    /// Where it stands.
    pub site: Option<String>,
    /// Where it stands.
    pub region: Option<String>,
    /// Where it stands.
    pub zone: Option<String>,
    /// The same on every appliance of a cluster.
    pub flow_hash_key: FlowHashKey,
}

/// `[cpu]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The management core.
    pub management: usize,
    /// One core a worker, without repeats; at least one.
    pub workers: Vec<usize>,
    /// What a worker does when there is nothing to do.
    pub idle: Idle,
}

/// What an idle worker does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Poll on.
    #[default]
    Spin,
    /// Yield the core after 64 empty polls.
    Yield,
}

/// `[memory]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Whether packet memory comes from hugepages. Without them only virtual devices work.
    pub hugepages: bool,
    /// Packet memory in MiB.
    pub packet_memory: u32,
}

/// `[conntrack]`: how many flows each worker tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conntrack {
    /// IPv4 flows a worker.
    pub ipv4_flows: u32,
    /// IPv6 flows a worker.
    pub ipv6_flows: u32,
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where metrics are served over HTTP; nowhere if absent (`"off"`).
    pub listen: Option<SocketAddr>,
}

/// `[admin]`: the sockets, and who may connect to them. The role is the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Path of the socket that takes every request.
    pub socket: PathBuf,
    /// Group whose members may connect to `socket`; the daemon's own if absent.
    pub group: Option<String>,
    /// Path of the socket that takes requests that change nothing; never `socket`. There is none if
    /// absent.
    pub read_only_socket: Option<PathBuf>,
    /// Group whose members may connect to `read_only_socket`; the daemon's own if absent.
    pub read_only_group: Option<String>,
}

/// What the operator wants of a service, a pool or a backend, apart from its health. Of two states
/// that concern one backend the greater holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdminState {
    /// It takes new flows.
    #[default]
    Enabled,
    /// It takes no new flows, and the tracked ones stay.
    Draining,
    /// It has no flows.
    Disabled,
}

impl AdminState {
    /// Every state with the word that the file has for it.
    pub const WORDS: [(&'static str, Self); 3] =
        [("enabled", Self::Enabled), ("draining", Self::Draining), ("disabled", Self::Disabled)];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// `[[port]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Unique.
    pub name: String,
    /// A DPDK device: a PCI address (`0000:3b:02.0`) or a virtual device with its arguments.
    pub device: String,
    /// Its addresses with the prefix of their network; at least one.
    pub addresses: Vec<IpNet>,
    /// Where IPv4 packets go whose destination is on no port's network.
    pub gateway_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub gateway_ipv6: Option<Ipv6Addr>,
    /// Largest IP packet in bytes, 576..=9200 (1280 or more with IPv6 addresses).
    pub mtu: u16,
    /// 802.1Q VLAN of all its frames, 1..=4094.
    pub vlan: Option<u16>,
    /// Set instead of the device's own address.
    pub mac: Option<MacAddress>,
}

/// `[[monitor]]`: a probe template, usable by many pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Unique.
    pub name: String,
    /// What is asked of the backend.
    pub kind: MonitorKind,
    /// TCP port that is probed.
    pub port: u16,
    /// From the start of one probe to the start of the next.
    pub interval: Duration,
    /// Hard deadline of one probe; at most `interval`.
    pub timeout: Duration,
    /// Consecutive passes until a backend that is down is up; at least 1.
    pub rise: u32,
    /// Consecutive failures until a backend that is up is down; at least 1.
    pub fall: u32,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorKind {
    /// The connection opens.
    Tcp,
    /// A GET is answered with one of the expected status codes.
    Http {
        /// Path and query.
        path: String,
        /// `Host` header; the probed address if absent.
        host: Option<String>,
        /// Status codes that pass; not empty.
        expected_status: Vec<u16>,
    },
}

/// `[[pool]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Unique.
    pub name: String,
    /// What the operator wants of all its backends; see [`Self::admin_state_of`].
    pub admin_state: AdminState,
    /// Where it stands.
    pub region: Option<String>,
    /// Where it stands.
    pub zone: Option<String>,
    /// Name of its monitor. Without one its backends are always up.
    pub monitor: Option<String>,
    /// Fewer healthy backends than this and the pool takes no new flows; 1..=backends.
    pub threshold: usize,
    /// Slots of its Maglev table: a prime, at least the number of backends.
    pub table_size: u32,
    /// At least one; names and identities (virtual network, address) are unique in the pool.
    pub backends: Vec<Backend>,
}

impl Pool {
    /// A pool with the defaults of the file: it is enabled, one healthy backend is enough, and
    /// nothing probes.
    #[must_use]
    pub fn new(name: impl Into<String>, backends: Vec<Backend>) -> Self {
        Self {
            name: name.into(),
            admin_state: AdminState::default(),
            region: None,
            zone: None,
            monitor: None,
            threshold: default::THRESHOLD,
            table_size: default::TABLE_SIZE,
            backends,
        }
    }

    /// The state that holds for one of its backends: the more restrictive of the pool's and its own.
    #[must_use]
    pub fn admin_state_of(&self, backend: &Backend) -> AdminState {
        self.admin_state.max(backend.admin_state)
    }
}

/// `[[pool.backend]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Unique in its pool; for people only.
    pub name: String,
    /// Where encapsulated packets go.
    pub address: IpAddr,
    /// Part of its identity, beside the address.
    pub virtual_network: Option<String>,
    /// Relative share of new flows, `0..=1_000_000`; 0 takes none.
    pub weight: u32,
    /// What the operator wants of it; see [`Pool::admin_state_of`].
    pub admin_state: AdminState,
    /// Where a direct probe goes, if not to `address`.
    pub probe_address: Option<IpAddr>,
}

impl Backend {
    /// A backend with the defaults of the file: it is enabled, and its weight is 1.
    #[must_use]
    pub fn new(name: impl Into<String>, address: IpAddr) -> Self {
        Self {
            name: name.into(),
            address,
            virtual_network: None,
            weight: default::WEIGHT,
            admin_state: AdminState::default(),
            probe_address: None,
        }
    }

    /// The socket address that a direct probe of `monitor` goes to.
    #[must_use]
    pub fn probe_target(&self, monitor: &Monitor) -> SocketAddr {
        SocketAddr::new(self.probe_address.unwrap_or(self.address), monitor.port)
    }
}

/// `[[service]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Unique.
    pub name: String,
    /// What the operator wants of it: a draining service takes no new flows and keeps its tracked
    /// ones, a disabled one forwards nothing.
    pub admin_state: AdminState,
    /// How the pool is chosen.
    pub steering: Steering,
    /// Names of its pools, in order of preference; at least one.
    pub pools: Vec<String>,
    /// Which packet fields choose the backend.
    pub affinity: Affinity,
    /// How long an established flow may be silent.
    pub idle_timeout: Duration,
    /// Its entry points; at least one.
    pub vips: Vec<Vip>,
}

impl Service {
    /// A service with the defaults of the file: it is enabled, and flows may be silent for ten
    /// minutes.
    #[must_use]
    pub fn new(name: impl Into<String>, pools: Vec<String>, vips: Vec<Vip>) -> Self {
        Self {
            name: name.into(),
            admin_state: AdminState::default(),
            steering: Steering::default(),
            pools,
            affinity: Affinity::default(),
            idle_timeout: default::IDLE_TIMEOUT,
            vips,
        }
    }
}

/// How a service's pool is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// The first pool in order at or above its threshold takes all.
    #[default]
    Failover,
}

/// Which packet fields choose the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// All five: source and destination address and port, and protocol. `none` is the same.
    #[default]
    ClientIpPortProto,
}

/// `[[service.vip]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// The virtual IP.
    pub address: IpAddr,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Inclusive ranges, sorted, without overlap; `any` is 0..=65535.
    pub ports: Vec<PortRange>,
    /// Whether ports on whose network it lies answer ARP and neighbour solicitation for it.
    pub arp: bool,
}

impl Vip {
    /// A VIP with the defaults of the file: ports answer for it.
    #[must_use]
    pub const fn new(address: IpAddr, protocol: Protocol, ports: Vec<PortRange>) -> Self {
        Self { address, protocol, ports, arp: default::ARP }
    }
}

/// Inclusive range of L4 ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    /// First.
    pub first: u16,
    /// Last; not below `first`.
    pub last: u16,
}

impl PortRange {
    /// Every port.
    pub const ANY: Self = Self { first: 0, last: u16::MAX };
}

/// Transport protocol of a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl Protocol {
    /// Its IP protocol number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// Who a backend is: its pool, virtual network and address. Its name is for people only and no part
/// of it: to rename one changes nothing (HP-04).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendKey {
    /// Name of the pool.
    pub pool: String,
    /// Name of the virtual network, if any.
    pub virtual_network: Option<String>,
    /// Where encapsulated packets go; not necessarily what is probed.
    pub address: IpAddr,
}

impl BackendKey {
    /// The key of `backend` in `pool`.
    #[must_use]
    pub fn new(pool: &Pool, backend: &Backend) -> Self {
        Self {
            pool: pool.name.clone(),
            virtual_network: backend.virtual_network.clone(),
            address: backend.address,
        }
    }
}
