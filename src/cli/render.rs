//! Answers as text for people. Pure: the same answer gives the same text.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use std::path::Path;

use super::table::{Table, count, percent, wrap};
use crate::config::Config;
use crate::control::protocol::{
    BackendState, BackendsReply, ChangeReply, ConntrackReply, DropsReply, ProbeResult,
    RequestError, ServicesReply, StatusReply, WorkersReply,
};

/// `lodectl status`
#[must_use]
pub fn status(reply: &StatusReply) -> String {
    let mut text = format!(
        "{}: lodestone {} (commit {}, DPDK {}), up {}\n",
        reply.name,
        reply.version,
        reply.commit,
        reply.dpdk,
        duration(reply.uptime_seconds)
    );
    text += &format!("configuration {}\n", reply.config_path);
    text += &format!("generation {}, tables {}\n", reply.generation, reply.tables_digest);

    let mut table = Table::new(["WORKER", "CORE", "GENERATION", "STATE"]);
    for worker in &reply.workers {
        let state = if worker.lagging { "lagging" } else { "current" };
        table.row([
            worker.worker.to_string(),
            worker.core.to_string(),
            worker.generation.to_string(),
            state.into(),
        ]);
    }
    text.push('\n');
    text += &table.render();

    let mut table = Table::new(["PORT", "LINK", "MAC", "MTU", "RSS", "RX", "TX", "MISSED"]);
    for port in &reply.ports {
        table.row([
            port.name.clone(),
            if port.link_up { "up" } else { "down" }.into(),
            port.mac.clone(),
            port.mtu.to_string(),
            if port.rss { "yes" } else { "no" }.into(),
            count(port.rx_packets),
            count(port.tx_packets),
            count(port.rx_missed),
        ]);
        table.note(&format!("device {}", port.device));
    }
    text.push('\n');
    text += &table.render();

    let mut table = Table::new(["SERVICE", "POOL", "HEALTHY"]);
    for service in &reply.services {
        for (place, pool) in service.pools.iter().enumerate() {
            let name = if place == 0 { service.name.clone() } else { String::new() };
            table.row([name, pool.name.clone(), format!("{}/{}", pool.healthy, pool.total)]);
        }
    }
    text.push('\n');
    text += &table.render();
    text.push('\n');
    if reply.alarms.is_empty() {
        text += "no alarms\n";
    }
    for alarm in &reply.alarms {
        text += &wrap(&format!("ALARM: {alarm}"), 0);
    }
    text
}

/// `lodectl show services`
#[must_use]
pub fn services(reply: &ServicesReply) -> String {
    let mut parts = Vec::new();
    for service in &reply.services {
        let mut text = format!("{}\n", service.name);
        for vip in &service.vips {
            text += &format!("  VIP {} {} ports {}\n", vip.address, vip.protocol, vip.ports);
        }
        let idle = milliseconds(service.idle_timeout_ms);
        let line = format!(
            "steering {}, affinity {}, idle timeout {idle}",
            service.steering, service.affinity
        );
        text += &wrap(&line, 2);
        text += &wrap(&service.reason, 2);
        let mut table = Table::new(["  POOL", "HEALTHY", "THRESHOLD", "NEW FLOWS"]);
        for pool in &service.pools {
            table.row([
                format!("  {}", pool.name),
                format!("{}/{}", pool.healthy, pool.total),
                pool.threshold.to_string(),
                percent(pool.share),
            ]);
        }
        parts.push(text + &table.render());
    }
    parts.join("\n")
}

/// `lodectl show backends`
#[must_use]
pub fn backends(reply: &BackendsReply) -> String {
    let mut table =
        Table::new(["BACKEND", "STATE", "HEALTH", "WEIGHT", "SLOTS", "PACKETS", "BYTES", "FLOWS"]);
    for pool in &reply.pools {
        for backend in &pool.backends {
            table.row([
                format!("{}/{}", pool.pool, backend.name),
                backend.admin_state.to_string(),
                backend.health.to_string(),
                backend.weight.to_string(),
                percent(backend.share),
                count(backend.packets),
                count(backend.bytes),
                count(backend.new_flows),
            ]);
            table.note(&way(backend));
            table.note(&probes(&backend.probes));
        }
    }
    table.render()
}

