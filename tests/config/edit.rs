//! Edits of a configuration: all or nothing, judged by the rules of a file, and told in words.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::parse;
use crate::random::{self, Random};
use lodestone::config::{
    self, AdminState, Backend, Config, Edit, EditError, ObjectKind, Pool, PortRange, Protocol,
    Service, Vip,
};

const SMALL: &str = r#"
[appliance]
name = "lb1"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[[port]]
name = "wan"
device = "net_tap0"
addresses = ["192.0.2.2/24"]
[[monitor]]
name = "http"
type = "http"
port = 80
[[pool]]
name = "web"
threshold = 2
[[pool.backend]]
name = "b1"
address = "192.0.2.11"
[[pool.backend]]
name = "b2"
address = "192.0.2.12"
weight = 0
[[pool]]
name = "spare"
[[pool.backend]]
name = "s1"
address = "192.0.2.21"
[[service]]
name = "www"
pools = ["web"]
[[service.vip]]
address = "192.0.2.100"
protocol = "tcp"
ports = 80
"#;

fn weight(pool: &str, backend: &str, weight: u32) -> Edit {
    Edit::SetBackendWeight { pool: pool.to_owned(), backend: backend.to_owned(), weight }
}

fn remove_backend(pool: &str, backend: &str) -> Edit {
    Edit::RemoveBackend { pool: pool.to_owned(), backend: backend.to_owned() }
}

fn remove_pool(pool: &str) -> Edit {
    Edit::RemovePool { pool: pool.to_owned() }
}

fn backend(name: &str, address: &str) -> Backend {
    Backend::new(name, address.parse().unwrap())
}

fn add_backend(pool: &str, backend: Backend) -> Edit {
    Edit::AddBackend { pool: pool.to_owned(), backend }
}

fn service(name: &str, pools: &[&str], address: &str, ports: &[(u16, u16)]) -> Service {
    let ports = ports.iter().map(|&(first, last)| PortRange { first, last }).collect();
    let vip = Vip::new(address.parse().unwrap(), Protocol::Tcp, ports);
    Service::new(name, pools.iter().map(|pool| (*pool).to_owned()).collect(), vec![vip])
}

fn set_pools(service: &str, pools: &[&str]) -> Edit {
    let pools = pools.iter().map(|pool| (*pool).to_owned()).collect();
    Edit::SetServicePools { service: service.to_owned(), pools }
}

