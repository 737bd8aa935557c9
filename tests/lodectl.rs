//! The program against a daemon that gives canned answers: output, refusals, exit codes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

const DRAIN: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"backend.drain","params":{"backend":"web/b1"}}"#;
const CHANGED: &str = r#"{"generation":8,"changed":true,"workers_adopted":2}"#;

fn lodectl(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lodectl"));
    command.arg("--socket").arg(socket).args(arguments).output().unwrap()
}

/// Runs `lodectl` against one answer; returns what it sent, too.
fn answered(answer: &str, arguments: &[&str]) -> (String, Output) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("admin.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = format!("{answer}\n");
    let daemon = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut request = String::new();
        reader.read_line(&mut request).unwrap();
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
        request
    });
    let output = lodectl(&socket, arguments);
    (daemon.join().unwrap().trim_end().to_owned(), output)
}

fn result(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
}

#[test]
fn a_verb_is_asked_and_its_answer_shown() {
    let (request, output) = answered(&result(CHANGED), &["backend", "drain", "web/b1"]);
    assert_eq!(request, DRAIN);
    assert_eq!(output.stdout, b"done: 2 workers run generation 8\n");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn json_is_the_result_as_it_came() {
    // Members in an order, and with one, that this lodectl does not know.
    let odd = r#"{"new":[1, 2],"workers_adopted":2,"changed":true,"generation":8}"#;
    let (_, output) = answered(&result(odd), &["backend", "drain", "web/b1", "--json"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{odd}\n"));
}

#[test]
fn a_refusal_is_shown_for_every_verb() {
    let refusal =
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":2,"message":"no; mend it","data":["line 3"]}}"#;
    let verbs: [(&[&str], &str); 10] = [
        (&["status"], "status"),
        (&["show", "services"], "show.services"),
        (&["show", "backends"], "show.backends"),
        (&["show", "workers"], "show.workers"),
        (&["show", "drops", "--all"], "show.drops"),
        (&["show", "conntrack"], "show.conntrack"),
        (&["backend", "drain", "web/b1"], "backend.drain"),
        (&["backend", "enable", "web/b1"], "backend.enable"),
        (&["backend", "disable", "web/b1"], "backend.disable"),
        (&["reload"], "reload"),
    ];
    for (arguments, method) in verbs {
        let (request, output) = answered(refusal, arguments);
        assert!(request.contains(&format!(r#""method":"{method}""#)), "{request}");
        assert_eq!(output.status.code(), Some(1), "{method}");
        assert_eq!(output.stdout, b"", "{method}");
        assert_eq!(output.stderr, b"lodectl: no; mend it\n  - line 3\n", "{method}");
    }
}

#[test]
fn a_strange_answer_is_a_failure() {
    for answer in ["garbage", "{}", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, &result("{}")] {
        let (_, output) = answered(answer, &["reload"]);
        assert_eq!(output.status.code(), Some(1), "{answer}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("is lodectl of the daemon's version?"), "{answer}: {text}");
    }
}

#[test]
fn a_daemon_that_does_not_run_is_told() {
    let output = lodectl(Path::new("/nonexistent/admin.sock"), &["status"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is lodestoned running?"), "{text}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [&["backend", "drain", "b1"][..], &["show"], &["frobnicate"]] {
        assert_eq!(lodectl(Path::new("/x"), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn check_config_and_version_need_no_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    std::fs::write(&file, "unknown_key = 1\n").unwrap();
    let file = file.to_str().unwrap();
    let output = lodectl(Path::new("/x"), &["check-config", file]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("is not valid") && text.contains("unknown_key"), "{text}");
    let output = lodectl(Path::new("/x"), &["version"]);
    assert!(output.stdout.starts_with(b"lodectl "));
    assert_eq!(output.status.code(), Some(0));
}
