//! From what is written to what can be done.

use std::path::Path;

use ipnet::IpNet;
use lodestone::control::protocol::{Access, Request};
use serde_json::value::to_raw_value;

use super::{Change, Expect, Kind, Life, Mode, Profile, Replay, Search, Set, Traffic, written};
use crate::frame::FRAME_CAP;
use crate::pace::{Rate, Shape};
use crate::stamp::FLOW_CAP;
use crate::tuples::{Order, Tuples};

/// Flows of a set at most.
const SET_CAP: u32 = 10_000_000;
/// Faster than any port.
const RATE_CAP: f64 = 1e9;
/// Frames of the simple IMIX without their check sequence: 7 of 64, 4 of 594 and 1 of 1518 bytes.
const IMIX: [u16; 12] = [60, 590, 60, 60, 590, 60, 60, 1514, 590, 60, 60, 590];
const SEED: u64 = 1;

type Outcome<T> = Result<T, String>;

pub fn checked(written: written::Profile, folder: &Path) -> Outcome<Profile> {
    let mode = written.mode;
    let seed = written.seed.unwrap_or(SEED);
    let duration = written.duration.as_deref().map(|text| seconds("duration", text)).transpose()?;
    if written.packets == Some(0) {
        return Err("`packets` is at least 1".into());
    }
    if written.search.is_none() && written.packets.is_none() && duration.is_none() {
        return Err("when does it end? give `packets` or `duration`".into());
    }
    if written.window == Some(0) {
        return Err("`window` is at least 1; leave it out for no limit".into());
    }
    let traffic = written
        .traffic
        .into_iter()
        .zip(seed..)
        .map(|(traffic, seed)| checked_traffic(traffic, mode, seed))
        .collect::<Outcome<Vec<_>>>()?;
    match (&written.replay, traffic.is_empty()) {
        (None, true) => return Err("there is nothing to send; give a [[traffic]]".into()),
        (Some(_), false) => {
            return Err("[replay] takes the place of all [[traffic]]; give one of them".into());
        }
        _ => {}
    }
    let flows: u64 = traffic.iter().map(|traffic| u64::from(traffic.flows)).sum();
    if flows > u64::from(FLOW_CAP) {
        return Err(format!("{flows} flows are more than the {FLOW_CAP} of a run; give fewer"));
    }
    let changes = checked_changes(written.change)?;
    let search = written.search.map(checked_search).transpose()?;
    if search.is_some() && mode == Mode::Verify {
        return Err("[search] counts packets; give mode = \"count\"".into());
    }
    if mode == Mode::Count && !changes.is_empty() {
        return Err("a [[change]] is verified; give mode = \"verify\"".into());
    }
    Ok(Profile {
        mode,
        packets: written.packets,
        duration,
        seed,
        window: written.window,
        rate: written.rate.as_ref().map(checked_rate).transpose()?,
        traffic,
        replay: written.replay.map(|replay| checked_replay(replay, mode, folder)).transpose()?,
        changes,
        search,
    })
}

