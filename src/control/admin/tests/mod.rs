//! The server with real sockets and a control loop that answers every request at once.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use super::connections::CONNECTION_CAP;
use super::*;
use crate::config::Admin;
use crate::control::protocol::reply::ChangeReply;
use crate::control::protocol::{ErrorCode, REQUEST_CAP};
use crate::control::tests::Answer;

mod abuse;
mod recovery;
mod request;
mod socket;
mod subscription;

const RELOAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}\n";

/// A server on a thread of its own, stopped and joined at the end of its test.
struct Daemon {
    directory: TempDir,
    /// Until it stops.
    server: Option<Arc<Server>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start() -> Self {
        Self::start_with(|_| {}, |commands| answer_all(commands, "ok".into()))
    }

    /// With both sockets; `adjust` runs before it serves.
    fn start_with<F, C>(adjust: impl FnOnce(&mut Server), control: F) -> Self
    where
        F: FnOnce(mpsc::Receiver<Command>) -> C + Send + 'static,
        C: Future<Output = ()>,
    {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::bind(&both_in(directory.path())).unwrap();
        adjust(&mut server);
        let server = Arc::new(server);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn({
            let server = Arc::clone(&server);
            move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let (sender, receiver) = mpsc::channel(4);
                    let serve = async { tokio::join!(server.run(sender), control(receiver)) };
                    tokio::select! {
                        (never, ()) = serve => match never {},
                        _ = stopped => {}
                    }
                });
            }
        });
        Self { directory, server: Some(server), stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> UnixStream {
        connect(&socket_in(self.directory.path()))
    }

    fn connect_read_only(&self) -> UnixStream {
        connect(&read_only_in(self.directory.path()))
    }

    fn assert_serves(&self) {
        let mut stream = self.connect();
        stream.write_all(RELOAD).unwrap();
        assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
    }

    /// What is wrong, of both sockets.
    fn alarm(&self) -> Option<String> {
        let alarms = self.server().alarms();
        let sentences: Vec<_> = alarms.into_iter().map(|(_, sentence)| sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the server's thread panicked");
        }
        drop(self.server.take());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn both_in(directory: &Path) -> Admin {
    Admin {
        socket: socket_in(directory),
        group: None,
        read_only_socket: Some(read_only_in(directory)),
        read_only_group: None,
    }
}

/// The full socket alone.
fn only(path: impl Into<PathBuf>) -> Admin {
    Admin { socket: path.into(), group: None, read_only_socket: None, read_only_group: None }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn read_only_in(directory: &Path) -> PathBuf {
    directory.join("run").join("read-only.sock")
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("run").join("admin.sock")
}

fn changed(warning: impl Into<String>) -> Reply {
    let warnings = vec![warning.into()];
    ChangeReply { generation: 7, changed: true, workers_adopted: 1, warnings }.into()
}

/// A control loop that answers at once.
async fn answer_all(mut commands: mpsc::Receiver<Command>, warning: String) {
    while let Some(command) = commands.recv().await {
        // The client may have left.
        let _ = command.reply.send(Ok(changed(warning.clone())));
    }
}

fn answer_from(stream: &mut UnixStream) -> Answer {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Waits for the server to hang up, and returns what it sent before.
fn rest_of(stream: &mut UnixStream) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        // Hanging up on a client that still sends.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    rest
}

/// A request that changes nothing.
const SHOW: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"show.drops\"}\n";

#[expect(clippy::disallowed_methods, reason = "the test's own thread may sleep")]
fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
