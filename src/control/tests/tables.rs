//! What tables follow from what state.

use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::config::{BackendKey, Protocol};
use crate::control::neighbours::PortIdentity;
use crate::control::{Applied, ApplyError, Compiler, Links, State};
use crate::forward::{BackendFlags, BackendRecord, Tables};
use crate::id::{BackendEpoch, PortId, ServiceId};
use crate::packet::{FlowHash, MacAddress};
use crate::snapshot::Generation;
use crate::steer::{AdminState, Health};

/// As the configuration has it.
const fn configured(state: AdminState) -> config::AdminState {
    match state {
        AdminState::Enabled => config::AdminState::Enabled,
        AdminState::Draining => config::AdminState::Draining,
        AdminState::Disabled => config::AdminState::Disabled,
    }
}

pub(super) const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
pub(super) const THEIRS: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

/// Links where every next hop is known, or none.
pub(super) struct Wired(pub(super) Vec<PortIdentity>, pub(super) bool);

impl Wired {
    pub(super) fn new(config: &Config) -> Self {
        let ids = (0..).map(PortId);
        let identity = |(id, port)| PortIdentity::new(id, port, OURS, &config.services);
        Self(ids.zip(&config.ports).map(identity).collect(), true)
    }
}

impl Links for Wired {
    fn identity(&self, port: PortId) -> Option<&PortIdentity> {
        self.0.get(port.index())
    }

    fn next_hop(&self, _: PortId, _: IpAddr) -> Option<MacAddress> {
        self.1.then_some(THEIRS)
    }
}

/// An appliance without a loop around it.
pub(super) struct Appliance {
    pub(super) state: State,
    pub(super) compiler: Compiler,
    pub(super) generation: Generation,
    pub(super) tables: Tables,
}

impl Appliance {
    pub(super) fn new(text: &str) -> Self {
        let config = parsed(text);
        let links = Wired::new(&config);
        let state = State::new(config, Generation(1)).unwrap();
        let mut compiler = Compiler::default();
        let tables = compiler.compile(&state, &links);
        Self { state, compiler, generation: Generation(1), tables }
    }

    pub(super) fn compile(&mut self) {
        let links = Wired::new(self.state.config());
        self.tables = self.compiler.compile(&self.state, &links);
        self.generation.0 += 1;
    }

    /// Takes a configuration and has every worker adopt it.
    pub(super) fn apply(&mut self, text: &str) -> Applied {
        let next = Generation(self.generation.0 + 1);
        let applied = self.state.apply(parsed(text), next, Duration::ZERO).unwrap();
        self.compile();
        self.state.adopted(self.generation, |_| 0);
        applied
    }

    pub(super) fn digest(&self) -> String {
        self.compiler.tables_digest()
    }

    pub(super) fn key(&self, pool: &str, name: &str) -> BackendKey {
        self.state.find(pool, name).unwrap()
    }

    pub(super) fn record(&self, pool: &str, name: &str) -> BackendRecord {
        let slot = self.state.slots().find(&self.key(pool, name)).unwrap();
        self.tables.backends[slot.id.index()]
    }

    pub(super) fn set(&mut self, pool: &str, name: &str, admin: AdminState, health: Health) {
        let key = self.key(pool, name);
        set_admin(&mut self.state, pool, name, configured(admin));
        self.state.set_health(&key, health);
        self.compile();
    }

    /// The pool and address that the tables choose for a new flow to port 80 of a VIP.
    pub(super) fn choose(&self, vip: &str, hash: u64) -> Option<(String, IpAddr)> {
        let IpAddr::V4(vip) = vip.parse().unwrap() else { panic!("an IPv4 VIP") };
        let ServiceId(number) = self.tables.vips.ipv4(vip, 6)?.service(80)?;
        let service = &self.tables.services[usize::from(number)];
        let id = self.tables.select(service, FlowHash(hash))?;
        let pools = &self.state.config().pools;
        let mut keys = pools.iter().flat_map(|pool| {
            pool.backends.iter().map(move |backend| BackendKey::new(pool, backend))
        });
        let key = keys.find(|key| self.state.slots().find(key).is_some_and(|slot| slot.id == id));
        key.map(|key| (key.pool, key.address))
    }

    /// What every backend keeps, by what people know it by.
    pub(super) fn keeps(&self) -> std::collections::BTreeMap<BackendKey, u8> {
        let pools = &self.state.config().pools;
        let keys = pools.iter().flat_map(|p| p.backends.iter().map(move |b| BackendKey::new(p, b)));
        let flags = |key: &BackendKey| {
            self.tables.backends[self.state.slots().find(key).unwrap().id.index()].flags.0
        };
        keys.map(|key| (key.clone(), flags(&key))).collect()
    }

