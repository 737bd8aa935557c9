//! The pipeline: tables, one shard of connections and a burst of frames in; one verdict a frame
//! out. Pure: time, tables and bytes are arguments.

mod tables;
mod verdict;
mod vip_map;

pub use tables::{
    BackendFlags, BackendRecord, Level1, PoolTable, PortRecord, ServiceTable, Tables,
};
pub use verdict::{DropReason, PuntReason, Verdict};
pub use vip_map::{PortService, VipEntry, VipMap};
