//! What clients of the admin socket can make the daemon hold is bounded. A process of its own:
//! resident memory is the measure.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lodestone::config::Admin;
use lodestone::control::admin::{Command, Feed, Server};
use lodestone::control::protocol::reply::ChangeReply;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

const MIB: usize = 1 << 20;
const RELOAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}\n";
const SHOW: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"show.drops\"}\n";
const SUBSCRIBE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscribe\",\"params\":{\"events\":true}}\n";

/// Resident bytes of this process.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// The most that was resident above `before` within a while.
#[expect(clippy::disallowed_methods, reason = "the test's own thread may sleep and read a clock")]
fn growth(before: usize) -> usize {
    let until = Instant::now() + Duration::from_millis(1_500);
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(resident());
        thread::sleep(Duration::from_millis(2));
    }
    most.saturating_sub(before)
}

/// Small answers to verbs, 4 MiB to everything else.
async fn control(mut commands: mpsc::Receiver<Command>) {
    while let Some(Command { request, reply, .. }) = commands.recv().await {
        let len = if request.is_change() { 8 } else { 4 * MIB };
        let warnings = vec!["x".repeat(len)];
        let answer = ChangeReply { generation: 7, changed: true, workers_adopted: 1, warnings };
        let _ = reply.send(Ok(answer.into()));
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn assert_serves(path: &Path) {
    let mut stream = connect(path);
    stream.write_all(RELOAD).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(line.contains("\"generation\":7"), "{line}");
}

/// 200 clients ask for 4 MiB each and take nothing: 800 MiB if all were kept.
fn answers_that_nobody_takes(path: &Path) {
    let before = resident();
    let _deaf: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = connect(path);
            stream.write_all(SHOW).unwrap();
            stream
        })
        .collect();
    let growth = growth(before);
    assert_serves(path);
    // 64 MiB that wait for clients; 8 answers in the making, as a value and as text that grows by
    // doubling; what the allocator keeps.
    assert!(growth < 64 * MIB + 8 * 16 * MIB + 64 * MIB, "{} MiB", growth / MIB);
}

/// 60 subscribers take nothing of 320 MB of events.
fn events_that_nobody_takes(path: &Path, feed: &Feed) {
    let before = resident();
    let _deaf: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = connect(path);
            stream.write_all(SUBSCRIBE).unwrap();
            let mut line = String::new();
            BufReader::with_capacity(1, &stream).read_line(&mut line).unwrap();
            assert!(line.contains("result"), "{line}");
            stream
        })
        .collect();
    let padding = "x".repeat(16_000);
    for _ in 0..20_000 {
        feed.publish(&json!({ "padding": padding }));
    }
    let growth = growth(before);
    assert_serves(path);
    // 1,024 events, and one in each connection's hands.
    assert!(growth < 48 * MIB, "{} MiB", growth / MIB);
}

/// 20 clients send lines of 100 MB.
fn endless_lines(path: &Path) {
    let before = resident();
    let threads: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(path);
            thread::spawn(move || {
                let chunk = vec![b'x'; MIB];
                (0..100).all(|_| stream.write_all(&chunk).is_ok())
            })
        })
        .collect();
    let growth = growth(before);
    assert_serves(path);
    for thread in threads {
        assert!(!thread.join().unwrap(), "the server read all of it");
    }
    // The clients' own chunks are in this process.
    assert!(growth < 20 * MIB + 16 * MIB, "{} MiB", growth / MIB);
}

#[test]
fn memory_is_bounded_whatever_clients_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let admin =
        Admin { socket: path.clone(), group: None, read_only_socket: None, read_only_group: None };
    let server = Server::bind(&admin).unwrap();
    let feed = server.feed().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (sender, receiver) = mpsc::channel(1_024);
            tokio::select! {
                never = server.run(sender) => match never {},
                () = control(receiver) => {}
                _ = stopped => {}
            }
        });
    });
    endless_lines(&path);
    events_that_nobody_takes(&path, &feed);
    answers_that_nobody_takes(&path);
    drop(stop);
    thread.join().unwrap();
}
