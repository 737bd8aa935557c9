//! The configuration: the file as written, and the validated model made from it.
//!
//! [`parse`] reads the whole text and tells every mistake in it at once; nothing is made of a text
//! that has one. It looks at the text alone, never at the machine: a file may be checked on another
//! machine than the one it is for. `docs/configuration.md` lists every key.

mod default;
mod diff;
mod edit;
mod error;
mod key;
mod kind;
mod model;
mod outline;
mod save;
mod section;
mod validate;
mod write;

use std::path::Path;

use toml::de::DeTable;

pub use diff::{Difference, DifferenceKind, diff, undone};
pub use edit::{Edit, EditError, Edited, ObjectKind};
pub use error::{ConfigErrors, LoadError, Mistake, Place, Warning};
pub use model::{
    Admin, AdminState, Affinity, Appliance, Backend, BackendKey, Config, Conntrack, Cpu, Idle,
    Memory, Metrics, Monitor, MonitorKind, Pool, Port, PortRange, Protocol, Service, Steering, Vip,
};

pub use save::{Expected, Loaded, SaveError, Saved, Stamp, load_stamped, save};
pub use write::{to_toml, to_toml_redacted, update};

use section::Report;

/// The path of every key that [`parse`] knows, such as `pool.backend.weight`, in the order of the
/// sections.
#[must_use]
pub fn keys() -> Vec<String> {
    let sections = validate::SPECS.iter();
    sections.flat_map(|spec| spec.keys.iter().map(|key| format!("{}.{key}", spec.path))).collect()
}

/// Reads a configuration and validates it as a whole.
///
/// # Errors
///
/// All mistakes of the text, in the order of its lines. A text that is not TOML has one: where the
/// syntax breaks first.
pub fn parse(text: &str) -> Result<(Config, Vec<Warning>), ConfigErrors> {
    let report = Report::new(text);
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            report.syntax(&error);
            return Err(report.finish().0);
        }
    };
    let config = validate::config(&report, document.get_ref());
    let (errors, warnings) = report.finish();
    match config {
        Some(config) if errors.mistakes.is_empty() => Ok((config, warnings)),
        _ => Err(errors),
    }
}

/// Reads the configuration file at `path`; see [`parse`].
///
/// # Errors
///
/// The file cannot be read, is no regular file or longer than 64 MiB, or its text has
/// mistakes.
pub fn load(path: &Path) -> Result<(Config, Vec<Warning>), LoadError> {
    load_stamped(path).map(|loaded| (loaded.config, loaded.warnings))
}
