//! Every family of metrics: its name, what it means, and where its numbers come from.
//! `docs/metrics.md` has the same list; a test compares them.

use super::family::{Family, Kind, Samples};
use super::observation::{BackendObservation, WorkerObservation};
use super::tally::ProbeTally;
use super::text::{Label, Lines};
use crate::control::events::EventKind;
use crate::stats::Histogram;
use crate::steer::{AdminState, Health};
use crate::version;

const WORKER: &[&str] = &["worker"];
const SHARD: &[&str] = &["worker", "family"];
const PORT: &[&str] = &["port"];
const POOL: &[&str] = &["pool"];
const SERVICE: &[&str] = &["service"];
const BACKEND: &[&str] = &["pool", "backend"];

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    samples: Samples,
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Gauge, labels, help, samples }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    samples: Samples,
    help: &'static str,
) -> Family {
    Family { name, kind: Kind::Counter, labels, help, samples }
}

#[expect(clippy::cast_precision_loss, reason = "a time for people and graphs")]
fn seconds(cycles: u64, cycles_per_second: u64) -> f64 {
    cycles as f64 / cycles_per_second.max(1) as f64
}

/// Every family, in the order of the text.
pub const FAMILIES: &[Family] = &[
    gauge(
        "lodestone_build_info",
        &["version", "commit", "dpdk"],
        Samples::Free(|_, lines| {
            let labels: [Label<'_>; 3] = [
                ("version", &version::VERSION),
                ("commit", &version::COMMIT),
                ("dpdk", &version::DPDK),
            ];
            lines.sample(&labels, true);
        }),
        "What the daemon was built from; always 1.",
    ),
    gauge(
        "lodestone_appliance_info",
        &["name"],
        Samples::Free(|seen, lines| lines.sample(&[("name", &seen.appliance)], true)),
        "The name of the appliance in its configuration; always 1.",
    ),
    gauge(
        "lodestone_start_time_seconds",
        &[],
        Samples::Once(|seen| seen.start_time.into()),
        "When the daemon started, in seconds since 1970.",
    ),
    gauge(
        "lodestone_uptime_seconds",
        &[],
        Samples::Once(|seen| seen.uptime.into()),
        "Seconds since the daemon started.",
    ),
    gauge(
        "lodestone_tables_generation",
        &[],
        Samples::Once(|seen| seen.generation.into()),
        "The newest published generation of the tables.",
    ),
    gauge(
        "lodestone_tables_info",
        &["digest"],
        Samples::Free(|seen, lines| lines.sample(&[("digest", &seen.tables_digest)], true)),
        "The digest of the tables, equal on appliances that choose equally; always 1.",
    ),
    counter(
        "lodestone_management_restarts_total",
        &[],
        Samples::Once(|seen| seen.management_restarts.into()),
        "Restarts of management after a failure; the workers went on.",
    ),
    counter(
        "lodestone_log_messages_left_out_total",
        &[],
        Samples::Once(|seen| seen.log_left_out.into()),
        "Messages that the log left out since many similar ones came at once.",
    ),
    counter(
        "lodestone_events_total",
        &["kind"],
        Samples::Free(|seen, lines| {
            for (kind, count) in EventKind::ALL.iter().zip(seen.events) {
                lines.sample(&[("kind", kind)], count);
            }
        }),
        "Events by their kind, as in `lodectl show events`.",
    ),
    gauge(
        "lodestone_alarm",
        &["alarm", "subject"],
        Samples::Alarms,
        "1 for each alarm that `lodectl status` shows now; no sample without alarms.",
    ),
    gauge(
        "lodestone_alarms",
        &[],
        Samples::Once(|seen| (seen.alarms.len() as u64).into()),
        "How many alarms there are now.",
    ),
    counter(
        "lodestone_admin_requests_total",
        &["method", "outcome"],
        Samples::Free(|seen, lines| {
            for (method, outcome, count) in &seen.requests {
                lines.sample(&[("method", method), ("outcome", &outcome.name())], *count);
            }
        }),
        "Requests over the admin sockets that management was asked, by outcome: done or refused.",
    ),
    gauge(
        "lodestone_worker_info",
        &["worker", "core"],
        Samples::Free(|seen, lines| {
            for worker in &seen.workers {
                lines.sample(&[("worker", &worker.worker), ("core", &worker.core)], true);
            }
        }),
        "The CPU core of a worker; always 1.",
    ),
    counter(
        "lodestone_worker_receive_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.rx_packets.into()),
        "Frames that a worker received from ports.",
    ),
    counter(
        "lodestone_worker_receive_bytes_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.rx_bytes.into()),
        "Bytes of these frames, without the frame check sequence.",
    ),
    counter(
        "lodestone_worker_transmit_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.tx_packets.into()),
        "Frames that ports took from a worker: encapsulated, answers, and originated by management.",
    ),
    counter(
        "lodestone_worker_transmit_bytes_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.tx_bytes.into()),
        "Bytes of these frames, without the frame check sequence.",
    ),
    counter(
        "lodestone_worker_dropped_packets_total",
        &["worker", "reason"],
        Samples::Reasons(|worker, reason| worker.dropped.get(reason.index()).copied().into()),
        "Frames that a worker dropped, by reason (docs/drop-reasons.md).",
    ),
    counter(
        "lodestone_worker_punted_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.punted.into()),
        "Received frames that went to management.",
    ),
    counter(
        "lodestone_worker_originated_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.originated.into()),
        "Frames that management made and gave a worker to send.",
    ),
    counter(
        "lodestone_worker_reply_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.replies.into()),
        "Received frames that a worker turned into an answer: ARP, neighbour discovery, echo.",
    ),
    counter(
        "lodestone_worker_polls_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.polls().into()),
        "Times that a worker asked its queues for frames.",
    ),
    counter(
        "lodestone_worker_empty_polls_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.empty_polls.into()),
        "Polls that found nothing.",
    ),
    counter(
        "lodestone_worker_transmit_retries_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.tx_retries.into()),
        "Times that a worker offered a burst again since a port had not taken all of it.",
    ),
    counter(
        "lodestone_worker_transmit_stalls_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.tx_full_bursts.into()),
        "Bursts of which a worker dropped packets since a port did not take them.",
    ),
    counter(
        "lodestone_worker_handed_out_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.handed_out.into()),
        "Packets that a worker handed to another one that owns them.",
    ),
    counter(
        "lodestone_worker_handed_in_packets_total",
        WORKER,
        Samples::Worker(|worker| worker.totals.handed_in.into()),
        "Packets that a worker got from others since it owns them.",
    ),
    counter(
        "lodestone_worker_time_seconds_total",
        &["worker", "stage"],
        Samples::WorkerFree(|worker, lines| {
            let cycles = worker.runtime;
            for (stage, cycles) in [
                ("receive", cycles.receive),
                ("classify", cycles.classify),
                ("decide", cycles.decide),
                ("transmit", cycles.transmit),
                ("other", cycles.other),
                ("idle", cycles.idle),
            ] {
                let labels: [Label<'_>; 2] = [("worker", &worker.worker), ("stage", &stage)];
                lines.sample(&labels, seconds(cycles, worker.cycles_per_second));
            }
        }),
        "What a worker's time went into, by stage of its loop.",
    ),
    Family {
        name: "lodestone_worker_burst_duration_seconds",
        kind: Kind::Histogram,
        labels: WORKER,
        help: "How long bursts took a worker, from the end of receiving to the end of sending.",
        samples: Samples::WorkerFree(burst_duration),
    },
    gauge(
        "lodestone_worker_longest_burst_seconds",
        WORKER,
        Samples::Worker(|worker| seconds(worker.latency.max, worker.cycles_per_second).into()),
        "How long the longest of these bursts took since start.",
    ),
    gauge(
        "lodestone_worker_generation",
        WORKER,
        Samples::Worker(|worker| worker.generation.into()),
        "The generation of the tables that a worker runs.",
    ),
    gauge(
        "lodestone_worker_lagging",
        WORKER,
        Samples::Worker(|worker| worker.lagging.into()),
        "1 if a worker does not run what was published a second ago or longer.",
    ),
    gauge(
        "lodestone_conntrack_entries",
        SHARD,
        Samples::Shard(|shard| shard.flows.entries.into()),
        "Flows that are tracked now.",
    ),
    gauge(
        "lodestone_conntrack_capacity_entries",
        SHARD,
        Samples::Shard(|shard| shard.capacity.into()),
        "Flows that can be tracked.",
    ),
    counter(
        "lodestone_conntrack_hits_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.hits.into()),
        "Packets that followed their flow's entry.",
    ),
    counter(
        "lodestone_conntrack_new_flows_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.new.into()),
        "Decisions for a TCP SYN, or for a packet of another protocol without an entry.",
    ),
    counter(
        "lodestone_conntrack_unverified_flows_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.unverified.into()),
        "Decisions for a TCP packet other than a SYN without an entry.",
    ),
    counter(
        "lodestone_conntrack_refused_flows_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.refused.into()),
        "Decisions that found no room for an entry; the tables decide about the next packet too.",
    ),
    counter(
        "lodestone_conntrack_expired_flows_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.expired.into()),
        "Entries that were removed since they had been silent too long.",
    ),
    counter(
        "lodestone_conntrack_removed_flows_total",
        SHARD,
        Samples::Shard(|shard| shard.flows.removed.into()),
        "Flows that were forgotten at the operator's wish.",
    ),
    gauge(
        "lodestone_port_up",
        PORT,
        Samples::Port(|port| port.state.link_up.into()),
        "1 if the port has a link.",
    ),
    gauge(
        "lodestone_port_rss",
        PORT,
        Samples::Port(|port| port.state.rss.into()),
        "1 if the device spreads flows over its queues; 0 is right with one queue, or where the kernel does.",
    ),
    counter(
        "lodestone_port_receive_packets_total",
        PORT,
        Samples::Port(|port| port.state.rx_packets.into()),
        "Frames that the device received.",
    ),
    counter(
        "lodestone_port_receive_bytes_total",
        PORT,
        Samples::Port(|port| port.state.rx_bytes.into()),
        "Bytes of these frames.",
    ),
    counter(
        "lodestone_port_receive_missed_packets_total",
        PORT,
        Samples::Port(|port| port.state.rx_missed.into()),
        "Frames that the device dropped since no worker fetched them in time.",
    ),
    counter(
        "lodestone_port_receive_error_packets_total",
        PORT,
        Samples::Port(|port| port.state.rx_errors.into()),
        "Frames that the device found broken.",
    ),
    counter(
        "lodestone_port_receive_no_buffer_packets_total",
        PORT,
        Samples::Port(|port| port.state.rx_no_buffer.into()),
        "Frames lost since there was no buffer for them.",
    ),
    counter(
        "lodestone_port_transmit_packets_total",
        PORT,
        Samples::Port(|port| port.state.tx_packets.into()),
        "Frames that the device sent.",
    ),
    counter(
        "lodestone_port_transmit_bytes_total",
        PORT,
        Samples::Port(|port| port.state.tx_bytes.into()),
        "Bytes of these frames.",
    ),
    counter(
        "lodestone_port_transmit_error_packets_total",
        PORT,
        Samples::Port(|port| port.state.tx_errors.into()),
        "Frames that the device took and did not send.",
    ),
    gauge(
        "lodestone_packet_buffers",
        &[],
        Samples::Once(|seen| u64::from(seen.buffers.1).into()),
        "All packet buffers; 0 where ports need no pool.",
    ),
    gauge(
        "lodestone_packet_buffers_in_use",
        &[],
        Samples::Once(|seen| u64::from(seen.buffers.0).into()),
        "Packet buffers that something holds: queues, workers, packets on their way.",
    ),
    counter(
        "lodestone_port_link_changes_total",
        PORT,
        Samples::Port(|port| port.link_changes.into()),
        "Times that the port's link came up or went down.",
    ),
    counter(
        "lodestone_port_resets_total",
        PORT,
        Samples::Port(|port| port.state.resets.into()),
        "Times that the port's device was reset, and started anew.",
    ),
    counter(
        "lodestone_service_packets_total",
        SERVICE,
        Samples::Service(|service| service.totals.packets.into()),
        "Packets of a service that were sent to its backends.",
    ),
    counter(
        "lodestone_service_bytes_total",
        SERVICE,
        Samples::Service(|service| service.totals.bytes.into()),
        "Bytes of these packets, without the outer headers.",
    ),
    counter(
        "lodestone_service_new_flows_total",
        SERVICE,
        Samples::Service(|service| service.totals.new_flows.into()),
        "Flows of a service for which a backend was chosen.",
    ),
    gauge(
        "lodestone_service_pool_share_ratio",
        &["service", "pool"],
        Samples::Share,
        "The part of a service's new flows that goes to a pool, 0 to 1.",
    ),
    gauge(
        "lodestone_pool_backends",
        POOL,
        Samples::Pool(|pool| pool.backends.into()),
        "All backends of a pool.",
    ),
    gauge(
        "lodestone_pool_healthy_backends",
        POOL,
        Samples::Pool(|pool| pool.healthy.into()),
        "Backends of a pool that are up and enabled with a weight above 0.",
    ),
    gauge(
        "lodestone_pool_threshold_backends",
        POOL,
        Samples::Pool(|pool| pool.threshold.into()),
        "With fewer healthy backends a pool yields to the next of a service.",
    ),
    gauge(
        "lodestone_backend_info",
        &["pool", "backend", "address"],
        Samples::BackendFree(|pool, backend, lines| {
            labelled(pool, backend, ("address", &backend.address), true, lines);
        }),
        "The address of a backend; always 1.",
    ),
    gauge(
        "lodestone_backend_up",
        BACKEND,
        Samples::Backend(|backend| (backend.health == Health::Up).into()),
        "1 if a backend's monitor says that it is up; 0 also while it was not probed yet.",
    ),
    gauge(
        "lodestone_backend_admin_state",
        &["pool", "backend", "state"],
        Samples::BackendFree(|pool, backend, lines| {
            for (word, state) in [
                ("enabled", AdminState::Enabled),
                ("draining", AdminState::Draining),
                ("disabled", AdminState::Disabled),
            ] {
                labelled(pool, backend, ("state", &word), backend.admin == state, lines);
            }
        }),
        "1 for the state that the operator wants of a backend, 0 for the others.",
    ),
    gauge(
        "lodestone_backend_weight",
        BACKEND,
        Samples::Backend(|backend| u64::from(backend.weight).into()),
        "The weight of a backend in its pool.",
    ),
    gauge(
        "lodestone_backend_slot_share_ratio",
        BACKEND,
        Samples::Backend(|backend| backend.slot_share.into()),
        "The part of the slots of its pool's table that a backend has, 0 to 1.",
    ),
    gauge(
        "lodestone_backend_next_hop_known",
        BACKEND,
        Samples::Backend(|backend| backend.resolved.into()),
        "1 if the link-layer address of the next hop towards a backend is known.",
    ),
    counter(
        "lodestone_backend_packets_total",
        BACKEND,
        Samples::Backend(|backend| backend.totals.packets.into()),
        "Packets that were encapsulated to a backend.",
    ),
    counter(
        "lodestone_backend_bytes_total",
        BACKEND,
        Samples::Backend(|backend| backend.totals.bytes.into()),
        "Bytes of these packets by their own IP headers, without the outer headers.",
    ),
    counter(
        "lodestone_backend_new_flows_total",
        BACKEND,
        Samples::Backend(|backend| backend.totals.new_flows.into()),
        "How often a backend was chosen: once a flow, but for each packet of a flow without room.",
    ),
    gauge(
        "lodestone_backend_tracked_flows",
        BACKEND,
        Samples::Backend(|backend| backend.totals.flows.into()),
        "Flows to a backend that are tracked now.",
    ),
    counter(
        "lodestone_backend_probes_total",
        &["pool", "backend", "result"],
        Samples::BackendFree(|pool, backend, lines| {
            let Some(ProbeTally { passed, failed, void, .. }) = backend.probes else { return };
            for (word, count) in [("pass", passed), ("fail", failed), ("void", void)] {
                labelled(pool, backend, ("result", &word), count, lines);
            }
        }),
        "Probes of a backend: pass, fail, or void, which failed in the appliance and says nothing.",
    ),
    counter(
        "lodestone_backend_probe_seconds_total",
        BACKEND,
        Samples::Backend(|backend| backend.probes.map(|probes| probes.took.as_secs_f64()).into()),
        "Seconds that the probes of a backend took, all together.",
    ),
    gauge(
        "lodestone_backend_last_probe_seconds",
        BACKEND,
        Samples::Backend(|backend| backend.probes.map(|probes| probes.last.as_secs_f64()).into()),
        "Seconds that the last probe of a backend took.",
    ),
];

/// How many buckets of [`Histogram`] are one of the metric's. Four are an octave: each bound is twice
/// the one before, and a worker has two dozen series instead of a hundred.
const MERGED: usize = 4;

fn burst_duration(worker: &WorkerObservation, lines: &mut Lines<'_>) {
    let WorkerObservation { latency, cycles_per_second, .. } = worker;
    let mut count = 0;
    for (bucket, bursts) in latency.counts.iter().enumerate() {
        count += bursts;
        // The first bucket is alone, and the last one has no end.
        let Some(end) = Histogram::bounds(bucket).1.filter(|_| bucket % MERGED == 0) else {
            continue;
        };
        let end = seconds(end - 1, *cycles_per_second);
        let labels: [Label<'_>; 2] = [("worker", &worker.worker), ("le", &end)];
        lines.part("_bucket", &labels, count);
    }
    let labels: [Label<'_>; 2] = [("worker", &worker.worker), ("le", &"+Inf")];
    lines.part("_bucket", &labels, count);
    let labels: [Label<'_>; 1] = [("worker", &worker.worker)];
    lines.part("_sum", &labels, seconds(latency.sum, *cycles_per_second));
    lines.part("_count", &labels, count);
}

/// A sample of a backend with one label more.
fn labelled(
    pool: &str,
    backend: &BackendObservation,
    more: Label<'_>,
    value: impl Into<super::text::Value>,
    lines: &mut Lines<'_>,
) {
    let labels: [Label<'_>; 3] = [("pool", &pool), ("backend", &backend.name), more];
    lines.sample(&labels, value);
}