fn seconds(key: &str, text: &str) -> Outcome<f64> {
    let wrong = || format!("`{key}` is a time above 0, as in \"500ms\", \"10s\" or \"2m\"");
    let (number, factor) = if let Some(number) = text.strip_suffix("ms") {
        (number, 1e-3)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else {
        return Err(wrong());
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let is_possible = number.is_finite() && number > 0.0 && number * factor <= 86_400.0;
    is_possible.then_some(number * factor).ok_or_else(wrong)
}

fn rate(key: &str, rate: f64) -> Outcome<f64> {
    if rate > 0.0 && rate <= RATE_CAP {
        return Ok(rate);
    }
    Err(format!("`{key}` is above 0 and at most 1e9, and {rate} is impossible"))
}

fn checked_rate(written: &written::Rate) -> Outcome<Rate> {
    let packets_per_second = rate("packets_per_second", written.packets_per_second)?;
    let shape = match (written.shape.unwrap_or(written::Shape::Constant), written.burst) {
        (written::Shape::Bursts, burst) => {
            let burst = burst.unwrap_or(32);
            if !(1..=1024).contains(&burst) {
                return Err(format!("`burst` is 1 to 1024, and {burst} is not"));
            }
            Shape::Bursts(burst)
        }
        (_, Some(_)) => return Err("`burst` belongs to shape = \"bursts\"".into()),
        (written::Shape::Constant, None) => Shape::Constant,
        (written::Shape::Poisson, None) => Shape::Poisson,
    };
    Ok(Rate { packets_per_second, shape })
}

fn checked_traffic(written: written::Traffic, mode: Mode, seed: u64) -> Outcome<Traffic> {
    let written::Traffic { kind, source, destination, port, flows, .. } = written;
    let share = written.share.unwrap_or(1.0);
    if !(share > 0.0 && share.is_finite()) {
        return Err(format!("`share` is above 0, and {share} is not"));
    }
    same_family(source, destination)?;
    if !(1..=SET_CAP).contains(&flows) {
        return Err(format!("`flows` is 1 to {SET_CAP}, and {flows} is not"));
    }
    let room = Tuples::new(source, Order::Grid).room();
    if u64::from(flows) > room {
        return Err(format!(
            "source {source} has room for {room} flows, fewer than {flows}; widen the prefix or ask \
             for fewer"
        ));
    }
    let set = match (written.set.unwrap_or(written::Set::Random), written.exponent) {
        (written::Set::Zipf, exponent) => {
            let exponent = exponent.unwrap_or(1.0);
            if !(exponent > 0.0 && exponent <= 5.0) {
                return Err(format!("`exponent` is above 0 and at most 5, and {exponent} is not"));
            }
            Set::Zipf(exponent)
        }
        (_, Some(_)) => return Err("`exponent` belongs to set = \"zipf\"".into()),
        (written::Set::Grid, None) => Set::Grid,
        (written::Set::Random, None) => Set::Random,
    };
    let life = checked_life(kind, written.life, flows)?;
    let expect = written.expect.unwrap_or(Expect::Forwarded);
    if kind == Kind::UdpFragments {
        if source.addr().is_ipv6() {
            return Err("kind = \"udp-fragments\" is of IPv4; give an IPv4 source".into());
        }
        if mode == Mode::Verify && expect == Expect::Forwarded {
            return Err("fragments that are forwarded cannot be verified; give expect = \
                        \"dropped\", or mode = \"count\""
                .into());
        }
    }
    let sizes = sizes(written.size)?;
    Ok(Traffic { share, kind, source, destination, port, flows, set, sizes, life, expect, seed })
}

fn same_family(source: IpNet, destination: std::net::IpAddr) -> Outcome<()> {
    if source.addr().is_ipv4() == destination.is_ipv4() {
        return Ok(());
    }
    Err(format!("source {source} and destination {destination} are of two IP versions; use one"))
}

fn sizes(written: Option<written::Size>) -> Outcome<Vec<u16>> {
    let sizes = match written {
        None => vec![60],
        Some(written::Size::One(size)) => vec![size],
        Some(written::Size::Several(sizes)) => sizes,
        Some(written::Size::Named(name)) if name == "imix" => IMIX.to_vec(),
        Some(written::Size::Named(_)) => Vec::new(),
    };
    let most = FRAME_CAP - 60;
    if sizes.is_empty() || sizes.iter().any(|&size| usize::from(size) > most) {
        return Err(format!(
            "`size` is a frame's length without the check sequence (at most {most}), a list of \
             lengths, or \"imix\""
        ));
    }
    Ok(sizes)
}

fn checked_life(kind: Kind, life: Option<Life>, flows: u32) -> Outcome<Option<Life>> {
    let life = match (kind, life) {
        (Kind::Tcp, None) => {
            return Err(
                "kind = \"tcp\" needs `life`, as in { concurrent = 1000, length = [2, 20] }".into(),
            );
        }
        (Kind::Tcp, Some(life)) => life,
        (_, Some(_)) => return Err("`life` belongs to kind = \"tcp\"".into()),
        (_, None) => return Ok(None),
    };
    if life.concurrent == 0 || life.concurrent > flows {
        return Err(format!(
            "`concurrent` is 1 to the number of flows, {flows}, and {} is not",
            life.concurrent
        ));
    }
    let [least, most] = life.length;
    if least < 2 || least > most || most > 1_000_000 {
        return Err(
            "`length` is the least and the most packets of a connection, from 2 to 1000000".into(),
        );
    }
    let shares = [life.syn, life.fin, life.rst];
    let is_share = |share: &f64| (0.0..=1.0).contains(share);
    if !shares.iter().all(is_share) || life.fin + life.rst > 1.0 {
        return Err(
            "`syn`, `fin` and `rst` are parts of 1, and `fin` and `rst` together too".into()
        );
    }
    Ok(Some(life))
}

fn checked_changes(written: Vec<written::Change>) -> Outcome<Vec<Change>> {
    let mut changes: Vec<Change> = Vec::new();
    for change in written {
        let written::Change { at_packet, when, method, params } = change;
        let params = to_raw_value(&params).map_err(|error| error.to_string())?;
        let request = Request::read(&method, Some(&params))
            .map_err(|error| format!("change `{method}`: {}", error.message))?;
        if request.access() != Access::Change {
            return Err(format!("`{method}` changes nothing; a [[change]] names a verb that does"));
        }
        if changes.last().is_some_and(|last| last.at_packet > at_packet) {
            return Err("each [[change]] comes at a packet no earlier than the one before".into());
        }
        if when.is_some() && !matches!(request, Request::BackendRemove(_)) {
            return Err("when = \"drained\" belongs to method = \"backend.remove\"".into());
        }
        changes.push(Change { at_packet, when_drained: when.is_some(), request });
    }
    Ok(changes)
}

fn checked_replay(written: written::Replay, mode: Mode, folder: &Path) -> Outcome<Replay> {
    let written::Replay { file, destination, port, source } = written;
    if let Some(source) = source {
        same_family(source, destination)?;
    }
    if mode == Mode::Verify {
        return Err(
            "packets of a capture have no stamps; give mode = \"count\" with [replay]".into()
        );
    }
    Ok(Replay { file: folder.join(file), destination, port, source })
}

fn checked_search(written: written::Search) -> Outcome<Search> {
    let part = |key: &str, value: f64| {
        if value > 0.0 && value < 1.0 {
            return Ok(value);
        }
        Err(format!("`{key}` is above 0 and below 1, and {value} is not"))
    };
    let search = Search {
        trial: seconds("trial", written.trial.as_deref().unwrap_or("1s"))?,
        highest: rate("highest", written.highest.unwrap_or(100e6))?,
        precision: part("precision", written.precision.unwrap_or(0.02))?,
        partial_drop: part("partial_drop", written.partial_drop.unwrap_or(0.005))?,
        flows: written.flows,
        loads: written.loads,
    };
    if search.flows.iter().any(|flows| !(1..=SET_CAP).contains(flows)) {
        return Err(format!("`flows` are 1 to {SET_CAP} each"));
    }
    if search.loads.iter().any(|&load| !(load > 0.0 && load <= 1.0)) {
        return Err("`loads` are parts of the no-drop rate, above 0 and at most 1".into());
    }
    Ok(search)
}
