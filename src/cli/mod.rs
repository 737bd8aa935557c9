//! `lodectl`: asks the daemon over its admin socket and shows the answer to people.
//!
//! Rendering is pure ([`render`]), the client blocks ([`client`]), and neither knows anything of the
//! daemon but the admin protocol.

mod argument;
mod client;
pub mod color;
mod command;
pub mod completions;
pub mod lodestoned;
pub mod man;
pub mod render;
mod request;
mod run;
mod table;

pub use client::{Client, ClientError};
pub use command::Arguments;
pub use run::run;

/// Product, version, commit and DPDK version: what `lodectl version` says.
pub const VERSION: &str =
    concat!("lodectl ", env!("CARGO_PKG_VERSION"), " (commit ", env!("LODESTONE_COMMIT"), ")");
