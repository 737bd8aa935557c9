//! Kinds of values: each turns a TOML value into a typed one, or says what it expects instead.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use toml::de::DeValue;

use super::key;
use super::model::PortRange;
use super::section::article;
use crate::packet::{FlowHashKey, MacAddress, ParseFlowHashKeyError};

/// How to make a key of the flow hash; part of messages and of the documentation.
pub(super) const MAKE_KEY: &str = "od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'";

fn not(expected: impl Display, found: &DeValue<'_>) -> String {
    format!("expects {expected}, not {}", article(found.type_str()))
}

fn str_of<'v>(value: &'v DeValue<'_>, expected: impl Display) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| not(expected, value))
}

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| not("true or false", value))
}

/// Any text but an empty one or one with control characters.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, String> {
    let text = str_of(value, "a string")?;
    if text.trim().is_empty() {
        return Err("is empty; write something, or remove the key if it is optional".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("has a control character; remove it".to_owned());
    }
    Ok(text.to_owned())
}

/// A name: it is shown, typed and used as a label, so it has no surprising characters.
pub(super) fn name(value: &DeValue<'_>) -> Result<String, String> {
    let name = str_of(value, "a string")?;
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= 63 && name.chars().all(rest) {
        return Ok(name.to_owned());
    }
    let problem = if name.is_empty() { "is empty" } else { "cannot be a name" };
    Err(format!(
        "{problem}; write 1 to 63 of a-z, A-Z, 0-9, `.`, `_` and `-`, beginning with a letter or \
         a digit"
    ))
}

/// An integer in a range.
pub(super) fn integer<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        let written = value.as_integer().ok_or_else(|| not(&expected, value))?;
        u64::from_str_radix(written.as_str(), written.radix())
            .ok()
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("is out of range; write {expected}"))
    }
}

/// A duration in a range, as a string with its unit.
pub(super) fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&DeValue<'_>) -> Result<Duration, String> {
    move |value| {
        let written = str_of(value, "a duration with its unit, as in \"500ms\" or \"2s\"")?;
        let duration = parse_duration(written).ok_or(
            "is not a duration; write a whole number and its unit (ms, s, m or h), as in \"500ms\"",
        )?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
        Err(format!("is out of range; write a duration from \"{least}\" to \"{most}\""))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    Some(Duration::from_millis(number.checked_mul(milliseconds)?))
}

/// The duration as one would write it.
pub(super) fn show_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds.is_multiple_of(1_000) {
        format!("{}s", milliseconds / 1_000)
    } else {
        format!("{milliseconds}ms")
    }
}

/// One of some words. A word of `later` is told to be not available yet.
pub(super) fn word<T: Copy>(
    words: &'static [(&'static str, T)],
    later: &'static [&'static str],
) -> impl Fn(&DeValue<'_>) -> Result<T, String> {
    move |value| {
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let choices = known.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>();
        let choices = choices.join(" or ");
        let written = str_of(value, &choices)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == written) {
            return Ok(*meaning);
        }
        if later.contains(&written) {
            return Err(format!("is not available yet; write {choices}"));
        }
        Err(match key::nearest(written, &known) {
            Some(near) => format!("is not known; did you mean \"{near}\"?"),
            None => format!("is not known; write {choices}"),
        })
    }
}

/// A unicast IP address.
pub(super) fn address(value: &DeValue<'_>) -> Result<IpAddr, String> {
    let written = str_of(value, "an IP address as a string")?;
    let address = written.parse().map_err(|_| {
        "is not an IP address; write one without a prefix, as in \"192.0.2.1\" or \"2001:db8::1\""
            .to_owned()
    })?;
    unicast(address)?;
    Ok(address)
}

/// A unicast IPv4 address.
pub(super) fn ipv4(value: &DeValue<'_>) -> Result<Ipv4Addr, String> {
    match address(value)? {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => Err("is an IPv6 address; write an IPv4 address".to_owned()),
    }
}

/// A unicast IPv6 address.
pub(super) fn ipv6(value: &DeValue<'_>) -> Result<Ipv6Addr, String> {
    match address(value)? {
        IpAddr::V6(address) => Ok(address),
        IpAddr::V4(_) => Err("is an IPv4 address; write an IPv6 address".to_owned()),
    }
}

/// A host's address with the prefix length of its network.
pub(super) fn interface(value: &DeValue<'_>) -> Result<IpNet, String> {
    let written = str_of(value, "an address with its prefix length, as a string")?;
    let network: IpNet = written.parse().map_err(|_| {
        "is not an address with the prefix length of its network; write both, as in \
         \"192.0.2.1/24\" or \"2001:db8::1/64\""
            .to_owned()
    })?;
    unicast(network.addr())?;
    if network.prefix_len() == 0 {
        return Err("has prefix length 0; write that of the port's own network".to_owned());
    }
    not_reserved_in(network.addr(), &network)?;
    Ok(network)
}

