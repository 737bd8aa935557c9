//! `[[monitor]]`

use std::time::Duration;

use super::super::default;
use super::super::key;
use super::super::kind::{duration, integer, name, show_duration, text, word};
use super::super::model::{Monitor, MonitorKind};
use super::super::section::{Field, Report, Section, Spec, unique};

pub(in super::super) const MONITOR: Spec = Spec {
    path: "monitor",
    keys: &[
        "name",
        "type",
        "port",
        "interval",
        "timeout",
        "rise",
        "fall",
        "path",
        "http_path",
        "http_host",
        "http_status",
    ],
    secrets: &[],
    refused: key::MONITOR,
};

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Tcp,
    Http,
}

/// A monitor as written.
pub(super) struct Written {
    pub(super) name: Option<Field<String>>,
    kind: Option<MonitorKind>,
    port: Option<Field<u16>>,
    interval: Option<Field<Duration>>,
    timeout: Option<Field<Duration>>,
    rise: Option<Field<u32>>,
    fall: Option<Field<u32>>,
}

impl Written {
    pub(super) fn build(self) -> Option<Monitor> {
        Some(Monitor {
            name: self.name?.value,
            kind: self.kind?,
            port: self.port?.value,
            interval: self.interval?.value,
            timeout: self.timeout?.value,
            rise: self.rise?.value,
            fall: self.fall?.value,
        })
    }
}

/// Reads every `[[monitor]]`.
pub(super) fn read(top: &Section<'_>) -> Vec<Written> {
    top.sections("monitor", &MONITOR).iter().map(read_one).collect()
}

fn read_one(section: &Section<'_>) -> Written {
    let later = &[
        "https",
        "grpc",
        "dns",
        "ping",
        "icmp",
        "icmp_ping",
        "udp",
        "udp_icmp",
        "smtp",
        "ssl",
        "script",
    ];
    let kind = section.required(
        "type",
        "type = \"http\" or type = \"tcp\"",
        word(&[("tcp", Type::Tcp), ("http", Type::Http)], later),
    );
    // The only way there is so far: it is read so that a file can say it.
    section.or("path", (), path);

    let interval =
        section.or("interval", default::INTERVAL, duration(milliseconds(100)..=seconds(3_600)));
    let usual = interval.as_ref().map_or(default::INTERVAL, |interval| interval.value);
    let timeout =
        section.or("timeout", default::timeout(usual), duration(milliseconds(10)..=seconds(3_600)));
    Written {
        name: section.required("name", "name = \"web\"", name),
        kind: kind_of(section, kind),
        port: section.required(
            "port",
            "the TCP port that is probed, as in port = 80",
            integer(1..=65_535),
        ),
        interval,
        timeout,
        rise: section.or("rise", default::RISE, integer(1..=1_000)),
        fall: section.or("fall", default::FALL, integer(1..=1_000)),
    }
}

/// The kind, with what belongs to it.
fn kind_of(section: &Section<'_>, kind: Option<Field<Type>>) -> Option<MonitorKind> {
    let path = section.or("http_path", default::HTTP_PATH.to_owned(), http_path);
    let host = section.optional("http_host", http_host);
    let status = section.list("http_status", integer::<u16>(100..=599));
    if section.has("http_status") {
        let place = section.place_of("http_status");
        if status.as_ref().is_some_and(Vec::is_empty) {
            section.report().mistake(&place, "is empty; name at least one code, as in [200]");
        }
        unique(
            section.report(),
            status.iter().flatten(),
            |code| *code,
            "is there twice; remove one",
        );
    }

    let kind = kind?;
    if kind.value == Type::Tcp {
        for key in ["http_path", "http_host", "http_status"].iter().filter(|key| section.has(key)) {
            section.report().mistake(
                &section.place_of(key),
                "belongs to a monitor of type \"http\"; remove it, or set type = \"http\"",
            );
        }
        return Some(MonitorKind::Tcp);
    }
    let mut expected_status: Vec<_> = status?.into_iter().map(super::value).collect();
    if expected_status.is_empty() {
        expected_status.push(default::HTTP_STATUS);
    }
    Some(MonitorKind::Http { path: path?.value, host: host.map(super::value), expected_status })
}

fn path(value: &toml::de::DeValue<'_>) -> Result<(), String> {
    if value.as_str().is_some_and(|text| text.starts_with('/')) {
        return Err(
            "says which way the probe takes; write the path of the URL as http_path".to_owned()
        );
    }
    word(&[("direct", ())], &["vip"])(value)
}

/// Origin form of RFC 9112 §3.2.1: path and query, in visible ASCII.
fn http_path(value: &toml::de::DeValue<'_>) -> Result<String, String> {
    let path = text(value)?;
    if !path.starts_with('/') {
        return Err(
            "does not begin with /; write the path of the URL, as in \"/health\"".to_owned()
        );
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.contains('#') {
        return Err("has a space, a # or a character beyond ASCII; write these as %XX".to_owned());
    }
    Ok(path)
}

/// A host with an optional port, RFC 9110 §7.2; its exact syntax is the server's affair.
fn http_host(value: &toml::de::DeValue<'_>) -> Result<String, String> {
    let host = text(value)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.bytes().all(plain) {
        Ok(host)
    } else {
        Err("is not a host name; write it without scheme and path, as in \"www.example.com\""
            .to_owned())
    }
}

/// The rules inside a monitor, and between monitors.
pub(super) fn check(report: &Report<'_>, monitors: &[Written]) {
    super::unique_names(report, monitors.iter().map(|monitor| &monitor.name), "monitor");
    for monitor in monitors {
        if let (Some(interval), Some(timeout)) = (&monitor.interval, &monitor.timeout)
            && timeout.value > interval.value
        {
            let limit = show_duration(interval.value);
            report.mistake(
                &timeout.place,
                format!(
                    "is longer than the interval; write at most \"{limit}\", or a longer interval"
                ),
            );
        }
    }
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
