//! Requests and their answers.

use super::*;
use crate::control::protocol::tests::EXAMPLES;
use crate::control::protocol::{Access, Request};

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
    stream.write_all(RELOAD).unwrap();
    assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
}

#[test]
fn the_control_loop_learns_who_asks() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let daemon = Daemon::start_with(
        |_| {},
        move |mut commands| async move {
            let command = commands.recv().await.unwrap();
            sender.send((command.request.clone(), command.role, command.peer)).unwrap();
            let _ =
                command.reply.send(Err(RequestError::new(ErrorCode::NOT_FOUND, "no such file")));
            std::future::pending::<()>().await;
        },
    );
    let mut stream = daemon.connect();
    stream.write_all(RELOAD).unwrap();
    let answer = answer_from(&mut stream);
    assert_eq!(answer["error"], json!({"code": 1, "message": "no such file"}));
    let (request, role, peer) = receiver.recv().unwrap();
    assert_eq!(request.method(), "reload");
    assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap());
    assert_eq!(peer.uid, owner);
    assert_eq!(peer.gid, nix::unistd::getegid().as_raw());
    assert_eq!(role, Role::Full);
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
        stream.write_all(RELOAD).unwrap();
        assert_eq!(answer_from(&mut stream)["error"]["code"], json!(-32603));
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
    half.write_all(&RELOAD[..RELOAD.len() - 1]).unwrap();
    // One that sent nothing waits between requests and may do so for long.
    let mut silent = daemon.connect();
    assert_eq!(rest_of(&mut half), b"");
    let mut left = daemon.connect();
    left.write_all(&RELOAD[..RELOAD.len() - 1]).unwrap();
    drop(left);
    silent.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"show.drops\"}\n").unwrap();
    assert_eq!(answer_from(&mut silent)["error"]["code"], json!(-32603));
}

#[test]
fn the_longest_request_is_served() {
    let daemon = Daemon::start();
    let mut stream = daemon.connect();
    let mut line = vec![b' '; REQUEST_CAP];
    line[..RELOAD.len() - 1].copy_from_slice(&RELOAD[..RELOAD.len() - 1]);
    stream.write_all(&line).unwrap();
    stream.write_all(b"\n").unwrap();
    assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
    stream.write_all(&line).unwrap();
    stream.write_all(b" \n").unwrap();
    assert_eq!(answer_from(&mut stream)["error"]["code"], json!(-32600));
    assert_eq!(rest_of(&mut stream), b"");
}

#[test]
fn serving_can_start_again_on_the_same_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let server = Server::bind(&only(&path)).unwrap();
    for _ in 0..2 {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = thread::spawn({
            let path = path.clone();
            move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(RELOAD).unwrap();
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

#[test]
fn the_read_only_socket_shows_and_changes_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut daemon = Daemon::start_with(
        |_| {},
        move |mut commands| async move {
            while let Some(command) = commands.recv().await {
                sender.send((command.request, command.role)).unwrap();
                let _ = command.reply.send(Ok(changed("ok")));
            }
        },
    );
    let mut stream = daemon.connect_read_only();
    let drain = br#"{"jsonrpc":"2.0","id":2,"method":"backend.drain","params":{"backend":"a/b"}}"#;
    for line in [RELOAD, &[&drain[..], b"\n"].concat()] {
        stream.write_all(line).unwrap();
        let answer = answer_from(&mut stream);
        assert_eq!(answer["error"]["code"], json!(5));
        let message = answer["error"]["message"].as_str().unwrap();
        let full = socket_in(daemon.directory.path()).display().to_string();
        assert!(message.contains(&format!("lodectl --socket {full}")), "{message}");
    }
    // The connection lives on.
    stream.write_all(SHOW).unwrap();
    assert_eq!(answer_from(&mut stream)["result"]["generation"], json!(7));
    daemon.assert_serves();
    daemon.stop();
    let arrived: Vec<_> = receiver.iter().collect();
    let methods: Vec<_> = arrived.iter().map(|(request, role)| (request.method(), *role)).collect();
    assert_eq!(methods, [("show.drops", Role::ReadOnly), ("reload", Role::Full)]);
}

#[test]
fn every_method_that_changes_something_is_refused_on_the_read_only_socket() {
    let daemon = Daemon::start_with(
        |_| {},
        |mut commands| async move {
            while let Some(command) = commands.recv().await {
                assert!(!command.request.is_change(), "{:?}", command.request);
                let _ = command.reply.send(Ok(changed("ok")));
            }
        },
    );
    let mut stream = daemon.connect_read_only();
    let mut refused = 0;
    for (method, params) in EXAMPLES.iter().filter(|(method, _)| *method != "subscribe") {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        stream.write_all(line.as_bytes()).unwrap();
        let answer = answer_from(&mut stream);
        refused += usize::from(answer.pointer("/error/code") == Some(&json!(5)));
    }
    let changes = Request::METHODS.iter().filter(|method| method.access == Access::Change);
    assert_eq!(refused, changes.count());
}
