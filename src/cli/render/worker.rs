//! Workers.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use crate::cli::table::{Table, count, percent};
use crate::control::protocol::reply::{Runtime, WorkerState, WorkersReply};

/// `lodectl show workers`
#[must_use]
pub fn workers(reply: &WorkersReply) -> String {
    let mut table = Table::new([
        "WORKER", "CORE", "GEN", "RX", "TX", "REPLIES", "PUNTED", "DROPPED", "POLLS", "EMPTY",
        "BURST",
    ]);
    for worker in &reply.workers {
        table.row([
            worker.worker.to_string(),
            worker.core.to_string(),
            count(worker.generation),
            count(worker.rx_packets),
            count(worker.tx_packets),
            count(worker.replies),
            count(worker.punted),
            count(worker.dropped),
            count(worker.polls),
            count(worker.empty_polls),
            format!("{:.1}", worker.packets_per_burst),
        ]);
    }
    let mut text = table.render();
    for worker in &reply.workers {
        text.push('\n');
        text += &runtime(worker);
    }
    text
}

/// What a worker's time went into, after VPP's `show runtime`.
fn runtime(worker: &WorkerState) -> String {
    let runtime = &worker.runtime;
    let mut text = format!(
        "worker {}: idle {}, handed over {} out {} in, TX offered again {}, stalled {}\n",
        worker.worker,
        percent(runtime.idle_share),
        count(runtime.handed_out),
        count(runtime.handed_in),
        count(runtime.tx_retries),
        count(runtime.tx_stalls),
    );
    let busy: u64 = runtime.stages.iter().map(|stage| stage.cycles).sum();
    let mut table = Table::new(["  STAGE", "CYCLES", "A PACKET", "SHARE"]);
    for stage in &runtime.stages {
        table.row([
            format!("  {}", stage.stage),
            count(stage.cycles),
            format!("{:.1}", stage.cycles_per_packet),
            percent(share(stage.cycles, busy)),
        ]);
    }
    text += &table.render();
    let all: u64 = runtime.burst_latency.iter().map(|bucket| bucket.bursts).sum();
    if all > 0 {
        let at = |part: f64| quantile(runtime, part);
        text += &format!(
            "  burst p50 {}, p99 {}, p99.99 {}, max {}\n",
            at(0.5),
            at(0.99),
            at(0.9999),
            at(1.0)
        );
    }
    text
}

/// The upper bound of the bucket that the quantile lies in, in cycles and microseconds.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people; the rank is between 1 and the number of bursts"
)]
fn quantile(runtime: &Runtime, part: f64) -> String {
    let all: u64 = runtime.burst_latency.iter().map(|bucket| bucket.bursts).sum();
    let rank = ((all as f64 * part).ceil() as u64).max(1);
    let mut seen = 0;
    let bound = runtime.burst_latency.iter().find(|bucket| {
        seen += bucket.bursts;
        seen >= rank
    });
    let cycles = bound.map_or(0, |bucket| bucket.up_to_cycles);
    let microseconds = cycles as f64 * 1e6 / (runtime.cycles_per_second.max(1)) as f64;
    format!("{} ({microseconds:.1} us)", count(cycles))
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
