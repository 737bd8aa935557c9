//! Drops, and the connection tables.

use std::net::SocketAddr;

use super::time::milliseconds;
use crate::cli::table::{Table, count};
use crate::control::protocol::reply::{ConntrackReply, DropsReply, FlowsReply};

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

/// `lodectl show flows`
#[must_use]
pub fn flows(reply: &FlowsReply) -> String {
    let mut table = Table::new(["CLIENT", "TO", "BACKEND", "STATE", "EXPIRES", "WORKER"]);
    for flow in &reply.flows {
        let protocol = flow.protocol.map_or(String::new(), |protocol| format!(" {protocol}"));
        let destination = flow.destination.map_or("removed VIP".to_owned(), |vip| {
            format!("{}{protocol}", SocketAddr::new(vip, flow.destination_port))
        });
        table.row([
            SocketAddr::new(flow.source, flow.source_port).to_string(),
            destination,
            flow.backend.clone().unwrap_or_else(|| "removed".to_owned()),
            flow.state.clone(),
            milliseconds(flow.expires_in_ms),
            flow.worker.to_string(),
        ]);
    }
    let shown = reply.flows.len() as u64;
    let mut text = if shown == 0 { String::new() } else { table.render() };
    let summary = match (shown, reply.matched) {
        (0, 0) => "no tracked flow matches\n".to_owned(),
        (shown, matched) if shown < matched => {
            format!("{shown} of {matched} flows; --limit shows more\n")
        }
        (_, matched) => format!("{matched} flows\n"),
    };
    text += &summary;
    text
}
