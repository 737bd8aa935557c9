//! Every rule of the configuration: what breaks it, and what is said about it.

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

#[test]
fn text_that_is_not_toml_is_one_mistake_with_line_and_column() {
    let found = messages("[appliance]\nname = \"lb1\nsite = 3\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 2, column "), "{found:?}");
    assert!(found[0].contains("not TOML"), "{found:?}");
    // A key that is written twice is a mistake of syntax too.
    let found = messages("[appliance]\nname = \"a\"\nname = \"b\"\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 3, column 1: "), "{found:?}");
}

#[test]
fn appliance() {
    check_rows(&[
        ("name = \"lb1\"\n", "", &[&["line 2: appliance.name: is missing"]]),
        ("\"lb1\"", "\"\"", &[&["appliance.name = \"\": is empty", "1 to 63"]]),
        ("\"lb1\"", "\"lb 1\"", &[&["appliance.name", "\"lb 1\"", "cannot be a name"]]),
        ("\"lb1\"", "7", &[&["line 3: appliance.name = 7: expects a string, not an integer"]]),
        (
            "name = \"lb1\"",
            "name = \"lb1\"\nzone = \"é\"",
            &[&["appliance.zone", "cannot be a name"]],
        ),
        (
            "flow_hash_key = \"000102030405060708090a0b0c0d0e0f\"",
            "",
            &[&[
                "appliance.flow_hash_key",
                "is missing",
                "od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'",
            ]],
        ),
        ("0d0e0f\"", "0d0e0\"", &[&["32 hex digits, and has 31 characters", "od -An"]]),
        (
            "0d0e0f\"",
            "0d0e0g\"",
            &[&["32 hex digits, and has another character at place 32", "od -An"]],
        ),
        ("0d0e0f\"", "0d0e+f\"", &[&["another character at place 31"]]),
    ]);
}

/// A mistake in the key, or in the key's name, does not tell the key.
#[test]
fn the_flow_hash_key_is_never_shown() {
    for text in [
        changed("0d0e0f\"", "0d0e0\""),
        changed("flow_hash_key", "flow_hash_kye"),
        changed("\"000102030405060708090a0b0c0d0e0f\"", "[\"00010203\"]"),
    ] {
        let found = messages(&text);
        assert!(!found.is_empty());
        assert!(found.iter().all(|message| !message.contains("010203")), "{found:?}");
    }
}

