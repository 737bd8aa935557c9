//! The appliance's daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use lodestone::daemon::log;
use lodestone::version;

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
    let format = match arguments.log_format {
        LogFormat::Text => log::LogFormat::Text,
        LogFormat::Json => log::LogFormat::Json,
    };
    let left_out = log::init(format, arguments.verbose);
    match lodestone::daemon::run(&arguments.config, left_out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