#[test]
fn each_edit_changes_what_it_says() {
    let base = parse(SMALL);
    let edited = |edit: Edit| {
        let edited = base.edit(&[edit]).unwrap_or_else(|error| panic!("{error}")).config;
        let differences = config::diff(&base, &edited);
        // Whatever was edited could be read from a file.
        assert_eq!(parse(&config::to_toml(&edited)), edited);
        differences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let draining = AdminState::Draining;
    let (web, www) = (|| "web".to_owned(), || "www".to_owned());
    assert_eq!(edited(weight("web", "b2", 7)), ["pool web, backend b2: weight 0 -> 7"]);
    assert_eq!(
        edited(Edit::SetBackendAdminState {
            pool: web(),
            backend: "b1".to_owned(),
            admin_state: draining
        }),
        ["pool web, backend b1: admin_state enabled -> draining"]
    );
    assert_eq!(
        edited(add_backend("web", backend("b3", "192.0.2.13"))),
        ["pool web, backend b3: added (address 192.0.2.13)"]
    );
    assert_eq!(
        edited(Edit::SetPoolThreshold { pool: web(), threshold: 1 }),
        ["pool web: threshold 2 -> 1"]
    );
    assert_eq!(
        edited(Edit::SetPoolAdminState { pool: web(), admin_state: AdminState::Disabled }),
        ["pool web: admin_state enabled -> disabled"]
    );
    assert_eq!(
        edited(remove_pool("spare")),
        ["pool spare: removed ()", "pool spare, backend s1: removed (address 192.0.2.21)"]
    );
    let pool = Pool {
        monitor: Some("http".to_owned()),
        ..Pool::new("api", vec![backend("a1", "192.0.2.11")])
    };
    assert_eq!(
        edited(Edit::AddPool(pool)),
        ["pool api: added (monitor http)", "pool api, backend a1: added (address 192.0.2.11)"]
    );
    // Ports are sorted, as a file's are.
    assert_eq!(
        edited(Edit::AddService(service("app", &["web"], "192.0.2.101", &[(443, 443), (80, 80)]))),
        [
            "service app: added (pools web)",
            "service app, vip tcp 192.0.2.101:80,443: added (address 192.0.2.101, protocol tcp, \
             ports 80, 443)"
        ]
    );
    assert_eq!(
        edited(set_pools("www", &["spare", "web"])),
        ["service www: pools web -> spare, web"]
    );
    assert_eq!(
        edited(Edit::SetServiceAdminState { service: www(), admin_state: draining }),
        ["service www: admin_state enabled -> draining"]
    );
    assert_eq!(edited(Edit::RemoveService { service: www() }).len(), 2);
}

/// The whole text of each refusal: it names the object and the mend.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn refusals_say_what_to_do() {
    let base = parse(SMALL);
    let long = "x".repeat(64);
    let on = |address: &str| service("app", &["web"], address, &[(80, 80)]);
    for (edits, expected) in [
        (vec![weight("webb", "b1", 1)], "there is no pool webb; did you mean web?"),
        (vec![weight("other", "b1", 1)], "there is no pool other; the pools are web, spare"),
        (vec![weight("web", "b9", 1)], "there is no backend web/b9; did you mean b1?"),
        (
            vec![Edit::RemoveService { service: "\u{7}".to_owned() }],
            "there is no service \\u{7}; the services are www",
        ),
        (
            vec![set_pools("www", &["web", "sparse"])],
            "there is no pool sparse; did you mean spare?",
        ),
        (vec![remove_pool("web")], "pool web is used by service www; remove it there first"),
        (
            vec![remove_backend("spare", "s1")],
            "pool spare would have no backend; add another one first, or remove the pool",
        ),
        (
            vec![remove_backend("web", "b2")],
            "pool web would have 1 backend(s) and a threshold of 2, and so never take a flow; \
             lower the threshold first, or add backends",
        ),
        (
            vec![Edit::SetPoolThreshold { pool: "web".to_owned(), threshold: 0 }],
            "pool web: threshold = 0 is out of range; write an integer from 1 to 50000",
        ),
        (
            vec![weight("web", "b1", 0)],
            "pool web gives every backend weight 0, so that none takes a flow; give one a weight \
             of 1 or more",
        ),
        (
            vec![weight("web", "b1", 1_000_001)],
            "pool web, backend b1: weight = 1000001 is out of range; write an integer from 0 to \
             1000000",
        ),
        (
            vec![add_backend("web", backend("b1", "192.0.2.13"))],
            "there is a backend web/b1 already; choose another name, or change that one",
        ),
        (
            vec![add_backend("web", backend("b3", "192.0.2.11"))],
            "backend web/b3 would have the address of web/b1, and so be the same; choose another \
             address, or give it a virtual_network of its own",
        ),
        (
            vec![add_backend("web", backend("b3", "192.0.2.100"))],
            "pool web, backend b3: address = \"192.0.2.100\" is a VIP (service www, vip tcp \
             192.0.2.100:80); write the backend's own address: the VIP belongs on its loopback",
        ),
        (
            vec![add_backend("web", backend("b3", "192.0.2.2"))],
            "pool web, backend b3: address = \"192.0.2.2\" is the appliance's own address (port \
             wan); write the backend's",
        ),
        (
            vec![Edit::AddService(on("192.0.2.100"))],
            "service app, vip tcp 192.0.2.100:80: ports = 80 TCP port 80 of 192.0.2.100 belongs to \
             service `www` already (service www, vip tcp 192.0.2.100:80); choose other ports for \
             service `app`, or another address",
        ),
        (
            vec![Edit::AddService(on("192.0.2.21"))],
            "pool spare, backend s1: address = \"192.0.2.21\" is a VIP (service app, vip tcp \
             192.0.2.21:80); write the backend's own address: the VIP belongs on its loopback",
        ),
        (
            vec![Edit::AddPool(Pool {
                monitor: Some("htpt".to_owned()),
                ..Pool::new("api", vec![backend("a1", "192.0.2.11")])
            })],
            "there is no monitor htpt; did you mean http?",
        ),
        (
            vec![Edit::AddPool(Pool::new("web", Vec::new()))],
            "there is a pool web already; choose another name, or change that one",
        ),
        (
            vec![set_pools("www", &["web", "web"])],
            "service www: pools[1] = \"web\" is there twice; name each pool once; service www has \
             it already",
        ),
        (
            vec![Edit::AddPool(Pool::new(long.clone(), vec![backend("a1", "192.0.2.11")]))],
            &format!(
                "pool {long}: name = \"{}… cannot be a name; write 1 to 63 of a-z, A-Z, 0-9, `.`, \
                 `_` and `-`, beginning with a letter or a digit",
                "x".repeat(59)
            ),
        ),
        (
            vec![Edit::AddService(Service {
                idle_timeout: Duration::from_micros(1_000_500),
                ..on("192.0.2.101")
            })],
            "service app: idle_timeout = \"1.0005s\" is not a duration; write a whole number and \
             its unit (ms, s, m or h), as in \"500ms\"",
        ),
    ] {
        let error = base.edit(&edits).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn all_edits_or_none_and_the_last_state_counts() {
    let base = parse(SMALL);
    let before = base.clone();
    // The second is wrong.
    let error = base.edit(&[weight("web", "b1", 3), weight("web", "b3", 3)]).unwrap_err();
    assert!(matches!(error, EditError::NotFound { kind: ObjectKind::Backend, .. }), "{error}");
    assert_eq!(base, before);
    // Between the two the pool is empty.
    let moved = [remove_backend("spare", "s1"), add_backend("spare", backend("s2", "192.0.2.22"))];
    assert_eq!(base.edit(&moved).unwrap().config.pools[1].backends[0].name, "s2");
    // A service before its pool, and a pool before it is free.
    let pool = || Edit::AddPool(Pool::new("api", vec![backend("a1", "192.0.2.31")]));
    let app = || Edit::AddService(service("app", &["api"], "192.0.2.101", &[(80, 80)]));
    base.edit(&[app(), pool()]).unwrap();
    base.edit(&[remove_pool("web"), set_pools("www", &["spare"])]).unwrap();
    // In the wrong order, names are not there yet.
    base.edit(&[add_backend("api", backend("a2", "192.0.2.32")), pool()]).unwrap_err();
    assert_eq!(base.edit(&[]).unwrap().config, base);
}

#[test]
fn what_is_worth_a_look_of_what_was_edited_is_told() {
    let base = parse(SMALL);
    let warnings = |edits: &[Edit]| base.edit(edits).unwrap().warnings;
    // What was asked for, and what concerns others, is no news.
    let web = || "web".to_owned();
    assert_eq!(warnings(&[weight("web", "b1", 3)]), [""; 0]);
    let draining = AdminState::Draining;
    let drain = Edit::SetPoolAdminState { pool: web(), admin_state: draining };
    assert_eq!(warnings(&[drain]), [""; 0]);

    let mut api = Pool::new("api", vec![backend("a1", "192.0.2.31"), backend("a2", "192.0.2.32")]);
    api.table_size = 101;
    let unused = "pool api is used by no service; name it in a service's pools";
    let uneven = "pool api: table_size = 101 is less than 100 slots for each of 2 backends, so that \
                  shares are uneven; write a larger prime";
    assert_eq!(warnings(&[Edit::AddPool(api.clone())]), [uneven, unused]);
    let app = service("app", &["api"], "203.0.113.1", &[(80, 80)]);
    let mut arp = app.clone();
    arp.vips[0].arp = true;
    let told = warnings(&[Edit::AddPool(api), Edit::AddService(arp)]);
    assert_eq!(told[0], uneven);
    assert!(told[1].starts_with("service app, vip tcp 203.0.113.1:80: arp = true"), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn there_can_be_so_many_and_no_more() {
    let mut base = parse(SMALL);
    let service = base.services[0].clone();
    base.services = (0..50_000)
        .map(|number| Service { name: format!("s{number}"), vips: Vec::new(), ..service.clone() })
        .collect();
    let error = base.edit(&[Edit::AddService(service.clone())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there would be 50001 services, and at most 50000 can be; remove some first"
    );
    let remove = Edit::RemoveService { service: "s7".to_owned() };
    base.edit(&[remove, Edit::AddService(service)]).unwrap();
}

fn random_edit(random: &mut Random) -> Edit {
    let names = |random: &mut Random| random.pick(&["b1", "b2", "b3", "b4", "b 5"]).to_owned();
    let pool = random.pick(&["web", "api", "dns", "x.y-z", "new", "-"]).to_owned();
    let service = random.pick(&["www", "app", "names", "s_1", "new"]).to_owned();
    let admin_state =
        random.pick(&[AdminState::Enabled, AdminState::Draining, AdminState::Disabled]);
    let addresses = [&random::BACKENDS[..], &random::VIPS, &["192.0.2.2", "127.0.0.1"]].concat();
    let server = |random: &mut Random| Backend {
        virtual_network: random.percent(30).then(|| "blue".to_owned()),
        weight: random.pick(&[0, 1, 5, 2_000_000]),
        probe_address: random.percent(10).then(|| "224.0.0.1".parse().unwrap()),
        ..Backend::new(names(random), random.pick(&addresses).parse().unwrap())
    };
    match random.below(12) {
        0 => Edit::AddPool(Pool {
            monitor: random.percent(30).then(|| random.pick(&random::MONITORS).to_owned()),
            table_size: random.pick(&[65_537, 65_537, 2, 100]),
            ..Pool::new(pool, (0..random.below(3)).map(|_| server(random)).collect())
        }),
        1 => Edit::RemovePool { pool },
        2 => Edit::SetPoolAdminState { pool, admin_state },
        3 => Edit::SetPoolThreshold { pool, threshold: random.below(4) },
        4 | 5 => Edit::AddBackend { pool, backend: server(random) },
        6 => Edit::RemoveBackend { pool, backend: names(random) },
        7 => Edit::SetBackendWeight {
            pool,
            backend: names(random),
            weight: random.pick(&[0, 0, 1, 1_000_000, 1_000_001]),
        },
        8 => Edit::SetBackendAdminState { pool, backend: names(random), admin_state },
        9 => {
            let vips = (0..random.below(4)).map(|_| {
                let first = random.pick(&[0, 1000, 1443, 2005, 3000]);
                let second = random.pick(&[0, 1000, 1444, 2999, 65_535]);
                let ranges = vec![PortRange { first, last: second }];
                let protocol = random.pick(&[Protocol::Tcp, Protocol::Udp]);
                Vip::new(random.pick(&addresses).parse().unwrap(), protocol, ranges)
            });
            let vips = vips.collect();
            let pools = random.some(&["web", "api", "dns", "new"], 0, 2);
            Edit::AddService(Service::new(
                service,
                pools.into_iter().map(str::to_owned).collect(),
                vips,
            ))
        }
        10 => Edit::RemoveService { service },
        _ => set_pools(&service, &random.some(&["web", "api", "dns", "new", "web"], 0, 3)),
    }
}

/// The same edits in the plainest way: without any rule but those about names that an edit finds or
/// adds.
fn naive(config: &mut Config, edit: &Edit) -> Option<()> {
    let pool_of =
        |config: &mut Config, name: &str| config.pools.iter().position(|pool| pool.name == name);
    let service_of = |config: &mut Config, name: &str| {
        config.services.iter().position(|service| service.name == name)
    };
    let backend_of = |config: &mut Config, pool: &str, name: &str| {
        let pool = pool_of(config, pool)?;
        let at = config.pools[pool].backends.iter().position(|backend| backend.name == name)?;
        Some((pool, at))
    };
    match edit {
        Edit::AddPool(pool) => {
            if pool_of(config, &pool.name).is_some() {
                return None;
            }
            config.pools.push(pool.clone());
        }
        Edit::RemovePool { pool } => {
            let at = pool_of(config, pool)?;
            config.pools.remove(at);
        }
        Edit::SetPoolAdminState { pool, admin_state } => {
            let at = pool_of(config, pool)?;
            config.pools[at].admin_state = *admin_state;
        }
        Edit::SetPoolThreshold { pool, threshold } => {
            let at = pool_of(config, pool)?;
            config.pools[at].threshold = *threshold;
        }
        Edit::AddBackend { pool, backend } => {
            let at = pool_of(config, pool)?;
            let is_same = |other: &Backend| {
                other.name == backend.name
                    || (&other.virtual_network, other.address)
                        == (&backend.virtual_network, backend.address)
            };
            if config.pools[at].backends.iter().any(is_same) {
                return None;
            }
            config.pools[at].backends.push(backend.clone());
        }
        Edit::RemoveBackend { pool, backend } => {
            let (pool, at) = backend_of(config, pool, backend)?;
            config.pools[pool].backends.remove(at);
        }
        Edit::SetBackendWeight { pool, backend, weight } => {
            let (pool, at) = backend_of(config, pool, backend)?;
            config.pools[pool].backends[at].weight = *weight;
        }
        Edit::SetBackendAdminState { pool, backend, admin_state } => {
            let (pool, at) = backend_of(config, pool, backend)?;
            config.pools[pool].backends[at].admin_state = *admin_state;
        }
        Edit::AddService(service) => {
            if service_of(config, &service.name).is_some() {
                return None;
            }
            config.services.push(service.clone());
        }
        Edit::RemoveService { service } => {
            let at = service_of(config, service)?;
            config.services.remove(at);
        }
        Edit::SetServiceAdminState { service, admin_state } => {
            let at = service_of(config, service)?;
            config.services[at].admin_state = *admin_state;
        }
        Edit::SetServicePools { service, pools } => {
            let at = service_of(config, service)?;
            config.services[at].pools.clone_from(pools);
        }
    }
    Some(())
}

/// What an edit accepts is exactly what the reader accepts of the whole, and the result is what the
/// reader makes of it.
#[test]
fn an_edit_is_judged_as_the_whole_text_is() {
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    static ACCEPTED: AtomicUsize = AtomicUsize::new(0);
    bolero::check!().with_iterations(600).with_type::<u64>().for_each(|seed| {
        let mut random = Random(*seed);
        let mut config = parse(&random::text(&mut random));
        // One edit after another where it was accepted, so that edits meet what edits made.
        for _ in 0..4 {
            let count = if random.percent(70) { 1 } else { 3 };
            let edits: Vec<_> = (0..count).map(|_| random_edit(&mut random)).collect();
            let mut plain = config.clone();
            let found = edits.iter().try_for_each(|edit| naive(&mut plain, edit).ok_or(()));
            let whole = found.ok().and_then(|()| config::parse(&config::to_toml(&plain)).ok());
            let edited = config.edit(&edits).map(|edited| edited.config);
            match (edited, whole) {
                (Ok(edited), Some((whole, _))) => {
                    assert_eq!(edited, whole, "{edits:#?}");
                    config = edited;
                    ACCEPTED.fetch_add(1, Relaxed);
                }
                (Err(error), None) => {
                    let text = error.to_string();
                    assert!(!text.contains("line ") && !text.contains("[0]."), "{text}");
                    REFUSED.fetch_add(1, Relaxed);
                }
                (edited, whole) => {
                    panic!("{edits:#?} on\n{}\n{edited:#?}\n{whole:#?}", config::to_toml(&config))
                }
            }
        }
    });
    let (refused, accepted) = (REFUSED.load(Relaxed), ACCEPTED.load(Relaxed));
    assert!(refused > 200 && accepted > 200, "{refused} refused, {accepted} accepted");
}

/// An edit takes time for what it concerns, not for what is there.
#[test]
fn an_edit_of_a_large_configuration_is_quick() {
    use std::fmt::Write as _;
    let mut text = SMALL.replace("192.0.2.2/24", "10.0.0.1/8");
    text = text.replace("192.0.2.", "10.0.0.");
    for pool in 0..1_000 {
        writeln!(text, "[[pool]]\nname = \"p{pool}\"\nmonitor = \"http\"").unwrap();
        for backend in 0..10 {
            let (high, low) = (pool / 250, pool % 250);
            writeln!(
                text,
                "[[pool.backend]]\nname = \"b{backend}\"\naddress = \"10.{}.{low}.{}\"",
                1 + high,
                backend + 1
            )
            .unwrap();
        }
    }
    for service in 0..10_000 {
        let pool = service / 10;
        let (high, low) = (service / 250, service % 250);
        writeln!(
            text,
            "[[service]]\nname = \"s{service}\"\npools = [\"p{pool}\"]\n[[service.vip]]\naddress = \
             \"10.9.{high}.{}\"\nprotocol = \"tcp\"\nports = [80, 443]",
            low + 1
        )
        .unwrap();
    }
    let config = parse(&text);
    let mut least = Duration::MAX;
    for run in 0..20 {
        let edit = Edit::SetBackendAdminState {
            pool: format!("p{}", 50 * run),
            backend: "b3".to_owned(),
            admin_state: AdminState::Draining,
        };
        #[expect(clippy::disallowed_methods, reason = "the time that it takes is what is tested")]
        let start = Instant::now();
        let edited = config.edit(&[edit]).unwrap();
        least = least.min(start.elapsed());
        drop(edited);
    }
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 10 });
    assert!(least < limit, "an edit takes {least:?}");
    // For those who measure: cargo test --release … -- --nocapture
    println!("an edit takes {least:?}");
}