#[test]
fn cpu_memory_conntrack_and_admin() {
    check_rows(&[
        ("workers = [1]", "workers = []", &[&["cpu.workers", "is empty"]]),
        ("workers = [1]", "workers = 1", &[&["cpu.workers = 1", "expects an array"]]),
        ("workers = [1]", "workers = [1, 2, 1]", &[&["cpu.workers[2] = 1", "its own core"]]),
        (
            "workers = [1]",
            "workers = [-1, 2000]",
            &[&["cpu.workers[0] = -1", "out of range"], &["cpu.workers[1] = 2000", "0 to 1535"]],
        ),
        ("workers = [1]", "workers = [0]", &[&["cpu.management = 0", "idle = \"yield\""]]),
        (
            "management = 0\n",
            "idle = \"sleep\"\n",
            &[&["cpu.idle = \"sleep\"", "\"spin\" or \"yield\""]],
        ),
        (
            "[cpu]",
            "[memory]\npacket_memory = 63\n[cpu]",
            &[&["memory.packet_memory = 63", "64 to 65536"]],
        ),
        (
            "[cpu]",
            "[memory]\npacket_memory = 0\n[cpu]",
            &[&["memory.packet_memory = 0", "64 to 65536"]],
        ),
        ("[cpu]", "[memory]\nhugepages = 1\n[cpu]", &[&["memory.hugepages = 1", "true or false"]]),
        (
            "[cpu]",
            "[memory]\nhugepages = false\n[cpu]",
            &[&["port[0].device (port `wan`)", "needs hugepages"]],
        ),
        (
            "[cpu]",
            "[conntrack]\nipv4_flows = 0\nipv6_flows = 1e6\n[cpu]",
            &[&["conntrack.ipv4_flows = 0", "1024"], &["conntrack.ipv6_flows", "not a float"]],
        ),
        ("[cpu]", "[admin]\nsocket = \"admin.sock\"\n[cpu]", &[&["admin.socket", "absolute path"]]),
        ("[cpu]", "[admin]\nsocket = \"\"\n[cpu]", &[&["admin.socket", "is empty"]]),
        (
            "[cpu]",
            "[admin]\nsocket = \"/a/b\"\nread_only_socket = \"/a//b\"\n[cpu]",
            &[&["admin.read_only_socket", "is the path of `socket` too"]],
        ),
        (
            "[cpu]",
            "[admin]\nread_only_socket = \"a\"\nread_only_group = \"ops\"\n[cpu]",
            &[&["admin.read_only_socket = \"a\"", "absolute path"]],
        ),
        (
            "[cpu]",
            "[admin]\nread_only_group = \"ops\"\n[cpu]",
            &[&["admin.read_only_group", "write read_only_socket too"]],
        ),
        (
            "[cpu]",
            "[admin]\ngroup = \"o ps\"\n[cpu]",
            &[&["admin.group = \"o ps\"", "getent group"]],
        ),
        ("[cpu]", "[admin]\nmode = \"0666\"\n[cpu]", &[&["admin.mode", "is always 0660"]]),
        ("[cpu]", "[[cpu]]", &[&["cpu", "write [cpu]"]]),
    ]);
    let long = format!("[admin]\nsocket = \"/{}\"\n[cpu]", "a".repeat(107));
    let text = changed("[cpu]", &long);
    check(&text, &messages(&text), &[&["admin.socket", "longer than 107 bytes", "…"]]);
}

#[test]
fn metrics() {
    check_rows(&[
        (
            "[cpu]",
            "[metrics]\nlisten = \"on\"\n[cpu]",
            &[&["metrics.listen = \"on\"", "neither \"off\" nor an address with its port"]],
        ),
        ("[cpu]", "[metrics]\nlisten = 9640\n[cpu]", &[&["metrics.listen", "expects a string"]]),
        ("[cpu]", "[metrics]\nlisten = \"127.0.0.1\"\n[cpu]", &[&["an address with its port"]]),
        ("[cpu]", "[metrics]\nlisten = \"127.0.0.1:0\"\n[cpu]", &[&["has port 0"]]),
        ("[cpu]", "[metrics]\nlisten = \"[ff02::1]:1\"\n[cpu]", &[&["no address to listen at"]]),
        ("[cpu]", "[metrics]\nlisten = \"[fe80::1%2]:1\"\n[cpu]", &[&["has a scope"]]),
        ("[cpu]", "[metrics]\nport = 9640\n[cpu]", &[&["metrics.port", "is part of listen"]]),
    ]);
    for (listen, warns) in [
        ("off", false),
        ("127.0.0.1:9640", false),
        ("[::1]:9640", false),
        ("0.0.0.0:9640", true),
        ("[2001:db8::9]:9640", true),
    ] {
        let text = changed("[cpu]", &format!("[metrics]\nlisten = \"{listen}\"\n[cpu]"));
        let (config, _) = config::parse(&text).unwrap();
        assert_eq!(config.metrics.listen, listen.parse().ok(), "{listen}");
        let expected: &[&[&str]] =
            if warns { &[&["metrics.listen", "can read the metrics"]] } else { &[] };
        check(&text, &warnings(&text), expected);
    }
}

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
            &[&["pool[0] (pool `web`)", "fewer enabled backends (1) than its threshold (2)"]],
        ),
    ] {
        let text = changed(from, to);
        check(&text, &warnings(&text), expected);
    }
}

