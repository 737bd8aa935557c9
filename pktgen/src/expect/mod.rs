//! What the appliance is expected to do with each flow, computed without its Maglev and without its
//! hash code.
//!
//! A change is not in force at one moment: while its verb is under way a worker may still use the
//! tables from before. So there are *versions*, and a packet is right if it is right by one of
//! those that may have been in force between its sending and its return.

pub mod fleet;
pub mod maglev;

use std::net::IpAddr;
use std::sync::Arc;

use lodestone::config::AdminState;
use siphasher::sip::SipHasher13;

use fleet::{Backend, Fleet};
use maglev::{Member, NOBODY};

/// The most versions of a run: a packet's stamp has a byte for the one it was sent in.
pub const VERSION_CAP: usize = 200;

/// A backend of any version, in one of its lives.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Where packets go.
    pub address: IpAddr,
    /// Which life of the address this is.
    incarnation: u32,
}

/// What is in force for a service.
#[derive(Clone, Debug, Default)]
struct ServiceVersion {
    /// Slot to backend; empty if nobody takes new flows.
    slots: Arc<Vec<u16>>,
    /// By backend: what the operator wants of it, if the service may use it.
    states: Vec<Option<AdminState>>,
}

/// What is in force from one change to the next.
#[derive(Clone, Debug)]
pub struct Version {
    /// By service.
    services: Vec<ServiceVersion>,
}

/// All versions so far.
pub struct Expectation {
    key: SipHasher13,
    fleet: Fleet,
    known: Vec<Known>,
    versions: Vec<Version>,
    /// The oldest version that a worker may still use.
    oldest: usize,
    /// Sorted by address, newest life last.
    by_address: Vec<(IpAddr, u16)>,
}

impl Expectation {
    /// The first version: a fleet as it starts.
    pub fn new(fleet: Fleet, flow_hash_key: [u8; 16]) -> Self {
        let key = SipHasher13::new_with_key(&flow_hash_key);
        let mut expectation = Self {
            key,
            fleet: fleet.clone(),
            known: Vec::new(),
            versions: Vec::new(),
            oldest: 0,
            by_address: Vec::new(),
        };
        expectation.begin(fleet);
        expectation.adopted();
        expectation
    }

    /// From now on this fleet may be in force, beside what was before.
    pub fn begin(&mut self, fleet: Fleet) {
        for backend in fleet.pools.iter().flat_map(|pool| &pool.backends) {
            self.learn(backend);
        }
        let services = fleet.services.iter().map(|service| {
            let mut states = vec![None; self.known.len()];
            for pool in service.pools.iter().filter_map(|&place| fleet.pools.get(place)) {
                for backend in &pool.backends {
                    let state = pool.admin_of(backend);
                    let known = &mut states[usize::from(self.index(backend))];
                    *known = Some(known.map_or(state, |other: AdminState| other.min(state)));
                }
            }
            let slots = fleet.pool_of(service).map(|pool| {
                let members = pool.takers().map(|backend| Member {
                    identity: maglev::identity(backend.virtual_network.as_deref(), backend.address),
                    weight: backend.weight,
                    backend: self.index(backend),
                });
                maglev::populate(members.collect(), pool.table_size)
            });
            ServiceVersion { slots: Arc::new(slots.unwrap_or_default()), states }
        });
        let version = Version { services: services.collect() };
        self.versions.push(version);
        self.fleet = fleet;
    }

    /// From now on only the newest version is in force.
    pub fn adopted(&mut self) {
        self.oldest = self.versions.len() - 1;
    }

    /// The fleet of the newest version.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The oldest version that may be in force: what a packet that is sent now is stamped with.
    pub fn oldest(&self) -> u8 {
        self.oldest as u8
    }

    /// The versions that may have been in force for a packet with this stamp that is here now.
    pub fn since(&self, stamp: u8) -> std::ops::RangeInclusive<usize> {
        usize::from(stamp)..=self.versions.len() - 1
    }

    /// Every backend that there ever was.
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// The lives of the backend at an address, the newest last.
    #[inline]
    pub fn at(&self, address: IpAddr) -> &[(IpAddr, u16)] {
        let first = self.by_address.partition_point(|entry| entry.0 < address);
        let rest = &self.by_address[first..];
        &rest[..rest.iter().take_while(|entry| entry.0 == address).count()]
    }

    /// A flow's hash; `addresses` and `ports` as they stand in its packets.
    #[inline]
    pub fn hash(&self, addresses: &[u8], ports: [u8; 4], protocol: u8) -> u64 {
        maglev::flow_hash(&self.key, addresses, ports, protocol)
    }

    /// Where a version's table sends a flow; [`NOBODY`] if nowhere.
    #[inline]
    pub fn choice(&self, version: usize, service: usize, hash: u64) -> u16 {
        let slots = &self.versions[version].services[service].slots;
        if slots.is_empty() {
            return NOBODY;
        }
        // Level 2 goes by the lower half.
        slots[(hash as u32 % slots.len() as u32) as usize]
    }

