//! Backends by the names that people give them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::shortened;

/// A backend as people name it: `pool/name`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(with = "String")]
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
            _ => Err(BadBackendName(shortened(text))),
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
