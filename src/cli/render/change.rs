//! What a change did, and why it was refused.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use crate::cli::table::wrap;
use crate::control::protocol::RequestError;
use crate::control::protocol::reply::{ChangeReply, FlushReply, SaveReply};

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

/// `lodectl conntrack flush`
#[must_use]
pub fn flush(reply: &FlushReply) -> String {
    format!("forgot {} flows\n", reply.removed)
}

/// `lodectl config save`
#[must_use]
pub fn save(reply: &SaveReply) -> String {
    let mut text = match reply.written {
        _ if !reply.changed => format!("{} says already what runs\n", reply.path),
        0 => format!("wrote {} anew\n", reply.path),
        1 => format!("wrote 1 change to {}\n", reply.path),
        changes => format!("wrote {changes} changes to {}\n", reply.path),
    };
    for warning in &reply.warnings {
        text += &wrap(&format!("warning: {warning}"), 0);
    }
    text
}
