//! A small appliance for tests of the pipeline: configuration to tables by the product's own way,
//! with neighbours that are known beforehand.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod fixtures;

use std::net::IpAddr;
use std::time::Duration;

use lodestone::config::{self, Config};
use lodestone::conntrack::{Conntrack, Ipv4Bucket, Ipv6Bucket, NoPrefetch};
use lodestone::control::neighbours::PortIdentity;
use lodestone::control::{Compiler, Links, State};
use lodestone::forward::{BURST, Counters, DropReason, Forwarder, Tables, Verdict, Verdicts};
use lodestone::id::PortId;
use lodestone::packet::encapsulation::{Decapsulated, decapsulate};
use lodestone::packet::{Builder, HeapBuf, MacAddress, PacketBuf, TcpFlags};
use lodestone::snapshot::Generation;
use lodestone::stats::{self, StatsView};
use lodestone::time::Tick;

/// The appliance's ports: `front` without, `back` with a VLAN.
pub const FRONT: PortId = PortId(0);
pub const BACK: PortId = PortId(1);
pub const FRONT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub const BACK_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
/// Every neighbour but one has this address.
pub const HOP_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);
pub const CLIENT_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x10]);
/// The backend whose link-layer address nobody knows.
pub const SILENT: &str = "10.2.0.99";

/// Two ports, pools of either family, and a service for each thing that can happen. The backend of
/// the pool `nobody` is disabled.
pub const CONFIG: &str = r#"
[appliance]
name = "test"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[cpu]
workers = [1]
[memory]
hugepages = false
[[port]]
name = "front"
device = "net_null0"
addresses = ["10.1.0.2/24", "fd01::2/64"]
mtu = 1500
[[port]]
name = "back"
device = "net_null1"
addresses = ["10.2.0.2/24", "fd02::2/64"]
mtu = 1540
vlan = 7
[[pool]]
name = "v4"
table_size = 1021
backend = [{ name = "a", address = "10.2.0.11" }]
[[pool]]
name = "v6"
table_size = 1021
backend = [{ name = "a", address = "fd02::11" }]
[[pool]]
name = "ten"
table_size = 4093
backend = [
    { name = "b0", address = "10.2.0.20" }, { name = "b1", address = "10.2.0.21" },
    { name = "b2", address = "10.2.0.22" }, { name = "b3", address = "10.2.0.23" },
    { name = "b4", address = "10.2.0.24" }, { name = "b5", address = "10.2.0.25" },
    { name = "b6", address = "10.2.0.26" }, { name = "b7", address = "10.2.0.27" },
    { name = "b8", address = "10.2.0.28" }, { name = "b9", address = "10.2.0.29" },
]
[[pool]]
name = "silent"
table_size = 1021
backend = [{ name = "a", address = "10.2.0.99" }]
[[pool]]
name = "nobody"
table_size = 1021
backend = [{ name = "a", address = "10.2.0.98", admin_state = "disabled" }]
[[pool]]
name = "any"
table_size = 1021
backend = [{ name = "a", address = "10.2.0.97" }]
[[service]]
name = "to-v4"
pools = ["v4"]
vip = [
    { address = "10.1.0.100", protocol = "tcp", ports = 80 },
    { address = "fd01::100", protocol = "tcp", ports = 80 },
]
[[service]]
name = "to-v6"
pools = ["v6"]
vip = [
    { address = "10.1.0.100", protocol = "tcp", ports = 81 },
    { address = "fd01::100", protocol = "tcp", ports = 81 },
]
[[service]]
name = "ten"
pools = ["ten"]
vip = [
    { address = "10.1.0.101", protocol = "tcp", ports = "any" },
    { address = "10.1.0.101", protocol = "udp", ports = "any" },
]
[[service]]
name = "silent"
pools = ["silent"]
vip = [{ address = "10.1.0.102", protocol = "tcp", ports = 80 }]
[[service]]
name = "nobody"
pools = ["nobody"]
vip = [{ address = "10.1.0.103", protocol = "tcp", ports = 80 }]
[[service]]
name = "any"
pools = ["any"]
vip = [
    { address = "10.1.0.104", protocol = "tcp", ports = "any" },
    { address = "10.1.0.104", protocol = "udp", ports = "any" },
]
"#;

/// Neighbours that are known beforehand.
pub struct KnownLinks(Vec<PortIdentity>);

impl KnownLinks {
    pub fn new(config: &Config) -> Self {
        let macs = [(FRONT, FRONT_MAC), (BACK, BACK_MAC)];
        let identity = |((id, mac), port)| PortIdentity::new(id, port, mac, &config.services);
        Self(macs.into_iter().zip(&config.ports).map(identity).collect())
    }
}

