//! The daemon's command line. It is defined here, so that `lodectl` makes its completions and its
//! manual page without linking the daemon.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::version;

/// Lodestone: carries the traffic of virtual IPs to backends.
///
/// It runs in the foreground until SIGTERM or SIGINT; SIGHUP reads the configuration again.
/// `lodectl check-config FILE` checks a configuration without starting anything.
#[derive(Debug, Parser)]
#[command(name = "lodestoned", version = version::LONG)]
pub struct Arguments {
    /// The configuration file.
    #[arg(long, short, default_value = "/etc/lodestone/lodestone.toml")]
    pub config: PathBuf,
    /// How the log on standard error is written.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Also log every publication of tables.
    #[arg(long, short)]
    pub verbose: bool,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}
