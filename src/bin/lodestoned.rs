//! The appliance's daemon.

use std::process::ExitCode;

use clap::Parser;
use lodestone::cli::lodestoned::{Arguments, LogFormat};
use lodestone::daemon::log;

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
