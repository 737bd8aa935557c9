//! The admin server: UNIX sockets whose requests become [`Command`]s for the control loop.
//!
//! There are two sockets, and the socket is the [`Role`]: what comes by the read-only one may not
//! change anything. Who may connect is up to the file: each socket has mode 0660 and a group of its
//! own, and has both before anyone can reach it. One that is removed or breaks is made anew within
//! seconds; [`Server::alarm`] tells.
//!
//! The server shares a thread with probes and publishing, so a client must not be able to hurt
//! them: every connection is a task of its own with bounded memory and a deadline for each thing it
//! waits for, and connections are bounded in number. What follows holds for each socket on its own,
//! so that nobody on the read-only one can keep an operator from the full one.
//!
//! - A request is at most [`REQUEST_CAP`](super::protocol::REQUEST_CAP) bytes. A longer one is
//!   refused and its connection closed, since where the next one starts is unknown.
//! - A request whose first byte arrived must be complete within 30 s, or its connection is closed.
//! - A client must take an answer within 10 s, or its connection is closed.
//! - A 257th connection replaces one that waits for its client: for the rest of a request, for a
//!   new one, or for an answer to be taken. It is one of the user who has most connections, of the
//!   process that has most of those, and of these the one that has waited longest, 20 ms at least.
//!   If all 256 are being answered, the new one is refused with an error after 100 ms.
//! - Answers that clients do not take hold at most 64 MiB. When it is more, those connections are
//!   closed that have waited longest for their client to read.
//! - Requests of one connection are answered one at a time, in order; a client may send ahead.
//! - A connection may [subscribe](super::protocol::params::SubscribeParams) to events and counters; at most 64 do at a time.
//!   A subscriber that does not keep up loses events and is told how many.

mod activity;
mod alarm;
mod asked;
mod connection;
mod connections;
mod error;
mod feed;
mod lines;
mod place;
mod post;
mod private;
mod server;
mod socket;
mod subscription;

use std::fmt;

use serde::Serialize;
use tokio::sync::oneshot;

use super::protocol::{Reply, Request, RequestError};

pub use error::AdminError;
pub use feed::Feed;
pub use server::Server;

/// A request on its way to the control loop.
#[derive(Debug)]
pub struct Command {
    /// What is asked. If it changes something, `role` is [`Role::Full`].
    pub request: Request,
    /// The socket it came by.
    pub role: Role,
    /// Who asks.
    pub peer: PeerCredentials,
    /// Where the answer goes. The client may have left; then sending fails, and that is no error.
    pub reply: oneshot::Sender<Result<Reply, RequestError>>,
}

/// What a client may do: the socket it uses decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything.
    Full,
    /// What changes nothing.
    ReadOnly,
}

impl Role {
    /// The key in `[admin]` that says where the socket is.
    const fn socket_key(self) -> &'static str {
        match self {
            Self::Full => "socket",
            Self::ReadOnly => "read_only_socket",
        }
    }

    /// The key in `[admin]` that says whose the socket is.
    const fn group_key(self) -> &'static str {
        match self {
            Self::Full => "group",
            Self::ReadOnly => "read_only_group",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "full",
            Self::ReadOnly => "read-only",
        })
    }
}

/// Who is at the other end, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// User id when it connected.
    pub uid: u32,
    /// Group id when it connected: its primary group, which need not be the one that let it in.
    pub gid: u32,
    /// Process id when it connected; absent if the kernel does not tell.
    pub pid: Option<i32>,
}

#[cfg(test)]
mod tests;
