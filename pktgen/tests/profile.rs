//! Profiles as people run them: against an appliance in the process, and over virtual devices that
//! reach nobody.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Runs `pktgen` with a profile's text.
fn pktgen(profile: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    run(&folder, profile, arguments)
}

fn run(folder: &TempDir, profile: &str, arguments: &[&str]) -> Output {
    let path = folder.path().join("profile.toml");
    fs::write(&path, profile).unwrap();
    Command::new(env!("CARGO_BIN_EXE_pktgen"))
        .args(["--no-hugepages", "--json", "--profile"])
        .arg(path)
        .args(arguments)
        .output()
        .unwrap()
}

fn appliance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("appliances/gateway.toml")
}

fn in_process(profile: &str) -> Output {
    pktgen(profile, &["--in-process", appliance().to_str().unwrap()])
}

/// The report of a run that ended well.
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The sentence of a run that never began.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// Connections with a changing set of backends, shorter than `profiles/changes.toml`.
const CHANGES: &str = r#"
mode = "verify"
packets = 60_000
[[traffic]]
share = 3
kind = "tcp"
source = "198.18.0.0/16"
destination = "203.0.113.1"
port = 80
flows = 5_000
size = [60, 200]
life = { concurrent = 500, length = [3, 9] }
[[traffic]]
kind = "udp"
source = "2001:db8:aaaa::/64"
destination = "2001:db8:1::2"
port = 443
flows = 500
[[change]]
at_packet = 15_000
method = "backend.drain"
params = { backend = "web/b2" }
[[change]]
at_packet = 15_000
when = "drained"
method = "backend.remove"
params = { backend = "web/b2" }
[[change]]
at_packet = 40_000
method = "backend.add"
params = { backend = "web/b6", address = "10.9.0.6" }
"#;

// L4-09, L4-41
#[test]
fn nothing_is_wrong_while_a_backend_drains_and_goes_and_another_comes() {
    let report = report(&in_process(CHANGES));
    assert_eq!(report["sent"], 60_000);
    assert_eq!(report["returned"], 60_000);
    let verification = &report["verification"];
    assert_eq!(verification["violations"], 0);
    let changes = verification["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 3);
    assert!(changes.iter().all(|change| change["adopted_at_packet"].is_u64()), "{changes:?}");
    assert_eq!(verification["moves"]["outlived_drain"], 0, "the drain had ended");
    assert!(verification["latency"]["p50_ns"].as_u64().unwrap() > 0);
    assert!(report["appliance_drops"].is_object());
}

#[test]
fn who_outlives_a_drain_is_counted_apart() {
    let profile = CHANGES.replace("when = \"drained\"", "").replace("[3, 9]", "[3, 300]");
    let report = report(&in_process(&profile));
    let verification = &report["verification"];
    assert_eq!(verification["violations"], 0);
    assert!(verification["moves"]["outlived_drain"].as_u64().unwrap() > 0, "{verification}");
}

#[test]
fn what_must_be_dropped_and_is_not_is_a_violation() {
    let profile = CHANGES.replace("flows = 500\n", "flows = 500\nexpect = \"dropped\"\n");
    let output = in_process(&profile);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let by_kind = &report["verification"]["by_kind"];
    assert!(by_kind["not_dropped"].as_u64().unwrap() > 10_000, "{by_kind}");
    assert_eq!(by_kind.as_object().unwrap().len(), 1, "{by_kind}");
}

#[test]
fn a_backend_that_is_disabled_at_first_can_be_enabled_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("appliance.toml");
    let text = fs::read_to_string(appliance()).unwrap();
    let text = text.replacen("weight = 2 }", "weight = 2, admin_state = \"disabled\" }", 1);
    fs::write(&path, text).unwrap();
    let profile = CHANGES.replace(
        "method = \"backend.add\"\nparams = { backend = \"web/b6\", address = \"10.9.0.6\" }",
        "method = \"backend.enable\"\nparams = { backend = \"web/b3\" }",
    );
    let arguments = ["--in-process", path.to_str().unwrap()];
    let report = report(&run(&folder, &profile, &arguments));
    assert_eq!(report["verification"]["violations"], 0);
    let refused = refusal(&run(&folder, &profile.replace("web/b3", "web/b9"), &arguments));
    assert!(refused.contains("has no backend `b9`"), "{refused}");
}

const COUNT: &str = r#"
mode = "count"
packets = 200_000
[[traffic]]
kind = "ack"
source = "198.18.0.0/16"
destination = "203.0.113.1"
port = 80
flows = 100_000
"#;

#[test]
fn counting_says_how_fast_the_generator_itself_is() {
    let report = report(&in_process(COUNT));
    assert_eq!(report["sent"], 200_000);
    assert_eq!(report["bytes"], 200_000 * 60);
    assert!(report["generator_packets_per_second"].as_f64().unwrap() > 10_000.0);
    assert!(report["verification"].is_null());
}