fn way(backend: &BackendState) -> String {
    match &backend.next_hop {
        Some(mac) => format!("{} by next hop {mac}", backend.address),
        None => format!("{} next hop unresolved", backend.address),
    }
}

/// The log of probes, oldest first, equal ones in a row put together.
fn probes(log: &[ProbeResult]) -> String {
    let Some(last) = log.last() else {
        return "not probed yet".into();
    };
    let runs = log.chunk_by(|one, next| one.failure == next.failure).filter_map(|run| {
        let what = run.first()?.failure.as_deref().unwrap_or("passed");
        Some(if run.len() == 1 { what.to_owned() } else { format!("{} x {what}", run.len()) })
    });
    let runs: Vec<_> = runs.collect();
    format!(
        "probes: {}; last {} ago in {} ms",
        runs.join(", "),
        milliseconds(last.age_ms),
        last.took_ms
    )
}

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
    table.render()
}

/// `lodectl show drops`, with `all` also the reasons that never occurred.
#[must_use]
pub fn drops(reply: &DropsReply, all: bool) -> String {
    let shown: Vec<_> = reply.reasons.iter().filter(|reason| all || reason.total > 0).collect();
    if shown.is_empty() {
        return "nothing was dropped\n".into();
    }
    let mut table = Table::new(["REASON", "TOTAL"]);
    for reason in shown {
        table.row([reason.reason.clone(), count(reason.total)]);
        table.note(&reason.description);
        if reply.workers.len() > 1 && reason.total > 0 {
            let counts = reply.workers.iter().zip(&reason.per_worker);
            let counts: Vec<_> =
                counts.map(|(worker, frames)| format!("worker {worker}: {frames}")).collect();
            table.note(&counts.join(", "));
        }
    }
    table.render()
}

/// `lodectl show conntrack`
#[must_use]
pub fn conntrack(reply: &ConntrackReply) -> String {
    let mut table = Table::new([
        "WORKER", "FAMILY", "ENTRIES", "CAP", "HITS", "NEW", "UNVERIF", "REFUSED", "EXPIRED",
    ]);
    for shard in &reply.shards {
        table.row([
            shard.worker.to_string(),
            shard.family.to_string(),
            count(shard.entries),
            count(shard.capacity),
            count(shard.hits),
            count(shard.new),
            count(shard.unverified),
            count(shard.refused),
            count(shard.expired),
        ]);
    }
    table.render()
}

/// `lodectl backend …` and `lodectl reload`
#[must_use]
pub fn change(reply: &ChangeReply) -> String {
    let mut text = if reply.changed {
        let plural = if reply.workers_adopted == 1 { "worker runs" } else { "workers run" };
        format!("done: {} {plural} generation {}\n", reply.workers_adopted, reply.generation)
    } else {
        format!("nothing to change (generation {})\n", reply.generation)
    };
    for warning in &reply.warnings {
        text += &wrap(&format!("warning: {warning}"), 0);
    }
    text
}

/// What the daemon refused, and every detail.
#[must_use]
pub fn refusal(error: &RequestError) -> String {
    let mut text = format!("lodectl: {}\n", error.message);
    for detail in &error.data {
        text += &format!("  - {detail}\n");
    }
    text
}

/// `lodectl check-config` of a file that the daemon would take.
#[must_use]
pub fn valid(file: &Path, config: &Config, warnings: &[String]) -> String {
    let mut text = format!(
        "{} is valid (services: {}, pools: {}, ports: {})\n",
        file.display(),
        config.services.len(),
        config.pools.len(),
        config.ports.len()
    );
    for warning in warnings {
        text += &wrap(&format!("warning: {warning}"), 0);
    }
    text
}

/// `lodectl check-config` of a file that the daemon would refuse.
#[must_use]
pub fn mistakes(file: &Path, mistakes: &[String]) -> String {
    let mut text = format!("lodectl: {} is not valid:\n", file.display());
    for mistake in mistakes {
        text += &format!("  - {mistake}\n");
    }
    text
}

fn milliseconds(milliseconds: u64) -> String {
    if milliseconds < 60_000 {
        format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
    } else {
        duration(milliseconds / 1000)
    }
}

fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days} d {} h", hours % 24)
    } else if hours > 0 {
        format!("{hours} h {} min", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes} min {} s", seconds % 60)
    } else {
        format!("{seconds} s")
    }
}

#[cfg(test)]
mod tests;
