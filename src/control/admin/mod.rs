//! The admin server: a UNIX socket whose requests become [`Command`]s for the control loop.
//!
//! It shares a thread with probes and publishing, so a client must not be able to hurt them: every
//! connection is a task of its own with bounded memory and a deadline for each thing it waits for,
//! and connections are bounded in number.
//!
//! - A request is at most [`REQUEST_CAP`](super::protocol::REQUEST_CAP) bytes. A longer one is
//!   refused and its connection closed, since where the next one starts is unknown.
//! - A request whose first byte arrived must be complete within 30 s, or its connection is closed.
//! - A client must take an answer within 10 s, or its connection is closed.
//! - A 257th connection replaces the one that has waited longest for the rest of a request or for a
//!   new one. If all 256 are being answered, it is refused with an error.
//! - Requests of one connection are answered one at a time, in order; a client may send ahead.
//!
//! Who may connect is up to the socket: mode 0660 in a directory of mode 0750.

mod connection;
mod server;
mod socket;

use std::io;
use std::path::PathBuf;

use tokio::sync::oneshot;

use super::protocol::{Reply, Request, RequestError};

pub use server::Server;

/// A request on its way to the control loop.
#[derive(Debug)]
pub struct Command {
    /// What is asked.
    pub request: Request,
    /// Who asks.
    pub peer: PeerCredentials,
    /// Where the answer goes. The client may have left; then sending fails, and that is no error.
    pub reply: oneshot::Sender<Result<Reply, RequestError>>,
}

/// Who is at the other end, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// User id when it connected.
    pub uid: u32,
    /// Process id when it connected; absent if the kernel does not tell.
    pub pid: Option<i32>,
}

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Something answers on the socket, or binds it right now.
    #[error(
        "another daemon runs and listens on {path}; stop it first, or give this one another \
         [admin] socket",
        path = path.display()
    )]
    AnotherDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// The path is taken by something else.
    #[error(
        "{path} exists and is not a socket; remove it, or set [admin] socket to another path",
        path = path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be a socket's.
    #[error(
        "{path} is not a usable socket path; set [admin] socket to an absolute path of at most \
         {cap} bytes that ends in a file name",
        path = path.display(),
        cap = socket::PATH_CAP
    )]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error(
        "cannot {what} {path}: {source}; check that the daemon's user may write there, or set \
         [admin] socket to another path",
        path = path.display()
    )]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;
