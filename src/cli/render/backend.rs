//! Backends, their health, and those that drain.

use super::time::milliseconds;
use crate::cli::color;
use crate::cli::table::{Table, count, percent};
use crate::control::protocol::reply::{
    BackendState, BackendsReply, DrainsReply, HealthReply, ProbeResult,
};

/// `lodectl show backends`
#[must_use]
pub fn backends(reply: &BackendsReply) -> String {
    let mut table =
        Table::new(["BACKEND", "STATE", "HEALTH", "WEIGHT", "SLOTS", "PACKETS", "BYTES", "FLOWS"]);
    for pool in &reply.pools {
        for backend in &pool.backends {
            table.row([
                format!("{}/{}", pool.pool, backend.name),
                color::state(&backend.admin_state.to_string()),
                color::state(&backend.health.to_string()),
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
pub(super) fn probes(log: &[ProbeResult]) -> String {
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

/// `lodectl show health`
#[must_use]
pub fn health(reply: &HealthReply) -> String {
    let mut table = Table::new(["BACKEND", "HEALTH", "SINCE", "MONITOR", "PROBED ADDRESS"]);
    for backend in &reply.backends {
        table.row([
            backend.backend.clone(),
            color::state(&backend.health.to_string()),
            backend.since_ms.map_or("start".to_owned(), milliseconds),
            backend.monitor.clone().unwrap_or_else(|| "none".to_owned()),
            backend.address.to_string(),
        ]);
        if backend.monitor.is_some() {
            table.note(&probes(&backend.probes));
        }
        if let Some(cause) = &backend.cause {
            table.note(&format!("last failure: {cause}"));
        }
    }
    table.render()
}

/// `lodectl show drains`
#[must_use]
pub fn drains(reply: &DrainsReply) -> String {
    if reply.drains.is_empty() {
        return "nothing drains\n".into();
    }
    let mut table = Table::new(["BACKEND", "DRAINED", "SINCE", "FLOWS THEN", "FLOWS", "PACKETS"]);
    for drain in &reply.drains {
        table.row([
            drain.backend.clone(),
            drain.by.clone(),
            milliseconds(drain.since_ms),
            count(drain.flows_at_start),
            count(drain.flows),
            count(drain.packets),
        ]);
        if drain.flows == 0 {
            table.note("done: no tracked flow is left");
        }
    }
    table.render()
}
