//! The server with real sockets and a control loop that answers every request at once.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use super::server::CONNECTION_CAP;
use super::*;
use crate::control::protocol::reply::ChangeReply;
use crate::control::protocol::{ErrorCode, REQUEST_CAP};

const STATUS: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}\n";

/// A server on a thread of its own, stopped and joined at the end of its test.
struct Daemon {
    directory: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start() -> Self {
        Self::start_with(|_| {}, |commands| answer_all(commands, "ok".into()))
    }

    fn start_with<F, C>(adjust: impl FnOnce(&mut Server), control: F) -> Self
    where
        F: FnOnce(mpsc::Receiver<Command>) -> C + Send + 'static,
        C: Future<Output = ()>,
    {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::bind(socket_in(directory.path())).unwrap();
        adjust(&mut server);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (sender, receiver) = mpsc::channel(4);
                let serve = async { tokio::join!(server.run(sender), control(receiver)) };
                tokio::select! {
                    (ended, ()) = serve => panic!("the server ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        });
        Self { directory, stop: Some(stop), thread: Some(thread) }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(socket_in(self.directory.path())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn assert_serves(&self) {
        let mut stream = self.connect();
        stream.write_all(STATUS).unwrap();
        assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
    }
}

impl Daemon {
    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the server's thread panicked");
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join("run").join("admin.sock")
}

async fn answer_all(mut commands: mpsc::Receiver<Command>, warning: String) {
    while let Some(command) = commands.recv().await {
        let warnings = vec![warning.clone()];
        let reply = ChangeReply { generation: 7, changed: true, workers_adopted: 1, warnings };
        // The client may have left.
        let _ = command.reply.send(Ok(reply.into()));
    }
}

fn answer_from(stream: &mut UnixStream) -> Value {
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

#[test]
fn the_socket_is_private_and_goes_with_the_server() {
    let mut daemon = Daemon::start();
    let socket = socket_in(daemon.directory.path());
    let metadata = fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o660);
    let directory = socket.parent().unwrap();
    assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o7027, 0);
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["admin.sock"], "only the socket stays in its directory");
    daemon.assert_serves();
    daemon.stop();
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the socket is removed at stop");
}

#[test]
fn a_dead_daemons_socket_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "std leaves the file behind, as a killed daemon does");
    let first = Server::bind(&path).unwrap();
    let error = Server::bind(&path).unwrap_err();
    assert!(matches!(error, AdminError::AnotherDaemon { .. }), "{error}");
    assert!(error.to_string().contains("another daemon runs"), "{error}");
    drop(first);
    assert!(!path.exists());
}

#[test]
fn only_its_own_socket_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let first = Server::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Server::bind(&path).unwrap();
    drop(first);
    assert!(path.exists(), "the second daemon's socket is not the first one's to remove");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn unusable_paths_are_refused_with_the_mend() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let error = Server::bind(&file).unwrap_err();
    assert!(matches!(error, AdminError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    for path in ["relative.sock", "/", &format!("/tmp/{}", "x".repeat(120))] {
        let error = Server::bind(path).unwrap_err();
        assert!(matches!(error, AdminError::BadPath { .. }), "{path}: {error}");
    }
    let error = Server::bind(file.join("below").join("admin.sock")).unwrap_err();
    assert!(error.to_string().contains("cannot create the directory"), "{error}");
}

#[test]
fn requests_of_one_connection_are_answered_in_order() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect();
    let lines = (0..50)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"status\"}}\r\n"))
        .collect::<Vec<_>>()
        .concat();
    stream.write_all(lines.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let answers = BufReader::new(stream).lines().map(Result::unwrap);
    let ids: Vec<_> =
        answers.map(|a| serde_json::from_str::<Value>(&a).unwrap()["id"].clone()).collect();
    assert_eq!(ids, (0..50).map(Value::from).collect::<Vec<_>>());
}