    pub(super) fn assert_chooses_like(
        &self,
        other: &Self,
        vips: &[&str],
        random: &mut Random,
        count: u32,
    ) {
        assert_eq!(self.digest(), other.digest());
        for _ in 0..count {
            let hash = random.next();
            for vip in vips {
                assert_eq!(self.choose(vip, hash), other.choose(vip, hash), "{vip} {hash:x}");
            }
        }
    }
}

/// `SplitMix64`: a test's own numbers, the same at every run.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u8) -> u8 {
        u8::try_from(self.next() % u64::from(limit)).unwrap()
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, usize::from(self.below(u8::try_from(place + 1).unwrap())));
        }
    }
}

pub(super) const VIPS: [&str; 2] = ["10.0.0.100", "10.0.0.101"];

/// Pools `a` and `b` with random members, and two services over them.
fn random_parts(random: &mut Random) -> (Vec<Backend>, Vec<Backend>) {
    let mut members = |first: u8| {
        let mut members: Vec<_> = (0..8)
            .filter_map(|number| {
                let weight = u32::from(random.below(4));
                (random.below(3) != 0).then(|| backend(first + number, weight))
            })
            .collect();
        members.push(backend(first + 9, 1));
        members
    };
    (members(1), members(20))
}

fn random_text(a: &[Backend], b: &[Backend]) -> String {
    let pools = [pool("a", "", a), pool("b", "", b)];
    let services = [service("one", &["a", "b"], VIPS[0]), service("two", &["b"], VIPS[1])];
    text(&[pools.concat(), services.concat()])
}

// L4-07: the choice is a function of the configuration alone.
#[test]
fn history_leaves_no_trace_in_choices() {
    let mut random = Random(7);
    for _ in 0..40 {
        let (a, b) = random_parts(&mut random);
        let mut old = Appliance::new(&random_text(&a, &b));
        for _ in 0..3 {
            let (a, b) = random_parts(&mut random);
            let text = random_text(&a, &b);
            old.apply(&text);
            old.assert_chooses_like(&Appliance::new(&text), &VIPS, &mut random, 50);
        }
    }
}

// L4-07: appliances whose files list the same in another order choose alike.
#[test]
fn order_in_the_file_changes_no_choice() {
    let mut random = Random(8);
    let (mut a, mut b) = random_parts(&mut random);
    let first = Appliance::new(&random_text(&a, &b));
    random.shuffle(&mut a);
    random.shuffle(&mut b);
    let parts = [
        pool("b", "", &b),
        pool("a", "", &a),
        service("two", &["b"], VIPS[1]),
        service("one", &["a", "b"], VIPS[0]),
    ];
    let second = Appliance::new(&text(&parts));
    first.assert_chooses_like(&second, &VIPS, &mut random, 10_000);
}

#[test]
fn what_a_choice_depends_on_is_in_the_digest() {
    let base = |backends: &[Backend], key: &str, vip: &str| {
        let text = text(&[pool("a", "", backends), service("one", &["a"], vip)]);
        Appliance::new(&text.replace("0e0f", key)).digest()
    };
    let two = [backend(1, 1), backend(2, 1)];
    let digests = [
        base(&two, "0e0f", VIPS[0]),
        base(&[backend(1, 1), backend(2, 2)], "0e0f", VIPS[0]),
        base(&[backend(1, 1), backend(3, 1)], "0e0f", VIPS[0]),
        base(&two, "0e10", VIPS[0]),
        base(&two, "0e0f", VIPS[1]),
    ];
    for (place, digest) in digests.iter().enumerate() {
        assert_eq!(digest.len(), 16);
        assert!(!digests[..place].contains(digest), "{place}");
    }
}

// HP-04: a name is for people; identity is the address.
#[test]
fn renaming_a_backend_changes_nothing_and_shares_its_pools_table() {
    let parts = |name: &str| {
        let renamed = (name.to_owned(), 1, 1);
        let pools = [pool("a", "", &[renamed, backend(2, 1)]), pool("b", "", &[backend(3, 1)])];
        let text = text(&[pools.concat(), service("one", &["a", "b"], VIPS[0])]);
        text.replacen("weight = 1", "weight = 1\nadmin_state = \"draining\"", 1)
    };
    let mut appliance = Appliance::new(&parts("old"));
    let (before, digest) = (appliance.tables.clone(), appliance.digest());
    let slot = appliance.state.slots().find(&appliance.key("a", "old"));
    let applied = appliance.apply(&parts("new"));
    assert!(applied.changed && !applied.tables);
    let key = appliance.key("a", "new");
    assert_eq!(appliance.state.admin(&key), AdminState::Draining);
    assert_eq!(appliance.state.slots().find(&key), slot);
    assert_eq!(appliance.digest(), digest);
    for (old, new) in before.pools.iter().zip(appliance.tables.pools.iter()) {
        assert!(Arc::ptr_eq(old, new));
    }
}

