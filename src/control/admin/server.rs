//! Accepts connections and keeps their number bounded.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::connection::{Activity, Limits, serve};
use super::socket::Socket;
use super::{AdminError, Command, PeerCredentials};
use crate::control::protocol::{ErrorCode, RequestError, response_line};

/// The most connections at a time.
pub(super) const CONNECTION_CAP: usize = 256;

/// Wait after a failed accept: what it fails of (file descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The admin socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
    pub(super) limits: Limits,
}

impl Server {
    /// Makes the admin socket at `path`, mode 0660, and its directory, mode 0750, if it is missing.
    /// Clients can connect from now on; they are served once [`Self::run`] runs. Needs no runtime.
    ///
    /// # Errors
    ///
    /// [`AdminError`] if another daemon listens there or the socket cannot be made.
    pub fn bind(path: impl AsRef<Path>) -> Result<Self, AdminError> {
        let socket = Socket::bind(path.as_ref())?;
        Ok(Self { socket, limits: Limits::default() })
    }

    /// Serves until it is dropped, and all connections with it. The socket stays, and `run` may be
    /// called again: management that restarts after a panic keeps its socket.
    ///
    /// # Errors
    ///
    /// [`AdminError::Io`] if the runtime cannot watch the socket.
    pub async fn run(&self, commands: mpsc::Sender<Command>) -> Result<Infallible, AdminError> {
        let listener = self.socket.listener.try_clone().and_then(UnixListener::from_std);
        let listener = listener.map_err(|source| AdminError::Io {
            what: "watch the socket",
            path: self.socket.path().into(),
            source,
        })?;
        let mut connections = Connections::default();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => connections.admit(stream, &commands, self.limits).await,
                Err(error) => {
                    tracing::warn!(%error, "admin socket: a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// The open connections; all end when this is dropped.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    activities: Vec<Arc<Activity>>,
}

impl Connections {
    async fn admit(
        &mut self,
        stream: UnixStream,
        commands: &mpsc::Sender<Command>,
        limits: Limits,
    ) {
        while let Some(ended) = self.tasks.try_join_next() {
            report(ended);
        }
        if self.tasks.len() >= CONNECTION_CAP && !self.close_idlest().await {
            refuse(stream).await;
            return;
        }
        let peer = match stream.peer_cred() {
            Ok(credentials) => PeerCredentials { uid: credentials.uid(), pid: credentials.pid() },
            Err(error) => {
                tracing::warn!(%error, "admin socket: the kernel does not say who connected");
                return;
            }
        };
        // Those that ended have given up their share.
        self.activities.retain(|activity| Arc::strong_count(activity) > 1);
        let activity = Arc::new(Activity::new(Instant::now()));
        self.activities.push(Arc::clone(&activity));
        self.tasks.spawn(serve(stream, peer, commands.clone(), activity, limits));
    }

    /// Closes the connection that has waited longest for its client. `false` if none waits.
    async fn close_idlest(&mut self) -> bool {
        let waiting = self.activities.iter().filter(|activity| Arc::strong_count(activity) > 1);
        let idlest = waiting
            .filter_map(|activity| Some((activity.waiting_since()?, activity)))
            .min_by_key(|(since, _)| *since);
        let Some((_, activity)) = idlest else {
            return false;
        };
        activity.close();
        if let Some(ended) = self.tasks.join_next().await {
            report(ended);
        }
        true
    }
}

/// A panic in one connection ends that connection; say so.
fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "admin socket: a connection's task failed; please report this");
    }
}

/// Says why and hangs up. One attempt: nobody waits for a client here.
async fn refuse(mut stream: UnixStream) {
    let error = RequestError::new(
        ErrorCode::TOO_MANY_CONNECTIONS,
        format!("all {CONNECTION_CAP} admin connections are at work; try again in a second"),
    );
    let line = response_line::<()>(None, &Err(error));
    // A fresh socket's buffer has room for the line; a client that left does not matter.
    let _ = tokio::time::timeout(ACCEPT_PAUSE, stream.write_all(line.as_bytes())).await;
}
