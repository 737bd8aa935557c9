//! Doing what the command line says.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde_json::json;

use super::client::{Client, ClientError};
use super::command::{Arguments, Show, Verb};
use super::request::{Question, View, change};
use super::{VERSION, color, completions, lodestoned, man, render};
use crate::config::{self, LoadError};
use crate::control::protocol::Request;
use crate::control::protocol::params::{ApplyParams, Change, SubscribeParams};
use crate::control::protocol::reply::Event;

/// Does what `arguments` say. Exit code 0: done; 1: refused or failed, with a sentence on standard
/// error. (Wrong usage is 2, by `clap`.)
#[must_use]
pub fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.verb {
        Verb::CheckConfig { file } => check_config(file, arguments.json),
        Verb::Version => Ok(if arguments.json {
            format!("{}\n", json!({ "version": VERSION }))
        } else {
            format!("{VERSION}\n")
        }),
        Verb::Completions { shell } => Ok(completions::script(*shell, Arguments::command())),
        Verb::Man { directory } => man_pages(directory.as_deref()),
        Verb::Batch { file, force } => {
            batch(file, force.force).and_then(|request| ask(arguments, &request, &batch_view()))
        }
        Verb::Show(Show::Events { follow: true, limit }) => follow_events(arguments, *limit),
        verb => match Question::of(verb) {
            Some(Question { request, view, watch: None }) => ask(arguments, &request, &view),
            Some(Question { request, view, watch: Some(interval) }) => {
                watch(arguments, &request, &view, interval)
            }
            None => Err("lodectl: this verb asks nothing of the daemon\n".to_owned()),
        },
    };
    let (written, code) = match outcome {
        Ok(text) => (write(&mut io::stdout().lock(), arguments, &text), ExitCode::SUCCESS),
        Err(text) => (write(&mut io::stderr().lock(), arguments, &text), ExitCode::FAILURE),
    };
    if written.is_ok() { code } else { ExitCode::FAILURE }
}

