//! Configuration and versions.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use std::path::Path;

use crate::cli::table::wrap;
use crate::config::Config;
use crate::control::protocol::reply::{ConfigReply, DiffReply, VersionReply};

/// `lodectl check-config` of a file that the daemon would take.
#[must_use]
pub fn valid(file: &Path, config: &Config, warnings: &[String]) -> String {
    let mut text = format!(
        "{} is valid (services: {}, pools: {}, ports: {})\n",
        file.display(),
        config.services.len(),
        config.pools.len(),
        config.ports.len()
    );
    for warning in warnings {
        text += &wrap(&format!("warning: {warning}"), 0);
    }
    text
}

/// `lodectl check-config` of a file that the daemon would refuse.
#[must_use]
pub fn mistakes(file: &Path, mistakes: &[String]) -> String {
    let mut text = format!("lodectl: {} is not valid:\n", file.display());
    for mistake in mistakes {
        text += &format!("  - {mistake}\n");
    }
    text
}

/// `lodectl show config`
#[must_use]
pub fn config(reply: &ConfigReply) -> String {
    reply.text.clone()
}

/// `lodectl diff`: what runs behind `+`, what the file says behind `-`.
#[must_use]
pub fn diff(reply: &DiffReply) -> String {
    let mut text = String::new();
    if reply.file_changed {
        text += &wrap(&format!("{} was changed since it was loaded", reply.path), 0);
    }
    if reply.differences.is_empty() {
        return text + &format!("{} says what runs\n", reply.path);
    }
    let mut object = "";
    for difference in &reply.differences {
        if difference.object != object {
            object = &difference.object;
            text += &format!("{object}\n");
        }
        let key = difference.key.as_deref().map_or(String::new(), |key| format!("{key} = "));
        let mut side = |sign: char, value: &Option<String>| {
            if let Some(value) = value {
                text += &format!("  {sign} {key}{value}\n");
            }
        };
        side('-', &difference.file);
        side('+', &difference.running);
    }
    text
}

/// `lodectl show version`
#[must_use]
pub fn version(reply: &VersionReply) -> String {
    format!("lodestone {} (commit {}, DPDK {})\n", reply.version, reply.commit, reply.dpdk)
}
