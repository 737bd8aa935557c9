//! The process: `[appliance]`, `[cpu]`, `[memory]`, `[conntrack]`, `[admin]` and `[metrics]`.

use super::*;

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
