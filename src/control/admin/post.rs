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
        let mut failures = Failures::default();
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(stream) => {
                        if failures != Failures::default() {
                            failures = Failures::default();
                            self.alarm.clear();
                        }
                        connections.admit(stream).await;
                    }
                    Err(error) => {
                        self.alarm.raise(self.cannot_accept(&error));
                        failures.record(&error);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = connections.trim() => {}
                _ = check.tick() => {
                    let is_broken = failures.are_persistent();
                    if (is_broken || !socket.is_in_place())
                        && self.make_anew(&mut socket, is_broken).await
                    {
                        (listener, failures) = (None, Failures::default());
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

/// Accepts that failed in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Failures {
    /// For want of something that a new socket would want as well.
    exhausted: u32,
    other: u32,
}

impl Failures {
    fn record(&mut self, error: &io::Error) {
        let count = if is_exhaustion(error) { &mut self.exhausted } else { &mut self.other };
        *count = count.saturating_add(1);
    }

    /// Whether the socket is to be given up.
    fn are_persistent(self) -> bool {
        self.other >= FAILURE_CAP
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::control::admin::Role;

    #[test]
    fn a_socket_is_given_up_for_its_own_errors_only() {
        let mut failures = Failures::default();
        for _ in 0..1_000 {
            for error in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM] {
                failures.record(&error.into());
            }
        }
        assert!(!failures.are_persistent());
        for _ in 0..FAILURE_CAP {
            assert!(!failures.are_persistent());
            failures.record(&Errno::EINVAL.into());
        }
        assert!(failures.are_persistent());
    }

    #[tokio::test]
    async fn a_broken_socket_is_replaced_although_it_is_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("admin.sock");
        let post = Post::bind(SocketPlace::new(Role::Full, &path, None).unwrap()).unwrap();
        let mut socket = post.socket.lock().await;
        let before = socket.identity();
        // It looks alive from outside: the kernel still takes connections for it.
        UnixStream::connect(&path).unwrap();
        assert!(post.make_anew(&mut socket, true).await);
        assert!(socket.is_in_place() && socket.identity() != before);
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(socket.listener.accept().is_ok());
        let alarm = post.alarm().unwrap();
        assert!(alarm.ends_with("took no connections any more and has been made anew"), "{alarm}");
    }
}
