use serde_json::{Value, json};

use super::*;

fn refusal(line: &str) -> (i64, Option<Id>, String) {
    let refusal = parse_request(line.as_bytes()).expect_err(line);
    (refusal.error.code.0, refusal.id, refusal.error.message)
}

fn every_request() -> Vec<Request> {
    let backend: BackendName = "web/b1".parse().unwrap();
    vec![
        Request::Status,
        Request::ShowServices,
        Request::ShowBackends,
        Request::ShowWorkers,
        Request::ShowDrops,
        Request::ShowConntrack,
        Request::BackendDrain(backend.clone()),
        Request::BackendEnable(backend.clone()),
        Request::BackendDisable(backend),
        Request::Reload,
    ]
}

#[test]
fn every_request_survives_the_wire() {
    let requests = every_request();
    let methods: Vec<_> = requests.iter().map(Request::method).collect();
    assert_eq!(methods, Request::METHODS);
    for request in requests {
        for id in [Id::Number(-7), Id::Text("a\nb".into())] {
            let line = request_line(&id, &request);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            let parsed = parse_request(line.trim_end_matches('\n').as_bytes());
            assert_eq!(parsed, Ok((id, request.clone())));
        }
    }
}

#[test]
fn the_wire_format_is_json_rpc() {
    let request = Request::BackendDrain("web/b1".parse().unwrap());
    assert_eq!(
        request_line(&Id::Number(1), &request),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"backend.drain\",\"params\":{\"backend\":\"web/b1\"}}\n"
    );
    assert_eq!(
        request_line(&Id::Text("x".into()), &Request::Status),
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"status\"}\n"
    );
    let change =
        ChangeReply { generation: 8, changed: true, workers_adopted: 2, warnings: Vec::new() };
    assert_eq!(
        response_line(Some(&Id::Number(1)), &Ok(Reply::from(change))),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"generation\":8,\"changed\":true,\"workers_adopted\":2}}\n"
    );
    let error = RequestError::new(ErrorCode::NOT_FOUND, "no");
    assert_eq!(
        response_line::<()>(None, &Err(error)),
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"no\"}}\n"
    );
}

#[test]
fn what_is_not_json_is_a_parse_error() {
    for line in ["", "  ", "garbage", "{", r#"{"jsonrpc":"2.0","#, "{} {}", "{}x", r#"{"unknown":"#]
    {
        let (code, id, message) = refusal(line);
        assert_eq!((code, id), (-32700, None), "{line:?}: {message}");
    }
    let invalid_utf8 = parse_request(b"{\"id\":\"\xff\"}").unwrap_err();
    assert_eq!(invalid_utf8.error.code, ErrorCode::PARSE_ERROR);
}

#[test]
fn what_is_no_request_is_invalid() {
    let cases = [
        ("[]", "batches"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#, "batches"),
        // Positional members of a derived struct must not slip through.
        (r#"["2.0",1,"status",null]"#, "batches"),
        ("7", "object"),
        ("null", "object"),
        (r#"{"jsonrpc":"2.0","method":"status"}"#, "notifications"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"status"}"#, "notifications"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"status"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"status"}"#, "id"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"status","extra":1}"#, "extra"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"status"}"#, "duplicate"),
    ];
    for (line, word) in cases {
        let (code, id, message) = refusal(line);
        assert_eq!((code, id), (-32600, None), "{line}: {message}");
        assert!(message.contains(word), "{line}: {message}");
    }
    let cases = [
        (r#"{"id":1,"method":"status"}"#, "jsonrpc"),
        (r#"{"jsonrpc":2.0,"id":1,"method":"status"}"#, "jsonrpc"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"status"}"#, "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "method"),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "method"),
    ];
    for (line, word) in cases {
        let (code, id, message) = refusal(line);
        assert_eq!((code, id), (-32600, Some(Id::Number(1))), "{line}: {message}");
        assert!(message.contains(word), "{line}: {message}");
    }
}

#[test]
fn an_unknown_method_is_told_the_known_ones() {
    let (code, id, message) = refusal(r#"{"jsonrpc":"2.0","id":"q","method":"backend.drian"}"#);
    assert_eq!((code, id), (-32601, Some(Id::Text("q".into()))));
    assert!(message.contains("backend.drain") && message.contains("reload"), "{message}");
}

#[test]
fn parameters_are_exact() {
    let cases = [
        ("status", r#"{"verbose":true}"#, "verbose"),
        ("status", "[]", "by name"),
        ("backend.drain", "{}", "backend"),
        ("backend.drain", r#"["web/b1"]"#, "by name"),
        ("backend.drain", r#"{"backend":"b1"}"#, "\"web/b1\""),
        ("backend.drain", r#"{"backend":"/b1"}"#, "\"web/b1\""),
        ("backend.drain", r#"{"backend":7}"#, "string"),
        ("backend.drain", r#"{"backend":"web/b1","force":true}"#, "force"),
        ("backend.drain", r#"{"backend":"web/b1","backend":"web/b2"}"#, "duplicate"),
    ];
    for (method, params, word) in cases {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let (code, id, message) = refusal(&line);
        assert_eq!((code, id), (-32602, Some(Id::Number(1))), "{line}: {message}");
        assert!(message.contains(word), "{line}: {message}");
    }
    let nothing = r#"{"jsonrpc":"2.0","id":1,"method":"reload","params":{}}"#;
    assert_eq!(parse_request(nothing.as_bytes()), Ok((Id::Number(1), Request::Reload)));
}

#[test]
fn a_refusal_does_not_echo_a_long_request() {
    let long = "x".repeat(60_000);
    for line in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{long}"}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"backend.drain","params":{{"backend":"{long}"}}}}"#
        ),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"status","params":{{"{long}":1}}}}"#),
        format!(r#"{{"{long}":1}}"#),
    ] {
        let (_, _, message) = refusal(&line);
        assert!(message.len() < 1024, "{}", message.len());
    }
}

/// Checks what holds for every line: no panic, and an answer of exactly one line of JSON.
fn check_any_line(line: &[u8]) {
    let answer = match parse_request(line) {
        Ok((id, request)) => response_line(Some(&id), &Ok(request.method())),
        Err(refusal) => response_line::<()>(refusal.id.as_ref(), &Err(refusal.error)),
    };
    assert_eq!(answer.find('\n'), Some(answer.len() - 1));
    let value: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(value["jsonrpc"], json!("2.0"));
    assert!(value.get("result").is_some() != value.get("error").is_some());
}

#[test]
fn any_bytes_get_one_line_of_json() {
    bolero::check!()
        .with_iterations(20_000)
        .with_type::<Vec<u8>>()
        .for_each(|line| check_any_line(line));
}

#[test]
fn any_mutation_of_a_request_gets_one_line_of_json() {
    const LINE: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"backend.drain","params":{"backend":"web/b1"}}"#;
    bolero::check!().with_iterations(20_000).with_type::<Vec<(u8, u8)>>().for_each(|edits| {
        let mut line = LINE.as_bytes().to_vec();
        for (place, byte) in edits {
            let place = usize::from(*place) % line.len();
            line[place] = *byte;
        }
        check_any_line(&line);
        check_any_line(&line[..edits.len().min(line.len())]);
    });
}
