//! The program as people run it, on virtual devices that reach nobody.

use std::process::{Command, Output};

fn pktgen(device: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pktgen"))
        .args(["--no-hugepages", "--device", device])
        .args(["--destination", "203.0.113.1", "--port", "443", "--source", "198.51.100.0/24"])
        .args(["--destination-mac", "02:00:00:00:00:01"])
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn every_packet_goes_out_and_the_status_says_so() {
    let output = pktgen(
        "net_null0",
        &["--count", "100000", "--flows", "1000", "--kind", "udp", "--payload", "100", "--json"],
    );
    assert!(output.status.success(), "{output:?}");
    let report = json(&output);
    assert_eq!(report["packets"], 100_000);
    assert_eq!(report["not_sent"], 0);
    assert_eq!(report["bytes"], 100_000 * (14 + 20 + 8 + 100));
    assert!(output.stderr.is_empty(), "DPDK's log is kept aside: {output:?}");
}

#[test]
fn what_a_full_device_does_not_take_is_counted_and_fails() {
    // The ring of this device holds 1023 packets, and nobody takes them out.
    let output = pktgen("net_ring0", &["--count", "1023", "--json"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(json(&output)["bytes"], 1023 * 60);

    let output = pktgen("net_ring0", &["--count", "1100"]);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(line.starts_with("1023 packets (61380 bytes) sent in "), "{line}");
    assert!(line.trim_end().ends_with("77 not sent, 0 device errors"), "{line}");
}

#[test]
fn the_rate_is_kept() {
    let output = pktgen("net_null0", &["--count", "500", "--rate", "1000", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let seconds = json(&output)["seconds"].as_f64().unwrap();
    // 500 packets, of which the first goes at once: never sooner. A busy machine may be late.
    assert!((0.498..5.0).contains(&seconds), "{seconds}");
}

#[test]
fn mistakes_are_one_sentence() {
    for (device, arguments, needle) in [
        ("eth0", &["--count", "1"][..], "neither a PCI address"),
        ("net_nothing0", &["--count", "1"][..], "failed to parse device \"net_nothing0\""),
        ("net_af_packet0,iface=no-such-if", &["--count", "1"][..], "was not found by DPDK"),
        (
            "net_null0",
            &["--count", "1", "--destination", "::1"][..],
            "cannot be used multiple times",
        ),
        ("net_null0", &["--count", "0"][..], "0 is not in"),
    ] {
        let output = pktgen(device, arguments);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(needle), "{text}");
        assert!(output.stdout.is_empty());
    }
}
