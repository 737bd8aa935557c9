//! What an operator does over the socket while the loop runs: verbs, batches, the file, flows.

use serde_json::{Value, json};

use super::Answer;
use super::running::{Appliance, SOON, file, two};
use crate::conntrack::{EntryState, Flow, Ipv4Key};
use crate::id::{BackendEpoch, BackendId, BackendRef, VipId};
use crate::packet::{FlowHash, FlowHashKey, FlowKey};
use crate::time::Tick;

fn code(answer: &Answer) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("not refused: {answer}"))
}

fn done(answer: &Answer) -> &Answer {
    assert!(answer.get("error").is_none(), "{answer}");
    &answer["result"]
}

fn weights(appliance: &Appliance) -> Vec<u64> {
    let backends = appliance.ask("show.backends");
    let backends = backends["pools"][0]["backends"].as_array().unwrap().clone();
    backends.iter().map(|backend| backend["weight"].as_u64().unwrap()).collect()
}

fn text_of(appliance: &Appliance) -> String {
    std::fs::read_to_string(appliance.path("lodestone.toml")).unwrap()
}

// HP-72, OPS-10
#[test]
fn backends_pools_and_services_come_and_go() {
    let appliance = Appliance::start(&two(), "");
    let add = json!({"backend": "web/b3", "address": "10.0.1.3", "weight": 0});
    assert_eq!(done(&appliance.call("backend.add", add.clone()))["changed"], true);
    assert_eq!(weights(&appliance), [1, 3, 0]);
    assert_eq!(code(&appliance.call("backend.add", add)), 7);
    let mut pool = json!({"pool": "far", "backends": [{"name": "f1", "address": "10.0.1.9"}]});
    done(&appliance.call("pool.add", pool.clone()));
    pool["backends"] = json!([]);
    pool["pool"] = json!("empty");
    assert_eq!(code(&appliance.call("pool.add", pool)), 7);
    let vips = json!([{"address": "10.0.0.101", "protocol": "udp", "ports": "53,1000-1999"}]);
    let service = json!({"service": "dns", "pools": ["far"], "vips": vips});
    done(&appliance.call("service.add", service));
    let services = appliance.ask("show.services");
    assert_eq!(services["services"][1]["vips"][0]["ports"], "53,1000-1999");
    // What is used stays.
    let used = appliance.call("pool.remove", json!({"pool": "far"}));
    assert!(used["error"]["message"].as_str().unwrap().contains("used by service dns"), "{used}");
    done(&appliance.call("service.reorder", json!({"service": "dns", "pools": ["web", "far"]})));
    let order = &appliance.ask("show.services")["services"][1]["pools"];
    assert_eq!((&*order[0]["name"], &*order[1]["name"]), (&json!("web"), &json!("far")));
    assert_eq!(code(&appliance.call("service.remove", json!({"service": "dns"}))), 6);
    done(&appliance.call("service.remove", json!({"service": "dns", "force": true})));
    done(&appliance.call("pool.remove", json!({"pool": "far"})));
    assert_eq!(appliance.ask("show.pools")["pools"].as_array().unwrap().len(), 1);
    for (method, params) in [
        ("pool.drain", json!({"pool": "web"})),
        ("pool.disable", json!({"pool": "web"})),
        ("service.drain", json!({"service": "site"})),
        ("service.disable", json!({"service": "site"})),
    ] {
        assert_eq!(code(&appliance.call(method, params.clone())), 6, "{method}");
        let mut forced = params;
        forced["force"] = json!(true);
        done(&appliance.call(method, forced.clone()));
        let enable = format!("{}.enable", method.split('.').next().unwrap());
        forced.as_object_mut().unwrap().remove("force");
        done(&appliance.call(&enable, forced));
    }
    for (method, params) in [
        ("pool.drain", json!({"pool": "none"})),
        ("service.enable", json!({"service": "none"})),
        ("backend.weight", json!({"backend": "web/none", "weight": 1})),
    ] {
        assert_eq!(code(&appliance.call(method, params)), 1, "{method}");
    }
}

// A refusal advises to lower the threshold: there is a verb for that.
#[test]
fn the_threshold_of_a_pool_is_set() {
    let appliance = Appliance::start(&two(), "threshold = 2");
    let drain = || appliance.call("backend.drain", json!({"backend": "web/b1"}));
    let refused = drain();
    assert_eq!(code(&refused), 6);
    assert!(refused["error"]["data"].to_string().contains("lower the threshold"), "{refused}");
    let set = |params: Value| appliance.call("pool.threshold", params);
    assert_eq!(done(&set(json!({"pool": "web", "threshold": 1})))["changed"], true);
    assert_eq!(done(&set(json!({"pool": "web", "threshold": 1})))["changed"], false);
    done(&drain());
    assert_eq!(appliance.ask("show.pools")["pools"][0]["threshold"], 1);
    assert_eq!(code(&set(json!({"pool": "web", "threshold": 2}))), 6);
    assert_eq!(done(&set(json!({"pool": "web", "threshold": 2, "force": true})))["changed"], true);
    assert_eq!(code(&set(json!({"pool": "web", "threshold": 3}))), 7, "more than it has backends");
    assert_eq!(code(&set(json!({"pool": "web", "threshold": 0}))), 7);
    assert_eq!(code(&set(json!({"pool": "none", "threshold": 1}))), 1);
}

