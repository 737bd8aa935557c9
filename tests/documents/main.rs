//! Documents, metrics' text and the source itself against the code: what is written is what is.
//!
//! One program for all of them: each is small, and to link one takes as long as to run them all.

mod admin_api;
mod configuration;
mod drop_reasons;
mod events;
mod layering;
mod metrics;
mod promtool;
mod systemd_unit;
