//! Why a request was refused.

use serde::{Deserialize, Serialize};

/// The class of a refusal: JSON-RPC 2.0 §5.1 reserves −32768..=−32000; ours are positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// The line is not JSON in UTF-8.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// JSON, but not a request that this protocol allows.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// No such method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The method does not take these parameters.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The daemon cannot answer; nothing is known about the request's effect.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// What the request names does not exist.
    pub const NOT_FOUND: Self = Self(1);
    /// The configuration file is refused; `data` has one sentence a mistake.
    pub const CONFIG_REFUSED: Self = Self(2);
    /// The change is published, but a worker has not adopted it within a second; `data` names the
    /// workers.
    pub const NOT_ADOPTED: Self = Self(3);
    /// Every admin connection is at work, or too many questions wait for the workers.
    pub const TOO_MANY_CONNECTIONS: Self = Self(4);
    /// The request changes something, and this is the read-only socket.
    pub const READ_ONLY: Self = Self(5);
    /// The change would make a configuration that is not valid; `data` may list the mistakes.
    pub const INVALID_CHANGE: Self = Self(7);
    /// The configuration file could not be written.
    pub const NOT_WRITTEN: Self = Self(8);
    /// It would lose something that may not be meant to be lost; `data` says what. It can be forced.
    pub const REFUSED: Self = Self(6);
}

/// A refusal: the `error` member of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    /// Its class.
    pub code: ErrorCode,
    /// A sentence that says what was wrong and what to do.
    pub message: String,
    /// Details, one sentence each: every mistake of a configuration, for instance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<String>,
}

impl RequestError {
    /// A refusal without details.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Vec::new() }
    }

    /// The same refusal with details.
    #[must_use]
    pub fn with_data(mut self, data: Vec<String>) -> Self {
        self.data = data;
        self
    }

    /// The control loop does not answer.
    #[must_use]
    pub fn control_loop_gone() -> Self {
        Self::new(
            ErrorCode::INTERNAL_ERROR,
            "the control loop did not answer (forwarding goes on); try again in a second, and look \
             at the daemon's log if it stays so",
        )
    }
}

/// `text` cut to what a message can carry. A client's bytes come back to it, but not 64 KiB of them.
pub(super) fn shortened(text: &str) -> String {
    const CAP: usize = 64;
    if text.chars().nth(CAP).is_none() {
        return text.to_owned();
    }
    text.chars().take(CAP).chain(['…']).collect()
}
