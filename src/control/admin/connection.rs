//! One connection: lines in, one answer to each out, and what a subscriber wants in between.

use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::activity::{Activity, Ledger};
use super::asked::{self, Asked};
use super::feed::Snapshots;
use super::lines::{Line, Lines};
use super::subscription::{Due, Subscription};
use super::{Command, Feed, PeerCredentials, Role};
use crate::control::audit::Audit;
use crate::control::protocol::params::SubscribeParams;
use crate::control::protocol::reply::SubscribeReply;
use crate::control::protocol::{
    ErrorCode, REQUEST_CAP, Refusal, Reply, Request, RequestError, notification_line, response_line,
};

/// The most subscriptions of a socket at a time: they are never closed in favour of a new
/// connection, so there must be connections left that can be.
pub(super) const SUBSCRIPTION_CAP: usize = 64;

/// Answers of a socket that are being made at a time. They may be large, and one that is made lies
/// in memory until its connection gets to write it.
const ANSWER_CAP: usize = 8;

/// Questions of a socket that wait for the workers at a time: apart from the other answers, which
/// are there at once.
const QUESTION_CAP: usize = 8;

/// How often it is looked whether a client that waits for its answer is still there.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(200);

/// The most bytes of a socket's answers that clients may leave untaken.
pub(super) const HELD_CAP: usize = 64 << 20;

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

/// What the connections of one socket have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) role: Role,
    /// Where the full socket is.
    pub(super) full_path: PathBuf,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) feed: Feed,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) limits: Limits,
    pub(super) ledger: Ledger,
    answers: Semaphore,
    questions: Semaphore,
    subscriptions: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(
        role: Role,
        full_path: PathBuf,
        commands: mpsc::Sender<Command>,
        feed: Feed,
        snapshots: Arc<Snapshots>,
        limits: Limits,
    ) -> Self {
        Self {
            role,
            full_path,
            commands,
            feed,
            snapshots,
            limits,
            ledger: Ledger::new(HELD_CAP),
            answers: Semaphore::new(ANSWER_CAP),
            questions: Semaphore::new(QUESTION_CAP),
            subscriptions: Arc::new(Semaphore::new(SUBSCRIPTION_CAP)),
        }
    }
}

/// Serves one connection until its client leaves or a limit is reached.
pub(super) async fn serve(mut stream: UnixStream, shared: Arc<Shared>, activity: Arc<Activity>) {
    let (read_half, write_half) = stream.split();
    let lines = Lines::new(read_half, shared.limits.request);
    let connection =
        Connection { lines, write_half, subscription: None, shared: &shared, activity: &activity };
    connection.serve().await;
}

struct Connection<'a> {
    lines: Lines<ReadHalf<'a>>,
    write_half: WriteHalf<'a>,
    subscription: Option<Subscription>,
    shared: &'a Shared,
    activity: &'a Activity,
}

/// What a connection does next.
enum Step {
    Read(io::Result<Line>),
    Notify(Due),
    Close,
}

