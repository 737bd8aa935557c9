//! Ports and neighbours.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use super::time::milliseconds;
use crate::cli::color;
use crate::cli::table::{Table, count};
use crate::control::protocol::reply::{DoneBy, NeighboursReply, PortDetail, PortsReply};

/// `lodectl show ports`
#[must_use]
pub fn ports(reply: &PortsReply) -> String {
    let mut table = Table::new(["PORT", "LINK", "MTU", "QUEUES", "RX", "TX", "MISSED", "ERRORS"]);
    for port in &reply.ports {
        table.row([
            port.name.clone(),
            match (port.link_up, port.speed_mbps) {
                (false, _) => color::state("down"),
                (true, None) => color::state("up"),
                (true, Some(speed)) => format!("up {speed}M"),
            },
            port.mtu.to_string(),
            port.queues.to_string(),
            count(port.rx_packets),
            count(port.tx_packets),
            count(port.rx_missed),
            count(port.rx_errors + port.rx_no_buffer + port.tx_errors),
        ]);
        let vlan = port.vlan.map_or(String::new(), |vlan| format!(", VLAN {vlan}"));
        table.note(&format!("{}{vlan}, {}", port.mac, port.addresses.join(" ")));
        table.note(&format!("RSS {}; driver {}; device {}", port.rss, port.driver, port.device));
        table.note(&format!("link changes: {}; device resets: {}", port.link_changes, port.resets));
        table.note(&format!(
            "bytes: {} in, {} out; errors: {} in, {} without a buffer, {} out",
            count(port.rx_bytes),
            count(port.tx_bytes),
            port.rx_errors,
            port.rx_no_buffer,
            port.tx_errors
        ));
        for (word, done_by) in [
            ("device", DoneBy::Device),
            ("software", DoneBy::Software),
            ("missing", DoneBy::Missing),
        ] {
            for line in functions(port, word, done_by) {
                table.note(&line);
            }
        }
    }
    let mut text = table.render();
    if reply.buffers > 0 {
        text += &format!("packet buffers: {} of {} in use\n", reply.buffers_in_use, reply.buffers);
    }
    text
}

/// Lines of at most 76 columns with the functions that have one kind of doer.
fn functions(port: &PortDetail, word: &str, done_by: DoneBy) -> Vec<String> {
    const WIDTH: usize = 76;
    let mut lines: Vec<String> = Vec::new();
    for feature in port.features.iter().filter(|feature| feature.done_by == done_by) {
        let text = format!("{} ({})", feature.name, feature.detail);
        match lines.last_mut() {
            Some(line) if line.len() + 2 + text.len() <= WIDTH => *line += &format!(", {text}"),
            Some(_) => lines.push(format!("  {text}")),
            None => lines.push(format!("{word}: {text}")),
        }
    }
    lines
}

/// `lodectl show neighbours`
#[must_use]
pub fn neighbours(reply: &NeighboursReply) -> String {
    if reply.neighbours.is_empty() {
        return "no next hop is needed\n".into();
    }
    let mut table = Table::new(["ADDRESS", "PORT", "MAC", "STATE", "HEARD"]);
    for neighbour in &reply.neighbours {
        table.row([
            neighbour.address.to_string(),
            neighbour.port.clone(),
            neighbour.mac.clone().unwrap_or_else(|| "unresolved".to_owned()),
            color::state(&neighbour.state),
            neighbour
                .heard_ms
                .map_or("never".to_owned(), |ago| format!("{} ago", milliseconds(ago))),
        ]);
    }
    table.render()
}
