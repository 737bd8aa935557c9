//! `[[service]]` with its VIPs, and admin states everywhere.

use super::*;

#[test]
fn admin_states() {
    check_rows(&[
        (
            "weight = 2",
            "admin_state = \"drained\"",
            &[&["pool[0].backend[0].admin_state (backend `b1`)", "\"enabled\" or \"draining\" or"]],
        ),
        ("weight = 2", "admin_state = true", &[&["admin_state", "not a boolean"]]),
        ("weight = 2", "enabled = false", &[&["is written admin_state"]]),
        (
            "monitor = \"http\"",
            "admin_state = \"disable\"",
            &[&["pool[0].admin_state (pool `web`)", "did you mean \"disabled\"?"]],
        ),
        (
            "pools = [\"web\"]",
            "pools = [\"web\"]\nadmin_state = \"\"",
            &[&["service[0].admin_state (service `site`)", "is not known"]],
        ),
    ]);
    // What takes no new flows may have been forgotten.
    for (from, to, expected) in [
        ("weight = 2", "admin_state = \"draining\"", &[][..]),
        (
            "monitor = \"http\"",
            "admin_state = \"draining\"",
            &[&["pool[0].admin_state", "the pool is draining", "take no new flows"][..]][..],
        ),
        (
            "monitor = \"http\"",
            "admin_state = \"disabled\"",
            &[&["pool[0].admin_state", "the pool is disabled", "have no flows"]],
        ),
        (
            "[[service]]",
            "admin_state = \"draining\"\n[[service]]\nadmin_state = \"disabled\"",
            &[&["service[0].admin_state", "is disabled and forwards nothing"]],
        ),
        (
            "[[service]]",
            "[[service]]\nadmin_state = \"draining\"",
            &[&["service[0].admin_state", "is draining and takes no new flows"]],
        ),
        (
            "monitor = \"http\"\n[[pool.backend]]",
            "threshold = 2\n[[pool.backend]]\nadmin_state = \"disabled\"",
            &[&["pool[0] (pool `web`)", "a weight above 0 (1) than its threshold (2)"]],
        ),
    ] {
        let text = changed(from, to);
        check(&text, &warnings(&text), expected);
    }
}

#[test]
fn services_and_vips() {
    check_rows(&[
        (
            "pools = [\"web\"]",
            "pools = []",
            &[&["service[0].pools (service `site`)", "missing or empty"]],
        ),
        (
            "pools = [\"web\"]",
            "pool = \"web\"",
            &[&["service[0].pools", "missing or empty"], &["service[0].pool", "write pools"]],
        ),
        (
            "pools = [\"web\"]",
            "pools = [\"web\", \"web\"]",
            &[&["service[0].pools[1]", "is there twice"]],
        ),
        (
            "pools = [\"web\"]",
            "pools = [\"wbe\"]",
            &[&["service[0].pools[0] (service `site`) = \"wbe\"", "does not exist", "web"]],
        ),
        (
            "pools = [\"web\"]",
            "pools = [\"web\"]\nidle_timeout = \"999ms\"",
            &[&["service[0].idle_timeout", "\"1s\" to \"57600s\""]],
        ),
        (
            "pools = [\"web\"]",
            "pools = [\"web\"]\nidle_timeout = \"57601s\"",
            &[&["service[0].idle_timeout", "\"57600s\""]],
        ),
        (
            "[[service.vip]]\naddress = \"192.0.2.100\"\nprotocol = \"tcp\"\nports = [80, \"8000-8099\"]\n",
            "",
            &[&["service[0] (service `site`)", "has no VIP"]],
        ),
        (
            "\"192.0.2.100\"",
            "\"192.0.2.2\"",
            &[&["service[0].vip[0].address", "port's own address"]],
        ),
        ("\"192.0.2.100\"", "\"192.0.2.1\"", &[&["service[0].vip[0].address", "router's address"]]),
        ("\"192.0.2.100\"", "\"192.0.2.0\"", &[&["address of the network"]]),
        ("\"192.0.2.100\"", "\"239.0.0.1\"", &[&["multicast"]]),
        (
            "protocol = \"tcp\"",
            "protocol = \"sctp\"",
            &[&["service[0].vip[0].protocol", "not available yet"]],
        ),
        ("protocol = \"tcp\"", "protocol = 6", &[&["expects \"tcp\" or \"udp\", not an integer"]]),
        (
            "[80, \"8000-8099\"]",
            "0",
            &[&["service[0].vip[0].ports (service `site`) = 0", "not understood"]],
        ),
        ("[80, \"8000-8099\"]", "[]", &[&["is empty"]]),
        ("[80, \"8000-8099\"]", "65536", &[&["not understood"]]),
        ("[80, \"8000-8099\"]", "\"+80\"", &[&["not understood"]]),
        ("[80, \"8000-8099\"]", "\"90-80\"", &[&["ends before it begins", "\"80-90\""]]),
        ("[80, \"8000-8099\"]", "[80, \"70-80\"]", &[&["names port 80 twice"]]),
        ("[80, \"8000-8099\"]", "true", &[&["expects a port", "not a boolean"]]),
        (
            "ports = [80, \"8000-8099\"]",
            "port = 80",
            &[&["vip[0].ports", "is missing"], &["vip[0].port", "ports = 80"]],
        ),
    ]);
}

#[test]
fn vips_share_an_address_with_different_ports_or_protocols_only() {
    let other = |protocol: &str, ports: &str| {
        format!(
            "{GOOD}[[service]]\nname = \"other\"\npools = [\"web\"]\n[[service.vip]]\naddress = \
             \"192.0.2.100\"\nprotocol = \"{protocol}\"\nports = {ports}\n"
        )
    };
    for (protocol, ports) in
        [("tcp", "81"), ("tcp", "\"8100-9000\""), ("udp", "80"), ("udp", "\"any\"")]
    {
        assert_eq!(messages(&other(protocol, ports)), [""; 0], "{protocol} {ports}");
    }
    for (ports, port) in [("80", "80"), ("\"any\"", "80"), ("[1, \"8099-8100\"]", "8099")] {
        let text = other("tcp", ports);
        let port = format!("TCP port {port} of 192.0.2.100");
        let expected =
            ["service[1].vip[0].ports", "`site`", "`other`", "(service[0].vip[0], line", &port];
        check(&text, &messages(&text), &[&expected]);
    }
}

// L4-33
#[test]
fn any_means_every_port() {
    let (config, _) = config::parse(&changed("[80, \"8000-8099\"]", "\"any\"")).unwrap();
    assert_eq!(config.services[0].vips[0].ports, [PortRange::ANY]);
}
