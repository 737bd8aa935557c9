use serde_json::{Value, json};

use super::params::{BackendParams, FlowFilter, ForceParams, NoParams};
use super::reply::ChangeReply;
use super::*;

fn refusal(line: &str) -> (i64, Option<Id>, String) {
    let refusal = parse_request(line.as_bytes()).expect_err(line);
    (refusal.error.code.0, refusal.id, refusal.error.message)
}

/// One of each method, in the order of the table, with as many parameters as it takes.
fn every_request() -> Vec<Request> {
    Request::METHODS
        .iter()
        .zip(EXAMPLES)
        .map(|(method, (name, params))| {
            assert_eq!(method.name, *name);
            let params = serde_json::value::RawValue::from_string((*params).to_owned()).unwrap();
            Request::read(name, Some(&params)).unwrap_or_else(|error| panic!("{name}: {error}"))
        })
        .collect()
}

/// A request of each method, in the order of the table.
pub(in crate::control) const EXAMPLES: &[(&str, &str)] = &[
    ("status", "{}"),
    ("show.services", "{}"),
    ("show.pools", "{}"),
    ("show.backends", "{}"),
    ("show.health", "{}"),
    ("show.drains", "{}"),
    ("show.workers", "{}"),
    ("show.ports", "{}"),
    ("show.tables", "{}"),
    ("show.conntrack", "{}"),
    (
        "show.flows",
        r#"{"filter":{"family":"ipv4","client":"192.0.2.0/24","backend":"web/b1","vip":"10.0.0.1","protocol":"tcp"},"limit":10}"#,
    ),
    ("show.drops", "{}"),
    ("show.neighbours", "{}"),
    ("show.events", r#"{"after":7,"limit":0}"#),
    ("show.config", "{}"),
    ("show.version", "{}"),
    ("config.diff", "{}"),
    (
        "explain.flow",
        r#"{"source":"192.0.2.7","source_port":0,"destination":"fd00::1","destination_port":80,"protocol":"udp"}"#,
    ),
    ("subscribe", r#"{"events":true,"stats_interval_ms":1000}"#),
    (
        "service.add",
        r#"{"service":"www","pools":["web"],"vips":[{"address":"192.0.2.1","protocol":"tcp","ports":"80,443","arp":true}],"idle_timeout_ms":1000}"#,
    ),
    ("service.remove", r#"{"service":"www","force":true}"#),
    ("service.drain", r#"{"service":"www"}"#),
    ("service.enable", r#"{"service":"www"}"#),
    ("service.disable", r#"{"service":"www"}"#),
    ("service.reorder", r#"{"service":"www","pools":["far","web"],"force":true}"#),
    (
        "pool.add",
        r#"{"pool":"web","backends":[{"name":"b1","address":"10.0.0.1","weight":0,"virtual_network":"v","probe_address":"10.9.0.1"}],"monitor":"http","threshold":1,"table_size":65537,"region":"r","zone":"z"}"#,
    ),
    ("pool.remove", r#"{"pool":"web"}"#),
    ("pool.drain", r#"{"pool":"web"}"#),
    ("pool.enable", r#"{"pool":"web"}"#),
    ("pool.disable", r#"{"pool":"web"}"#),
    ("pool.threshold", r#"{"pool":"web","threshold":2,"force":true}"#),
    (
        "backend.add",
        r#"{"backend":"web/b1","address":"10.0.0.1","weight":0,"virtual_network":"v","probe_address":"10.9.0.1","admin_state":"draining"}"#,
    ),
    ("backend.remove", r#"{"backend":"web/b1"}"#),
    ("backend.weight", r#"{"backend":"web/b1","weight":0}"#),
    ("backend.drain", r#"{"backend":"web/b1"}"#),
    ("backend.enable", r#"{"backend":"web/b1"}"#),
    ("backend.disable", r#"{"backend":"web/b1","force":true}"#),
    (
        "apply",
        r#"{"changes":[{"method":"backend.drain","params":{"backend":"web/b1"}},{"method":"pool.remove","params":{"pool":"old"}}],"force":true}"#,
    ),
    ("conntrack.flush", r#"{"filter":{"client":"192.0.2.7/32"},"force":true}"#),
    ("reload", r#"{"force":true}"#),
    ("config.save", "{}"),
];

#[test]
fn every_example_is_written_as_it_was_read() {
    // HP-40: among them a weight and a limit of 0, which are not the same as none.
    assert_eq!(EXAMPLES.len(), Request::METHODS.len());
    for (request, (method, params)) in every_request().iter().zip(EXAMPLES) {
        let line: Value = serde_json::from_str(&request_line(&Id::Number(1), request)).unwrap();
        let expected: Value = serde_json::from_str(params).unwrap();
        assert_eq!(line.get("params").unwrap_or(&json!({})), &expected, "{method}");
    }
}

#[test]
fn only_changes_can_be_among_several() {
    let line = |method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"apply","params":{{"changes":[{{"method":"{method}"}}]}}}}"#
        )
    };
    for (method, word) in [
        ("status", "cannot be one of several"),
        ("reload", "cannot be one of several"),
        ("conntrack.flush", "cannot be one of several"),
        ("apply", "cannot be one of several"),
        ("service", "cannot be one of several"),
        ("backend.", "no method"),
        ("backend.frob", "no method"),
        ("backend.drain", "backend"),
    ] {
        let (code, _, message) = refusal(&line(method));
        assert_eq!(code, -32602, "{method}: {message}");
        assert!(message.contains(word), "{method}: {message}");
    }
}

// As deep as a line is long: what is read must not depend on how deep it is.
#[test]
fn changes_within_changes_are_refused_however_deep() {
    let opening = r#"{"method":"apply","params":{"changes":["#;
    let depth = super::REQUEST_CAP / (opening.len() + "]}}".len()) - 1;
    let nested = opening.repeat(depth) + &"]}}".repeat(depth);
    let line = nested.replacen('{', r#"{"jsonrpc":"2.0","id":1,"#, 1);
    assert!(line.len() > super::REQUEST_CAP / 2 && line.len() <= super::REQUEST_CAP);
    let (code, _, message) = refusal(&line);
    assert_eq!(code, -32602, "{message}");
    assert!(message.contains("apply cannot be one of several"), "{message}");
}

#[test]
fn a_client_is_an_address_or_a_network() {
    for (written, read) in [
        ("192.0.2.7", "192.0.2.7/32"),
        ("192.0.2.7/24", "192.0.2.0/24"),
        ("2001:db8::1", "2001:db8::1/128"),
    ] {
        assert_eq!(params::parse_network(written).unwrap().to_string(), read);
        let filter: FlowFilter = serde_json::from_value(json!({"client": written})).unwrap();
        assert_eq!(filter.client.unwrap().to_string(), read);
    }
    let filter: FlowFilter = serde_json::from_value(json!({"client": null})).unwrap();
    assert_eq!(filter.client, None);
    let error = serde_json::from_value::<FlowFilter>(json!({"client": "example"})).unwrap_err();
    assert!(error.to_string().contains("write an address or a network"), "{error}");
}

#[test]
fn every_request_survives_the_wire() {
    let requests = every_request();
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
    let request =
        Request::BackendDrain(BackendParams { backend: "web/b1".parse().unwrap(), force: false });
    assert_eq!(
        request_line(&Id::Number(1), &request),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"backend.drain\",\"params\":{\"backend\":\"web/b1\"}}\n"
    );
    assert_eq!(
        request_line(&Id::Text("x".into()), &Request::Status(NoParams {})),
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
        ("backend.drain", r#"{"backend":"web/b1","now":true}"#, "now"),
        ("backend.drain", r#"{"backend":"web/b1","backend":"web/b2"}"#, "duplicate"),
    ];
    for (method, params, word) in cases {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let (code, id, message) = refusal(&line);
        assert_eq!((code, id), (-32602, Some(Id::Number(1))), "{line}: {message}");
        assert!(message.contains(word), "{line}: {message}");
    }
    let nothing = r#"{"jsonrpc":"2.0","id":1,"method":"reload","params":{}}"#;
    assert_eq!(
        parse_request(nothing.as_bytes()),
        Ok((Id::Number(1), Request::Reload(ForceParams { force: false })))
    );
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
