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
        self.restart(|| Arc::clone(self).serve(Arc::new(shared()))).await
    }

    /// Starts again what panics, and tells.
    async fn restart<F>(&self, mut start: impl FnMut() -> F) -> Infallible
    where
        F: Future<Output = Infallible> + Send + 'static,
    {
        loop {
            let mut task = JoinSet::new();
            task.spawn(start());
            let ended = task.join_next().await;
            let path = self.place.path.display();
            self.alarm.raise(format!(
                "the server of {path} failed ({ended:?}) and starts again; please report this"
            ));
            sleep(CHECK_INTERVAL).await;
            self.alarm.mended(format!(
                "the server of {path} failed ({ended:?}) and was started again; please report this"
            ));
        }
    }

    /// The alarm is judged anew at every check, and nowhere else: it lasts as long as what it tells.
    async fn serve(self: Arc<Self>, shared: Arc<Shared>) -> Infallible {
        let mut socket = self.socket.lock().await;
        let mut connections = Connections::new(shared);
        // `None`: the runtime does not watch the socket yet.
        let mut listener = None;
        let mut failures = Failures::default();
        // Why the last accept since the last check failed.
        let mut not_accepted = None;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(stream) => {
                        failures = Failures::default();
                        connections.admit(stream).await;
                    }
                    Err(error) => {
                        failures.record(&error);
                        not_accepted = Some(error);
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = connections.trim() => {}
                _ = check.tick() => {
                    let mut wrong = not_accepted.take().map(|error| self.cannot_accept(&error));
                    let is_broken = failures.are_persistent();
                    if is_broken || !socket.is_in_place() {
                        wrong = self.make_anew(&mut socket, is_broken).await.err();
                        if wrong.is_none() {
                            (listener, failures) = (None, Failures::default());
                        }
                    }
                    if listener.is_none() {
                        match watch(&socket) {
                            Ok(watched) => listener = Some(watched),
                            Err(error) => wrong = Some(self.cannot_accept(&error)),
                        }
                    }
                    match wrong {
                        Some(sentence) => self.alarm.raise(sentence),
                        None => self.alarm.over(),
                    }
                }
            }
        }
    }

    /// Replaces the socket, or says why that cannot be. Connections of the old one go on.
    async fn make_anew(&self, socket: &mut Socket, is_broken: bool) -> Result<(), String> {
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
                Ok(())
            }
            Ok(Err(error)) => Err(format!(
                "the admin socket {path} is lost and cannot be made anew (tried every second): \
                 {error}"
            )),
            Err(error) => Err(format!(
                "the admin socket {path} is lost and cannot be made anew (tried every second): \
                 {error}; please report this"
            )),
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

    fn post_in(directory: &tempfile::TempDir) -> Post {
        let path = directory.path().join("admin.sock");
        Post::bind(SocketPlace::new(Role::Full, &path, None).unwrap()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_panics_is_started_again_and_told_for_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let post = post_in(&directory);
        let mut starts = 0;
        let told = async {
            sleep(CHECK_INTERVAL / 2).await;
            let alarm = post.alarm().unwrap();
            assert!(alarm.contains("and starts again; please report this"), "{alarm}");
            sleep(CHECK_INTERVAL).await;
            let alarm = post.alarm().unwrap();
            assert!(alarm.contains("and was started again; please report this"), "{alarm}");
            sleep(Duration::from_mins(3)).await;
            assert_eq!(post.alarm(), None);
        };
        let server = post.restart(|| {
            starts += 1;
            let is_first = starts == 1;
            async move {
                assert!(!is_first, "as the test wants");
                pending().await
            }
        });
        tokio::select! {
            never = server => match never {},
            () = told => {}
        }
        assert_eq!(starts, 2);
    }

    #[tokio::test]
    async fn a_broken_socket_is_replaced_although_it_is_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let post = post_in(&directory);
        let path = post.place().path.clone();
        let mut socket = post.socket.lock().await;
        let before = socket.identity();
        // It looks alive from outside: the kernel still takes connections for it.
        UnixStream::connect(&path).unwrap();
        post.make_anew(&mut socket, true).await.unwrap();
        assert!(socket.is_in_place() && socket.identity() != before);
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(socket.listener.accept().is_ok());
        let alarm = post.alarm().unwrap();
        assert!(alarm.ends_with("took no connections any more and has been made anew"), "{alarm}");
    }
}