#[test]
fn only_the_pool_that_changed_is_built_again() {
    let parts = |weight| {
        let pools =
            [pool("a", "", &[backend(1, weight), backend(2, 1)]), pool("b", "", &[backend(3, 1)])];
        text(&[pools.concat(), service("one", &["a", "b"], VIPS[0])])
    };
    let mut appliance = Appliance::new(&parts(1));
    let before = appliance.tables.clone();
    appliance.apply(&parts(2));
    assert!(!Arc::ptr_eq(&before.pools[0], &appliance.tables.pools[0]));
    assert!(Arc::ptr_eq(&before.pools[1], &appliance.tables.pools[1]));
}

#[test]
fn a_slot_that_was_left_begins_a_new_epoch_and_keeps_nothing() {
    let parts =
        |backends: &[Backend]| text(&[pool("a", "", backends), service("one", &["a"], VIPS[0])]);
    let mut appliance = Appliance::new(&parts(&[backend(1, 1), backend(2, 1)]));
    let left = appliance.state.slots().find(&appliance.key("a", "b1")).unwrap();
    appliance.apply(&parts(&[backend(2, 1), backend(3, 1)]));
    let record = appliance.tables.backends[left.id.index()];
    assert_eq!((record.epoch, record.flags.0), (BackendEpoch(left.epoch.0 + 1), 0));
    let came = appliance.state.slots().find(&appliance.key("a", "b3")).unwrap();
    assert_ne!(came.id, left.id);
    // It comes back as another: its old flows are gone.
    appliance.apply(&parts(&[backend(1, 1), backend(2, 1)]));
    assert_ne!(appliance.state.slots().find(&appliance.key("a", "b1")).unwrap(), left);
}

#[test]
fn vip_ids_stay_over_a_reload_and_what_the_file_says_holds() {
    let parts = |vips: &[&str]| {
        let services = vips.iter().map(|vip| {
            service(&format!("s-{}", vip.len() + usize::from(vip.ends_with('1'))), &["a"], vip)
        });
        text(&[pool("a", "", &[backend(1, 1), backend(2, 1)]), services.collect::<String>()])
    };
    let id = |appliance: &Appliance, vip: &str| {
        appliance.state.vip_ids().find((vip.parse().unwrap(), Protocol::Tcp))
    };
    let mut appliance = Appliance::new(&parts(&[VIPS[1]]));
    let first = id(&appliance, VIPS[1]).unwrap();
    appliance.set("a", "b1", AdminState::Disabled, Health::Up);
    appliance.apply(&parts(&VIPS));
    assert_eq!(id(&appliance, VIPS[1]), Some(first));
    assert_ne!(id(&appliance, VIPS[0]), Some(first));
    assert_eq!(appliance.state.admin(&appliance.key("a", "b1")), AdminState::Enabled);
    appliance.apply(&parts(&VIPS[..1]));
    assert_eq!(id(&appliance, VIPS[1]), None);
}

#[test]
fn what_is_said_and_found_of_a_backend_decides_what_it_keeps_and_takes() {
    let more = "monitor = \"probe\"";
    let pools = [pool("a", more, &[backend(1, 1), backend(2, 1)]), pool("b", "", &[backend(3, 1)])];
    let mut appliance =
        Appliance::new(&text(&[pools.concat(), service("one", &["a", "b"], VIPS[0])]));
    let keeps = |appliance: &Appliance| {
        let flags = appliance.record("a", "b1").flags;
        (flags.contains(BackendFlags::KEEPS_TCP), flags.contains(BackendFlags::KEEPS_OTHER))
    };
    let takes = |appliance: &Appliance, last: u8| {
        let mut random = Random(1);
        (0..200).any(|_| {
            let chosen = appliance.choose(VIPS[0], random.next());
            chosen.is_some_and(|(_, address)| address == IpAddr::from([10, 0, 1, last]))
        })
    };
    appliance.set("a", "b2", AdminState::Enabled, Health::Up);
    for (admin, health, keep, take) in [
        (AdminState::Enabled, Health::Up, (true, true), true),
        (AdminState::Enabled, Health::Down, (true, false), false),
        (AdminState::Draining, Health::Up, (true, true), false),
        (AdminState::Disabled, Health::Up, (false, false), false),
    ] {
        appliance.set("a", "b1", admin, health);
        assert_eq!(keeps(&appliance), keep, "{admin:?} {health:?}");
        assert_eq!(takes(&appliance, 1), take, "{admin:?} {health:?}");
        assert!(takes(&appliance, 2));
    }
    // Failover: the first pool is below its threshold of one.
    appliance.set("a", "b1", AdminState::Enabled, Health::Down);
    appliance.set("a", "b2", AdminState::Enabled, Health::Down);
    assert!(takes(&appliance, 3) && !takes(&appliance, 1));
    // Last resort: no pool has a healthy backend, and one that is down is better than none.
    appliance.set("b", "b3", AdminState::Disabled, Health::Up);
    assert!(takes(&appliance, 1) && takes(&appliance, 2) && !takes(&appliance, 3));
    assert_eq!(keeps(&appliance), (true, true));
    appliance.set("a", "b1", AdminState::Disabled, Health::Down);
    appliance.set("a", "b2", AdminState::Disabled, Health::Down);
    assert_eq!(appliance.choose(VIPS[0], 1), None);
}