#[test]
fn garbage_gets_an_error_and_the_connection_lives_on() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect();
    for (line, code) in [
        (&b"garbage\n"[..], -32700),
        (b"\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[]\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\"}\n", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\",\"params\":{\"now\":1}}\n", -32602),
    ] {
        stream.write_all(line).unwrap();
        assert_eq!(answer_from(&mut stream)["error"]["code"], json!(code));
    }
    stream.write_all(STATUS).unwrap();
    assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
}

#[test]
fn the_control_loop_learns_who_asks() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let daemon = Daemon::start_with(
        |_| {},
        move |mut commands| async move {
            let command = commands.recv().await.unwrap();
            sender.send((command.request.clone(), command.peer)).unwrap();
            let _ =
                command.reply.send(Err(RequestError::new(ErrorCode::NOT_FOUND, "no such file")));
            std::future::pending::<()>().await;
        },
    );
    let mut stream = daemon.connect();
    stream.write_all(STATUS).unwrap();
    let answer = answer_from(&mut stream);
    assert_eq!(answer["error"], json!({"code": 1, "message": "no such file"}));
    let (request, peer) = receiver.recv().unwrap();
    assert_eq!(request.method(), "reload");
    assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap());
    assert_eq!(peer.uid, owner);
}

#[test]
fn a_control_loop_that_is_gone_is_an_internal_error() {
    for keeps_one in [false, true] {
        let daemon = Daemon::start_with(
            |_| {},
            move |mut commands| async move {
                if keeps_one {
                    // Takes the command and forgets it.
                    drop(commands.recv().await);
                }
                drop(commands);
                std::future::pending::<()>().await;
            },
        );
        let mut stream = daemon.connect();
        stream.write_all(STATUS).unwrap();
        assert_eq!(answer_from(&mut stream)["error"]["code"], json!(-32603));
    }
}

#[test]
fn half_requests_of_a_hundred_clients_keep_nobody_waiting() {
    let daemon = Daemon::start();
    let mut halves: Vec<_> = (0..100).map(|_| daemon.connect()).collect();
    for half in &mut halves {
        half.write_all(&STATUS[..20]).unwrap();
    }
    daemon.assert_serves();
    // None of them was cut off either.
    for half in &mut halves {
        half.write_all(&STATUS[20..]).unwrap();
        assert_eq!(answer_from(half)["result"]["generation"], json!(7));
    }
}

#[test]
fn half_a_request_is_closed_in_the_end_and_had_no_effect() {
    let daemon = Daemon::start_with(
        |server| server.limits.request = Duration::from_millis(100),
        |mut commands| async move {
            let command = commands.recv().await.unwrap();
            assert_eq!(command.request.method(), "show.drops", "the half request must not arrive");
            drop(command);
            std::future::pending::<()>().await;
        },
    );
    let mut half = daemon.connect();
    half.write_all(&STATUS[..STATUS.len() - 1]).unwrap();
    // One that sent nothing waits between requests and may do so for long.
    let mut silent = daemon.connect();
    assert_eq!(rest_of(&mut half), b"");
    let mut left = daemon.connect();
    left.write_all(&STATUS[..STATUS.len() - 1]).unwrap();
    drop(left);
    silent.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"show.drops\"}\n").unwrap();
    assert_eq!(answer_from(&mut silent)["error"]["code"], json!(-32603));
}

#[test]
fn one_connection_too_many_replaces_the_idlest() {
    let daemon = Daemon::start();
    let mut oldest = daemon.connect();
    oldest.write_all(&STATUS[..20]).unwrap();
    pause(20);
    let mut others: Vec<_> = (1..CONNECTION_CAP).map(|_| daemon.connect()).collect();
    daemon.assert_serves();
    assert_eq!(rest_of(&mut oldest), b"", "the one that waited longest was closed");
    let last = others.last_mut().unwrap();
    last.write_all(STATUS).unwrap();
    assert_eq!(answer_from(last)["result"]["generation"], json!(7));
}

