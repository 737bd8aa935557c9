//! A file as a whole: warnings, how many messages there are, and defaults.

use super::*;

#[test]
fn what_works_perhaps_not_as_intended_is_a_warning() {
    let rows: &[Row] = &[
        (
            "workers = [1]",
            "workers = [0]\nidle = \"yield\"",
            &[&["cpu.management", "also a worker's"]],
        ),
        (
            "\"000102030405060708090a0b0c0d0e0f\"",
            "\"00000000000000000000000000000000\"",
            &[&["flow_hash_key", "easy to guess"]],
        ),
        (
            "\"192.0.2.100\"",
            "\"203.0.113.1\"",
            &[&["service[0].vip[0].arp", "no effect", "arp = false"]],
        ),
        ("\"192.0.2.100\"", "\"203.0.113.1\"\narp = false", &[]),
        ("monitor = \"http\"", "table_size = 199", &[&["pool[0].table_size", "100 slots"]]),
        ("monitor = \"http\"", "table_size = 211", &[]),
        (
            "[[service]]",
            "[[pool]]\nname = \"spare\"\n[[pool.backend]]\nname=\"b\"\naddress=\"10.0.0.1\"\n[[service]]",
            &[&["pool[1].name (pool `spare`)", "used by no service"]],
        ),
        (
            "protocol = \"tcp\"",
            "protocol = \"tcp\"\narp = false\nports = 81\n[[service.vip]]\naddress = \"192.0.2.100\"\nprotocol = \"udp\"\nports = 1\n[[service.vip]]\naddress = \"192.0.2.101\"\nprotocol = \"tcp\"",
            &[&["vip[1].arp", "opposite"]],
        ),
        (
            "mtu = 1600",
            "[[port]]\nname = \"lan\"\ndevice = \"net_tap0\"\naddresses = [\"192.0.2.3/25\"]\ngateway_ipv4 = \"192.0.2.1\"",
            &[&["port[1].addresses[0]", "overlaps"], &["port[1].gateway_ipv4", "is not used"]],
        ),
    ];
    for (from, to, expected) in rows {
        let text = changed(from, to);
        check(&text, &warnings(&text), expected);
    }
    let end = GOOD.find("[[service]]").unwrap();
    let found = warnings(&GOOD[..end]);
    assert!(found.iter().any(|warning| warning.contains("there is no service")), "{found:?}");
}

/// All of a file's mistakes are told at once, in the order of its lines.
#[test]
fn ten_mistakes_are_ten_messages() {
    let text = r#"
colour = "blue"
[appliance]
name = ""
flow_hash_key = "00"
[cpu]
idle = "never"
[[port]]
name = "wan"
device = "eth0"
addresses = ["192.0.2.2/24"]
mtu = 1
[[pool]]
name = "web"
monitor = "gone"
[[pool.backend]]
name = "b1"
address = "192.0.2.11"
weight = -1
[[service]]
name = "site"
pools = ["wbe"]
[[service.vip]]
address = "192.0.2.100"
protocol = "tcp"
ports = "http"
"#;
    let found = messages(text);
    let lines = [2, 4, 5, 7, 10, 12, 15, 19, 22, 26];
    assert_eq!(found.len(), lines.len(), "{found:#?}");
    for (message, line) in found.iter().zip(lines) {
        assert!(message.starts_with(&format!("line {line}: ")), "{line} {message}");
    }
}

/// A mistake in one place is not told again as others that follow from it.
#[test]
fn one_mistake_is_one_message() {
    for (from, to) in [
        // The pool's monitor, the service's pool and the backends' route stay known.
        ("interval = \"2s\"", "interval = \"x\""),
        ("weight = 2", "weight = \"x\""),
        ("\"192.0.2.2/24\"", "\"192.0.2.2\""),
        ("\"192.0.2.1\"", "\"192.0.2.1/24\""),
        ("mtu = 1600", "mtu = \"x\""),
        ("[\"web\"]", "[\"web\", 3]"),
    ] {
        let found = messages(&changed(from, to));
        assert_eq!(found.len(), 1, "{to} {found:#?}");
    }
}

#[test]
fn what_is_absent_has_its_default() {
    let (config, _) =
        config::parse(&changed("[cpu]\nmanagement = 0\nworkers = [1]\n", "")).unwrap();
    assert_eq!(
        (config.cpu.management, &*config.cpu.workers, config.cpu.idle),
        (0, &[1][..], Idle::Spin)
    );
    assert_eq!((config.memory.hugepages, config.memory.packet_memory), (true, 256));
    assert_eq!((config.conntrack.ipv4_flows, config.conntrack.ipv6_flows), (1_000_000, 250_000));
    assert_eq!(config.admin.socket, PathBuf::from("/run/lodestone/admin.sock"));
    let monitor = &config.monitors[0];
    let http = MonitorKind::Http { path: "/".to_owned(), host: None, expected_status: vec![200] };
    assert_eq!((&monitor.kind, monitor.rise, monitor.fall), (&http, 2, 3));
    let pool = &config.pools[0];
    assert_eq!((pool.threshold, pool.table_size, pool.backends[1].weight), (1, 65_537, 1));
    let service = &config.services[0];
    assert_eq!(service.idle_timeout, Duration::from_mins(10));
    assert_eq!(service.affinity, Affinity::ClientIpPortProto);
    let vip = &service.vips[0];
    assert!(vip.arp);
    assert_eq!(vip.protocol, Protocol::Tcp);
    let ranges = [PortRange { first: 80, last: 80 }, PortRange { first: 8000, last: 8099 }];
    assert_eq!(vip.ports, ranges);
}

/// Zero is a value, where it is one.
#[test]
fn explicit_zero_is_not_absent() {
    let (config, _) = config::parse(&changed("weight = 2", "weight = 0")).unwrap();
    assert_eq!(config.pools[0].backends[0].weight, 0);
}
