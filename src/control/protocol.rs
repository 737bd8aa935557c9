//! The admin protocol: JSON-RPC 2.0, one object a line, over a UNIX stream socket.
//!
//! The daemon and `lodectl` share these types and nothing else. [`Request::METHODS`] is the table of
//! methods; `docs/admin-api.md` is generated from it and from the types.
//!
//! Stricter than JSON-RPC 2.0, so that nothing is ignored in silence: batches are refused, and so
//! are notifications (a verb whose outcome nobody hears is a mistake); members and parameters that
//! a method does not know are errors, and so are repeated ones; parameters go by name.

mod backend_name;
mod envelope;
mod error;
mod method;
pub mod params;
pub mod reply;

pub use backend_name::{BackendName, BadBackendName};
pub use envelope::{
    Id, Notification, Refusal, Response, notification_line, parse_request, request_line,
    response_line,
};
pub use error::{ErrorCode, RequestError};
pub use method::{Access, Method, Request};
pub use reply::Reply;

/// Where the daemon listens unless its configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/lodestone/admin.sock";

/// The longest request in bytes, without its newline: several thousand changes at once.
pub const REQUEST_CAP: usize = 256 * 1024;

#[cfg(test)]
pub(in crate::control) mod tests;
