//! The appliance's daemon.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use lodestone::version;
use tracing_subscriber::fmt;

/// Lodestone: carries the traffic of virtual IPs to backends.
///
/// It runs in the foreground until SIGTERM or SIGINT; SIGHUP reads the configuration again.
/// `lodectl check-config FILE` checks a configuration without starting anything.
#[derive(Debug, Parser)]
#[command(version = version::LONG)]
struct Arguments {
    /// The configuration file.
    #[arg(long, short, default_value = "/etc/lodestone/lodestone.toml")]
    config: PathBuf,
    /// How the log on standard error is written.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Also log every publication of tables.
    #[arg(long, short)]
    verbose: bool,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log_to_standard_error(&arguments);
    match lodestone::daemon::run(&arguments.config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn log_to_standard_error(arguments: &Arguments) {
    let level = if arguments.verbose { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let log = fmt::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    match arguments.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