#[test]
fn ports() {
    check_rows(&[
        ("device = \"0000:3b:02.0\"\n", "", &[&["port[0].device (port `wan`)", "is missing"]]),
        ("\"0000:3b:02.0\"", "\"\"", &[&["port[0].device", "is empty"]]),
        (
            "\"0000:3b:02.0\"",
            "\"eth0\"",
            &[&["port[0].device", "neither a PCI address", "net_af_packet0,iface=eth1"]],
        ),
        (
            "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]\n",
            "",
            &[&["port[0].addresses", "missing or empty"]],
        ),
        (
            "2001:db8::2/64",
            "2001:db8::2",
            &[&["port[0].addresses[1] (port `wan`) = \"2001:db8::2\"", "prefix length"]],
        ),
        ("2001:db8::2/64", "ff02::1/64", &[&["multicast"]]),
        ("2001:db8::2/64", "::/64", &[&["unspecified"]]),
        ("2001:db8::2/64", "2001:db8::/64", &[&["address of the network 2001:db8::/64 itself"]]),
        ("2001:db8::2/64", "::1/64", &[&["loopback"]]),
        ("2001:db8::2/64", "198.51.100.255/24", &[&["broadcast address of 198.51.100.0/24"]]),
        (
            "2001:db8::2/64",
            "192.0.2.2/25",
            &[&["port[0].addresses[1]", "port[0].addresses[0] (line 13) has it already"]],
        ),
        ("2001:db8::2/64", "198.51.100.1/0", &[&["prefix length 0"]]),
        ("mtu = 1600", "mtu = 575", &[&["port[0].mtu (port `wan`) = 575", "576 to 9200"]]),
        ("mtu = 1600", "mtu = 9201", &[&["576 to 9200"]]),
        ("mtu = 1600", "mtu = 1279", &[&["1280 or more"]]),
        ("mtu = 1600", "mtu = 0", &[&["port[0].mtu (port `wan`) = 0", "576 to 9200"]]),
        ("mtu = 1600", "vlan = 0", &[&["port[0].vlan (port `wan`) = 0", "1 to 4094"]]),
        ("mtu = 1600", "vlan = 4095", &[&["1 to 4094"]]),
        ("mtu = 1600", "mac = \"01:00:5e:00:00:01\"", &[&["port[0].mac", "unicast"]]),
        ("mtu = 1600", "mac = \"2:0:0:0:0:1\"", &[&["port[0].mac", "six pairs"]]),
        (
            "mtu = 1600",
            "gateway = \"192.0.2.1\"",
            &[&["port[0].gateway", "gateway_ipv4 or gateway_ipv6"]],
        ),
        (
            "\"192.0.2.1\"",
            "\"2001:db8::1\"",
            &[&["port[0].gateway_ipv4", "IPv6 address; write an IPv4"]],
        ),
        (
            "\"192.0.2.1\"",
            "\"198.51.100.1\"",
            &[&["port[0].gateway_ipv4", "none of the port's networks"]],
        ),
        ("\"192.0.2.1\"", "\"192.0.2.2\"", &[&["address of this appliance"]]),
        ("\"192.0.2.1\"", "\"192.0.2.255\"", &[&["broadcast"]]),
        (
            "mtu = 1600",
            "gateway_ipv6 = \"fd00::1\"",
            &[&["port[0].gateway_ipv6", "none of the port's networks"]],
        ),
        (
            "mtu = 1600",
            "mtu = 1600\n[[port]]\nname = \"lan\"\naddresses = [\"10.0.0.1/8\"]\ndevice = \"3b:02.0\"",
            &[&["port[1].device (port `lan`)", "port[0].device"]],
        ),
        (
            "name = \"wan\"",
            "name = \"wan\"\naddress = 1",
            &[&["port[0].address", "write addresses"]],
        ),
        ("[[port]]", "[port]", &[&["line 10: port", "write [[port]]"]]),
    ]);
    let port = |number| {
        format!(
            "[[port]]\nname = \"p{number}\"\ndevice = \"net_tap{number}\"\naddresses = \
             [\"10.9.{number}.1/24\"]\n"
        )
    };
    let many = (0..256).map(port).collect::<Vec<_>>().concat();
    let text = format!("{GOOD}{many}");
    check(&text, &messages(&text), &[&["port", "is there 257 times; at most 16"]]);
    let text = "[appliance]\nname = \"a\"\nflow_hash_key = \"000102030405060708090a0b0c0d0e0f\"\n";
    check(text, &messages(text), &[&["line 1: there is no port"]]);
}

