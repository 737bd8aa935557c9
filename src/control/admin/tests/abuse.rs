//! Clients that do what they should not: others do not notice.

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
