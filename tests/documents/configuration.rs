//! `docs/configuration.md` and the examples in `conf/` against the parser.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lodestone::config::{self, Idle, MonitorKind};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn examples() -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(root().join("conf")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension() == Some(OsStr::new("toml")));
    files.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let text = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let mut documented = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## `") {
            section = heading.trim_matches(['[', ']', '`']).to_owned();
        } else if let Some((key, rest)) =
            line.strip_prefix("| `").and_then(|row| row.split_once('`'))
        {
            // Every column is there: type, default, range and meaning.
            assert_eq!(rest.replace("\\|", "").matches('|').count(), 5, "{line}");
            documented.push(format!("{section}.{key}"));
        }
    }
    assert_eq!(documented, config::keys());
}

#[test]
fn every_example_loads_without_a_warning() {
    let examples = examples();
    let names: BTreeSet<_> = examples.iter().filter_map(|(path, _)| path.file_stem()).collect();
    for name in ["lab", "sriov", "virtio"] {
        assert!(names.contains(OsStr::new(name)), "conf/{name}.toml is missing");
    }
    for (path, _) in examples {
        let (config, warnings) = config::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(warnings, [], "{}", path.display());
        assert!(!config.services.is_empty());
    }
}

/// Each file explains each of its keys where it first uses it, and no key is without an example.
#[test]
fn every_key_is_in_an_example_with_a_comment() {
    let mut used = BTreeSet::new();
    for (path, text) in examples() {
        let mut here = BTreeSet::new();
        let mut section = "";
        let mut above = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line.trim_matches(['[', ']']);
                if section.contains('.') {
                    used.insert(section.to_owned());
                }
            } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#'))
            {
                let is_first = here.insert(format!("{section}.{key}"));
                let has_comment = above.starts_with('#');
                assert!(!is_first || has_comment, "{}: {section}.{key}", path.display());
            }
            above = line;
        }
        used.extend(here);
    }
    let known: BTreeSet<_> = config::keys().into_iter().collect();
    assert_eq!(used, known);
}

/// The lab's scripts rely on these.
#[test]
fn the_lab_is_as_its_scripts_expect() {
    let (lab, _) = config::load(&root().join("conf/lab.toml")).unwrap();
    assert_eq!((lab.cpu.management, &*lab.cpu.workers, lab.cpu.idle), (0, &[1][..], Idle::Yield));
    assert_eq!((lab.memory.hugepages, lab.memory.packet_memory), (false, 128));
    let port = &lab.ports[0];
    assert!(port.device.starts_with("net_af_packet0,iface=lb0,"), "{}", port.device);
    assert_eq!((port.name.as_str(), port.mtu), ("lb0", 1600));
    let addresses: Vec<_> = port.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.77.0.2/24", "fd77::2/64"]);

    let monitor = &lab.monitors[0];
    assert!(matches!(&monitor.kind, MonitorKind::Http { path, .. } if path == "/health"));
    let milliseconds = Duration::from_millis;
    assert_eq!((monitor.interval, monitor.timeout), (milliseconds(500), milliseconds(300)));
    assert_eq!((monitor.port, monitor.rise, monitor.fall), (80, 2, 2));

    let backends: Vec<_> = lab.pools[0]
        .backends
        .iter()
        .map(|backend| {
            format!("{} {} {}", backend.name, backend.address, backend.probe_target(monitor))
        })
        .collect();
    let expected = [
        "b1 10.77.0.11 10.78.0.11:80",
        "b2 10.77.0.12 10.78.0.12:80",
        "b3 10.77.0.13 10.78.0.13:80",
    ];
    assert_eq!(backends, expected);

    let vips = lab.services[0].vips.iter().map(|vip| (vip.address.to_string(), vip.ports[0].first));
    assert!(vips.eq([("10.77.0.100".to_owned(), 80), ("fd77::100".to_owned(), 80)]));
}