#[test]
fn a_device_that_takes_all_needs_no_appliance() {
    let mac = ["--device", "net_null0", "--destination-mac", "02:00:00:00:00:01"];
    assert_eq!(report(&pktgen(COUNT, &mac))["sent"], 200_000);
    assert!(refusal(&pktgen(COUNT, &mac[..2])).contains("--destination-mac"));
    assert!(refusal(&pktgen(COUNT, &[])).contains("--device"));
    assert!(refusal(&pktgen(CHANGES, &mac)).contains("--appliance CONFIG"));
}

#[test]
fn the_generator_measures_itself() {
    let output = pktgen(COUNT, &["--self-test"]);
    let report = report(&output);
    let rate = report["generator_packets_per_second"].as_f64().unwrap();
    let cycles = report["cycles_per_packet"].as_f64().unwrap();
    let hz = report["tsc_hz"].as_f64().unwrap();
    assert!((rate * cycles / hz - 1.0).abs() < 1e-6, "{report}");
}

#[test]
fn a_search_finds_rates_and_writes_tables_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let profile = COUNT.replace("packets = 200_000", "").replace(
        "[[traffic]]",
        "[search]\ntrial = \"50ms\"\nprecision = 0.5\nflows = [100, 10_000]\nloads = [0.5]\n\
         [[traffic]]\nsize = 80",
    );
    let files = folder.path().to_str().unwrap();
    let output = run(
        &folder,
        &profile,
        &["--in-process", appliance().to_str().unwrap(), "--csv", files, "--svg", files],
    );
    let report = report(&output);
    let found = report["found"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|found| !found["trials"].as_array().unwrap().is_empty()));
    for found in found {
        // A busy machine may carry nothing without loss; then no latency is measured.
        if found["no_drop"].as_f64().unwrap() > 0.0 {
            assert!(found["latency"][0]["latency"]["packets"].as_u64().unwrap() > 0, "{found}");
        }
        assert!(found["partial_drop"].as_f64() >= found["no_drop"].as_f64());
    }
    let rates = fs::read_to_string(folder.path().join("rate.csv")).unwrap();
    assert_eq!(rates.lines().count(), 3, "{rates}");
    for name in ["rate.svg", "latency.svg"] {
        assert!(fs::read_to_string(folder.path().join(name)).unwrap().starts_with("<svg "));
    }
    assert!(folder.path().join("latency.csv").exists());
}

#[test]
fn mistakes_are_one_sentence_and_nothing_is_sent() {
    for (from, to, needle) in [
        ("flows = 500", "flow = 500", "unknown field `flow`"),
        ("packets = 60_000", "packets = 60_000\nrate = { packets_per_second = 0 }", "impossible"),
        ("mode = \"verify\"", "mode = ", "line 2"),
        ("203.0.113.1", "203.0.113.9", "no service of the appliance has 203.0.113.9 port 80"),
        ("web/b6\"", "nope/b6\"", "no pool `nope`"),
        ("backend.add", "backend.join", "backend.join"),
    ] {
        let text = refusal(&in_process(&CHANGES.replacen(from, to, 1)));
        assert!(text.starts_with("pktgen: ") && text.contains(needle), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("appliance.toml");
    let text = fs::read_to_string(appliance()).unwrap();
    for (from, to, needle) in [
        ("workers = [1]", "workers = [0, 1]", "has 2 workers"),
        ("management = 0", "managment = 0", "managment"),
    ] {
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let output = run(&folder, COUNT, &["--in-process", path.to_str().unwrap()]);
        assert!(refusal(&output).contains(needle), "{output:?}");
    }
}

/// `memif` has a link only while somebody is at the other end of its socket.
#[test]
fn a_port_without_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let device = format!(
        "net_memif0,role=server,socket-abstract=no,socket={}",
        folder.path().join("memif.sock").display()
    );
    let output =
        run(&folder, COUNT, &["--device", &device, "--destination-mac", "02:00:00:00:00:01"]);
    assert!(refusal(&output).contains("the link of device `net_memif0` is down"), "{output:?}");
}

/// A capture of one IPv4 UDP datagram and a frame that is no packet, in the classic format with
/// little-endian microseconds.
fn capture() -> Vec<u8> {
    let mut datagram = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    datagram.extend([0x04, 0xd2, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4]);
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for packet in [&datagram[..], &[0; 50]] {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        frame.extend(packet);
        let len = u32::try_from(frame.len()).unwrap();
        for word in [0, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn a_capture_is_sent_to_the_destination_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let profile = "mode = \"count\"\npackets = 1000\n[replay]\nfile = \"a.pcap\"\n\
                   destination = \"203.0.113.1\"\nsource = \"198.18.0.0/24\"\n";
    let path = folder.path().join("a.pcap");
    let appliance = appliance();
    let arguments = ["--in-process", appliance.to_str().unwrap()];
    fs::write(&path, capture()).unwrap();
    let report = report(&run(&folder, profile, &arguments));
    assert_eq!((&report["sent"], &report["returned"]), (&1000.into(), &1000.into()));
    let whole = capture();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let text = refusal(&run(&folder, profile, &arguments));
    assert!(text.contains("broken at its packet 2"), "{text}");
}
