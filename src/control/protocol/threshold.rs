//! What `pool.threshold` takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool and its new threshold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolThresholdParams {
    /// Its name.
    pub pool: String,
    /// With fewer healthy backends it takes no new flows: 1 to the number of its backends.
    pub threshold: u32,
    /// Do it although it leaves the pool under its threshold or a service without backends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}
