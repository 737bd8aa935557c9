//! A daemon without file descriptors takes no new clients, serves the ones it has, tells, and
//! recovers. A process of its own: the limit is the process's.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lodestone::config::Admin;
use lodestone::control::admin::{Command, Server};
use lodestone::control::protocol::reply::ChangeReply;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::{mpsc, oneshot};

const RELOAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}\n";

/// More than the limit leaves room for.
const CLIENTS: usize = 40;

fn answer(stream: &UnixStream, patience: Duration) -> Option<String> {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut line = String::new();
    let read = BufReader::with_capacity(1, stream).read_line(&mut line);
    read.is_ok().then_some(line)
}

#[expect(clippy::disallowed_methods, reason = "the test waits for what a server does")]
fn wait_until(what: &str, patience: Duration, is_so: impl Fn() -> bool) {
    let pause = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while !is_so() {
        assert!(waited < patience, "{what} in {patience:?}");
        thread::sleep(pause);
        waited += pause;
    }
}

#[test]
fn without_descriptors_nobody_new_is_served_until_there_are_some() {
    let directory = tempfile::tempdir().unwrap();
    let admin = Admin {
        socket: directory.path().join("admin.sock"),
        group: None,
        read_only_socket: None,
        read_only_group: None,
    };
    let server = Arc::new(Server::bind(&admin).unwrap());
    // They wait in the backlog.
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|_| UnixStream::connect(&admin.socket).unwrap()).collect();
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let open: BTreeSet<u64> =
        open.map(|name| name.into_string().unwrap().parse().unwrap()).collect();
    // A runtime needs fewer than ten.
    let limit = (0..).filter(|number| !open.contains(number)).nth(16).unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();

    let (stop, stopped) = oneshot::channel::<()>();
    let thread = thread::spawn({
        let server = Arc::clone(&server);
        move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (sender, mut commands) = mpsc::channel::<Command>(4);
                let control = async {
                    while let Some(command) = commands.recv().await {
                        let answer = ChangeReply {
                            generation: 7,
                            changed: true,
                            workers_adopted: 1,
                            warnings: Vec::new(),
                        };
                        let _ = command.reply.send(Ok(answer.into()));
                    }
                };
                tokio::select! {
                    never = server.run(sender) => match never {},
                    () = control => {}
                    _ = stopped => {}
                }
            });
        }
    });
    for client in &mut clients {
        client.write_all(RELOAD).unwrap();
    }
    // They are taken in the order in which they came.
    let (patience, short) = (Duration::from_secs(20), Duration::from_millis(300));
    assert!(answer(&clients[0], patience).is_some_and(|line| line.contains("\"generation\":7")));
    assert_eq!(answer(&clients[CLIENTS - 1], short), None);
    let has_alarm = || server.alarms().iter().any(|(_, alarm)| alarm.contains("LimitNOFILE"));
    wait_until("it is told", patience, has_alarm);
    // The ones that it has are served.
    clients[0].write_all(RELOAD).unwrap();
    assert!(answer(&clients[0], patience).is_some_and(|line| line.contains("\"generation\":7")));

    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
    let last = answer(&clients[CLIENTS - 1], patience).expect("an answer");
    assert!(last.contains("\"generation\":7"), "{last}");
    wait_until("it is over", patience, || server.alarms().is_empty());
    drop(stop);
    thread.join().unwrap();
}
