//! Configurations written and compared: what is written is read again as the same, and what did not
//! change keeps its place, its layout and its comments.

use super::parse;
use crate::random::{self, Random};
use lodestone::config::{self, Config, DifferenceKind};

fn texts(seed: u64) -> (String, String) {
    let mut random = Random(seed);
    (random::text(&mut random), random::text(&mut random))
}

fn sriov() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/sriov.toml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_configuration_is_read_as_it_was_written() {
    bolero::check!().with_iterations(300).with_type::<u64>().for_each(|seed| {
        let (text, _) = texts(*seed);
        let config = parse(&text);
        let written = config::to_toml(&config);
        assert_eq!(parse(&written), config, "\n{text}\nwritten as\n{written}");
        assert!(!written.starts_with('\n') && written.ends_with('\n'), "{written}");
    });
}

#[test]
fn a_text_can_be_changed_to_say_anything() {
    bolero::check!().with_iterations(300).with_type::<u64>().for_each(|seed| {
        let (text, other) = texts(*seed);
        let config = parse(&other);
        let updated = config::update(&text, &config);
        assert_eq!(parse(&updated), config, "\n{text}\nchanged to\n{updated}");
        // It was changed, not replaced.
        assert!(updated.contains("# keep"), "\n{text}\nto say\n{other}\nchanged to\n{updated}");
        assert_eq!(config::update(&updated, &config), updated);
        assert_eq!(config::update(&text, &parse(&text)), text);
    });
}

#[test]
fn a_text_that_is_no_configuration_is_replaced() {
    let config = parse(&sriov());
    for text in ["", "# nothing yet\n", "[", "[appliance]\nname = 1\n"] {
        assert_eq!(config::update(text, &config), config::to_toml(&config));
    }
}

/// Sorted by what tells objects apart: what a diff does not see is gone.
fn unordered(config: &Config) -> Config {
    let mut config = config.clone();
    config.monitors.sort_by(|a, b| a.name.cmp(&b.name));
    config.pools.sort_by(|a, b| a.name.cmp(&b.name));
    for pool in &mut config.pools {
        pool.backends
            .sort_by(|a, b| (&a.virtual_network, a.address).cmp(&(&b.virtual_network, b.address)));
    }
    config.services.sort_by(|a, b| a.name.cmp(&b.name));
    for service in &mut config.services {
        service.vips.sort_by(|a, b| {
            (a.address, a.protocol, &a.ports).cmp(&(b.address, b.protocol, &b.ports))
        });
    }
    config
}

#[test]
fn there_is_a_difference_exactly_where_something_differs() {
    bolero::check!().with_iterations(300).with_type::<u64>().for_each(|seed| {
        let (text, other) = texts(*seed);
        let (a, b) = (parse(&text), parse(&other));
        let differences = config::diff(&a, &b);
        assert_eq!(differences.is_empty(), unordered(&a) == unordered(&b), "{differences:#?}");
        assert_eq!(config::diff(&a, &a), []);
        assert_eq!(config::diff(&a, &unordered(&a)), []);
        // Each path once; the other way round is the same with old and new exchanged.
        let mut there: Vec<_> = differences.iter().map(config::Difference::path).collect();
        let mut back: Vec<_> = config::diff(&b, &a).iter().map(config::Difference::path).collect();
        there.sort();
        back.sort();
        assert_eq!(there, back);
        there.dedup();
        assert_eq!(there.len(), differences.len(), "{differences:#?}");
    });
}

#[test]
fn a_file_undoes_what_it_does_not_have() {
    bolero::check!().with_iterations(200).with_type::<u64>().for_each(|seed| {
        let (text, other) = texts(*seed);
        let (base, running) = (parse(&text), parse(&other));
        assert_eq!(config::undone(&base, &running, &running), []);
        assert_eq!(config::undone(&base, &base, &running), []);
        assert_eq!(config::undone(&base, &running, &base), config::diff(&base, &running));
    });
}

const SMALL: &str = r#"
[appliance]
name = "lb1"
flow_hash_key = "000102030405060708090a0b0c0d0e0f"
[[port]]
name = "wan"
device = "net_tap0"
addresses = ["192.0.2.2/24"]
[[pool]]
name = "web"
[[pool.backend]]
name = "b1"
address = "192.0.2.11"
[[pool.backend]]
name = "b2"
address = "192.0.2.12"
weight = 3
[[pool]]
name = "spare"
[[pool.backend]]
name = "s1"
address = "192.0.2.21"
[[service]]
name = "www"
pools = ["web", "spare"]
[[service.vip]]
address = "192.0.2.100"
protocol = "tcp"
ports = 80
"#;

