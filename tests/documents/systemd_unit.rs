//! `conf/lodestone.service` against the code that it starts. `scripts/check` has systemd itself read
//! it, where there is one.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use lodestone::control::protocol::DEFAULT_SOCKET;

/// Every setting that the unit may use (systemd.unit(5), .service(5), .exec(5), .kill(5),
/// .resource-control(5) of systemd 252). A misspelt one would be ignored with a line in the journal.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "Unit",
        &["After", "Description", "Documentation", "StartLimitBurst", "StartLimitIntervalSec"],
    ),
    (
        "Service",
        &[
            "CapabilityBoundingSet",
            "DeviceAllow",
            "DevicePolicy",
            "ExecReload",
            "ExecStart",
            "KillMode",
            "LimitCORE",
            "LimitMEMLOCK",
            "LimitNOFILE",
            "LockPersonality",
            "NoNewPrivileges",
            "NotifyAccess",
            "OOMScoreAdjust",
            "PrivateTmp",
            "ProtectClock",
            "ProtectControlGroups",
            "ProtectHome",
            "ProtectHostname",
            "ProtectKernelLogs",
            "ProtectKernelModules",
            "ProtectKernelTunables",
            "ProtectSystem",
            "ReadWritePaths",
            "Restart",
            "RestartSec",
            "RestrictAddressFamilies",
            "RestrictNamespaces",
            "RestrictRealtime",
            "RestrictSUIDSGID",
            "RuntimeDirectory",
            "RuntimeDirectoryMode",
            "SystemCallArchitectures",
            "SystemCallErrorNumber",
            "SystemCallFilter",
            "TimeoutStartSec",
            "TimeoutStopSec",
            "Type",
            "UMask",
            "WatchdogSec",
        ],
    ),
    ("Install", &["WantedBy"]),
];

/// Settings that may stand several times: each adds to the list.
const LISTS: &[&str] = &["DeviceAllow"];

type Unit = BTreeMap<(String, String), Vec<String>>;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Section and key to values. A mistake of syntax is a sentence.
fn parse(text: &str) -> Result<Unit, String> {
    let mut section = String::new();
    let mut unit = Unit::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let (key, value) = line.split_once('=').ok_or(format!("line {number}: no setting"))?;
        let known = KNOWN.iter().find(|(name, _)| *name == section);
        if !known.is_some_and(|(_, keys)| keys.contains(&key)) {
            return Err(format!("line {number}: [{section}] {key} is not known"));
        }
        unit.entry((section.clone(), key.to_owned())).or_default().push(value.to_owned());
    }
    if let Some(((_, key), _)) =
        unit.iter().find(|((_, key), values)| values.len() > 1 && !LISTS.contains(&key.as_str()))
    {
        return Err(format!("{key} stands twice"));
    }
    Ok(unit)
}

fn unit() -> Unit {
    parse(&read("conf/lodestone.service")).unwrap()
}

fn setting(unit: &Unit, key: &str) -> String {
    let values = unit.get(&("Service".to_owned(), key.to_owned()));
    values.unwrap_or_else(|| panic!("no {key}")).join(" ")
}

fn seconds(unit: &Unit, key: &str) -> Duration {
    Duration::from_secs(setting(unit, key).parse().unwrap())
}

#[test]
fn the_reader_refuses_what_systemd_would_ignore() {
    for (text, said) in [
        ("[Service]\nWatchDogSec=1", "WatchDogSec is not known"),
        ("[Service]\nDescription=x", "[Service] Description is not known"),
        ("[Unit]\nDescription", "no setting"),
        ("[Service]\nType=notify\nType=simple", "Type stands twice"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_unit_uses_known_settings_once() {
    assert!(unit().len() > 30);
}

#[test]
fn it_starts_the_daemon_on_its_default_configuration() {
    let start = setting(&unit(), "ExecStart");
    let words: Vec<_> = start.split(' ').collect();
    let [program, "--config", file] = words[..] else { panic!("{start}") };
    assert_eq!(program, "/usr/bin/lodestoned");
    let defaults = lodestone::cli::lodestoned::Arguments::parse_from([program]);
    assert_eq!(defaults.config, Path::new(file));
    // What `lodectl config save` writes must be writable.
    let writable = setting(&unit(), "ReadWritePaths");
    assert!(file.starts_with(writable.trim_start_matches('-')), "{writable}");
    assert!(setting(&unit(), "ExecReload").starts_with("/usr/bin/lodectl "));
}

#[test]
fn the_runtime_directory_is_that_of_the_default_socket() {
    let directory = Path::new("/run").join(setting(&unit(), "RuntimeDirectory"));
    assert_eq!(Path::new(DEFAULT_SOCKET).parent(), Some(directory.as_path()));
    // The mode that the daemon gives it where nobody made it before.
    let mode = setting(&unit(), "RuntimeDirectoryMode");
    assert_eq!(mode, "0751", "the sockets may have groups: see control::admin::place");
}

#[test]
fn the_watchdog_restarts_and_a_stop_does_not() {
    let unit = unit();
    assert_eq!(setting(&unit, "Type"), "notify");
    assert_eq!(setting(&unit, "NotifyAccess"), "main");
    // Includes signals and the watchdog, not a clean exit.
    assert_eq!(setting(&unit, "Restart"), "on-failure");
    // A worker must stand for half of it: below seconds, a busy machine would be enough.
    let watchdog = seconds(&unit, "WatchdogSec");
    assert!((Duration::from_secs(4)..=Duration::from_secs(30)).contains(&watchdog));
    assert!(seconds(&unit, "TimeoutStopSec") >= Duration::from_secs(5));
    assert!(seconds(&unit, "TimeoutStartSec") >= Duration::from_mins(1));
    assert_eq!(setting(&unit, "LimitMEMLOCK"), "infinity");
}

#[test]
fn it_does_not_pin_what_the_daemon_pins() {
    assert!(!unit().keys().any(|(_, key)| key.contains("Affinity") || key == "AllowedCPUs"));
}

#[test]
fn the_operations_guide_names_the_unit_and_its_watchdog() {
    let guide = read("docs/operations.md");
    for word in ["conf/lodestone.service", "systemctl edit lodestone", "WatchdogSec", "READY=1"] {
        assert!(guide.contains(word), "docs/operations.md does not say {word}");
    }
}
