//! The admin protocol: JSON-RPC 2.0, one object a line, over a UNIX stream socket.
//!
//! The daemon and `lodectl` share these types and nothing else. `docs/admin-api.md` describes every
//! method; a test holds the two together.
//!
//! Stricter than JSON-RPC 2.0, so that nothing is ignored in silence: batches are refused, and so
//! are notifications (a verb whose outcome nobody hears is a mistake); members and parameters that
//! a method does not know are errors, and so are repeated ones; parameters go by name.

mod envelope;
mod error;
mod reply;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use envelope::{Id, Refusal, Response, parse_request, request_line, response_line};
pub use error::{ErrorCode, RequestError};
pub use reply::{
    AdminState, BackendState, BackendsReply, ChangeReply, ConntrackReply, DropState, DropsReply,
    Family, Health, PoolBackends, PoolState, PoolSummary, PortStatus, ProbeResult, Reply,
    ServiceState, ServiceSummary, ServicesReply, ShardState, StatusReply, VipState, WorkerState,
    WorkerStatus, WorkersReply,
};

/// Where the daemon listens unless its configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/lodestone/admin.sock";

/// The longest request in bytes, without its newline.
pub const REQUEST_CAP: usize = 64 * 1024;

/// What an operator asks of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `status`: the appliance at a glance; answered with [`StatusReply`].
    Status,
    /// `show.services`; answered with [`ServicesReply`].
    ShowServices,
    /// `show.backends`; answered with [`BackendsReply`].
    ShowBackends,
    /// `show.workers`; answered with [`WorkersReply`].
    ShowWorkers,
    /// `show.drops`; answered with [`DropsReply`].
    ShowDrops,
    /// `show.conntrack`; answered with [`ConntrackReply`].
    ShowConntrack,
    /// `backend.drain`: no new flows, established ones stay; answered with [`ChangeReply`].
    BackendDrain(BackendName),
    /// `backend.enable`: takes new flows when healthy; answered with [`ChangeReply`].
    BackendEnable(BackendName),
    /// `backend.disable`: no flows at all; answered with [`ChangeReply`].
    BackendDisable(BackendName),
    /// `reload`: apply the configuration file again; answered with [`ChangeReply`].
    Reload,
}

impl Request {
    /// Every method, in the order of the documentation.
    pub const METHODS: [&str; 10] = [
        "status",
        "show.services",
        "show.backends",
        "show.workers",
        "show.drops",
        "show.conntrack",
        "backend.drain",
        "backend.enable",
        "backend.disable",
        "reload",
    ];

    /// The method's name on the wire.
    #[must_use]
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::ShowServices => "show.services",
            Self::ShowBackends => "show.backends",
            Self::ShowWorkers => "show.workers",
            Self::ShowDrops => "show.drops",
            Self::ShowConntrack => "show.conntrack",
            Self::BackendDrain(_) => "backend.drain",
            Self::BackendEnable(_) => "backend.enable",
            Self::BackendDisable(_) => "backend.disable",
            Self::Reload => "reload",
        }
    }

    /// Whether it changes something. Such a request is answered when every worker has adopted the
    /// change.
    #[must_use]
    pub const fn is_mutation(&self) -> bool {
        match self {
            Self::Status
            | Self::ShowServices
            | Self::ShowBackends
            | Self::ShowWorkers
            | Self::ShowDrops
            | Self::ShowConntrack => false,
            Self::BackendDrain(_)
            | Self::BackendEnable(_)
            | Self::BackendDisable(_)
            | Self::Reload => true,
        }
    }

    /// The backend it names, if it names one.
    #[must_use]
    pub const fn backend(&self) -> Option<&BackendName> {
        match self {
            Self::BackendDrain(backend)
            | Self::BackendEnable(backend)
            | Self::BackendDisable(backend) => Some(backend),
            _ => None,
        }
    }
}

/// A backend as people name it: `pool/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BackendName {
    /// Its pool; not empty, without `/`.
    pub pool: String,
    /// Its name in the pool; not empty.
    pub name: String,
}

/// The text does not name a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name a backend; write the pool and the backend's name, as in \"web/b1\"")]
pub struct BadBackendName(String);

impl FromStr for BackendName {
    type Err = BadBackendName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((pool, name)) if !pool.is_empty() && !name.is_empty() => {
                Ok(Self { pool: pool.to_owned(), name: name.to_owned() })
            }
            _ => Err(BadBackendName(error::shortened(text))),
        }
    }
}

impl TryFrom<String> for BackendName {
    type Error = BadBackendName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<BackendName> for String {
    fn from(backend: BackendName) -> Self {
        backend.to_string()
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

#[cfg(test)]
mod tests;