// The file is what is wanted; what it takes away is told.
#[test]
fn warnings_of_verbs_and_reloads_are_in_the_answer() {
    let appliance = Appliance::start(&two(), "");
    let mut pool = json!({"pool": "far", "backends": [{"name": "f1", "address": "10.0.1.9"}]});
    pool["table_size"] = json!(61);
    let added = appliance.call("pool.add", pool);
    let warnings = done(&added)["warnings"].to_string();
    assert!(warnings.contains("pool far is used by no service"), "{warnings}");
    assert!(warnings.contains("pool far: table_size = 61"), "{warnings}");
    done(&appliance.call("config.save", Value::Null));
    let drained = text_of(&appliance)
        .replace("name = \"site\"", "name = \"site\"\nadmin_state = \"draining\"");
    appliance.write(&drained);
    let reloaded = appliance.call("reload", Value::Null);
    let warnings = done(&reloaded)["warnings"].to_string();
    assert!(warnings.contains("service site would take no new flows"), "{warnings}");
}

#[test]
fn a_batch_is_all_or_nothing_and_one_generation() {
    let appliance = Appliance::start(&two(), "");
    appliance.wait_until("probed", SOON, |a| a.ask("status")["generation"] != json!(0));
    let weight = |name: &str, weight| json!({"method": "backend.weight", "params": {"backend": name, "weight": weight}});
    done(&appliance.backend("enable", "web/b1"));
    let before = appliance.ask("status")["generation"].as_u64().unwrap();
    let wrong = json!({"changes": [weight("web/b1", 9), weight("web/none", 1)]});
    assert_eq!(code(&appliance.call("apply", wrong)), 1);
    assert_eq!(weights(&appliance), [1, 3]);
    let right = json!({"changes": [weight("web/b1", 9), weight("web/b2", 0)]});
    let answer = appliance.call("apply", right);
    assert_eq!(done(&answer)["generation"], before + 1);
    assert_eq!(weights(&appliance), [9, 0]);
    // A guard counts for the whole, and force in one change counts for all.
    let off = |force| {
        let disable = |name: &str, force: bool| json!({"method": "backend.disable", "params": {"backend": name, "force": force}});
        json!({"changes": [disable("web/b1", false), disable("web/b2", force)]})
    };
    assert_eq!(code(&appliance.call("apply", off(false))), 6);
    done(&appliance.call("apply", off(true)));
    // A service that is replaced with its VIP kept is no service removed.
    let replace = |vip: &str| {
        let vips = json!([{"address": vip, "protocol": "tcp", "ports": "80"}]);
        let add = json!({"service": "new", "pools": ["web"], "vips": vips});
        json!({"changes": [{"method": "service.remove", "params": {"service": "site"}},
                           {"method": "service.add", "params": add}]})
    };
    assert_eq!(code(&appliance.call("apply", replace("10.0.0.101"))), 6);
    done(&appliance.call("apply", replace("10.0.0.100")));
}

#[test]
fn a_reload_undoes_nothing_that_was_not_saved_unless_forced() {
    let appliance = Appliance::start(&two(), "");
    done(&appliance.backend("drain", "web/b2"));
    assert_eq!(appliance.ask("status")["unsaved_changes"], 1);
    let diff = appliance.ask("config.diff");
    assert_eq!(diff["file_changed"], false);
    assert_eq!(diff["differences"][0]["running"], "draining", "{diff}");
    let refused = appliance.call("reload", Value::Null);
    assert_eq!(code(&refused), 6);
    assert!(refused["error"]["data"][0].as_str().unwrap().contains("draining"), "{refused}");
    // A file with the same wish undoes nothing.
    let wish =
        file(&two(), "").replace("name = \"b2\"", "name = \"b2\"\nadmin_state = \"draining\"");
    appliance.write(&wish);
    assert_eq!(done(&appliance.call("reload", Value::Null))["changed"], false);
    assert_eq!(appliance.ask("status")["unsaved_changes"], 0);
    done(&appliance.backend("disable", "web/b2"));
    let forced = appliance.call("reload", json!({"force": true}));
    assert!(done(&forced)["warnings"].to_string().contains("undone"), "{forced}");
    let state = &appliance.ask("show.backends")["pools"][0]["backends"][1]["admin_state"];
    assert_eq!(*state, "draining");
}