/// Writes all of `text`, in colour where that is wanted. A reader that closed the pipe has seen
/// enough.
fn write(
    stream: &mut (impl Write + IsTerminal),
    arguments: &Arguments,
    text: &str,
) -> io::Result<()> {
    match write_all(stream, arguments, text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn write_all(
    stream: &mut (impl Write + IsTerminal),
    arguments: &Arguments,
    text: &str,
) -> io::Result<()> {
    let variable = |name: &str| std::env::var_os(name);
    if color::is_wanted(arguments.color, stream.is_terminal(), variable) {
        stream.write_all(text.as_bytes())?;
    } else {
        stream.write_all(color::plain(text).as_bytes())?;
    }
    stream.flush()
}

fn man_pages(directory: Option<&Path>) -> Result<String, String> {
    let (lodectl, daemon) = (Arguments::command(), lodestoned::Arguments::command());
    let Some(directory) = directory else { return Ok(man::overview(lodectl)) };
    match man::write(directory, &man::pages(lodectl, &daemon)) {
        Ok(pages) => Ok(format!("wrote {pages} pages to {}\n", directory.display())),
        Err(error) => Err(format!("lodectl: {error}\n")),
    }
}

fn ask(arguments: &Arguments, request: &Request, view: &View) -> Result<String, String> {
    let mut client = Client::connect(&arguments.socket).map_err(|error| failure(&error))?;
    answer(arguments, &mut client, request, view)
}

fn answer(
    arguments: &Arguments,
    client: &mut Client,
    request: &Request,
    view: &View,
) -> Result<String, String> {
    client
        .call(request)
        .and_then(|result| if arguments.json { Ok(result + "\n") } else { shown(view, &result) })
        .map_err(|error| failure(&error))
}

fn failure(error: &ClientError) -> String {
    match error {
        ClientError::Refused(refusal) => render::refusal(refusal),
        other => format!("lodectl: {other}\n"),
    }
}

fn shown(view: &View, result: &str) -> Result<String, ClientError> {
    view(result).map_err(|error| ClientError::BadAnswer(error.to_string()))
}

/// Asks until it is interrupted, or its reader has gone. On a terminal each answer takes the place
/// of the one before.
#[expect(clippy::disallowed_methods, reason = "a client that waits between two questions")]
fn watch(
    arguments: &Arguments,
    request: &Request,
    view: &View,
    interval: std::time::Duration,
) -> Result<String, String> {
    const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";
    let mut client = Client::connect(&arguments.socket).map_err(|error| failure(&error))?;
    let mut stdout = io::stdout();
    let is_screen = stdout.is_terminal() && !arguments.json;
    loop {
        let text = answer(arguments, &mut client, request, view)?;
        let clear = if is_screen { CLEAR } else { "" };
        let written = stdout
            .write_all(clear.as_bytes())
            .and_then(|()| write_all(&mut stdout, arguments, &text));
        if written.is_err() {
            return Ok(String::new());
        }
        std::thread::sleep(interval);
    }
}

/// Shows what is in the log, then what happens, until it is interrupted or its reader has gone.
fn follow_events(arguments: &Arguments, limit: Option<u32>) -> Result<String, String> {
    let failed = |error: ClientError| failure(&error);
    let mut client = Client::connect(&arguments.socket).map_err(failed)?;
    let subscribe = SubscribeParams { events: true, stats_interval_ms: 0 };
    client.call(&Request::Subscribe(subscribe)).map_err(failed)?;
    let past =
        Request::ShowEvents(crate::control::protocol::params::EventsParams { after: None, limit });
    // Events may come between this question and its answer: they are in both, by number.
    let result = Client::connect(&arguments.socket)
        .and_then(|mut other| other.call(&past))
        .map_err(failed)?;
    let bad = |error: serde_json::Error| failure(&ClientError::BadAnswer(error.to_string()));
    let past: crate::control::protocol::reply::EventsReply =
        serde_json::from_str(&result).map_err(bad)?;
    let mut newest = past.newest;
    let mut stdout = io::stdout();
    let mut show = |event: &Event| {
        let text = if arguments.json {
            serde_json::to_string(event).unwrap_or_default() + "\n"
        } else {
            render::event(event)
        };
        write_all(&mut stdout, arguments, &text).is_ok()
    };
    if !past.events.iter().all(&mut show) {
        return Ok(String::new());
    }
    loop {
        let (method, params) = client.notification().map_err(failed)?;
        match method.as_str() {
            "event" => {
                let event: Event = serde_json::from_str(&params).map_err(bad)?;
                if event.number > newest {
                    newest = event.number;
                    if !show(&event) {
                        return Ok(String::new());
                    }
                }
            }
            "lost" => {
                let text =
                    format!("lodectl: some events came too fast and are left out: {params}\n");
                if write(&mut io::stderr().lock(), arguments, &text).is_err() {
                    return Ok(String::new());
                }
            }
            _ => {}
        }
    }
}

fn batch_view() -> View {
    Box::new(|result| serde_json::from_str(result).map(|reply| render::change(&reply)))
}

/// The changes of a file as one request.
fn batch(file: &Path, force: bool) -> Result<Request, String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| {
        format!(
            "lodectl: cannot read {}: {error}; name a file with one change a line\n",
            file.display()
        )
    })?;
    let mut changes = Vec::new();
    let mut mistakes = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        if line.trim().is_empty() {
            continue;
        }
        match batch_line(line) {
            Ok(change) => changes.push(change),
            Err(mistake) => mistakes.push(format!("  - line {number}: {mistake}\n")),
        }
    }
    if !mistakes.is_empty() {
        return Err(format!("lodectl: nothing was changed:\n{}", mistakes.concat()));
    }
    if changes.is_empty() {
        return Err(format!(
            "lodectl: {} has no change; write one a line, as in `backend drain web/b1`\n",
            file.display()
        ));
    }
    Ok(Request::Apply(ApplyParams { changes, force }))
}

fn batch_line(line: &str) -> Result<Change, String> {
    let words = ["lodectl"].into_iter().chain(line.split_whitespace());
    let parsed = Arguments::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("error: ").unwrap_or(first).to_owned()
    })?;
    let request = change(&parsed.verb)
        .ok_or("only changes of services, pools and backends can be in a batch")?;
    Change::new(request).map_err(|error| error.message)
}

/// Checks a file as the daemon would, without the daemon and the machine it is for.
fn check_config(file: &Path, json: bool) -> Result<String, String> {
    let (config, warnings) = match config::load(file) {
        Ok(loaded) => loaded,
        Err(LoadError::Invalid { errors, .. }) => {
            let mistakes: Vec<_> = errors.mistakes.iter().map(ToString::to_string).collect();
            return Err(if json {
                format!("{}\n", json!({ "valid": false, "mistakes": mistakes }))
            } else {
                render::mistakes(file, &mistakes)
            });
        }
        Err(error) => return Err(format!("lodectl: {error}\n")),
    };
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    Ok(if json {
        format!("{}\n", json!({ "valid": true, "warnings": warnings }))
    } else {
        render::valid(file, &config, &warnings)
    })
}
