//! What a change did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReply {
    /// The generation that carries the change, or the current one if there was nothing to change.
    pub generation: u64,
    /// Whether anything changed.
    pub changed: bool,
    /// Workers that run this generation or a newer one: all of them, or it would be an error.
    pub workers_adopted: u16,
    /// What is allowed but worth a look, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What was forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlushReply {
    /// Flows.
    pub removed: u64,
    /// Buckets of the connection tables that were walked.
    pub buckets: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaveReply {
    /// The file.
    pub path: String,
    /// Whether the file was replaced; one that says already what runs is left alone.
    pub changed: bool,
    /// Differences that were written.
    pub written: u32,
    /// What is worth a look, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What the connection will carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeReply {
    /// Whether events come.
    pub events: bool,
    /// At which interval counters come, in milliseconds; 0 if they do not.
    pub stats_interval_ms: u32,
}