/// What addresses cannot belong to one host on a network.
///
/// RFC 1122 §3.2.1.3, RFC 4291 §2.
fn unicast(address: IpAddr) -> Result<(), String> {
    let problem = match address {
        _ if address.is_unspecified() => "is the unspecified address",
        _ if address.is_multicast() => "is a multicast address",
        _ if address.is_loopback() => "is a loopback address",
        IpAddr::V4(address) if address.octets()[0] == 0 => "is in 0.0.0.0/8",
        IpAddr::V4(address) if address.octets()[0] >= 240 => "is in 240.0.0.0/4",
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => "is an IPv4-mapped address",
        _ => return Ok(()),
    };
    Err(format!("{problem}; write a unicast address"))
}

/// Whether `address` is one that no host of `network` has: its network (or subnet router, RFC 4291
/// §2.6.1) address, or its IPv4 broadcast address. Point-to-point networks have none (RFC 3021,
/// RFC 6164).
pub(super) fn not_reserved_in(address: IpAddr, network: &IpNet) -> Result<(), String> {
    let hosts = network.max_prefix_len() - network.prefix_len();
    if hosts < 2 || !network.contains(&address) {
        return Ok(());
    }
    let trunc = network.trunc();
    if address == network.network() {
        return Err(format!("is the address of the network {trunc} itself; write a host's"));
    }
    if address.is_ipv4() && address == network.broadcast() {
        return Err(format!("is the broadcast address of {trunc}; write a host's"));
    }
    Ok(())
}

/// A unicast MAC address.
pub(super) fn mac(value: &DeValue<'_>) -> Result<MacAddress, String> {
    let written = str_of(value, "a MAC address as a string")?;
    let mac: MacAddress = written.parse().map_err(|_| {
        "is not a MAC address; write six pairs of hex digits, as in \"02:00:00:00:00:01\""
            .to_owned()
    })?;
    if mac.is_group() || mac == MacAddress::default() {
        return Err("is not the address of one station; write a unicast MAC address".to_owned());
    }
    Ok(mac)
}

/// The key of the flow hash: 16 bytes as 32 hex digits. Its messages never show it.
pub(super) fn flow_hash_key(value: &DeValue<'_>) -> Result<FlowHashKey, String> {
    let expected = "32 hex digits as a string";
    let written =
        str_of(value, expected).map_err(|what| format!("{what}; make a key with: {MAKE_KEY}"))?;
    written.parse().map_err(|error| {
        let what = match error {
            ParseFlowHashKeyError::Length(count) => format!("has {count} characters"),
            ParseFlowHashKeyError::Digit(place) => {
                format!("has another character at place {place}")
            }
        };
        format!("must be 32 hex digits, and {what}; make a key with: {MAKE_KEY}")
    })
}

/// L4 ports: a number, a range, a list of these, or `"any"`. The result is sorted and without
/// overlap.
pub(super) fn ports(value: &DeValue<'_>) -> Result<Vec<PortRange>, String> {
    if value.as_str() == Some("any") {
        return Ok(vec![PortRange::ANY]);
    }
    let DeValue::Array(elements) = value else { return Ok(vec![port_range(value)?]) };
    if elements.is_empty() {
        return Err("is empty; write at least one port, or \"any\"".to_owned());
    }
    let mut ranges = Vec::with_capacity(elements.len());
    for element in elements {
        ranges.push(port_range(element.get_ref())?);
    }
    ranges.sort_unstable();
    let overlap = ranges.windows(2).find(|pair| pair[1].first <= pair[0].last);
    match overlap {
        Some(pair) => Err(format!("names port {} twice; remove one", pair[1].first)),
        None => Ok(ranges),
    }
}

fn port_range(value: &DeValue<'_>) -> Result<PortRange, String> {
    const EXPECTED: &str =
        "a port from 1 to 65535, a range like \"8000-8099\", a list of these, or \"any\"";
    let wrong = || format!("is not understood; write {EXPECTED}");
    let (first, last) = match value {
        DeValue::Integer(_) => {
            let port = integer(1..=65_535)(value).map_err(|_| wrong())?;
            (port, port)
        }
        DeValue::String(written) => {
            let (first, last) = written.split_once('-').unwrap_or((written, written));
            let port = |text: &str| {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|port| digits && *port != 0).ok_or_else(wrong)
            };
            (port(first)?, port(last)?)
        }
        _ => return Err(not(EXPECTED, value)),
    };
    if first > last {
        return Err(format!("ends before it begins; write \"{last}-{first}\""));
    }
    Ok(PortRange { first, last })
}