impl Connection<'_> {
    async fn serve(mut self) {
        loop {
            let goes_on = match self.step().await {
                Step::Read(Ok(Line::Whole)) => match self.answer().await {
                    Some(answer) => {
                        self.lines.done();
                        self.send(&answer).await
                    }
                    None => false,
                },
                Step::Read(Ok(Line::TooLong)) => {
                    self.send(&response_line::<()>(None, &Err(too_long()))).await;
                    false
                }
                Step::Notify(due) => self.notify(due).await,
                Step::Read(Ok(Line::End) | Err(_)) | Step::Close => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Waits for the client, or for what it subscribed to.
    async fn step(&mut self) -> Step {
        if self.subscription.is_some() {
            self.activity.begin_service();
        } else {
            self.activity.begin_waiting();
        }
        let subscription = &mut self.subscription;
        let due = async {
            match subscription {
                Some(subscription) => subscription.next().await,
                None => pending().await,
            }
        };
        let step = tokio::select! {
            // Closing first: whoever closes a connection waits for its end.
            biased;
            () = self.activity.closed() => Step::Close,
            // Requests before notifications: a client's requests are bounded by its own reading of
            // the answers, events are not.
            read = self.lines.next() => Step::Read(read),
            due = due => Step::Notify(due),
        };
        self.activity.begin_service();
        step
    }

    /// Sends one or more lines. `false` if the connection is to end: the client left, or does not
    /// read.
    async fn send(&mut self, text: &str) -> bool {
        self.activity.begin_waiting();
        let _held = self.shared.ledger.hold(self.activity, text.len());
        let written = tokio::select! {
            // Writing first: what can be sent at once is sent.
            biased;
            written = timeout(self.shared.limits.write, self.write_half.write_all(text.as_bytes())) => {
                matches!(written, Ok(Ok(())))
            }
            () = self.activity.closed() => false,
        };
        self.activity.begin_service();
        written
    }

    async fn notify(&mut self, due: Due) -> bool {
        #[derive(Serialize)]
        struct Lost {
            events: u64,
        }
        match due {
            Due::Event(line) => self.send(&line).await,
            Due::Lost(events) => self.send(&notification_line("lost", &Lost { events })).await,
            Due::Stats => match self.shared.snapshots.newest(self.shared.role, self.peer()).await {
                Some(line) => self.send(&line).await,
                // The control loop is gone; the client may connect again.
                None => false,
            },
        }
    }

    fn peer(&self) -> PeerCredentials {
        self.activity.peer
    }

    /// The answer to the line that was read: exactly one line, unless the client left meanwhile.
    async fn answer(&mut self) -> Option<String> {
        let (id, asked) = match asked::read(self.lines.line()) {
            Ok(read) => read,
            Err(Refusal { id, error }) => {
                return Some(response_line::<()>(id.as_ref(), &Err(error)));
            }
        };
        let outcome = match asked {
            Asked::Subscribe(params) => self.subscribe(params),
            Asked::Control(request) if request.is_change() => self.change(request).await?,
            Asked::Control(request) => {
                let turns = match request {
                    Request::ShowFlows(_) | Request::ExplainFlow(_) => &self.shared.questions,
                    _ => &self.shared.answers,
                };
                // Never closed. A permit is held until the answer is text.
                let _permit = turns.acquire().await;
                return Some(response_line(Some(&id), &self.ask(request).await?));
            }
        };
        Some(response_line(Some(&id), &outcome))
    }

    /// What the control loop says; `None` if the client left before. What was asked for is then
    /// given up as far as it can be: the control loop sees that nobody waits.
    async fn ask(&self, request: Request) -> Option<Result<Reply, RequestError>> {
        let (reply, outcome) = oneshot::channel();
        let command = Command { request, role: self.shared.role, peer: self.peer(), reply };
        if self.shared.commands.send(command).await.is_err() {
            return Some(Err(RequestError::control_loop_gone()));
        }
        tokio::select! {
            biased;
            outcome = outcome => {
                Some(outcome.unwrap_or_else(|_| Err(RequestError::control_loop_gone())))
            }
            () = self.client_left() => None,
        }
    }

    /// Ends when the client has closed its end. One that only says that it will ask no more
    /// (`shutdown` of its writing side) still reads, and has not left.
    async fn client_left(&self) {
        while let Ok(ready) = self.write_half.ready(Interest::WRITABLE).await
            && !ready.is_write_closed()
        {
            sleep(PRESENCE_INTERVAL).await;
        }
    }

    async fn change(&self, request: Request) -> Option<Result<Reply, RequestError>> {
        match self.shared.role {
            Role::Full => self.ask(request).await,
            Role::ReadOnly => {
                let refusal = RequestError::new(
                    ErrorCode::READ_ONLY,
                    format!(
                        "{} changes something, and this socket is read-only; use the full one \
                         (lodectl --socket {})",
                        request.method(),
                        self.shared.full_path.display()
                    ),
                );
                Audit::new(self.peer(), Role::ReadOnly, &request, Err(&refusal)).log();
                Some(Err(refusal))
            }
        }
    }

    /// From now on, so that nothing that happens after the answer is missed.
    fn subscribe(&mut self, params: SubscribeParams) -> Result<Reply, RequestError> {
        let stats_interval = params.stats_interval()?;
        // What it had makes room first: a subscription that is changed does not count twice.
        let before = self.subscription.take();
        let SubscribeParams { events, stats_interval_ms } = params;
        let reply = SubscribeReply { events, stats_interval_ms }.into();
        if params.wants_nothing() {
            return Ok(reply);
        }
        let permit = match before {
            Some(before) => before.into_permit(),
            None => Arc::clone(&self.shared.subscriptions).try_acquire_owned().map_err(|_| {
                RequestError::new(
                    ErrorCode::TOO_MANY_CONNECTIONS,
                    format!(
                        "there are {SUBSCRIPTION_CAP} subscriptions on this socket already; end one, \
                         or ask again and again instead"
                    ),
                )
            })?,
        };
        self.subscription =
            Some(Subscription::new(params, stats_interval, &self.shared.feed, permit));
        Ok(reply)
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
