//! `lodectl explain flow`

use std::net::SocketAddr;

use super::time::milliseconds;
use crate::cli::table::wrap;
use crate::control::protocol::reply::{ExplainReply, Outcome};

/// `lodectl explain flow`: one decision a line, in the order in which they are made.
#[must_use]
pub fn explain(reply: &ExplainReply) -> String {
    let source = SocketAddr::new(reply.source, reply.source_port);
    let destination = SocketAddr::new(reply.destination, reply.destination_port);
    let mut text = format!(
        "{} from {source} to {destination}, by generation {}\n",
        reply.protocol, reply.generation
    );
    let mut line = |what: &str, how: &str| text += &wrap(&format!("{what:14}{how}"), 14);
    match &reply.vip {
        Some(vip) => line(
            "VIP",
            &format!("service {} has ports {} (VIP id {})", vip.service, vip.ports, vip.vip),
        ),
        None => line("VIP", "none"),
    }
    if let Some(input) = &reply.affinity {
        line("affinity", &format!("{}: {}", input.kind, input.fields.join(", ")));
    }
    if let Some(hash) = &reply.hash {
        line("flow hash", &format!("{hash} (high half level 1, low half level 2)"));
    }
    if let Some(level1) = &reply.level1 {
        let slot = match level1.slot {
            Some(slot) => format!("slot {slot} of {}: ", level1.slots),
            None => String::new(),
        };
        line("level 1", &format!("{slot}pool {}; {}", level1.pool, level1.reason));
    }
    if let Some(level2) = &reply.level2 {
        let (slot, slots) = (level2.slot, level2.slots);
        line("level 2", &format!("slot {slot} of {slots}: {}; {}", level2.current, level2.reason));
    }
    if reply.tracked.is_empty() && reply.vip.is_some() {
        line("conntrack", "no worker tracks the flow");
    }
    for entry in &reply.tracked {
        let backend = entry.backend.as_deref().unwrap_or("a backend that was removed");
        let (worker, state) = (entry.worker, &entry.state);
        let expires = milliseconds(entry.expires_in_ms);
        line(
            "conntrack",
            &format!(
                "worker {worker} has it {state} on {backend}, for {expires} more; {}",
                entry.reason
            ),
        );
    }
    if !reply.silent_workers.is_empty() {
        let silent: Vec<_> = reply.silent_workers.iter().map(ToString::to_string).collect();
        line("conntrack", &format!("worker {} did not answer", silent.join(", ")));
    }
    outcome(&mut text, "first packet", &reply.first_packet);
    outcome(&mut text, "later packet", &reply.later_packet);
    text
}

fn outcome(text: &mut String, which: &str, outcome: &Outcome) {
    let mut line = |what: &str, how: &str| *text += &wrap(&format!("{what:14}{how}"), 14);
    match (&outcome.backend, &outcome.drop) {
        (Some(backend), None) => line(which, &format!("to {backend}, by {}", outcome.basis)),
        (Some(backend), Some(reason)) => {
            line(which, &format!("to {backend}, by {}, but dropped: {reason}", outcome.basis));
        }
        (None, Some(reason)) => line(which, &format!("dropped: {reason}")),
        (None, None) => line(which, "nothing happens"),
    }
    if let Some(way) = &outcome.encapsulation {
        line(
            "",
            &format!(
                "{} from {} to {}, by port {} to {} at {}; packets up to {} bytes",
                way.kind,
                way.outer_source,
                way.outer_destination,
                way.port,
                way.next_hop,
                way.next_hop_mac,
                way.longest_inner_len
            ),
        );
        line("", &format!("header for {} bytes: {}", way.inner_len, way.header));
    }
}
