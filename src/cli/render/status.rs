//! `lodectl status`

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use super::time::duration;
use crate::cli::color::{self, Role};
use crate::cli::table::{Table, count, wrap};
use crate::control::protocol::reply::StatusReply;

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
    let digests = &reply.digests;
    text += &format!("generation {}, tables {}\n", reply.generation, digests.tables);
    text += &format!("inputs {}, configuration {}\n", digests.inputs, digests.configuration);
    if reply.unsaved_changes > 0 {
        text += &wrap(
            &format!(
                "{} changes at run time are not in the file (lodectl diff, lodectl config save)",
                reply.unsaved_changes
            ),
            0,
        );
    }
    if reply.management.restarts > 0 {
        text += &format!("management started again {} times\n", reply.management.restarts);
    }

    let mut table = Table::new(["WORKER", "CORE", "GENERATION", "STATE"]);
    for worker in &reply.workers {
        let state = color::state(if worker.lagging { "lagging" } else { "current" });
        table.row([
            worker.worker.to_string(),
            worker.core.to_string(),
            worker.generation.to_string(),
            state,
        ]);
    }
    text.push('\n');
    text += &table.render();

    let mut table = Table::new(["PORT", "LINK", "MAC", "MTU", "RSS", "RX", "TX", "MISSED"]);
    for port in &reply.ports {
        table.row([
            port.name.clone(),
            color::state(if port.link_up { "up" } else { "down" }),
            port.mac.clone(),
            port.mtu.to_string(),
            // Without the fields that it hashes.
            port.rss.split(" (").next().unwrap_or_default().into(),
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
        text += &wrap(&format!("{} {alarm}", Role::Alarm.paint("ALARM:")), 0);
    }
    text
}
