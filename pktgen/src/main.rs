//! `pktgen`: generates the traffic of a profile, verifies or counts what comes back, and says what
//! it found. It sends to the addresses that its profile names and to nobody else.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a generator cuts numbers to the widths of the wire and makes rates of counters"
)]

mod change;
mod command;
mod engine;
mod expect;
mod flow;
mod frame;
mod in_process;
mod io;
mod latency;
mod life;
mod neighbour;
mod pace;
mod prebuilt;
mod profile;
mod random;
mod replay;
mod report;
mod search;
mod send;
mod session;
mod stamp;
mod traffic;
mod tuples;
mod verify;
mod wire;
mod zipf;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use serde::Serialize;

use command::{Arguments, Task};
use profile::Profile;
use report::plot::Plot;
use search::SearchReport;
use session::Session;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok((text, is_good)) => {
            // A closed pipe loses the text, not the status.
            let _ = writeln!(std::io::stdout(), "{text}");
            if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "pktgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what is asked for; returns what is to be said, and whether all is well.
fn run(arguments: &Arguments) -> anyhow::Result<(String, bool)> {
    match arguments.task()? {
        Task::Send(send) => {
            let report = send::run(&send, arguments)?;
            let text = if arguments.json { report.to_json() } else { report.to_string() };
            Ok((text, report.is_complete()))
        }
        Task::SelfTest(profile) => {
            let profile = match profile {
                Some(path) => Profile::load(&path)?,
                None => Profile::parse(SELF_TEST, Path::new("."))?,
            };
            let own = session::own_rate(&arguments.place(), &profile)?;
            let text = if arguments.json {
                to_json(&own)?
            } else {
                format!(
                    "sends and counts {:.0} packets/s, {:.1} cycles a packet",
                    own.generator_packets_per_second, own.cycles_per_packet
                )
            };
            Ok((text, true))
        }
        Task::Run(path) => {
            let profile = Profile::load(&path)?;
            let mut session = Session::start(&arguments.place(), &profile)?;
            let said = if let Some(search) = &profile.search {
                let report = session.search(&profile, search)?;
                write_files(arguments, &report)?;
                let text = if arguments.json { to_json(&report)? } else { in_words(&report) };
                (text, true)
            } else {
                let report = session.run(&profile)?;
                let text = if arguments.json { to_json(&report)? } else { report.to_string() };
                (text, report.is_good())
            };
            session.stop()?;
            Ok(said)
        }
    }
}

/// The traffic of a self-test without a profile: short frames of a million flows.
const SELF_TEST: &str = r#"
mode = "count"
duration = "1s"
[[traffic]]
kind = "udp"
source = "198.18.0.0/16"
destination = "198.19.0.1"
port = 80
flows = 1_000_000
"#;

fn to_json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(value)?)
}

fn in_words(report: &SearchReport) -> String {
    let mut lines = vec![format!(
        "generator {:.0} packets/s with nothing at the other end",
        report.generator_packets_per_second
    )];
    for found in &report.found {
        lines.push(format!(
            "{} flows: {:.0} packets/s without loss, {:.0} with {} % ({} trials)",
            found.flows,
            found.no_drop,
            found.partial_drop,
            report.partial_drop * 100.0,
            found.trials.len()
        ));
        for load in &found.latency {
            lines.push(format!(
                "  at {:.0} %, {:.0} packets/s: p50 {} p99 {} p99.9 {} max {}",
                load.part * 100.0,
                load.rate,
                report::Nanoseconds(load.latency.p50_ns),
                report::Nanoseconds(load.latency.p99_ns),
                report::Nanoseconds(load.latency.p999_ns),
                report::Nanoseconds(load.latency.max_ns)
            ));
        }
    }
    lines.join("\n")
}

/// Writes the files that are asked for: CSV and SVG, rates and latencies.
fn write_files(arguments: &Arguments, report: &SearchReport) -> anyhow::Result<()> {
    let write = |folder: &Path, name: &str, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(folder) = &arguments.csv {
        write(folder, "rate.csv", report.rates().to_csv())?;
        write(folder, "latency.csv", report.latencies().to_csv())?;
    }
    if let Some(folder) = &arguments.svg {
        write(folder, "rate.svg", Plot::to_svg(&report.rate_plot()))?;
        write(folder, "latency.svg", Plot::to_svg(&report.latency_plot()))?;
    }
    Ok(())
}

/// Sleeps; nothing else runs on the calling thread.
#[expect(clippy::disallowed_methods, reason = "not a worker and no tokio: one thread that waits")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}
