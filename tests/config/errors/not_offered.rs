//! What the product does not offer, or not on layer 4, is refused by name.

use super::*;

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
