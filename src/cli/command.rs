//! The command line: noun then verb, in the words of the types.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::client::{Client, ClientError};
use super::{VERSION, render};
use crate::config::{self, LoadError};
use crate::control::protocol::{BackendName, DEFAULT_SOCKET, Request};

/// What was asked on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "lodectl",
    about = "Ask and steer the Lodestone daemon",
    disable_version_flag = true
)]
pub struct Arguments {
    /// The daemon's admin socket.
    #[arg(long, global = true, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Print the daemon's answer as one line of JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The appliance at a glance.
    Status,
    /// Show a part of the daemon's state.
    #[command(subcommand)]
    Show(Show),
    /// Change what a backend is used for.
    #[command(subcommand)]
    Backend(BackendVerb),
    /// Apply the daemon's configuration file again.
    Reload,
    /// Check a configuration file without the daemon.
    CheckConfig {
        /// The file.
        file: PathBuf,
    },
    /// The version of lodectl.
    Version,
}

#[derive(Debug, Subcommand)]
enum Show {
    /// Services, their VIPs, and where new flows go.
    Services,
    /// Backends: state, health, traffic, probes.
    Backends,
    /// Workers and what they did.
    Workers,
    /// Dropped frames by reason.
    Drops {
        /// Also the reasons that never occurred.
        #[arg(long)]
        all: bool,
    },
    /// The connection tables.
    Conntrack,
}

#[derive(Debug, Subcommand)]
enum BackendVerb {
    /// No new flows; established ones stay.
    Drain(BackendArgument),
    /// New flows when healthy.
    Enable(BackendArgument),
    /// No flows at all.
    Disable(BackendArgument),
}

#[derive(Debug, clap::Args)]
struct BackendArgument {
    /// The backend, as in web/b1.
    #[arg(value_name = "POOL/NAME")]
    backend: BackendName,
}

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
        verb => ask(arguments, verb),
    };
    let (written, code) = match outcome {
        Ok(text) => (write(&mut io::stdout().lock(), &text), ExitCode::SUCCESS),
        Err(text) => (write(&mut io::stderr().lock(), &text), ExitCode::FAILURE),
    };
    if written.is_ok() { code } else { ExitCode::FAILURE }
}

/// Writes all of `text`. A reader that closed the pipe has seen enough.
fn write(stream: &mut impl Write, text: &str) -> io::Result<()> {
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn ask(arguments: &Arguments, verb: &Verb) -> Result<String, String> {
    let (request, view): (_, View) = match verb {
        Verb::Status => (Request::Status, view(render::status)),
        Verb::Show(Show::Services) => (Request::ShowServices, view(render::services)),
        Verb::Show(Show::Backends) => (Request::ShowBackends, view(render::backends)),
        Verb::Show(Show::Workers) => (Request::ShowWorkers, view(render::workers)),
        Verb::Show(Show::Drops { all }) => {
            let all = *all;
            (Request::ShowDrops, view(move |reply| render::drops(reply, all)))
        }
        Verb::Show(Show::Conntrack) => (Request::ShowConntrack, view(render::conntrack)),
        Verb::Backend(BackendVerb::Drain(of)) => {
            (Request::BackendDrain(of.backend.clone()), view(render::change))
        }
        Verb::Backend(BackendVerb::Enable(of)) => {
            (Request::BackendEnable(of.backend.clone()), view(render::change))
        }
        Verb::Backend(BackendVerb::Disable(of)) => {
            (Request::BackendDisable(of.backend.clone()), view(render::change))
        }
        Verb::Reload => (Request::Reload, view(render::change)),
        Verb::CheckConfig { .. } | Verb::Version => return Err("not a request\n".into()),
    };
    let result =
        Client::connect(&arguments.socket).and_then(|mut client| client.call(&request)).and_then(
            |result| if arguments.json { Ok(result + "\n") } else { view_result(&view, &result) },
        );
    result.map_err(|error| match error {
        ClientError::Refused(refusal) => render::refusal(&refusal),
        other => format!("lodectl: {other}\n"),
    })
}

/// JSON of a result to text for people.
type View = Box<dyn Fn(&str) -> serde_json::Result<String>>;

fn view<T: DeserializeOwned>(render: impl Fn(&T) -> String + 'static) -> View {
    Box::new(move |result| serde_json::from_str(result).map(|reply| render(&reply)))
}

fn view_result(view: &View, result: &str) -> Result<String, ClientError> {
    view(result).map_err(|error| ClientError::BadAnswer(error.to_string()))
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
