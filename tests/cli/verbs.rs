//! The program against a daemon that gives canned answers: output, refusals, exit codes.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use lodestone::control::protocol::Request;

const DRAIN: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"backend.drain","params":{"backend":"web/b1"}}"#;
const CHANGED: &str = r#"{"generation":8,"changed":true,"workers_adopted":2}"#;

fn lodectl(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodectl"));
    command.arg("--socket").arg(socket).args(arguments).output().unwrap()
}

/// Runs `lodectl` against one answer; returns what it sent, too.
fn answered(answer: &str, arguments: &[&str]) -> (String, Output) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("admin.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = format!("{answer}\n");
    let daemon = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        reader.read_line(&mut request).unwrap();
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        request
    });
    let output = lodectl(&socket, arguments);
    (daemon.join().unwrap().trim_end().to_owned(), output)
}

fn result(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
}

#[test]
fn a_verb_is_asked_and_its_answer_shown() {
    let (request, output) = answered(&result(CHANGED), &["backend", "drain", "web/b1"]);
    assert_eq!(request, DRAIN);
    assert_eq!(output.stdout, b"done: 2 workers run generation 8\n");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn json_is_the_result_as_it_came() {
    // Members in an order, and with one, that this lodectl does not know.
    let odd = r#"{"new":[1, 2],"workers_adopted":2,"changed":true,"generation":8}"#;
    let (_, output) = answered(&result(odd), &["backend", "drain", "web/b1", "--json"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{odd}\n"));
}

/// Every verb that asks the daemon: its words, the method, a result, and what a person sees of it.
const VERBS: &[(&[&str], &str, &str, &str)] = &[
    (
        &["status"],
        "status",
        r#"{"name":"lb1","version":"0.1.0","commit":"abc","dpdk":"22.11","uptime_seconds":7,"generation":3,"digests":{"configuration":"0a","inputs":"0b","tables":"0c"},"config_path":"/f","unsaved_changes":2,"workers":[],"ports":[],"services":[],"management":{"core":0,"restarts":1},"alarms":["look"]}"#,
        "2 changes at run time",
    ),
    (
        &["show", "services"],
        "show.services",
        r#"{"services":[{"name":"www","admin_state":"draining","vips":[{"address":"192.0.2.1","protocol":"tcp","ports":"80"}],"steering":"failover","affinity":"client-ip-port-proto","idle_timeout_ms":1000,"pools":[],"reason":"why","traffic":{"packets":1,"bytes":2,"new_flows":3}}]}"#,
        "www (draining)",
    ),
    (
        &["show", "pools"],
        "show.pools",
        r#"{"pools":[{"name":"web","admin_state":"enabled","region":"r","zone":null,"monitor":"http","healthy":2,"total":3,"threshold":1,"basis":"ready","services":["www"],"packets":1,"bytes":2,"new_flows":3,"flows":4}]}"#,
        "in r, monitor http; used by www",
    ),
    (
        &["show", "backends"],
        "show.backends",
        r#"{"pools":[{"pool":"web","backends":[{"name":"b1","address":"10.0.0.1","admin_state":"enabled","health":"up","weight":0,"share":0.5,"packets":1,"bytes":2,"new_flows":3,"flows":4,"next_hop":null,"probes":[]}]}]}"#,
        "next hop unresolved",
    ),
    (
        &["show", "health"],
        "show.health",
        r#"{"backends":[{"backend":"web/b1","monitor":"http","address":"10.0.0.1","health":"down","since_ms":1500,"cause":"refused","probes":[{"age_ms":1,"took_ms":2,"failure":"refused"}]}]}"#,
        "last failure: refused",
    ),
    (
        &["show", "drains"],
        "show.drains",
        r#"{"drains":[{"backend":"web/b1","by":"pool","since_ms":1000,"flows_at_start":9,"flows":0,"packets":3}]}"#,
        "done: no tracked flow is left",
    ),
    (&["show", "workers"], "show.workers", r#"{"workers":[]}"#, "WORKER"),
    (
        &["show", "ports"],
        "show.ports",
        r#"{"ports":[{"name":"lan","device":"d","driver":"net_virtio","mac":"02:00:00:00:00:01","addresses":["10.0.0.2/24"],"mtu":1500,"vlan":7,"link_up":true,"speed_mbps":10000,"queues":2,"rss":"missing","rss_key":null,"rss_table":[],"rx_packets":1,"rx_bytes":2,"rx_missed":0,"rx_errors":0,"rx_no_buffer":0,"tx_packets":3,"tx_bytes":4,"tx_errors":0,"link_changes":2,"resets":1,"features":[{"name":"rss","done_by":"missing","detail":"the device cannot"}]}],"buffers_in_use":5,"buffers":100}"#,
        "packet buffers: 5 of 100 in use",
    ),
    (
        &["show", "tables"],
        "show.tables",
        r#"{"generation":3,"digests":{"configuration":"0a","inputs":"0b","tables":"0c"},"held":1,"slot_arrays":2,"slot_arrays_free":3,"services":[{"service":"www","level1":"single","pools":["web"]}],"pools":[{"pool":"web","slots":65537,"members":2,"evenness":0.99}]}"#,
        "digest of the tables         0c",
    ),
    (&["show", "conntrack"], "show.conntrack", r#"{"shards":[]}"#, "ENTRIES"),
    (
        &["show", "flows", "--client", "192.0.2.0/24", "--limit", "1"],
        "show.flows",
        r#"{"flows":[{"worker":1,"source":"192.0.2.7","source_port":4000,"destination":"10.0.0.100","destination_port":80,"protocol":"tcp","backend":null,"state":"established","expires_in_ms":5000}],"matched":2,"buckets":8}"#,
        "1 of 2 flows; --limit shows more",
    ),
    (
        &["show", "drops"],
        "show.drops",
        r#"{"workers":[0],"reasons":[{"reason":"not-vip","description":"It is none.","total":3,"per_worker":[3]}]}"#,
        "not-vip",
    ),
    (
        &["show", "neighbours"],
        "show.neighbours",
        r#"{"neighbours":[{"port":"lan","address":"10.0.0.1","mac":null,"state":"incomplete","heard_ms":null}]}"#,
        "unresolved",
    ),
    (
        &["show", "events", "--limit", "5"],
        "show.events",
        r#"{"events":[{"number":1,"time_ms":0,"kind":"health-changed","severity":"warning","subject":"web/b1","message":"down","from":"up","to":"down","cause":"refused","votes":{"up":0,"down":1},"probes":[]}],"newest":1}"#,
        "1970-01-01 00:00:00.000 warning health-changed web/b1: down",
    ),
    (
        &["show", "config"],
        "show.config",
        r#"{"path":"/f","text":"[appliance]\n","unsaved_changes":0}"#,
        "[appliance]",
    ),
    (
        &["show", "version"],
        "show.version",
        r#"{"version":"0.1.0","commit":"abc","dpdk":"22.11"}"#,
        "lodestone 0.1.0 (commit abc, DPDK 22.11)",
    ),
    (
        &["diff"],
        "config.diff",
        r#"{"path":"/f","file_changed":true,"differences":[{"object":"pool web, backend b1","key":"weight","running":"0","file":"1"}]}"#,
        "  - weight = 1\n  + weight = 0\n",
    ),
    (
        &["explain", "flow", "192.0.2.7", "4000", "10.0.0.100", "80", "tcp"],
        "explain.flow",
        r#"{"source":"192.0.2.7","source_port":4000,"destination":"10.0.0.100","destination_port":80,"protocol":"tcp","generation":3,"vip":{"vip":1,"ports":"80","service":"www"},"affinity":{"kind":"client-ip-port-proto","fields":["source 192.0.2.7"]},"hash":"00000000000000ff","level1":{"pool":"web","slots":0,"slot":null,"reason":"it is first"},"level2":{"slots":251,"slot":4,"current":"web/b1","reason":"it owns 99"},"tracked":[],"silent_workers":[1],"first_packet":{"basis":"tables","backend":"web/b1","drop":"no-next-hop","encapsulation":null},"later_packet":{"basis":"tables","backend":"web/b1","drop":"no-next-hop","encapsulation":null}}"#,
        "slot 4 of 251: web/b1; it owns 99",
    ),
    (
        &["service", "add", "www", "--pool", "web", "--vip", "192.0.2.1/tcp/80"],
        "service.add",
        CHANGED,
        "done: 2 workers run generation 8",
    ),
    (&["service", "remove", "www"], "service.remove", CHANGED, "done"),
    (&["service", "drain", "www"], "service.drain", CHANGED, "done"),
    (&["service", "enable", "www"], "service.enable", CHANGED, "done"),
    (&["service", "disable", "www", "--force"], "service.disable", CHANGED, "done"),
    (&["service", "reorder", "www", "far", "web"], "service.reorder", CHANGED, "done"),
    (&["pool", "add", "web", "--backend", "b1=10.0.0.1,weight=0"], "pool.add", CHANGED, "done"),
    (&["pool", "remove", "web"], "pool.remove", CHANGED, "done"),
    (&["pool", "drain", "web"], "pool.drain", CHANGED, "done"),
    (&["pool", "enable", "web"], "pool.enable", CHANGED, "done"),
    (&["pool", "disable", "web"], "pool.disable", CHANGED, "done"),
    (&["pool", "threshold", "web", "2"], "pool.threshold", CHANGED, "done"),
    (&["backend", "add", "web/b1", "10.0.0.1", "--weight", "0"], "backend.add", CHANGED, "done"),
    (&["backend", "remove", "web/b1"], "backend.remove", CHANGED, "done"),
    (&["backend", "weight", "web/b1", "0"], "backend.weight", CHANGED, "done"),
    (&["backend", "drain", "web/b1"], "backend.drain", CHANGED, "done"),
    (&["backend", "enable", "web/b1"], "backend.enable", CHANGED, "done"),
    (&["backend", "disable", "web/b1"], "backend.disable", CHANGED, "done"),
    (
        &["conntrack", "flush", "--backend", "web/b1"],
        "conntrack.flush",
        r#"{"removed":7,"buckets":100}"#,
        "forgot 7 flows",
    ),
    (&["reload"], "reload", CHANGED, "done"),
    (
        &["config", "save"],
        "config.save",
        r#"{"path":"/f","changed":true,"written":1,"warnings":["look"]}"#,
        "wrote 1 change to /f\nwarning: look",
    ),
    (
        &["config", "save"],
        "config.save",
        r#"{"path":"/f","changed":false,"written":0}"#,
        "/f says already what runs",
    ),
    (
        &["config", "save"],
        "config.save",
        r#"{"path":"/f","changed":true,"written":0}"#,
        "wrote /f anew",
    ),
];

#[test]
fn every_method_has_a_verb() {
    let asked: BTreeSet<_> = VERBS.iter().map(|(_, method, ..)| *method).collect();
    // What has a test of its own: a stream, and several changes at once.
    let others = ["apply", "subscribe"];
    let all = Request::METHODS.iter().map(|method| method.name);
    let all: BTreeSet<_> = all.filter(|name| !others.contains(name)).collect();
    assert_eq!(asked, all);
}

#[test]
fn every_verb_is_shown_to_people_and_to_programs() {
    for (words, method, sent, seen) in VERBS {
        let (request, output) = answered(&result(sent), words);
        assert!(request.contains(&format!(r#""method":"{method}""#)), "{request}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (code, complaint) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert_eq!((code, &*complaint), (Some(0), ""), "{method}");
        assert!(text.contains(seen), "{method}: {text}");
        assert!(!text.contains('\x1b'), "colours on a pipe: {text:?}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{method}: {line:?}");
        }
        let (_, output) = answered(&result(sent), &[*words, &["--json"]].concat());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{sent}\n"), "{method}");
    }
}

// HP-40
#[test]
fn a_weight_of_zero_is_sent_as_zero() {
    let zero = |words: &[&str]| answered(&result(CHANGED), words).0.contains(r#""weight":0"#);
    assert!(zero(&["backend", "weight", "web/b1", "0"]));
    assert!(zero(&["backend", "add", "web/b1", "10.0.0.1", "--weight", "0"]));
    assert!(zero(&["pool", "add", "web", "--backend", "b1=10.0.0.1,weight=0"]));
    assert!(!zero(&["backend", "add", "web/b1", "10.0.0.1"]), "absent is not zero");
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let (words, _, sent, _) =
        VERBS.iter().find(|(_, method, ..)| *method == "show.health").unwrap();
    let (_, output) = answered(&result(sent), &[*words, &["--color", "always"]].concat());
    assert!(String::from_utf8(output.stdout).unwrap().contains("\x1b["));
}

#[test]
fn a_batch_is_one_request_and_names_its_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("batch");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "# two\nbackend drain web/b1 --force\n\npool remove old # gone\n")
        .unwrap();
    let (request, output) = answered(&result(CHANGED), &["batch", path]);
    assert_eq!(
        request,
        r#"{"jsonrpc":"2.0","id":1,"method":"apply","params":{"changes":[{"method":"backend.drain","params":{"backend":"web/b1","force":true}},{"method":"pool.remove","params":{"pool":"old"}}]}}"#
    );
    assert_eq!(output.status.code(), Some(0));
    std::fs::write(&file, "backend drain\nstatus\nbackend drain web/b1\n").unwrap();
    let output = lodectl(Path::new("/x"), &["batch", path]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("nothing was changed"), "{text}");
    assert!(text.contains("line 1:") && text.contains("line 2: only changes"), "{text}");
    std::fs::write(&file, "# nothing\n").unwrap();
    let output = lodectl(Path::new("/x"), &["batch", path]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("has no change"));
}

#[test]
fn a_refusal_is_shown_for_every_verb() {
    let refusal =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":2,"message":"no; mend it","data":["line 3"]}}"#;
    for (words, method, ..) in VERBS {
        let (request, output) = answered(refusal, words);
        assert!(request.contains(&format!(r#""method":"{method}""#)), "{request}");
        assert_eq!(output.status.code(), Some(1), "{method}");
        assert_eq!(output.stdout, b"", "{method}");
        assert_eq!(output.stderr, b"lodectl: no; mend it\n  - line 3\n", "{method}");
    }
}

#[test]
fn a_strange_answer_is_a_failure() {
    for answer in ["garbage", "{}", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, &result("{}")] {
        let (_, output) = answered(answer, &["reload"]);
        assert_eq!(output.status.code(), Some(1), "{answer}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("is lodectl of the daemon's version?"), "{answer}: {text}");
    }
}

#[test]
fn a_daemon_that_does_not_run_is_told() {
    let output = lodectl(Path::new("/nonexistent/admin.sock"), &["status"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is lodestoned running?"), "{text}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [&["backend", "drain", "b1"][..], &["show"], &["frobnicate"]] {
        assert_eq!(lodectl(Path::new("/x"), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn check_config_and_version_need_no_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    std::fs::write(&file, "unknown_key = 1\n").unwrap();
    let file = file.to_str().unwrap();
    let output = lodectl(Path::new("/x"), &["check-config", file]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is not valid") && text.contains("unknown_key"), "{text}");
    let output = lodectl(Path::new("/x"), &["version"]);
    assert!(output.stdout.starts_with(b"lodectl "));
    assert_eq!(output.status.code(), Some(0));
}
