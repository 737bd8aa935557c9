//! The published tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Digests;

/// The published tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TablesReply {
    /// Their generation.
    pub generation: u64,
    /// What appliances compare.
    pub digests: Digests,
    /// Older generations that are still held for workers that have not moved on.
    pub held: u32,
    /// Slot arrays in use, by pools of the generations that are held.
    pub slot_arrays: u32,
    /// Slot arrays that wait to be used again.
    pub slot_arrays_free: u32,
    /// In the configuration's order.
    pub services: Vec<ServiceTableState>,
    /// In the configuration's order.
    pub pools: Vec<PoolTableState>,
}

/// Level 1 of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceTableState {
    /// The service.
    pub service: String,
    /// `empty`, `single` (one pool takes all) or `weighted`.
    pub level1: String,
    /// Pools that take new flows.
    pub pools: Vec<String>,
}

/// Level 2: a pool's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolTableState {
    /// The pool.
    pub pool: String,
    /// Slots; 0 if no backend takes new flows.
    pub slots: u32,
    /// Backends that have slots.
    pub members: u32,
    /// The smallest share of slots that a member has, divided by its share of the weights.
    pub evenness: f64,
}
