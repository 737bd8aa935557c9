//! Configuration and versions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The running configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReply {
    /// The file that `reload` reads and `config.save` writes.
    pub path: String,
    /// The running configuration in TOML; the flow hash key is hidden.
    pub text: String,
    /// Changes made at run time that the file does not have.
    pub unsaved_changes: u32,
}

/// The running configuration against the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReply {
    /// The file.
    pub path: String,
    /// Whether the file was changed since it was loaded or saved.
    pub file_changed: bool,
    /// Where the two differ; empty if they say the same.
    pub differences: Vec<DifferenceState>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DifferenceState {
    /// What it is about: `pool web, backend b1`.
    pub object: String,
    /// The key; absent if the object is in one of the two only.
    pub key: Option<String>,
    /// What runs; absent if that does not have it.
    pub running: Option<String>,
    /// What the file says; absent if it does not have it.
    pub file: Option<String>,
}

/// Versions of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionReply {
    /// Version of the product.
    pub version: String,
    /// Commit it was built from.
    pub commit: String,
    /// Version of DPDK.
    pub dpdk: String,
}
