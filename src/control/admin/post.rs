//! One socket and the work on it: accepting, and making the socket anew when it is lost.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::UnixListener;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::AdminError;
use super::alarm::Alarm;
use super::connection::Shared;
use super::connections::Connections;
use super::place::SocketPlace;
use super::socket::Socket;

/// Wait after a failed accept: what it fails of (file descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Failed accepts in a row after which the socket is given up and made anew.
const FAILURE_CAP: u32 = 10;

/// How often to look whether the socket is still in its place, and to try again what failed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// One socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Post {
    place: SocketPlace,
    /// Locked by whoever serves it.
    pub(super) socket: Mutex<Socket>,
    alarm: Alarm,
}

impl Post {
    pub(super) fn bind(place: SocketPlace) -> Result<Self, AdminError> {
        let socket = Socket::bind(place.clone(), None)?;
        Ok(Self { place, socket: Mutex::new(socket), alarm: Alarm::new() })
    }

    pub(super) fn place(&self) -> &SocketPlace {
        &self.place
    }

    pub(super) fn alarm(&self) -> Option<String> {
        self.alarm.sentence()
    }

    /// Serves until it is dropped. A panic ends all connections and is over a second later.
    pub(super) async fn supervise(self: &Arc<Self>, shared: impl Fn() -> Shared) -> Infallible {
        loop {
            let mut task = JoinSet::new();
            task.spawn(Arc::clone(self).serve(Arc::new(shared())));
            let ended = task.join_next().await;
            self.alarm.raise(format!(
                "the server of {} failed ({ended:?}) and starts again; please report this",
                self.place.path.display()
            ));
            sleep(CHECK_INTERVAL).await;
        }
    }

    async fn serve(self: Arc<Self>, shared: Arc<Shared>) -> Infallible {
        let mut socket = self.socket.lock().await;
        let mut connections = Connections::new(shared);
        // `None`: the runtime does not watch the socket yet.
        let mut listener = None;
        let mut failures = 0;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(stream) => {
                        if failures > 0 {
                            failures = 0;
                            self.alarm.clear();
                        }
                        connections.admit(stream).await;
                    }
                    Err(error) => {
                        self.alarm.raise(self.cannot_accept(&error));
                        if is_exhaustion(&error) {
                            failures = failures.clamp(1, FAILURE_CAP - 1);
                        } else {
                            failures += 1;
                        }
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = connections.trim() => {}
                _ = check.tick() => {
                    if failures >= FAILURE_CAP || !socket.is_in_place() {
                        if self.make_anew(&mut socket, failures >= FAILURE_CAP).await {
                            (listener, failures) = (None, 0);
                        }
                    }
                    if listener.is_none() {
                        match watch(&socket) {
                            Ok(watched) => listener = Some(watched),
                            Err(error) => self.alarm.raise(self.cannot_accept(&error)),
                        }
                    }
                }
            }
        }
    }

    /// Whether there is a new socket. Connections of the old one go on.
    async fn make_anew(&self, socket: &mut Socket, is_broken: bool) -> bool {
        let (place, own) = (self.place.clone(), socket.identity());
        let path = place.path.display().to_string();
        match spawn_blocking(move || Socket::bind(place, Some(own))).await {
            Ok(Ok(made)) => {
                *socket = made;
                self.alarm.mended(if is_broken {
                    format!("{path} took no connections any more and has been made anew")
                } else {
                    format!(
                        "{path} was removed or replaced by somebody and has been made anew; find \
                         out who cleans up there"
                    )
                });
                true
            }
            Ok(Err(error)) => {
                self.alarm.raise(format!(
                    "the admin socket {path} is lost and cannot be made anew (tried every second): \
                     {error}"
                ));
                false
            }
            Err(error) => {
                self.alarm.raise(format!(
                    "the admin socket {path} is lost and cannot be made anew (tried every second): \
                     {error}; please report this"
                ));
                false
            }
        }
    }

    fn cannot_accept(&self, error: &io::Error) -> String {
        let path = self.place.path.display();
        if is_exhaustion(error) {
            format!(
                "{path} takes no new connections ({error}); raise the daemon's limit of open files \
                 (LimitNOFILE= in a systemd unit)"
            )
        } else {
            format!(
                "{path} takes no new connections ({error}); it will be made anew if it stays so"
            )
        }
    }
}

fn watch(socket: &Socket) -> io::Result<UnixListener> {
    socket.listener.try_clone().and_then(UnixListener::from_std)
}

async fn accept(listener: Option<&UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => pending().await,
    }
}

/// Whether the process or the system is short of something, so that a new socket would not help.
fn is_exhaustion(error: &io::Error) -> bool {
    let errors = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    error.raw_os_error().is_some_and(|code| errors.contains(&Errno::from_raw(code)))
}