#[test]
fn a_save_keeps_comments_and_undoes_nothing_unless_forced() {
    let appliance = Appliance::start(&two(), "");
    let commented = format!("# by hand\n{}", file(&two(), ""));
    appliance.write(&commented);
    let nothing = appliance.call("config.save", Value::Null);
    assert_eq!(
        (&*done(&nothing)["written"], &*nothing["result"]["changed"]),
        (&json!(0), &json!(false))
    );
    let zero = json!({"backend": "web/b1", "weight": 0});
    done(&appliance.call("backend.weight", zero));
    assert_eq!(done(&appliance.call("config.save", Value::Null))["written"], 1);
    let saved = text_of(&appliance);
    assert!(saved.starts_with("# by hand\n") && saved.contains("weight = 0"), "{saved}");
    assert_eq!(appliance.ask("config.diff")["differences"], json!([]));
    // HP-40: what was saved is read again as zero.
    assert_eq!(done(&appliance.call("reload", Value::Null))["changed"], false);
    assert_eq!(weights(&appliance), [0, 3]);

    let by_another = saved.replace("weight = 3", "weight = 7");
    appliance.write(&by_another);
    done(&appliance.backend("drain", "web/b2"));
    assert_eq!(appliance.ask("config.diff")["file_changed"], true);
    let refused = appliance.call("config.save", Value::Null);
    assert_eq!(code(&refused), 6);
    assert!(refused["error"]["data"].to_string().contains("weight 3 -> 7"), "{refused}");
    assert_eq!(text_of(&appliance), by_another);
    done(&appliance.call("config.save", json!({"force": true})));
    assert!(text_of(&appliance).contains("weight = 3"));
    // Order is no difference.
    let saved = text_of(&appliance);
    let (head, service) = saved.split_at(saved.find("[[service]]").unwrap());
    let (head, pool) = head.split_at(head.find("[[pool]]").unwrap());
    appliance.write(&[head, service, pool].concat());
    assert_eq!(appliance.ask("config.diff")["file_changed"], false);
    done(&appliance.call("config.save", Value::Null));
    appliance.write("no toml");
    let replaced = appliance.call("config.save", json!({"force": true}));
    assert_eq!(
        (&*done(&replaced)["changed"], &*replaced["result"]["written"]),
        (&json!(true), &json!(0))
    );
    appliance.write("no toml");
    assert_eq!(code(&appliance.call("config.save", Value::Null)), 6);
    assert_eq!(code(&appliance.call("reload", Value::Null)), 2);
}

#[test]
fn the_running_configuration_is_shown_without_its_secret() {
    let appliance = Appliance::start(&two(), "");
    done(&appliance.call("backend.weight", json!({"backend": "web/b1", "weight": 5})));
    let shown = appliance.ask("show.config");
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("weight = 5") && !text.contains("0001020304"), "{text}");
    assert_eq!(shown["unsaved_changes"], 1);
}

#[test]
fn drains_tell_how_many_flows_are_left() {
    let appliance = Appliance::start(&two(), "");
    assert_eq!(appliance.ask("show.drains")["drains"], json!([]));
    track(&appliance, 0, 3);
    let has_flows =
        |a: &Appliance| a.ask("show.backends")["pools"][0]["backends"][0]["flows"] == json!(3);
    appliance.wait_until("tracked", SOON, has_flows);
    done(&appliance.backend("drain", "web/b1"));
    let drains = appliance.ask("show.drains");
    let drain = &drains["drains"][0];
    assert_eq!((&*drain["backend"], &*drain["by"]), (&json!("web/b1"), &json!("backend")));
    assert_eq!((&*drain["flows_at_start"], &*drain["flows"]), (&json!(3), &json!(3)));
    let filter = json!({"filter": {"backend": "web/b1"}});
    assert_eq!(done(&appliance.call("conntrack.flush", filter))["removed"], 3);
    assert_eq!(appliance.ask("show.drains")["drains"][0]["flows"], 0);
    done(&appliance.backend("enable", "web/b1"));
    assert_eq!(appliance.ask("show.drains")["drains"], json!([]));
}

// Ports answer for a VIP by the tables.
#[test]
fn a_vip_that_is_not_to_be_answered_for_any_more_is_published() {
    let appliance = Appliance::start(&two(), "");
    appliance.wait_until("served", SOON, |a| {
        a.call("explain.flow", params(1))["result"]["vip"].is_object()
    });
    let before = appliance.ask("show.tables")["generation"].as_u64().unwrap();
    let vip = r#"protocol = "tcp""#;
    let text = text_of(&appliance);
    assert!(text.contains(vip), "{text}");
    let without = text.replacen(vip, &format!("{vip}\narp = false"), 1);
    std::fs::write(appliance.path("lodestone.toml"), without).unwrap();
    let reload = appliance.call("reload", Value::Null);
    assert!(done(&reload)["generation"].as_u64().unwrap() > before, "{reload}");
    assert_eq!(reload["result"]["workers_adopted"], 1);
}

