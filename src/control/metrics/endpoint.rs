//! `GET /metrics` over HTTP/1, on management's runtime.
//!
//! Like the admin sockets it shares a thread with probes and publishing, so a client must not be able
//! to hurt them: connections are bounded in number, each has a bounded buffer, one request and a
//! deadline, and text is made a piece at a time, other tasks running in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::observation::Observation;
use super::text::{self, Text};

/// The most connections at a time.
pub(super) const CONNECTION_CAP: usize = 16;

/// The longest request head in bytes: the least that hyper takes.
const HEAD_CAP: usize = 8 * 1024;

/// The most headers of a request.
const HEADER_CAP: usize = 64;

/// Wait after a failed accept: what it fails of (file descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From the connection to the end of the request's head.
    pub head: Duration,
    /// From the connection to the end of the answer.
    pub connection: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(5), connection: Duration::from_secs(30) }
    }
}

/// Why metrics are not served.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Something else listens there.
    #[error(
        "metrics cannot be served at {address}: another program listens there; stop it, or set \
         [metrics] listen to another port or to \"off\""
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// No interface has the address.
    #[error(
        "metrics cannot be served at {address}: this machine has no such address; set [metrics] \
         listen to one that `ip address` shows, or to \"127.0.0.1:{port}\"",
        port = address.port()
    )]
    NotOurs {
        /// The address.
        address: SocketAddr,
    },
    /// A system call failed.
    #[error(
        "metrics cannot be served at {address}: {source}; set [metrics] listen to another address \
         or to \"off\""
    )]
    Io {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A scrape on its way to management.
#[derive(Debug)]
pub struct Scrape(oneshot::Sender<Observation>);

impl Scrape {
    /// Answers it. The client may have left; that is no error.
    pub fn answer(self, observation: Observation) {
        let _ = self.0.send(observation);
    }
}

/// The metrics endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: StdTcpListener,
    address: SocketAddr,
    pub(super) limits: Limits,
}

impl Endpoint {
    /// Listens at `address`. Clients can connect from now on; they are served once [`Self::run`]
    /// runs. Needs no runtime.
    ///
    /// # Errors
    /// [`EndpointError`] if the address is taken or not ours.
    pub fn bind(address: SocketAddr) -> Result<Self, EndpointError> {
        let bound = StdTcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address, limits: Limits::default() })
        });
        bound.map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => EndpointError::InUse { address },
            io::ErrorKind::AddrNotAvailable => EndpointError::NotOurs { address },
            _ => EndpointError::Io { address, source },
        })
    }

    /// Where it listens: the port that the kernel chose, if 0 was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped, and all connections with it. The listener stays, and `run` may be
    /// called again: management that restarts after a panic keeps it.
    ///
    /// # Errors
    /// [`EndpointError::Io`] if the runtime cannot watch the listener.
    pub async fn run(&self, scrapes: mpsc::Sender<Scrape>) -> Result<Infallible, EndpointError> {
        let listener = self.listener.try_clone().and_then(TcpListener::from_std);
        let listener =
            listener.map_err(|source| EndpointError::Io { address: self.address, source })?;
        let mut connections = Connections::default();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => connections.admit(stream, &scrapes, self.limits),
                Err(error) => {
                    tracing::warn!(%error, "metrics: a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// The open connections, oldest first; all end when this is dropped.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    task: JoinHandle<()>,
    /// Written by: the task, once its request is there.
    is_asked: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connections {
    /// Serves one more. If there are too many, the oldest that has asked nothing yet goes, and if
    /// all have asked, the new one.
    fn admit(&mut self, stream: TcpStream, scrapes: &mpsc::Sender<Scrape>, limits: Limits) {
        self.0.retain(|connection| !connection.task.is_finished());
        if self.0.len() >= CONNECTION_CAP {
            let is_silent = |one: &Connection| !one.is_asked.load(Ordering::Relaxed);
            let Some(place) = self.0.iter().position(is_silent) else { return };
            self.0.remove(place);
        }
        let is_asked = Arc::new(AtomicBool::new(false));
        let served = serve(stream, scrapes.clone(), Arc::clone(&is_asked), limits);
        let task = tokio::spawn(async move {
            // Who is too slow, hangs up or sends garbage gets no more than what it has.
            let _ = timeout(limits.connection, served).await;
        });
        self.0.push_back(Connection { task, is_asked });
    }
}

async fn serve(
    stream: TcpStream,
    scrapes: mpsc::Sender<Scrape>,
    is_asked: Arc<AtomicBool>,
    limits: Limits,
) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| {
        is_asked.store(true, Ordering::Relaxed);
        let scrapes = scrapes.clone();
        async move { Ok::<_, Infallible>(answer(&request, &scrapes).await) }
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_CAP)
        .max_headers(HEADER_CAP)
        // One request a connection: idle ones would take the places of others.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

type Answer = Response<Either<String, Pieces>>;

async fn answer<B>(request: &Request<B>, scrapes: &mpsc::Sender<Scrape>) -> Answer {
    if request.uri().path() != "/metrics" {
        return sentence(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = sentence(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if request.method() == Method::HEAD {
        return text_response(Either::Left(String::new()));
    }
    let (reply, observation) = oneshot::channel();
    // The channel's end goes with management's loop, which ends before this task's runtime does.
    let asked = scrapes.send(Scrape(reply)).await.is_ok();
    match observation.await {
        Ok(observation) if asked => text_response(Either::Right(Pieces::new(observation))),
        _ => sentence(StatusCode::SERVICE_UNAVAILABLE, "management restarts; ask again\n"),
    }
}

fn text_response(body: Either<String, Pieces>) -> Answer {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(text::CONTENT_TYPE));
    response
}

fn sentence(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Either::Left(text.to_owned()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// A body that is made as it is sent. After each piece it lets other tasks run.
struct Pieces {
    text: Text,
    may_go_on: bool,
}

impl Pieces {
    const fn new(observation: Observation) -> Self {
        Self { text: Text::new(observation), may_go_on: true }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !std::mem::replace(&mut self.may_go_on, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.may_go_on = false;
        Poll::Ready(self.text.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}
