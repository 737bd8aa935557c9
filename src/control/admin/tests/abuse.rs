//! Clients that do what they should not: others do not notice.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::*;

#[test]
fn half_requests_of_a_hundred_clients_keep_nobody_waiting() {
    let daemon = Daemon::start();
    let mut halves: Vec<_> = (0..100).map(|_| daemon.connect()).collect();
    for half in &mut halves {
        half.write_all(&RELOAD[..20]).unwrap();
    }
    daemon.assert_serves();
    // None of them was cut off either.
    for half in &mut halves {
        half.write_all(&RELOAD[20..]).unwrap();
        assert_eq!(answer_from(half)["result"]["generation"], json!(7));
    }
}

#[test]
fn one_connection_too_many_replaces_the_idlest() {
    let daemon = Daemon::start();
    let mut oldest = daemon.connect();
    oldest.write_all(&RELOAD[..20]).unwrap();
    pause(20);
    let mut others: Vec<_> = (1..CONNECTION_CAP).map(|_| daemon.connect()).collect();
    daemon.assert_serves();
    assert_eq!(rest_of(&mut oldest), b"", "the one that waited longest was closed");
    let last = others.last_mut().unwrap();
    last.write_all(RELOAD).unwrap();
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
        stream.write_all(RELOAD).unwrap();
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
fn a_slow_reader_is_closed_and_keeps_nobody_waiting() {
    let daemon = Daemon::start_with(
        |server| server.limits.write = Duration::from_millis(200),
        |commands| answer_all(commands, "x".repeat(4 << 20)),
    );
    let mut slow = daemon.connect();
    slow.write_all(RELOAD).unwrap();
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
        stream.write_all(RELOAD).unwrap();
        drop(stream);
        let mut stream = daemon.connect();
        stream.write_all(&RELOAD[..10]).unwrap();
    }
    daemon.assert_serves();
}

/// How long each of `count` requests on a connection of its own takes.
fn times(daemon: &Daemon, count: usize) -> Vec<Duration> {
    let mut times: Vec<_> = (0..count)
        .map(|_| {
            let began = tokio::time::Instant::now();
            daemon.assert_serves();
            began.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// Within 100 ms each. The tests beside this one want the processor as well, so the half of them
/// may be late, but none by much.
fn assert_prompt(times: &[Duration]) {
    let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
    let is_prompt = median < Duration::from_millis(100) && most < Duration::from_secs(2);
    assert!(is_prompt, "{times:?}");
}

/// The test's own sockets and the server's are in one process.
fn allow_descriptors(count: u64) {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(hard >= count, "raise the hard limit of open files to {count}");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard).unwrap();
}

#[test]
fn a_thousand_idle_and_slow_clients_keep_nobody_waiting() {
    allow_descriptors(4_096);
    let daemon = Daemon::start();
    let path = socket_in(daemon.directory.path());
    let flood = thread::spawn(move || {
        (0..1_000)
            .map(|number| {
                let mut stream = connect(&path);
                if number % 2 == 0 {
                    // It may be closed already.
                    let _ = stream.write_all(&RELOAD[..20]);
                }
                stream
            })
            .collect::<Vec<_>>()
    });
    assert_prompt(&times(&daemon, 40));
    let flood = flood.join().unwrap();
    assert_prompt(&times(&daemon, 40));
    // One that works keeps its connection while others come, sit and go.
    let mut working = daemon.connect();
    for _ in 0..300 {
        working.write_all(RELOAD).unwrap();
        assert_eq!(answer_from(&mut working)["result"]["generation"], json!(7));
        drop(daemon.connect());
    }
    drop(flood);
}

#[test]
fn clients_that_come_and_go_in_a_loop_keep_nobody_waiting() {
    let daemon = Daemon::start();
    let path = socket_in(daemon.directory.path());
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let thread = thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let sent: [&[u8]; 3] = [b"", RELOAD, &RELOAD[..30]];
            for sent in sent.iter().cycle() {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                // It may be closed already.
                let _ = connect(&path).write_all(sent);
            }
        }
    });
    let times = times(&daemon, 100);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    assert_prompt(&times);
}

#[test]
fn who_never_reads_does_not_use_up_the_connections() {
    // 256 who ask for much and read nothing wait for themselves: a 257th client gets a place.
    allow_descriptors(4_096);
    let daemon = Daemon::start_with(
        |_| {},
        |mut commands| async move {
            while let Some(Command { request, reply, .. }) = commands.recv().await {
                let len = if request.is_change() { 1 } else { 1 << 20 };
                let _ = reply.send(Ok(changed("x".repeat(len))));
            }
        },
    );
    let _deaf: Vec<_> = (0..CONNECTION_CAP)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(SHOW).unwrap();
            stream
        })
        .collect();
    // Their answers take their time to be made.
    pause(2_000);
    assert_prompt(&times(&daemon, 20));
}

// A client that is gone is no reason to go on with what it asked; one that has said all it wants to
// say still waits for its answer.
#[test]
fn a_client_that_left_is_noticed_while_its_answer_is_made_and_one_that_only_listens_is_served() {
    let (sender, mut asked) = mpsc::channel(4);
    let daemon = Daemon::start_with(
        |_| {},
        |mut commands| async move {
            while let Some(command) = commands.recv().await {
                sender.send(command).await.unwrap();
            }
        },
    );
    for line in [RELOAD, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"show.flows\"}\n"] {
        let mut leaves = daemon.connect();
        leaves.write_all(line).unwrap();
        let command = asked.blocking_recv().unwrap();
        pause(500);
        assert!(!command.reply.is_closed(), "it waits");
        drop(leaves);
        let mut looks = 0;
        while !command.reply.is_closed() {
            looks += 1;
            assert!(looks < 100, "not noticed within ten seconds");
            pause(100);
        }

        let mut listens = daemon.connect();
        listens.write_all(line).unwrap();
        listens.shutdown(Shutdown::Write).unwrap();
        let command = asked.blocking_recv().unwrap();
        pause(500);
        command.reply.send(Ok(changed("late"))).unwrap();
        assert_eq!(answer_from(&mut listens)["result"]["generation"], json!(7));
    }
}