impl Links for KnownLinks {
    fn identity(&self, port: PortId) -> Option<&PortIdentity> {
        self.0.get(port.index())
    }

    fn next_hop(&self, _port: PortId, address: IpAddr) -> Option<MacAddress> {
        (address.to_string() != SILENT).then_some(HOP_MAC)
    }
}

/// An appliance with one worker, without its threads.
pub struct World {
    pub state: State,
    pub compiler: Compiler,
    pub tables: Tables,
    pub forwarder: Forwarder<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>, NoPrefetch>,
    pub counters: Counters,
    pub view: StatsView<DropReason>,
    pub now: Tick,
}

impl World {
    /// The appliance of [`CONFIG`], which tracks as many flows of each family as asked.
    pub fn new(flows: u32) -> Self {
        Self::with_config(CONFIG, flows)
    }

    pub fn with_config(text: &str, flows: u32) -> Self {
        let (config, _) = config::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
        let state = State::new(config, Generation(1)).unwrap();
        let mut compiler = Compiler::default();
        let tables = compiler.compile(&state, &KnownLinks::new(state.config()));
        let (counters, view) = stats::worker(100);
        let forwarder = Forwarder::new(Conntrack::on_heap(flows, flows));
        Self { state, compiler, tables, forwarder, counters, view, now: Tick(1_000) }
    }

    /// Compiles again, after a change of state.
    pub fn publish(&mut self) {
        self.tables = self.compiler.compile(&self.state, &KnownLinks::new(self.state.config()));
    }

    /// Edits the configuration so that it says this of a backend, and compiles.
    pub fn set_admin(&mut self, pool: &str, backend: &str, admin_state: config::AdminState) {
        let (pool, backend) = (pool.to_owned(), backend.to_owned());
        let edit = config::Edit::SetBackendAdminState { pool, backend, admin_state };
        let edited = self.state.config().edit(&[edit]).unwrap();
        // Nothing comes or goes, so that no number is taken and none begins to rest.
        self.state.apply(edited.config, Generation(0), Duration::ZERO).unwrap();
        self.publish();
    }

    /// Takes another configuration and compiles.
    pub fn apply(&mut self, text: &str, generation: u64) {
        let (config, _) = config::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
        self.state.apply(config, Generation(generation), Duration::ZERO).unwrap();
        self.state.adopted(Generation(generation), |_| 0);
        self.publish();
    }

    /// One frame through the pipeline.
    pub fn send(&mut self, port: PortId, frame: &[u8]) -> (Verdict, HeapBuf) {
        let mut burst = [HeapBuf::new(frame)];
        let verdicts = self.burst(port, &mut burst);
        let [buf] = burst;
        (verdicts[0], buf)
    }

    /// A burst through the pipeline.
    pub fn burst<B: PacketBuf>(&mut self, port: PortId, burst: &mut [B]) -> Verdicts {
        assert!(burst.len() <= BURST);
        self.forwarder.process(&self.tables, self.now, port, burst, &mut self.counters)
    }

    /// The backend address that a frame is sent to.
    pub fn backend_of(&mut self, frame: &[u8]) -> Result<IpAddr, DropReason> {
        match self.send(FRONT, frame) {
            (Verdict::Transmit(_), buf) => Ok(outer(buf.bytes()).outer_ip.flow.destination()),
            (Verdict::Drop(reason), _) => Err(reason),
            (other, _) => panic!("unexpected verdict {other:?}"),
        }
    }
}

/// An encapsulated frame, taken apart.
pub fn outer(frame: &[u8]) -> Decapsulated<'_> {
    decapsulate(frame).expect("a sound frame").expect("IP in IP")
}

/// A TCP segment of a client to a VIP.
pub fn tcp(vip: &str, client: u32, source_port: u16, port: u16, flags: TcpFlags) -> Vec<u8> {
    let frame = Builder::ethernet(CLIENT_MAC, FRONT_MAC);
    let frame = match vip.parse().unwrap() {
        IpAddr::V4(vip) => frame.ipv4((0xc633_0000 + client).into(), vip),
        IpAddr::V6(vip) => frame.ipv6((0x2001_0db8_u128 << 96 | u128::from(client)).into(), vip),
    };
    frame.tcp(source_port, port, flags).payload(b"payload").build()
}

/// A UDP datagram of a client to an IPv4 VIP.
pub fn udp(vip: &str, client: u32, source_port: u16, port: u16) -> Vec<u8> {
    Builder::ethernet(CLIENT_MAC, FRONT_MAC)
        .ipv4((0xc633_0000 + client).into(), vip.parse().unwrap())
        .udp(source_port, port)
        .payload(b"payload")
        .build()
}
