//! The sources under test, as they are in the product but for their primitives.

#[path = "../../../src/padded.rs"]
mod padded;
#[path = "../../../src/snapshot.rs"]
pub mod snapshot;