#[test]
fn monitors() {
    check_rows(&[
        ("type = \"http\"\n", "", &[&["monitor[0].type (monitor `http`)", "is missing"]]),
        (
            "type = \"http\"",
            "type = \"ping\"",
            &[&["monitor[0].type", "\"ping\"", "not available yet"]],
        ),
        ("type = \"http\"", "type = \"htp\"", &[&["did you mean \"http\"?"]]),
        ("port = 80", "port = 0", &[&["monitor[0].port (monitor `http`) = 0", "1 to 65535"]]),
        ("port = 80\n", "", &[&["monitor[0].port", "is missing"]]),
        (
            "timeout = \"1s\"",
            "timeout = \"2001ms\"",
            &[&["monitor[0].timeout", "longer than the interval", "\"2s\""]],
        ),
        (
            "timeout = \"1s\"",
            "timeout = \"0s\"",
            &[&["monitor[0].timeout (monitor `http`) = \"0s\"", "out of range", "\"10ms\""]],
        ),
        (
            "interval = \"2s\"",
            "interval = 2",
            &[&["monitor[0].interval", "a duration with its unit"]],
        ),
        ("interval = \"2s\"", "interval = \"2\"", &[&["is not a duration", "ms, s, m or h"]]),
        ("interval = \"2s\"", "interval = \"2 s\"", &[&["is not a duration"]]),
        ("interval = \"2s\"", "interval = \"99999999999999999999h\"", &[&["is not a duration"]]),
        ("interval = \"2s\"", "interval = \"61m\"", &[&["out of range", "\"3600s\""]]),
        (
            "port = 80",
            "port = 80\nrise = 0",
            &[&["monitor[0].rise (monitor `http`) = 0", "1 to 1000"]],
        ),
        (
            "port = 80",
            "port = 80\nfall = 0",
            &[&["monitor[0].fall (monitor `http`) = 0", "1 to 1000"]],
        ),
        (
            "port = 80",
            "port = 80\npath = \"vip\"",
            &[&["monitor[0].path", "not available yet", "\"direct\""]],
        ),
        ("port = 80", "port = 80\npath = \"/health\"", &[&["monitor[0].path", "http_path"]]),
        (
            "port = 80",
            "port = 80\nhttp_path = \"health\"",
            &[&["monitor[0].http_path", "does not begin with /"]],
        ),
        ("port = 80", "port = 80\nhttp_path = \"/a b\"", &[&["monitor[0].http_path", "%XX"]]),
        (
            "port = 80",
            "port = 80\nhttp_path = \"/a\\r\\nb\"",
            &[&["monitor[0].http_path", "control character"]],
        ),
        (
            "port = 80",
            "port = 80\nhttp_host = \"http://a/\"",
            &[&["monitor[0].http_host", "host name"]],
        ),
        (
            "port = 80",
            "port = 80\nhttp_status = [99, 600]",
            &[&["http_status[0]", "100 to 599"], &["http_status[1]", "100 to 599"]],
        ),
        ("port = 80", "port = 80\nhttp_status = []", &[&["monitor[0].http_status", "is empty"]]),
        (
            "port = 80",
            "port = 80\nhttp_status = [200, 200]",
            &[&["http_status[1]", "is there twice"]],
        ),
        (
            "type = \"http\"",
            "type = \"tcp\"\nhttp_path = \"/\"",
            &[&["monitor[0].http_path", "type \"http\""]],
        ),
        (
            "[[pool]]",
            "[[monitor]]\nname = \"http\"\ntype = \"tcp\"\nport = 1\n[[pool]]",
            &[&["monitor[1].name", "another monitor", "monitor[0].name"]],
        ),
    ]);
}

