//! Workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersReply {
    /// By worker.
    pub workers: Vec<WorkerState>,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerState {
    /// Its number.
    pub worker: u16,
    /// The CPU core it runs on.
    pub core: u32,
    /// The generation it runs.
    pub generation: u64,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent, replies among them.
    pub tx_packets: u64,
    /// Frames turned into an answer (ARP, neighbour advertisement, echo reply).
    pub replies: u64,
    /// Frames given to management.
    pub punted: u64,
    /// Frames dropped, for any reason.
    pub dropped: u64,
    /// Times it asked its queues for frames.
    pub polls: u64,
    /// Times they had none.
    pub empty_polls: u64,
    /// Mean number of frames of a poll that had any.
    pub packets_per_burst: f64,
    /// What its time went into.
    pub runtime: Runtime,
}

/// What a worker's time went into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runtime {
    /// Cycles of its core's time stamp counter a second.
    pub cycles_per_second: u64,
    /// Share of its time in which it found nothing to do, 0..=1.
    pub idle_share: f64,
    /// By stage, in the order of a packet's way.
    pub stages: Vec<StageCycles>,
    /// Times that a burst was offered to a port again, since it had not taken all of it.
    pub tx_retries: u64,
    /// Bursts of which packets were dropped since the port did not take them.
    pub tx_stalls: u64,
    /// Packets handed to another worker that owns them.
    pub handed_out: u64,
    /// Packets that other workers handed over.
    pub handed_in: u64,
    /// How long bursts took, from their receipt until they were sent: those that occurred, by
    /// ascending bound.
    pub burst_latency: Vec<LatencyBucket>,
}

/// One stage of a worker's loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageCycles {
    /// `receive`, `classify`, `decide`, `transmit` or `other`.
    pub stage: String,
    /// Cycles spent in it in rounds that were not idle.
    pub cycles: u64,
    /// Cycles a received packet.
    pub cycles_per_packet: f64,
}

/// Bursts that took about equally long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// At most so many cycles, and more than the bucket before.
    pub up_to_cycles: u64,
    /// How many bursts.
    pub bursts: u64,
}
