//! Answers as text for people. Pure: the same answer gives the same text.

mod backend;
mod change;
mod config;
mod conntrack;
mod event;
mod explain;
mod port;
mod service;
mod status;
mod tables;
mod time;
mod worker;

pub use backend::{backends, drains, health};
pub use change::{change, flush, refusal, save};
pub use config::{config, diff, mistakes, valid, version};
pub use conntrack::{conntrack, drops, flows};
pub use event::{event, events};
pub use explain::explain;
pub use port::{neighbours, ports};
pub use service::{pools, services};
pub use status::status;
pub use tables::tables;
pub use worker::workers;

#[cfg(test)]
mod tests;