#[test]
fn pools_and_backends() {
    check_rows(&[
        (
            "monitor = \"http\"",
            "monitor = \"ftp\"",
            &[&["pool[0].monitor (pool `web`) = \"ftp\"", "does not exist", "http"]],
        ),
        (
            "monitor = \"http\"",
            "threshold = 0",
            &[&["pool[0].threshold (pool `web`) = 0", "out of range"]],
        ),
        ("monitor = \"http\"", "threshold = 3", &[&["pool[0].threshold", "write 1 to 2"]]),
        (
            "monitor = \"http\"",
            "table_size = 65536",
            &[&["pool[0].table_size", "not a prime", "65537"]],
        ),
        ("monitor = \"http\"", "table_size = 1", &[&["pool[0].table_size", "out of range"]]),
        ("monitor = \"http\"", "backends = []", &[&["pool[0].backends", "[[pool.backend]]"]]),
        (
            "weight = 2",
            "weight = -5",
            &[&["line 30: pool[0].backend[0].weight (backend `b1`) = -5", "0 to 1000000"]],
        ),
        ("weight = 2", "weight = 1_000_001", &[&["0 to 1000000"]]),
        ("weight = 2", "weight = 1.5", &[&["pool[0].backend[0].weight", "not a float"]]),
        (
            "weight = 2",
            "weigth = 2",
            &[&["pool[0].backend[0].weigth (backend `b1`) = 2", "did you mean `weight`?"]],
        ),
        ("weight = 2", "port = 8080", &[&["pool[0].backend[0].port", "the port it was sent to"]]),
        ("weight = 2", "colour = 2", &[&["is not a key; the keys here are name, address"]]),
        ("weight = 2", "probe_address = \"::\"", &[&["probe_address", "unspecified"]]),
        (
            "name = \"b2\"",
            "name = \"b1\"",
            &[&["pool[0].backend[1].name", "another backend of the pool"]],
        ),
        ("name = \"b2\"\n", "", &[&["pool[0].backend[1].name (pool `web`): is missing"]]),
        (
            "\"10.1.2.3\"",
            "\"192.0.2.11\"",
            &[&["pool[0].backend[1].address (backend `b2`)", "is one backend"]],
        ),
        ("\"10.1.2.3\"", "\"10.1.2.3/32\"", &[&["without a prefix"]]),
        ("\"10.1.2.3\"", "\"224.0.0.1\"", &[&["multicast"]]),
        ("\"10.1.2.3\"", "\"255.255.255.255\"", &[&["240.0.0.0/4"]]),
        ("\"10.1.2.3\"", "\"0.1.2.3\"", &[&["0.0.0.0/8"]]),
        ("\"10.1.2.3\"", "\"::ffff:10.1.2.3\"", &[&["IPv4-mapped"]]),
        ("\"10.1.2.3\"", "\"192.0.2.255\"", &[&["broadcast"]]),
        (
            "\"10.1.2.3\"",
            "\"192.0.2.100\"",
            &[&["pool[0].backend[1].address", "is a VIP (service[0].vip[0].address)"]],
        ),
        ("\"10.1.2.3\"", "\"192.0.2.2\"", &[&["appliance's own address (port[0].addresses[0])"]]),
        (
            "\"10.1.2.3\"",
            "\"2001:db8:1::1\"",
            &[&["cannot be reached", "no port has a gateway_ipv6"]],
        ),
        (
            "gateway_ipv4 = \"192.0.2.1\"\n",
            "",
            &[&["pool[0].backend[1].address", "cannot be reached", "gateway_ipv4"]],
        ),
        (
            "addresses = [\"192.0.2.2/24\", \"2001:db8::2/64\"]\ngateway_ipv4 = \"192.0.2.1\"",
            "addresses = [\"2001:db8::2/64\"]",
            &[
                &["backend[0].address", "no port has an IPv4 address"],
                &["backend[1].address", "no port has an IPv4 address"],
            ],
        ),
        (
            "[[service]]",
            "[[pool]]\nname = \"empty\"\n[[service]]",
            &[&["pool[1] (pool `empty`)", "has no backend"]],
        ),
        (
            "[[service]]",
            "[[pool]]\nname = \"web\"\n[[pool.backend]]\nname=\"b\"\naddress=\"10.0.0.1\"\n[[service]]",
            &[&["pool[1].name", "another pool"]],
        ),
        (
            "weight = 2",
            "weight = 0\n[[pool.backend]]\nname = \"b3\"\naddress = \"10.1.2.9\"\nweight = -1",
            &[&["backend[1].weight", "= -1"]],
        ),
    ]);
    let text =
        changed("weight = 2", "weight = 0").replace("\"10.1.2.3\"", "\"10.1.2.3\"\nweight = 0");
    check(&text, &messages(&text), &[&["pool[0] (pool `web`)", "every backend weight 0"]]);
    let text = changed("monitor = \"http\"", "table_size = 2").replace(
        "\"10.1.2.3\"",
        "\"10.1.2.3\"\n[[pool.backend]]\nname = \"b3\"\naddress = \"10.1.2.4\"",
    );
    check(&text, &messages(&text), &[&["pool[0].table_size", "less than the pool's 3 backends"]]);
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

/// What belongs to later features is refused by name, not ignored.
// OPS-04
#[test]
fn features_that_do_not_exist_yet_are_refused_by_name() {
    for key in ["geo", "cluster", "dns", "http"] {
        let text = format!("{GOOD}[{key}]\nx = 1\n");
        check(&text, &messages(&text), &[&[key, "not available yet"]]);
    }
    for key in [
        "tracking",
        "tracking_scope",
        "persistence",
        "drain_timeout",
        "on_all_unhealthy",
        "failover",
        "fallback_pool",
        "dns",
        "http",
        "proxied",
    ] {
        let text = changed("pools = [\"web\"]", &format!("pools = [\"web\"]\n{key} = 1"));
        let path = format!("service[0].{key} (service `site`)");
        check(&text, &messages(&text), &[&[&path, "not available yet"]]);
    }
    for key in ["balancing", "capacity_scaler", "capacity", "fallback"] {
        let text = changed("monitor = \"http\"", &format!("{key} = 1"));
        check(
            &text,
            &messages(&text),
            &[&[&format!("pool[0].{key} (pool `web`)"), "not available yet"]],
        );
    }
    for (key, value) in [("steering", "random"), ("steering", "geo"), ("affinity", "client-ip")] {
        let text = changed("pools = [\"web\"]", &format!("pools = [\"web\"]\n{key} = \"{value}\""));
        check(
            &text,
            &messages(&text),
            &[&[&format!("service[0].{key}"), value, "not available yet"]],
        );
    }
    for value in ["gre", "gue", "vxlan", "geneve"] {
        let text = changed(
            "protocol = \"tcp\"",
            &format!("protocol = \"tcp\"\nencapsulation = \"{value}\""),
        );
        check(
            &text,
            &messages(&text),
            &[&["vip[0].encapsulation", value, "not available yet", "\"ipip\""]],
        );
    }
}

fn refused_on_layer4(keys: &[&str], reason: &str) {
    for key in keys {
        for (path, text) in [
            (
                format!("service[0].{key}"),
                changed("pools = [\"web\"]", &format!("pools = [\"web\"]\n{key} = \"x\"")),
            ),
            (
                format!("service[0].vip[0].{key}"),
                changed("protocol = \"tcp\"", &format!("protocol = \"tcp\"\n{key} = \"x\"")),
            ),
        ] {
            check(&text, &messages(&text), &[&[&path, "\"x\"", reason]]);
        }
    }
}

// L4-29
#[test]
fn tls_hosts_paths_and_waf_are_refused() {
    refused_on_layer4(
        &["tls", "certificate", "host", "hosts", "path", "waf"],
        "passes TLS and HTTP through",
    );
}

// L4-32
#[test]
fn port_maps_are_refused() {
    refused_on_layer4(&["port_map"], "at the port it was sent to");
}

// L4-34
#[test]
fn cookie_affinity_is_refused() {
    refused_on_layer4(&["session_affinity"], "the flow hash alone keeps a client on its backend");
}

// L4-35
#[test]
fn rules_are_refused() {
    refused_on_layer4(&["rule", "rules"], "no custom rules");
    for block in ["[[rule]]", "[[service.rule]]", "[[service.vip.rule]]"] {
        let text = format!("{GOOD}{block}\nname = \"r\"\n");
        check(&text, &messages(&text), &[&["rule", "no custom rules"]]);
    }
}

// L4-38
#[test]
fn private_and_public_backends_load_alike() {
    for private in ["10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "203.0.113.9"] {
        let (config, warnings) =
            config::parse(&changed("\"10.1.2.3\"", &format!("\"{private}\""))).unwrap();
        assert_eq!(config.pools[0].backends[1].address, private.parse::<IpAddr>().unwrap());
        assert_eq!(warnings, []);
    }
}

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

// L4-33
#[test]
fn any_means_every_port() {
    let (config, _) = config::parse(&changed("[80, \"8000-8099\"]", "\"any\"")).unwrap();
    assert_eq!(config.services[0].vips[0].ports, [PortRange::ANY]);
}

#[test]
fn a_file_that_cannot_be_read_or_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lodestone.toml");
    let error = config::load(&path).unwrap_err();
    assert!(matches!(error, LoadError::Read { .. }));
    assert!(error.to_string().contains("lodestone.toml"), "{error}");

    std::fs::write(&path, changed("mtu = 1600", "mtu = 1\nvlan = 0")).unwrap();
    let error = config::load(&path).unwrap_err().to_string();
    assert!(error.contains("lodestone.toml has 2 mistake(s)"), "{error}");
    assert!(error.contains("\nline 15: port[0].mtu"), "{error}");

    std::fs::write(&path, GOOD).unwrap();
    assert!(config::load(&path).is_ok());
}

