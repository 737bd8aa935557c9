//! `show workers`, `show drops` and `show conntrack`.

use super::ratio;
use crate::control::management::Management;
use crate::control::protocol::reply::{
    ConntrackReply, DropState, DropsReply, Family, Runtime, ShardState, WorkerState, WorkersReply,
};
use crate::forward::DropReason;
use crate::stats::StatsSnapshot;

impl Management {
    pub(super) fn worker_states(&self) -> WorkersReply {
        let states = self.workers.iter().enumerate().map(|(place, worker)| {
            let stats = worker.stats.snapshot();
            let totals = stats.totals;
            WorkerState {
                worker: worker.id.0,
                core: u32::try_from(worker.core).unwrap_or(u32::MAX),
                generation: self.publisher.observed(place).unwrap_or_default().0,
                rx_packets: totals.rx_packets,
                tx_packets: totals.tx_packets,
                replies: totals.replies,
                punted: totals.punted,
                dropped: stats.dropped_total(),
                polls: totals.polls(),
                empty_polls: totals.empty_polls,
                packets_per_burst: ratio(totals.rx_packets, totals.bursts),
                runtime: runtime(&stats),
            }
        });
        WorkersReply { workers: states.collect() }
    }

    pub(super) fn drops(&self) -> DropsReply {
        let snapshots = self.snapshots();
        let reasons = DropReason::ALL.into_iter().map(|reason| {
            let per_worker: Vec<_> = snapshots.iter().map(|stats| stats.dropped(reason)).collect();
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
            let stats = worker.stats.snapshot();
            let families = [
                (Family::Ipv4, stats.ipv4, worker.capacity.0),
                (Family::Ipv6, stats.ipv6, worker.capacity.1),
            ];
            families.map(|(family, flows, capacity)| ShardState {
                worker: worker.id.0,
                family,
                entries: flows.entries,
                capacity: capacity as u64,
                hits: flows.hits,
                new: flows.new,
                unverified: flows.unverified,
                refused: flows.refused,
                expired: flows.expired,
            })
        });
        ConntrackReply { shards: shards.collect() }
    }
}

fn runtime(stats: &StatsSnapshot<DropReason>) -> Runtime {
    Runtime {
        cycles_per_second: 0,
        idle_share: ratio(stats.totals.empty_polls, stats.totals.polls()),
        stages: Vec::new(),
        tx_retries: stats.totals.tx_retries,
        tx_stalls: 0,
        handed_out: 0,
        handed_in: 0,
        burst_latency: Vec::new(),
    }
}
