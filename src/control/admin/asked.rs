//! What a line asks for: a request for the control loop, or something of its connection.
//!
//! The one place of the server that knows the protocol's methods.

use crate::control::protocol::params::SubscribeParams;
use crate::control::protocol::{Id, Refusal, Request, parse_request};

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Something of the control loop.
    Control(Request),
    /// That this connection becomes a stream.
    Subscribe(SubscribeParams),
}

/// Reads one line without its newline.
pub(super) fn read(line: &[u8]) -> Result<(Id, Asked), Refusal> {
    let (id, request) = parse_request(line)?;
    Ok(match request {
        Request::Subscribe(params) => (id, Asked::Subscribe(params)),
        request => (id, Asked::Control(request)),
    })
}

/// What to ask the control loop for a subscriber's counters. No client's request comes to it as this,
/// so that it can tell the two apart.
pub(super) fn stats_request() -> Request {
    Request::Subscribe(SubscribeParams::default())
}