#[test]
fn one_too_many_is_refused_while_all_are_at_work() {
    let (release, released) = oneshot::channel::<()>();
    let daemon = Daemon::start_with(
        |_| {},
        |mut commands| async move {
            let mut held = Vec::new();
            while held.len() < CONNECTION_CAP {
                held.push(commands.recv().await.unwrap());
            }
            released.await.unwrap();
            drop(held);
            answer_all(commands, String::new()).await;
        },
    );
    let mut busy: Vec<_> = (0..CONNECTION_CAP).map(|_| daemon.connect()).collect();
    for stream in &mut busy {
        stream.write_all(STATUS).unwrap();
    }
    pause(200);
    let mut refused = daemon.connect();
    assert_eq!(answer_from(&mut refused)["error"]["code"], json!(4));
    release.send(()).unwrap();
    assert_eq!(answer_from(&mut busy[0])["error"]["code"], json!(-32603));
    daemon.assert_serves();
}

#[test]
fn an_endless_line_ends_at_the_cap() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect();
    let chunk = vec![b'x'; 1 << 20];
    let mut sent = 0;
    let error = loop {
        match stream.write(&chunk) {
            Ok(written) => sent += written,
            Err(error) => break error,
        }
        assert!(sent < 100 << 20, "the server read 100 MB of one line");
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    // The rest of what went lies in the kernel's buffer: the server stopped at the cap.
    assert!(sent < 4 << 20, "{sent}");
    let answer: Value = serde_json::from_slice(&rest_of(&mut stream)).unwrap();
    assert_eq!(answer["error"]["code"], json!(-32600));
    daemon.assert_serves();
}

#[test]
fn the_longest_request_is_served() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect();
    let mut line = vec![b' '; REQUEST_CAP];
    line[..STATUS.len() - 1].copy_from_slice(&STATUS[..STATUS.len() - 1]);
    stream.write_all(&line).unwrap();
    stream.write_all(b"\n").unwrap();
    assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
    stream.write_all(&line).unwrap();
    stream.write_all(b" \n").unwrap();
    assert_eq!(answer_from(&mut stream)["error"]["code"], json!(-32600));
    assert_eq!(rest_of(&mut stream), b"");
}

#[test]
fn a_slow_reader_is_closed_and_keeps_nobody_waiting() {
    let daemon = Daemon::start_with(
        |server| server.limits.write = Duration::from_millis(200),
        |commands| answer_all(commands, "x".repeat(4 << 20)),
    );
    let mut slow = daemon.connect();
    slow.write_all(STATUS).unwrap();
    daemon.assert_serves();
    pause(500);
    let got = rest_of(&mut slow);
    assert!(got.len() < 4 << 20, "the answer was cut off: {}", got.len());
}

#[test]
fn a_client_that_leaves_harms_nobody() {
    let daemon = Daemon::start();
    for _ in 0..50 {
        let mut stream = daemon.connect();
        stream.write_all(STATUS).unwrap();
        drop(stream);
        let mut stream = daemon.connect();
        stream.write_all(&STATUS[..10]).unwrap();
    }
    daemon.assert_serves();
}

#[test]
fn serving_can_start_again_on_the_same_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let server = Server::bind(&path).unwrap();
    for _ in 0..2 {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = thread::spawn({
            let path = path.clone();
            move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(STATUS).unwrap();
                answer_from(&mut stream)
            }
        });
        runtime.block_on(async {
            let (sender, mut commands) = mpsc::channel(1);
            tokio::select! {
                ended = server.run(sender) => panic!("{ended:?}"),
                command = commands.recv() => drop(command),
            }
        });
        // What `run` left aborted ends with its runtime: the client sees the end of the stream.
        drop(runtime);
        assert!(client.join().is_err());
    }
}

#[expect(clippy::disallowed_methods, reason = "the test's own thread may sleep")]
fn pause(milliseconds: u64) {
    thread::sleep(Duration::from_millis(milliseconds));
}