// OPS-08: the client's true address is told.
#[test]
fn flows_are_listed_explained_and_flushed() {
    let appliance = Appliance::start(&two(), "");
    appliance.wait_until("served", SOON, |a| {
        a.call("explain.flow", params(1)).pointer("/result/vip").is_some_and(Value::is_object)
    });
    track(&appliance, 1, 5);
    let matched = |a: &Appliance| a.call("show.flows", json!({"limit": 2}))["result"].clone();
    appliance.wait_until("tracked", SOON, |a| matched(a)["matched"] == json!(5));
    let shown = matched(&appliance);
    assert_eq!(shown["flows"].as_array().unwrap().len(), 2);
    let flow = &shown["flows"][0];
    assert!(flow["source"].as_str().unwrap().starts_with("192.0.2."), "{flow}");
    assert_eq!(
        (&*flow["destination"], &*flow["backend"]),
        (&json!("10.0.0.100"), &json!("web/b2"))
    );
    let told = appliance.call("explain.flow", params(2));
    let told = done(&told);
    assert_eq!(told["tracked"][0]["backend"], "web/b2", "{told}");
    assert_eq!(told["later_packet"]["basis"], "entry");
    assert_eq!(told["first_packet"]["basis"], "tables");

    let filter = |filter: Value| json!({"filter": filter});
    assert_eq!(code(&appliance.call("conntrack.flush", Value::Null)), 6, "all of them");
    for all in [json!({"family": "ipv4"}), json!({"client": "0.0.0.0/0"})] {
        assert_eq!(code(&appliance.call("conntrack.flush", filter(all.clone()))), 6, "{all}");
    }
    for (wrong, expected) in [
        (json!({"backend": "web/none"}), 1),
        (json!({"vip": "10.0.0.9"}), 1),
        (json!({"protocol": "tcp"}), -32602),
        (json!({"client": "nonsense"}), -32602),
    ] {
        assert_eq!(code(&appliance.call("show.flows", filter(wrong.clone()))), expected, "{wrong}");
    }
    assert_eq!(code(&appliance.call("show.flows", json!({"limit": 0}))), -32602);
    let flushes = |a: &Appliance| {
        let events = a.ask("show.events")["events"].clone();
        let is_flush = |event: &&Value| {
            event["message"].as_str().is_some_and(|text| text.starts_with("conntrack.flush"))
        };
        events.as_array().unwrap().iter().filter(is_flush).count()
    };
    assert_eq!(flushes(&appliance), 0, "what was refused changed nothing");
    let one = appliance.call("conntrack.flush", filter(json!({"client": "192.0.2.3"})));
    assert_eq!(done(&one)["removed"], 1);
    assert_eq!(flushes(&appliance), 1);
    let none = appliance.call("conntrack.flush", filter(json!({"client": "192.0.2.3"})));
    assert_eq!((&*done(&none)["removed"], flushes(&appliance)), (&json!(0), 1));
    let rest = appliance.call("conntrack.flush", filter(json!({"vip": "10.0.0.100"})));
    assert_eq!(done(&rest)["removed"], 4);
    assert_eq!(matched(&appliance)["matched"], 0);
    assert_eq!(flushes(&appliance), 2);
    let mixed = json!({"source": "::1", "source_port": 1, "destination": "10.0.0.100",
                       "destination_port": 80, "protocol": "tcp"});
    assert_eq!(code(&appliance.call("explain.flow", mixed)), -32602);
}

fn params(last: u8) -> Value {
    json!({"source": format!("192.0.2.{last}"), "source_port": 4000, "destination": "10.0.0.100",
           "destination_port": 80, "protocol": "tcp"})
}

/// The worker tracks `count` flows to the backend in this slot from now on.
fn track(appliance: &Appliance, slot: u16, count: u8) {
    let key: FlowHashKey = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let backend = BackendRef { id: BackendId(slot), epoch: BackendEpoch(0) };
    for last in 1..=count {
        let source = [192, 0, 2, last].into();
        let flow = FlowKey::V4 {
            source,
            destination: [10, 0, 0, 100].into(),
            source_port: 4_000,
            destination_port: 80,
            protocol: 6,
        };
        let hash: FlowHash = key.hash(&flow);
        let entry = Flow::new(backend, EntryState::Established, Tick(1), 600_000);
        let tracked = (Ipv4Key::new(source, 4_000, 80, VipId(0)), hash, entry);
        appliance.knobs.flows.lock().unwrap().push(tracked);
    }
}
