//! Keys that are not known: which was meant, or why there is none.

use super::section::Spec;

/// A key that one might expect, and the reason why it is refused.
pub(super) type Refused = (&'static str, &'static str);

const LATER: &str = "is not available yet; remove it";
const PASSTHROUGH: &str = "belongs to HTTP services, which are not available yet: a layer-4 VIP \
     passes TLS and HTTP through untouched; remove it";
const PORT_MAP: &str = "is not possible: at layer 4 a packet reaches the backend at the port it was \
     sent to; remove it, and let the backend listen at the VIP's port";
const COOKIE: &str = "belongs to HTTP services, which are not available yet: at layer 4 the flow \
     hash alone keeps a client on its backend; use `affinity`";
const RULES: &str = "belongs to HTTP services, which are not available yet: layer-4 services have \
     no custom rules; remove it";

const ADMIN_STATE: &str = "is written admin_state = \"enabled\", \"draining\" or \"disabled\"";

/// At the top of the file.
pub(super) const TOP: &[Refused] = &[
    ("geo", LATER),
    ("dns", LATER),
    ("http", LATER),
    ("cluster", LATER),
    ("announce", LATER),
    ("rule", RULES),
    ("rules", RULES),
    ("backend", "belongs to a pool; write [[pool.backend]] after its [[pool]]"),
    ("vip", "belongs to a service; write [[service.vip]] after its [[service]]"),
];

/// In `[metrics]`.
pub(super) const METRICS: &[Refused] = &[
    ("address", "is written listen, with its port, as in listen = \"127.0.0.1:9640\""),
    ("port", "is part of listen, as in listen = \"127.0.0.1:9640\""),
    ("path", "is always /metrics; remove it"),
];

/// In `[admin]`.
pub(super) const ADMIN: &[Refused] = &[
    ("mode", "is always 0660: the owner and the group may connect; set group"),
    ("user", "is the daemon's own; set group to let others connect"),
    ("owner", "is the daemon's own; set group to let others connect"),
];

/// In `[[port]]`.
pub(super) const PORT: &[Refused] = &[
    ("gateway", "has one key for each family; write gateway_ipv4 or gateway_ipv6"),
    ("address", "is a list; write addresses = [\"192.0.2.1/24\"]"),
];

/// In `[[monitor]]`.
pub(super) const MONITOR: &[Refused] = &[
    ("tls", LATER),
    ("body", LATER),
    ("expect", LATER),
    ("method", LATER),
    ("host", "is written http_host"),
    ("status", "is written http_status"),
    ("expected_status", "is written http_status"),
];

/// In `[[pool]]`.
pub(super) const POOL: &[Refused] = &[
    ("balancing", LATER),
    ("capacity", LATER),
    ("capacity_scaler", LATER),
    ("fallback", LATER),
    ("fallback_pool", LATER),
    ("enabled", ADMIN_STATE),
    ("disabled", ADMIN_STATE),
    ("drain", ADMIN_STATE),
    ("session_affinity", COOKIE),
    ("rule", RULES),
    ("rules", RULES),
    ("port", PORT_MAP),
    ("backends", "is a section each; write [[pool.backend]]"),
];

/// In `[[pool.backend]]`.
pub(super) const BACKEND: &[Refused] = &[
    ("capacity", LATER),
    ("capacity_scaler", LATER),
    ("enabled", ADMIN_STATE),
    ("disabled", ADMIN_STATE),
    ("drain", ADMIN_STATE),
    ("tls", PASSTHROUGH),
    ("host", PASSTHROUGH),
    ("port", PORT_MAP),
    ("port_map", PORT_MAP),
];

/// In `[[service]]`.
pub(super) const SERVICE: &[Refused] = &[
    ("enabled", ADMIN_STATE),
    ("disabled", ADMIN_STATE),
    ("drain", ADMIN_STATE),
    ("rule", RULES),
    ("rules", RULES),
    ("session_affinity", COOKIE),
    ("tls", PASSTHROUGH),
    ("certificate", PASSTHROUGH),
    ("host", PASSTHROUGH),
    ("hosts", PASSTHROUGH),
    ("path", PASSTHROUGH),
    ("paths", PASSTHROUGH),
    ("waf", PASSTHROUGH),
    ("proxied", PASSTHROUGH),
    ("proxy_protocol", PASSTHROUGH),
    ("port_map", PORT_MAP),
    ("dns", LATER),
    ("http", LATER),
    ("tracking", LATER),
    ("tracking_scope", LATER),
    ("persistence", LATER),
    ("drain_timeout", LATER),
    ("on_all_unhealthy", LATER),
    ("failover", LATER),
    ("fallback_pool", LATER),
    ("balancing", LATER),
    ("capacity_scaler", LATER),
    ("pool", "is a list; write pools = [\"name\"]"),
];

/// In `[[service.vip]]`.
pub(super) const VIP: &[Refused] = &[
    ("rule", RULES),
    ("rules", RULES),
    ("session_affinity", COOKIE),
    ("tls", PASSTHROUGH),
    ("certificate", PASSTHROUGH),
    ("host", PASSTHROUGH),
    ("hosts", PASSTHROUGH),
    ("path", PASSTHROUGH),
    ("paths", PASSTHROUGH),
    ("waf", PASSTHROUGH),
    ("proxied", PASSTHROUGH),
    ("proxy_protocol", PASSTHROUGH),
    ("port_map", PORT_MAP),
    ("backend_port", PORT_MAP),
    ("target_port", PORT_MAP),
    ("port", "is written ports, as in ports = 80"),
];

/// What to do about a key that the section does not know, and the known key that is near to it, if
/// one is.
pub(super) fn unknown(written: &str, spec: &Spec) -> (String, Option<&'static str>) {
    if let Some((_, reason)) = spec.refused.iter().find(|(key, _)| *key == written) {
        return ((*reason).to_owned(), None);
    }
    match nearest(written, spec.keys) {
        Some(near) => (format!("is not a key; did you mean `{near}`?"), Some(near)),
        None => (format!("is not a key; the keys here are {}", spec.keys.join(", ")), None),
    }
}

/// The candidate that differs from `written` in the fewest letters, if these are few enough for a
/// slip of the keyboard.
pub(super) fn nearest<'c>(written: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let allowed = (written.len() / 3).clamp(1, 3);
    candidates
        .iter()
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= allowed)
        .map(|candidate| (distance(written, candidate), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many bytes must be inserted, removed, replaced or swapped with their neighbour to make one
/// text of the other (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=right.len()).collect()];
    for (i, &a) in left.iter().enumerate() {
        rows.rotate_left(1);
        let [older, above, row] = &mut rows;
        row.clear();
        row.push(i + 1);
        for (j, &b) in right.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == right[j - 1] && left[i - 1] == b {
                best = best.min(older[j - 1] + 1);
            }
            row.push(best);
        }
    }
    rows[2].last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_slips() {
        for (left, right, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("weight", "weight", 0),
            ("wieght", "weight", 1),
            ("weigt", "weight", 1),
            ("weights", "weight", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn the_nearest_key_is_suggested_only_if_it_is_near() {
        let keys = ["weight", "name", "address"];
        assert_eq!(nearest("wieght", &keys), Some("weight"));
        assert_eq!(nearest("adress", &keys), Some("address"));
        assert_eq!(nearest("colour", &keys), None);
        assert_eq!(nearest("", &keys), None);
    }
}
