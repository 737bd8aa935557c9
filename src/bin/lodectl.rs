//! The operator's command line.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    lodestone::cli::run(&lodestone::cli::Arguments::parse())
}
