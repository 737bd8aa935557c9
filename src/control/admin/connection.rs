//! One connection: lines in, one answer to each out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};

use super::{Command, PeerCredentials};
use crate::control::protocol::{
    ErrorCode, REQUEST_CAP, RequestError, parse_request, response_line,
};

/// How long a connection may keep the server waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From a request's first byte to its newline.
    pub(super) request: Duration,
    /// From an answer's first byte to its last.
    pub(super) write: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request: Duration::from_secs(30), write: Duration::from_secs(10) }
    }
}

/// Bytes read at a time.
const READ_LEN: usize = 4096;

/// What the accept loop knows of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    /// Where the milliseconds of `waiting_since` count from.
    accepted: Instant,
    /// Milliseconds from `accepted` to when it began to wait for its client, or [`Self::AT_WORK`].
    /// Written by the connection's task, read by the accept loop.
    waiting_since: AtomicU64,
    closed: Notify,
}

impl Activity {
    const AT_WORK: u64 = u64::MAX;

    pub(super) fn new(accepted: Instant) -> Self {
        Self { accepted, waiting_since: AtomicU64::new(0), closed: Notify::new() }
    }

    /// Since when it waits for its client to send; `None` while a request is being answered.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        // Relaxed: the value stands for itself, and a stale one closes a connection that was idle
        // a moment ago.
        match self.waiting_since.load(Ordering::Relaxed) {
            Self::AT_WORK => None,
            milliseconds => Some(self.accepted + Duration::from_millis(milliseconds)),
        }
    }

    /// Ends the connection when it next waits for its client, at once if it does now.
    pub(super) fn close(&self) {
        self.closed.notify_one();
    }

    fn begin_waiting(&self) {
        let milliseconds = self.accepted.elapsed().as_millis();
        let milliseconds = u64::try_from(milliseconds).unwrap_or(Self::AT_WORK - 1);
        self.waiting_since.store(milliseconds, Ordering::Relaxed);
    }

    fn begin_work(&self) {
        self.waiting_since.store(Self::AT_WORK, Ordering::Relaxed);
    }
}

/// Serves one connection until its client leaves or a limit is reached.
pub(super) async fn serve(
    mut stream: UnixStream,
    peer: PeerCredentials,
    commands: mpsc::Sender<Command>,
    activity: Arc<Activity>,
    limits: Limits,
) {
    let (read_half, mut write_half) = stream.split();
    let mut reader = BufReader::with_capacity(READ_LEN, read_half);
    let mut line = Vec::new();
    loop {
        activity.begin_waiting();
        let read = tokio::select! {
            read = read_line(&mut reader, &mut line, limits.request) => read,
            () = activity.closed.notified() => return,
        };
        activity.begin_work();
        let (answer, goes_on) = match read {
            Ok(Line::Whole) => (answer(&line, peer, &commands).await, true),
            Ok(Line::TooLong) => (response_line::<()>(None, &Err(too_long())), false),
            // Half a request at the end of the stream was not sent as a whole and has no effect.
            Ok(Line::End) | Err(_) => return,
        };
        let written = timeout(limits.write, write_half.write_all(answer.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) || !goes_on {
            return;
        }
        line.clear();
        line.shrink_to(READ_LEN);
    }
}

/// How reading a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The line is there, without its newline.
    Whole,
    /// The stream ended first.
    End,
    /// It has more than [`REQUEST_CAP`] bytes.
    TooLong,
}

/// Reads one line into `line`, which never holds more than [`REQUEST_CAP`] bytes. Waits for the
/// first byte as long as it takes and for the rest `limit`.
async fn read_line<R>(reader: &mut R, line: &mut Vec<u8>, limit: Duration) -> io::Result<Line>
where
    R: AsyncBufRead + Unpin,
{
    if reader.fill_buf().await?.is_empty() {
        return Ok(Line::End);
    }
    timeout(limit, read_rest(reader, line)).await?
}

async fn read_rest<R>(reader: &mut R, line: &mut Vec<u8>) -> io::Result<Line>
where
    R: AsyncBufRead + Unpin,
{
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(Line::End);
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.unwrap_or(available.len());
        if line.len() + taken > REQUEST_CAP {
            return Ok(Line::TooLong);
        }
        line.extend_from_slice(&available[..taken]);
        reader.consume(taken + usize::from(newline.is_some()));
        if newline.is_some() {
            return Ok(Line::Whole);
        }
    }
}

fn too_long() -> RequestError {
    RequestError::new(
        ErrorCode::INVALID_REQUEST,
        format!(
            "the request is longer than {REQUEST_CAP} bytes, and the connection ends; send one \
             request object a line"
        ),
    )
}

/// The answer to one line: always exactly one line.
async fn answer(line: &[u8], peer: PeerCredentials, commands: &mpsc::Sender<Command>) -> String {
    let (id, request) = match parse_request(line) {
        Ok(parsed) => parsed,
        Err(refusal) => return response_line::<()>(refusal.id.as_ref(), &Err(refusal.error)),
    };
    let (reply, outcome) = oneshot::channel();
    let outcome = match commands.send(Command { request, peer, reply }).await {
        Ok(()) => outcome.await.unwrap_or_else(|_| Err(RequestError::control_loop_gone())),
        Err(_) => Err(RequestError::control_loop_gone()),
    };
    response_line(Some(&id), &outcome)
}