fn small(replace: &[(&str, &str)]) -> Config {
    let mut text = SMALL.to_owned();
    for (from, to) in replace {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    parse(&text)
}

fn lines(differences: &[config::Difference]) -> Vec<String> {
    differences.iter().map(ToString::to_string).collect()
}

#[test]
fn differences_are_told_in_words() {
    let new = small(&[
        ("000102030405060708090a0b0c0d0e0f", "0f0102030405060708090a0b0c0d0e0f"),
        ("\"b1\"", "\"first\""),
        ("weight = 3", "weight = 0\nadmin_state = \"draining\""),
        ("[\"web\", \"spare\"]", "[\"spare\", \"web\"]"),
        ("\"192.0.2.21\"", "\"192.0.2.22\"\nvirtual_network = \"blue\""),
        ("ports = 80", "ports = [80, \"8000-8099\"]"),
    ]);
    let differences = config::diff(&small(&[]), &new);
    assert_eq!(
        lines(&differences),
        [
            "appliance: flow_hash_key (hidden) -> (hidden)",
            "pool web, backend first: name b1 -> first",
            "pool web, backend b2: weight 3 -> 0",
            "pool web, backend b2: admin_state enabled -> draining",
            "pool spare, backend s1: removed (address 192.0.2.21)",
            "pool spare, backend s1: added (address 192.0.2.22, virtual_network blue)",
            "service www: pools web, spare -> spare, web",
            "service www, vip tcp 192.0.2.100:80: removed (address 192.0.2.100, protocol tcp, \
             ports 80)",
            "service www, vip tcp 192.0.2.100:80,8000-8099: added (address 192.0.2.100, protocol \
             tcp, ports 80, 8000-8099)",
        ]
    );
    let paths: Vec<_> = differences.iter().map(config::Difference::path).collect();
    assert_eq!(paths[1], "pool/web/backend/192.0.2.11/name");
    assert_eq!(paths[5], "pool/spare/backend/blue@192.0.2.22");
    assert_eq!(differences[4].kind, DifferenceKind::Removed);
    assert_eq!((differences[4].key, &differences[4].new), (None, &None));
}

#[test]
fn the_order_of_ports_counts() {
    let lan =
        "[[port]]\nname = \"lan\"\ndevice = \"net_tap1\"\naddresses = [\"198.51.100.2/24\"]\n";
    let wan_first = small(&[("[[pool]]", &format!("{lan}[[pool]]"))]);
    let lan_first = small(&[("[[port]]", &format!("{lan}[[port]]"))]);
    let differences = config::diff(&wan_first, &lan_first);
    assert_eq!(lines(&differences), ["ports: order wan, lan -> lan, wan"]);
    assert_eq!(differences[0].path(), "port/order");
    assert_eq!(lines(&config::diff(&small(&[]), &lan_first)).len(), 1);
}

/// What was changed at run time, and what of it a file would undo.
#[test]
fn only_changes_that_would_be_lost_are_undone() {
    let base = small(&[]);
    let running = small(&[
        ("\"b1\"", "\"b1\"\nweight = 5"),
        ("weight = 3", "weight = 0"),
        ("[\"web\", \"spare\"]", "[\"web\"]"),
        ("[[service]]", "[[pool.backend]]\nname = \"s2\"\naddress = \"192.0.2.23\"\n[[service]]"),
    ]);
    // The file keeps one change, gives another value instead of one, and lacks two.
    let file = small(&[("weight = 3", "weight = 0"), ("\"b1\"", "\"b1\"\nweight = 7")]);
    assert_eq!(
        lines(&config::undone(&base, &running, &file)),
        [
            "pool web, backend b1: weight 1 -> 5",
            "pool spare, backend s2: added (address 192.0.2.23)",
            "service www: pools web, spare -> web"
        ]
    );
    // What the file changes elsewhere undoes nothing.
    let file = parse(&config::to_toml(&running).replace("\"lb1\"", "\"lb2\""));
    assert_eq!(config::undone(&base, &running, &file), []);
}

/// Explicit zero is kept through every round trip.
// HP-40
#[test]
fn weight_zero_is_written() {
    let zero = small(&[("weight = 3", "weight = 0")]);
    assert_eq!(zero.pools[0].backends[1].weight, 0);
    let written = config::to_toml(&zero);
    assert!(written.contains("weight = 0\n"), "{written}");
    assert_eq!(parse(&written), zero);
    for text in [SMALL, &SMALL.replace("weight = 3\n", "")] {
        let updated = config::update(text, &zero);
        assert_eq!(updated.matches("weight = 0\n").count(), 1, "{updated}");
        assert_eq!(parse(&updated), zero);
    }
    // Back to the default: the key stays where it was written.
    let updated = config::update(&written, &small(&[("weight = 3\n", "")]));
    assert!(updated.contains("weight = 1\n"), "{updated}");
}

#[test]
fn what_did_not_change_keeps_its_text() {
    let text = sriov();
    let mut config = parse(&text);
    config.pools[0].backends[0].weight = 7;
    config.pools[0].backends.remove(1);
    config.pools[0].threshold = 1;
    config.services.remove(1);
    let neighbour = config.pools[1].backends[0].clone();
    config.pools[1].backends.push(config::Backend {
        name: "b2".to_owned(),
        address: "2001:db8:2::12".parse().unwrap(),
        ..neighbour
    });
    let updated = config::update(&text, &config);
    let removed = |from: &str, to: &str| -> Vec<String> {
        let others: Vec<_> = to.lines().collect();
        let lines = from.lines().filter(|line| !others.contains(line));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        removed(&updated, &text),
        ["threshold = 1", "weight = 7", "name = \"b2\"", "address = \"2001:db8:2::12\""]
    );
    assert_eq!(
        removed(&text, &updated),
        [
            "threshold = 2",
            "weight = 2",
            "name = \"a2\"",
            "address = \"10.1.0.12\"",
            "weight = 1",
            "probe_address = \"10.9.0.12\"",
            "pools = [\"dns\"]",
            "idle_timeout = \"30s\"",
            "address = \"203.0.113.53\"",
            "protocol = \"udp\"",
            "ports = 53",
            "address = \"203.0.113.53\"",
            "ports = 53",
        ]
    );
    // The new backend is a table of its own behind its neighbour.
    let neighbour = "[[pool.backend]]\nname = \"b1\"\naddress = \"2001:db8:2::11\"\nprobe_address \
                     = \"10.9.0.21\"\n\n[[pool.backend]]\nname = \"b2\"\n";
    assert!(updated.contains(neighbour), "{updated}");
    assert_eq!(parse(&updated), config);
}

#[test]
fn a_comment_behind_a_value_stays_and_so_does_an_inline_table() {
    let text = SMALL.replace("weight = 3", "weight = 3 # as measured").replace(
        "[[pool]]\nname = \"spare\"\n[[pool.backend]]\nname = \"s1\"\naddress = \"192.0.2.21\"\n",
        "[[pool]]\nname = \"spare\"\nbackend = [\n  { name = \"s1\", address = \"192.0.2.21\" }, # the old one\n]\n",
    );
    let mut config = parse(&text);
    config.pools[0].backends[1].weight = 4;
    config.pools[1].backends[0].weight = 2;
    let updated = config::update(&text, &config);
    assert!(updated.contains("weight = 4 # as measured\n"), "{updated}");
    let inline = "\n  { name = \"s1\", address = \"192.0.2.21\" , weight = 2 }, # the old one\n]\n";
    assert!(updated.contains(inline), "{updated}");
}

#[test]
fn a_secret_is_hidden_from_people() {
    let shown = config::to_toml_redacted(&small(&[]));
    assert!(shown.contains("flow_hash_key = \"(hidden)\""), "{shown}");
    assert!(!shown.contains("0001020304"), "{shown}");
    let differs = small(&[("0001020304", "ffff020304")]);
    let told = format!("{:?}", config::diff(&small(&[]), &differs));
    assert!(!told.contains("020304"), "{told}");
}

#[test]
fn a_file_is_saved_whole_and_only_over_what_was_read() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use config::{Expected, SaveError};

    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
    let text = format!("# mine\n{SMALL}");
    std::fs::write(&real, &text).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let loaded = config::load_stamped(&link).unwrap();

    // Nothing to say: the very file stays.
    let before = std::fs::metadata(&real).unwrap().ino();
    let saved = config::save(&link, &loaded.config, Expected::Unchanged(&loaded.stamp)).unwrap();
    assert_eq!((saved.is_written, &saved.stamp), (false, &loaded.stamp));
    assert_eq!(std::fs::metadata(&real).unwrap().ino(), before);

    let zero = small(&[("weight = 3", "weight = 0")]);
    let saved = config::save(&link, &zero, Expected::Unchanged(&loaded.stamp)).unwrap();
    assert!(saved.is_written);
    assert_eq!(std::fs::read_to_string(&real).unwrap(), text.replace("weight = 3", "weight = 0"));
    assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(config::load_stamped(&link).unwrap().stamp, saved.stamp);

    // The old stamp is of another text, and so is any after someone else wrote.
    let refused = |stamp: &config::Stamp| {
        let before = std::fs::read(&real).ok();
        let error = config::save(&real, &small(&[]), Expected::Unchanged(stamp)).unwrap_err();
        assert!(matches!(error, SaveError::ChangedOnDisk { .. }), "{error}");
        assert!(error.to_string().contains("or force to overwrite"), "{error}");
        assert_eq!(std::fs::read(&real).ok(), before);
    };
    refused(&loaded.stamp);
    for other in [&b"# other\n"[..], &[0xff]] {
        std::fs::write(&real, other).unwrap();
        refused(&saved.stamp);
    }
    std::fs::remove_file(&real).unwrap();
    refused(&saved.stamp);
    assert!(!real.exists());

    // Forced, it is written whatever is there; a new file is its owner's alone.
    config::save(&real, &zero, Expected::Anything).unwrap();
    assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(config::load(&real).unwrap().0, zero);
    std::fs::write(&real, "# no configuration\n").unwrap();
    config::save(&real, &zero, Expected::Anything).unwrap();
    assert_eq!(config::load(&real).unwrap().0, zero);

    // No temporary file is left, also where it fails.
    let error = config::save(folder.path(), &zero, Expected::Anything).unwrap_err();
    assert!(matches!(error, SaveError::Read { .. }), "{error}");
    let nowhere = folder.path().join("no/such.toml");
    let error = config::save(&nowhere, &zero, Expected::Anything).unwrap_err();
    assert!(matches!(error, SaveError::Write { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
