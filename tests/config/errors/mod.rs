//! Every rule of the configuration: what breaks it, and what is said about it.

mod not_offered;
mod pools;
mod ports;
mod process;
mod reading;
mod services;
mod whole;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lodestone::config::{self, Affinity, Idle, LoadError, MonitorKind, PortRange, Protocol};

/// A small configuration without mistakes or warnings. The rows of the table replace parts of it.
const GOOD: &str = r#"
[appliance]
name = "lb1"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"

[cpu]
management = 0
workers = [1]

[[port]]
name = "wan"
device = "0000:3b:02.0"
addresses = ["192.0.2.2/24", "2001:db8::2/64"]
gateway_ipv4 = "192.0.2.1"
mtu = 1600

[[monitor]]
name = "http"
type = "http"
port = 80
interval = "2s"
timeout = "1s"

[[pool]]
name = "web"
monitor = "http"
[[pool.backend]]
name = "b1"
address = "192.0.2.11"
weight = 2
[[pool.backend]]
name = "b2"
address = "10.1.2.3"

[[service]]
name = "site"
pools = ["web"]
[[service.vip]]
address = "192.0.2.100"
protocol = "tcp"
ports = [80, "8000-8099"]
"#;

/// What is replaced in [`GOOD`], by what, and what each message then says: one message for each
/// inner list, with all of its fragments.
type Row = (&'static str, &'static str, &'static [&'static [&'static str]]);

fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the base has no {from}");
    GOOD.replacen(from, to, 1)
}

fn messages(text: &str) -> Vec<String> {
    match config::parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.mistakes.iter().map(ToString::to_string).collect(),
    }
}

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = config::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    warnings.iter().map(ToString::to_string).collect()
}

fn check(text: &str, found: &[String], expected: &[&[&str]]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}\nin\n{text}");
    for fragments in expected {
        let says = |message: &&String| fragments.iter().all(|part| message.contains(part));
        assert!(found.iter().any(|message| says(&message)), "no {fragments:?} in {found:#?}");
    }
}

fn check_rows(rows: &[Row]) {
    for (from, to, expected) in rows {
        let text = changed(from, to);
        check(&text, &messages(&text), expected);
    }
}

#[test]
fn the_base_is_good() {
    assert_eq!(messages(GOOD), [""; 0]);
    assert_eq!(warnings(GOOD), [""; 0]);
}
