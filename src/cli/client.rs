//! The client's side of the admin socket: blocking, one request, one answer, with a deadline.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::protocol::{Id, Notification, Request, RequestError, Response, request_line};

/// Longest wait for the daemon: well above the second that a change may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer in bytes. Far above what the largest configuration gives; a peer that is no
/// daemon of ours cannot fill the memory.
const ANSWER_CAP: u64 = 256 << 20;

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon answers at {path}; is lodestoned running? (systemctl status lodestone; \
         --socket PATH if its [admin] socket is elsewhere)",
        path = path.display()
    )]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// The socket is not ours to open.
    #[error(
        "you may not use {path}; run this as root or join the group that owns the socket \
         (ls -l {path} shows it)",
        path = path.display()
    )]
    NotPermitted {
        /// The socket.
        path: PathBuf,
    },
    /// Another failure of the connection.
    #[error("cannot talk to the daemon at {path}: {source}", path = path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// No answer in time.
    #[error("the daemon did not answer within {} s; look at its log (journalctl -u lodestone)", TIMEOUT.as_secs())]
    Timeout,
    /// The daemon hung up.
    #[error("the daemon closed the connection without an answer; look at its log")]
    Closed,
    /// The peer speaks something else.
    #[error("the answer is not of this protocol ({0}); is lodectl of the daemon's version?")]
    BadAnswer(String),
    /// The daemon refuses the request.
    #[error(transparent)]
    Refused(#[from] RequestError),
}

impl Client {
    /// Connects to the daemon.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if nobody listens at `path`, or not for this user.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NotRunning { path: path.into() }
            }
            io::ErrorKind::PermissionDenied => ClientError::NotPermitted { path: path.into() },
            _ => ClientError::Io { path: path.into(), source },
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks, and returns the result's JSON as the daemon wrote it.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] if the daemon refuses the request, others if it does not answer.
    pub fn call(&mut self, request: &Request) -> Result<String, ClientError> {
        let id = Id::Number(1);
        // A daemon at its limits says why and hangs up: its answer counts, not the failed write.
        let written = self.stream.get_mut().write_all(request_line(&id, request).as_bytes());
        let mut line = String::new();
        match (&mut self.stream).take(ANSWER_CAP).read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => {}
            Ok(_) => return Err(written.as_ref().err().map_or(ClientError::Closed, failed_call)),
            Err(error) => return Err(failed_call(&error)),
        }
        let bad = |error: serde_json::Error| ClientError::BadAnswer(error.to_string());
        let response: Response<'_> = serde_json::from_str(&line).map_err(bad)?;
        if let Some(error) = response.error {
            return Err(error.into());
        }
        match response.result {
            Some(result) if response.jsonrpc == "2.0" && response.id == Some(id) => {
                Ok(result.get().to_owned())
            }
            _ => Err(ClientError::BadAnswer("it answers another request".into())),
        }
    }

    /// Waits for the next notification of a subscription, as long as it takes: its method and its
    /// parameters' JSON.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the daemon hangs up or sends something else.
    pub fn notification(&mut self) -> Result<(String, String), ClientError> {
        self.stream.get_mut().set_read_timeout(None).map_err(|error| failed_call(&error))?;
        let mut line = String::new();
        match (&mut self.stream).take(ANSWER_CAP).read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => {}
            Ok(_) => return Err(ClientError::Closed),
            Err(error) => return Err(failed_call(&error)),
        }
        let notification: Notification<'_> = serde_json::from_str(&line)
            .map_err(|error| ClientError::BadAnswer(error.to_string()))?;
        Ok((notification.method.to_owned(), notification.params.get().to_owned()))
    }
}

fn failed_call(error: &io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Timeout,
        io::ErrorKind::InvalidData => ClientError::BadAnswer(error.to_string()),
        _ => ClientError::Closed,
    }
}
