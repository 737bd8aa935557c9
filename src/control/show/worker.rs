//! `show workers`, `show drops` and `show conntrack`.

use super::ratio;
use crate::control::management::Management;
use crate::control::ports::WorkerRemote;
use crate::control::protocol::reply::{
    self, ConntrackReply, DropState, DropsReply, LatencyBucket, Runtime, ShardState, StageCycles,
    WorkerState, WorkersReply,
};
use crate::forward::DropReason;
use crate::id::Family;
use crate::stats::Histogram;

impl Management {
    pub(super) fn worker_states(&self) -> WorkersReply {
        let states = self.workers.iter().enumerate().map(|(place, worker)| {
            let totals = worker.stats.totals();
            WorkerState {
                worker: worker.id.0,
                core: u32::try_from(worker.core).unwrap_or(u32::MAX),
                generation: self.publisher.observed(place).unwrap_or_default().0,
                rx_packets: totals.rx_packets,
                tx_packets: totals.tx_packets,
                replies: totals.replies,
                punted: totals.punted,
                dropped: DropReason::ALL.map(|reason| worker.stats.dropped(reason)).iter().sum(),
                polls: totals.polls(),
                empty_polls: totals.empty_polls,
                packets_per_burst: ratio(totals.rx_packets, totals.bursts),
                runtime: runtime(worker),
            }
        });
        WorkersReply { workers: states.collect() }
    }

    pub(super) fn drops(&self) -> DropsReply {
        let reasons = DropReason::ALL.into_iter().map(|reason| {
            let per_worker: Vec<_> =
                self.workers.iter().map(|worker| worker.stats.dropped(reason)).collect();
            DropState {
                reason: reason.name().to_owned(),
                description: reason.description().to_owned(),
                total: per_worker.iter().sum(),
                per_worker,
            }
        });
        DropsReply {
            workers: self.workers.iter().map(|worker| worker.id.0).collect(),
            reasons: reasons.collect(),
        }
    }

    pub(super) fn conntrack(&self) -> ConntrackReply {
        let shards = self.workers.iter().flat_map(|worker| {
            let families = [
                (reply::Family::Ipv4, Family::Ipv4, worker.capacity.0),
                (reply::Family::Ipv6, Family::Ipv6, worker.capacity.1),
            ];
            families.map(|(family, of, capacity)| {
                let flows = worker.stats.flows(of);
                ShardState {
                    worker: worker.id.0,
                    family,
                    entries: flows.entries,
                    capacity: capacity as u64,
                    hits: flows.hits,
                    new: flows.new,
                    unverified: flows.unverified,
                    refused: flows.refused,
                    expired: flows.expired,
                    removed: flows.removed,
                }
            })
        });
        ConntrackReply { shards: shards.collect() }
    }
}

fn runtime(worker: &WorkerRemote) -> Runtime {
    let (totals, cycles) = (worker.stats.totals(), worker.stats.runtime());
    let stage = |stage: &str, cycles| StageCycles {
        stage: stage.to_owned(),
        cycles,
        cycles_per_packet: ratio(cycles, totals.rx_packets),
    };
    Runtime {
        cycles_per_second: worker.cycles_per_second,
        idle_share: ratio(cycles.idle, cycles.all()),
        stages: vec![
            stage("receive", cycles.receive),
            stage("classify", cycles.classify),
            stage("decide", cycles.decide),
            stage("transmit", cycles.transmit),
            stage("other", cycles.other),
        ],
        tx_retries: totals.tx_retries,
        tx_stalls: totals.tx_full_bursts,
        handed_out: totals.handed_out,
        handed_in: totals.handed_in,
        burst_latency: latency(&worker.stats.latency()),
    }
}

/// The buckets that something fell into. The last one ends at the longest burst.
fn latency(histogram: &Histogram) -> Vec<LatencyBucket> {
    let counted = histogram.counts.iter().enumerate().filter(|(_, bursts)| **bursts != 0);
    counted
        .map(|(bucket, bursts)| LatencyBucket {
            up_to_cycles: Histogram::bounds(bucket)
                .1
                .map_or(histogram.max, |end| (end - 1).min(histogram.max)),
            bursts: *bursts,
        })
        .collect()
}
