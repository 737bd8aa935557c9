//! `docs/admin-api.md` and the protocol's types say the same.

use lodestone::control::protocol::{
    BackendsReply, ChangeReply, ConntrackReply, DropsReply, Request, RequestError, Response,
    ServicesReply, StatusReply, WorkersReply, parse_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const DOCS: &str = include_str!("../docs/admin-api.md");

/// Method, example request and example response of each section.
fn sections() -> Vec<(&'static str, &'static str, &'static str)> {
    let sections = DOCS.split("\n### `").skip(1);
    let sections = sections.map(|section| {
        let (method, text) = section.split_once('`').expect("a heading is one method");
        let (_, example) = text.split_once("```json\n").expect("a method has an example");
        let mut lines = example.lines();
        (method, lines.next().unwrap(), lines.next().unwrap())
    });
    sections.collect()
}

/// The example has every member that the type knows and no other.
fn assert_is<T: DeserializeOwned + Serialize>(result: &str) {
    let typed: T = serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {result}"));
    let written: Value = serde_json::from_str(result).unwrap();
    assert_eq!(serde_json::to_value(typed).unwrap(), written);
}

#[test]
fn every_method_is_documented_and_no_other() {
    let documented: Vec<_> = sections().into_iter().map(|(method, _, _)| method).collect();
    assert_eq!(documented, Request::METHODS);
}

#[test]
fn examples_are_of_the_protocols_types() {
    for (method, request, response) in sections() {
        let (_, request) = parse_request(request.as_bytes()).expect(method);
        assert_eq!(request.method(), method);
        let response: Response<'_> = serde_json::from_str(response).expect(method);
        assert!(response.error.is_none(), "{method}");
        let result = response.result.expect(method).get();
        match request {
            Request::Status => assert_is::<StatusReply>(result),
            Request::ShowServices => assert_is::<ServicesReply>(result),
            Request::ShowBackends => assert_is::<BackendsReply>(result),
            Request::ShowWorkers => assert_is::<WorkersReply>(result),
            Request::ShowDrops => assert_is::<DropsReply>(result),
            Request::ShowConntrack => assert_is::<ConntrackReply>(result),
            Request::BackendDrain(_)
            | Request::BackendEnable(_)
            | Request::BackendDisable(_)
            | Request::Reload => assert_is::<ChangeReply>(result),
        }
    }
}

#[test]
fn the_example_error_is_one() {
    let (_, errors) = DOCS.split_once("## Errors").unwrap();
    let (_, example) = errors.split_once("```json\n").unwrap();
    let response: Response<'_> = serde_json::from_str(example.lines().next().unwrap()).unwrap();
    let error: RequestError = response.error.unwrap();
    assert_eq!((error.code.0, error.data.len()), (2, 1));
}
