//! The configuration: what it refuses, how it is edited, and how it is written.

mod edit;
mod errors;
mod random;
mod write;

use lodestone::config::{self, Config};

/// The configuration that a text says, which must be valid.
fn parse(text: &str) -> Config {
    config::parse(text).unwrap_or_else(|errors| panic!("{errors}\nin\n{text}")).0
}