/// Any text is read to an end, and what is refused is refused with a reason.
#[test]
fn any_text_is_a_configuration_or_has_mistakes() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Err(errors) = config::parse(&text) {
            assert!(!errors.mistakes.is_empty());
        }
    });
}

/// The same for texts that are nearly right: parts of a good one are overwritten, left out or
/// doubled.
#[test]
fn any_damage_to_a_good_text_is_read_to_an_end() {
    const PIECES: [&str; 16] = [
        "\"",
        "[",
        "]",
        "=",
        "\n",
        "0",
        "-1",
        "18446744073709551616",
        "\"any\"",
        "é",
        "[[pool]]",
        "[service.vip]",
        "{ a = 1 }",
        "1979-05-27",
        "name",
        ".",
    ];
    bolero::check!().with_type::<Vec<(u16, u8, u8)>>().for_each(|damages| {
        let mut text = GOOD.to_owned();
        for (place, length, piece) in damages {
            let floor = |index: usize| (0..=index).rev().find(|at| text.is_char_boundary(*at));
            let start = floor(usize::from(*place) % text.len().max(1)).unwrap_or(0);
            let end = floor((start + usize::from(length % 24)).min(text.len())).unwrap_or(start);
            text.replace_range(start..end.max(start), PIECES[usize::from(*piece) % PIECES.len()]);
        }
        if let Err(errors) = config::parse(&text) {
            assert!(!errors.mistakes.is_empty());
            assert!(errors.mistakes.iter().all(|mistake| mistake.place.line > 0));
        }
    });
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    for path in ["/", "/dev/zero"] {
        let error = config::load(std::path::Path::new(path)).unwrap_err().to_string();
        assert!(error.contains("it is not a regular file"), "{error}");
    }
}