    /// What a version wants of a backend; `None` if the service has no such backend in it.
    #[inline]
    pub fn state(&self, version: usize, service: usize, backend: u16) -> Option<AdminState> {
        let states = &self.versions[version].services[service].states;
        states.get(usize::from(backend)).copied().flatten()
    }

    /// Whether a version lets a tracked flow stay on a backend.
    #[inline]
    pub fn keeps(&self, version: usize, service: usize, backend: u16) -> bool {
        matches!(
            self.state(version, service, backend),
            Some(AdminState::Enabled | AdminState::Draining)
        )
    }

    fn learn(&mut self, backend: &Backend) {
        let known = Known { address: backend.address, incarnation: backend.incarnation };
        if self.known.contains(&known) {
            return;
        }
        let index = self.known.len() as u16;
        self.by_address.push((known.address, index));
        self.by_address.sort_unstable();
        self.known.push(known);
    }

    /// The number of a backend of a fleet; [`NOBODY`] if it was in none yet.
    pub fn index(&self, backend: &Backend) -> u16 {
        let is = |known: &Known| {
            known.address == backend.address && known.incarnation == backend.incarnation
        };
        self.known.iter().position(is).map_or(NOBODY, |index| index as u16)
    }
}

#[cfg(test)]
pub mod tests {
    use lodestone::control::protocol::Request;
    use serde_json::value::RawValue;

    use super::*;

    /// Three backends behind a gateway, one TCP and one UDP service.
    pub const CONFIG: &str = r#"
[appliance]
name = "test"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[memory]
hugepages = false
[[port]]
name = "front"
device = "net_null0"
addresses = ["10.1.0.2/24", "fd01::2/64"]
gateway_ipv4 = "10.1.0.1"
gateway_ipv6 = "fd01::1"
[[pool]]
name = "web"
table_size = 1021
backend = [
    { name = "a", address = "10.9.0.1" }, { name = "b", address = "10.9.0.2" },
    { name = "c", address = "10.9.0.3", weight = 2 },
]
[[service]]
name = "web"
pools = ["web"]
vip = [
    { address = "203.0.113.1", protocol = "tcp", ports = 80 },
    { address = "203.0.113.1", protocol = "udp", ports = "any" },
]
"#;

    pub fn fleet() -> Fleet {
        Fleet::new(&lodestone::config::parse(CONFIG).unwrap().0).unwrap()
    }

    pub fn request(method: &str, params: &str) -> Request {
        Request::read(method, Some(&RawValue::from_string(params.to_owned()).unwrap())).unwrap()
    }

    fn after(fleet: &Fleet, method: &str, params: &str) -> Fleet {
        fleet.after(&request(method, params)).unwrap()
    }

    #[test]
    fn a_packet_may_be_right_by_any_version_that_may_have_been_in_force() {
        let mut expectation = Expectation::new(fleet(), [0; 16]);
        assert_eq!((expectation.oldest(), expectation.since(0)), (0, 0..=0));
        let drained = after(&fleet(), "backend.drain", r#"{"backend":"web/b"}"#);
        expectation.begin(drained);
        assert_eq!((expectation.oldest(), expectation.since(0)), (0, 0..=1));
        expectation.adopted();
        assert_eq!((expectation.oldest(), expectation.since(1)), (1, 1..=1));
        let (b, slots) = (1, 0..1021);
        assert!(slots.clone().any(|hash| expectation.choice(0, 0, hash) == b));
        assert!(slots.clone().all(|hash| expectation.choice(1, 0, hash) != b));
        assert!(expectation.keeps(1, 0, b), "what it has stays");
    }

    #[test]
    fn who_leaves_and_comes_back_is_another() {
        let mut expectation = Expectation::new(fleet(), [0; 16]);
        let without = after(&fleet(), "backend.remove", r#"{"backend":"web/b"}"#);
        expectation.begin(without.clone());
        assert!(!expectation.keeps(1, 0, 1));
        let add = r#"{"backend":"web/b","address":"10.9.0.2"}"#;
        expectation.begin(after(&without, "backend.add", add));
        let lives: Vec<_> =
            expectation.at([10, 9, 0, 2].into()).iter().map(|&(_, index)| index).collect();
        assert_eq!(lives, [1, 3]);
        assert!(!expectation.keeps(2, 0, 1) && expectation.keeps(2, 0, 3));
        assert!(expectation.at([10, 9, 0, 9].into()).is_empty());
    }

    #[test]
    fn verbs_that_are_not_computed_are_refused() {
        for (method, params, needle) in [
            ("service.drain", r#"{"service":"web"}"#, "is not computed here"),
            ("backend.drain", r#"{"backend":"web/x"}"#, "has no backend `x`"),
            ("backend.drain", r#"{"backend":"x/a"}"#, "no pool `x`"),
        ] {
            let error = fleet().after(&request(method, params)).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
        let probed = CONFIG.replace("table_size = 1021", "table_size = 1021\nmonitor = \"m\"")
            + "[[monitor]]\nname = \"m\"\ntype = \"tcp\"\nport = 80\n";
        let config = lodestone::config::parse(&probed).unwrap().0;
        assert!(Fleet::new(&config).unwrap_err().to_string().contains("has a monitor"));
    }
}
