//! The pipeline: tables, one shard of connections and a burst of frames in; one verdict a frame
//! out. Pure: time, tables and bytes are arguments.
//!
//! A burst goes through three stages, each a loop over half a burst: *classify* (parse, find the
//! VIP), *hash* (and ask for the connection table's lines), *decide* (connection table, else
//! tables; then encapsulate). The second half is classified and hashed before the first is
//! decided, so that its lines arrive meanwhile (field-notes.md §6).

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod classify;
mod decide;
pub mod explain;
mod local;
mod pipeline;
mod tables;
mod verdict;
mod vip_map;

pub use decide::Leaves;
pub use local::PUNT_CAP;
pub use pipeline::{BURST, Forwarder, Verdicts};
pub use tables::{
    BackendFlags, BackendRecord, Level1, PoolTable, PortRecord, ServiceTable, Tables,
};
pub use verdict::{Counters, DropReason, Errand, PuntReason, Verdict};
pub use vip_map::{PortService, VipEntry, VipMap};