#[test]
fn a_backend_of_weight_zero_takes_no_flow() {
    let pools = pool("a", "", &[backend(1, 0), backend(2, 1)]);
    let appliance = Appliance::new(&text(&[pools, service("one", &["a"], VIPS[0])]));
    let mut random = Random(2);
    for _ in 0..500 {
        let (_, address) = appliance.choose(VIPS[0], random.next()).unwrap();
        assert_eq!(address, IpAddr::from([10, 0, 1, 2]));
    }
    assert!(appliance.record("a", "b1").flags.contains(BackendFlags::KEEPS_TCP));
}

#[test]
fn outer_headers_have_the_ports_vlan_and_the_backends_family() {
    let pools = pool("a", "", &[backend(1, 1), backend(200, 1)]);
    let mut appliance = Appliance::new(&text(&[pools, service("one", &["a"], VIPS[0])]));
    for (name, ethertype, is_ipv6) in [("b1", [8, 0], false), ("b200", [0x86, 0xdd], true)] {
        let record = appliance.record("a", name);
        assert_eq!(record.header[..6], THEIRS.0);
        assert_eq!(record.header[6..12], OURS.0);
        assert_eq!(record.header[12..16], [0x81, 0, 0, 7]);
        assert_eq!(record.header[16..18], ethertype);
        assert!(record.flags.contains(BackendFlags::RESOLVED));
        assert!(record.flags.contains(BackendFlags::VLAN));
        assert_eq!(record.flags.contains(BackendFlags::OUTER_IPV6), is_ipv6);
    }
    let mut unknown = Wired::new(appliance.state.config());
    unknown.1 = false;
    appliance.tables = appliance.compiler.compile(&appliance.state, &unknown);
    assert!(!appliance.record("a", "b1").flags.contains(BackendFlags::RESOLVED));
}

#[test]
fn a_port_answers_arp_for_vips_on_its_network_where_any_service_wants_it() {
    let quiet = |text: String| text.replace("ports = [80]", "ports = [81]\narp = false");
    let parts = [
        pool("a", "", &[backend(1, 1)]),
        service("one", &["a"], "10.0.0.100"),
        // The same VIP, without ARP: true wins.
        quiet(service("two", &["a"], "10.0.0.100")),
        quiet(service("three", &["a"], "10.0.0.101")),
        // On no port's network.
        service("four", &["a"], "203.0.113.1"),
        service("five", &["a"], "fd00::100"),
    ];
    let appliance = Appliance::new(&text(&parts));
    let port = &appliance.tables.ports[0];
    assert_eq!(*port.arp, [[10, 0, 0, 2], [10, 0, 0, 100]].map(std::net::Ipv4Addr::from));
    assert!(port.neighbour_discovery.contains(&"fd00::100".parse().unwrap()));
    assert_eq!(*port.ipv4, [std::net::Ipv4Addr::new(10, 0, 0, 2)]);
    assert_eq!((port.vlan, port.mtu), (Some(7), 1600));
}

#[test]
fn what_is_read_at_start_only_is_refused_by_name_and_nothing_changes() {
    let old = text(&[pool("a", "", &[backend(1, 1)]), service("one", &["a"], VIPS[0])]);
    let mut state = State::new(parsed(&old), Generation(1)).unwrap();
    for (from, to, section) in [
        ("0e0f", "0e10", "appliance.flow_hash_key"),
        ("workers = [1]", "workers = [1, 2]", "[cpu]"),
        ("vlan = 7", "vlan = 8", "[[port]]"),
        ("[[monitor]]", "[memory]\nhugepages = false\n[[monitor]]", "[memory]"),
        ("[[monitor]]", "[conntrack]\nipv4_flows = 2000\n[[monitor]]", "[conntrack]"),
        ("[[monitor]]", "[admin]\nsocket = \"/tmp/x\"\n[[monitor]]", "[admin]"),
    ] {
        let new = old.replacen(from, to, 1).replace("\"b1\"", "\"renamed\"");
        let refused = state.apply(parsed(&new), Generation(2), Duration::ZERO).unwrap_err();
        assert_eq!(refused, ApplyError::NeedsRestart(vec![section]));
        assert!(refused.to_string().starts_with(section), "{refused}");
        assert!(state.find("a", "b1").is_some());
    }
}
