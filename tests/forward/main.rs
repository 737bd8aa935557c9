//! The pipeline from bytes to verdicts, and a worker around it, without ports of DPDK.

mod choice;
mod explain_flow;
mod frames;
mod weights;
mod worker_ports;
#[path = "../world/mod.rs"]
mod world;
