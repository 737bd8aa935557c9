//! The JSON-RPC 2.0 envelope: one line to a request, one reply to a line.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{ErrorCode, Request, RequestError};

/// Correlates a response with its request; the client's choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

/// A line that is not a request, and whose it was as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request's id if it could be read.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub error: RequestError,
}

/// A response as the client reads it: exactly one of `result` and `error` is there.
#[derive(Debug, Deserialize)]
pub struct Response<'a> {
    /// Always `"2.0"`.
    pub jsonrpc: &'a str,
    /// The request's id; absent if the daemon could not read it.
    pub id: Option<Id>,
    /// The answer, byte for byte.
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    /// The refusal.
    pub error: Option<RequestError>,
}

/// A notification as the client reads it: what a subscription brings.
#[derive(Debug, Deserialize)]
pub struct Notification<'a> {
    /// Always `"2.0"`.
    pub jsonrpc: &'a str,
    /// `event`, `stats` or `lost`.
    pub method: &'a str,
    /// The event, the counters, or how many events were left out.
    #[serde(borrow)]
    pub params: &'a RawValue,
}

/// JSON-RPC 2.0 §4. `RawValue` keeps each member's text, so that repeated members inside it are
/// still there to be refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Reads one line (without its newline) as a request.
///
/// # Errors
///
/// A [`Refusal`] for every line that is not exactly one request of a known method with the
/// parameters it takes. It never panics and never ignores a part of the line.
pub fn parse_request(line: &[u8]) -> Result<(Id, Request), Refusal> {
    let anonymous = |error| Refusal { id: None, error };
    let envelope = read_envelope(line).map_err(anonymous)?;
    let id = read_id(&envelope).map_err(anonymous)?;
    match read_request(&envelope) {
        Ok(request) => Ok((id, request)),
        Err(error) => Err(Refusal { id: Some(id), error }),
    }
}

fn read_envelope(line: &[u8]) -> Result<Envelope<'_>, RequestError> {
    let parse_error = |what: &dyn std::fmt::Display| {
        RequestError::new(
            ErrorCode::PARSE_ERROR,
            format!("the line is not JSON ({what}); send one JSON-RPC 2.0 object a line"),
        )
    };
    let text = std::str::from_utf8(line).map_err(|error| parse_error(&error))?;
    // The whole line's syntax first: what follows may then be called an invalid request.
    let value: &RawValue = serde_json::from_str(text).map_err(|error| parse_error(&error))?;
    if value.get().starts_with('[') {
        return Err(invalid_request("batches are not served; send one request object a line"));
    }
    // Checked here since a derived struct would also read its members from an array.
    if !value.get().starts_with('{') {
        return Err(invalid_request("a request is a JSON object"));
    }
    serde_json::from_str(value.get()).map_err(|error| invalid_request(&message(&error)))
}

fn read_id(envelope: &Envelope<'_>) -> Result<Id, RequestError> {
    let Some(id) = envelope.id else {
        return Err(invalid_request(
            "the request has no id, and notifications are not served; add an \"id\" (an integer or \
             a string) that the response will carry",
        ));
    };
    serde_json::from_str(id.get())
        .map_err(|_| invalid_request("\"id\" must be a 64-bit integer or a string"))
}

fn read_request(envelope: &Envelope<'_>) -> Result<Request, RequestError> {
    if envelope.jsonrpc.and_then(text_of).as_deref() != Some("2.0") {
        return Err(invalid_request("the member \"jsonrpc\" must be \"2.0\""));
    }
    let Some(method) = envelope.method.and_then(text_of) else {
        return Err(invalid_request("the member \"method\" must be a string"));
    };
    Request::read(&method, envelope.params)
}

fn text_of(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

pub(super) fn read_params<'a, T: Deserialize<'a>>(
    method: &str,
    params: Option<&'a RawValue>,
) -> Result<T, RequestError> {
    let text = params.map_or("{}", RawValue::get);
    let refused = |what: &str| {
        let message = format!("the parameters of {method} are wrong: {what}");
        RequestError::new(ErrorCode::INVALID_PARAMS, message)
    };
    if !text.starts_with('{') {
        return Err(refused("they go by name, in an object"));
    }
    serde_json::from_str(text).map_err(|error| refused(&message(&error)))
}

fn invalid_request(what: &str) -> RequestError {
    RequestError::new(ErrorCode::INVALID_REQUEST, format!("the request is invalid: {what}"))
}

/// What serde says, without its "at line 1 column 23" (a request is one line) and without a long
/// echo of what the client sent.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    let text = &text[..end];
    let cut = text.char_indices().nth(512).map_or(text.len(), |(at, _)| at);
    text[..cut].to_owned()
}

/// One request as a line with its newline.
#[must_use]
pub fn request_line(id: &Id, request: &Request) -> String {
    struct Line<'a>(&'a Id, &'a Request);
    impl Serialize for Line<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut object = serializer.serialize_struct("Line", 4)?;
            object.serialize_field("jsonrpc", "2.0")?;
            object.serialize_field("id", self.0)?;
            object.serialize_field("method", self.1.method())?;
            self.1.serialize_params(&mut object)?;
            object.end()
        }
    }
    to_line(&Line(id, request))
}

/// One notification of a subscription as a line with its newline.
#[must_use]
pub fn notification_line<T: Serialize>(method: &str, params: &T) -> String {
    #[derive(Serialize)]
    struct Line<'a, T> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a T,
    }
    to_line(&Line { jsonrpc: "2.0", method, params })
}

/// One response as a line with its newline. `id` is absent if the request's could not be read.
#[must_use]
pub fn response_line<T: Serialize>(id: Option<&Id>, outcome: &Result<T, RequestError>) -> String {
    #[derive(Serialize)]
    struct Line<'a, T> {
        jsonrpc: &'static str,
        id: Option<&'a Id>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a T>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a RequestError>,
    }
    let (result, error) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    to_line(&Line { jsonrpc: "2.0", id, result, error })
}

/// JSON on one line. The types of this protocol always serialise (their map keys are strings, and
/// JSON writes a number that is not finite as null); should that ever be broken, the client gets an
/// internal error instead of the daemon a panic.
fn to_line<T: Serialize>(value: &T) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_else(|_| {
        let code = ErrorCode::INTERNAL_ERROR.0;
        format!(
            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"the answer cannot be written as JSON; please report this"}}}}"#
        )
    });
    line.push('\n');
    line
}
