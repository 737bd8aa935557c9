//! Why an edit is refused.

use std::fmt;

use super::super::key;

/// Names that are told instead of a near one, if there are no more than these.
const TOLD_NAMES: usize = 8;

/// What an edit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A `[[monitor]]`.
    Monitor,
    /// A `[[pool]]`.
    Pool,
    /// A `[[pool.backend]]`; its name is `POOL/BACKEND`.
    Backend,
    /// A `[[service]]`.
    Service,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Monitor => "monitor",
            Self::Pool => "pool",
            Self::Backend => "backend",
            Self::Service => "service",
        })
    }
}

/// An edit, or what it would make of the configuration, is refused. The texts name the object and
/// the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing has that name.
    #[error("there is no {kind} {name}; {hint}")]
    NotFound {
        /// What was looked for.
        kind: ObjectKind,
        /// The name, as the edit has it.
        name: String,
        /// Which name may be meant.
        hint: String,
    },
    /// Something has that name already.
    #[error("there is a {kind} {name} already; choose another name, or change that one")]
    Exists {
        /// What was to be added.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// Virtual network and address are another backend's.
    #[error(
        "backend {backend} would have the address of {other}, and so be the same; choose another \
         address, or give it a virtual_network of its own"
    )]
    SameBackend {
        /// What was to be added, as `POOL/BACKEND`.
        backend: String,
        /// What is there.
        other: String,
    },
    /// Services would be left with a pool that does not exist.
    #[error("pool {pool} is used by {}; remove it there first", services_of(.services))]
    PoolInUse {
        /// Its name.
        pool: String,
        /// The services that name it; not empty.
        services: Vec<String>,
    },
    /// A pool would be empty.
    #[error("pool {pool} would have no backend; add another one first, or remove the pool")]
    NoBackendLeft {
        /// Its name.
        pool: String,
    },
    /// A pool would have fewer backends than it needs to take flows.
    #[error(
        "pool {pool} would have {backends} backend(s) and a threshold of {threshold}, and so never \
         take a flow; lower the threshold first, or add backends"
    )]
    UnderThreshold {
        /// Its name.
        pool: String,
        /// Backends it would have.
        backends: usize,
        /// Healthy backends it needs.
        threshold: usize,
    },
    /// There would be more than 50,000 of something.
    #[error("there would be {count} {what}, and at most {most} can be; remove some first")]
    TooMany {
        /// Plural of what is counted.
        what: &'static str,
        /// How many there would be.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// The result breaks rules of the configuration: a sentence for each.
    #[error("{}", .mistakes.join("\n"))]
    Invalid {
        /// Not empty.
        mistakes: Vec<String>,
    },
}

impl EditError {
    pub(super) fn exists(kind: ObjectKind, name: &str) -> Self {
        Self::Exists { kind, name: name.to_owned() }
    }

    /// `names` are those that could be meant.
    pub(super) fn not_found<'n>(
        kind: ObjectKind,
        name: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Self {
        let names: Vec<_> = names.collect();
        let hint = match key::nearest(name, &names) {
            Some(near) => format!("did you mean {near}?"),
            None if names.is_empty() => format!("there is none yet; add a {kind} first"),
            None if names.len() <= TOLD_NAMES => format!("the {kind}s are {}", names.join(", ")),
            None => format!("choose one of the {} {kind}s", names.len()),
        };
        Self::NotFound { kind, name: name.escape_debug().to_string(), hint }
    }

    /// The backend that was not found, with its pool.
    pub(super) fn in_pool(self, pool: &str) -> Self {
        match self {
            Self::NotFound { kind, name, hint } => {
                Self::NotFound { kind, name: format!("{pool}/{name}"), hint }
            }
            other => other,
        }
    }
}

fn services_of(services: &[String]) -> String {
    match services {
        [one] => format!("service {one}"),
        many if many.len() <= TOLD_NAMES => format!("services {}", many.join(", ")),
        many => format!("services {} and {} more", many[..3].join(", "), many.len() - 3),
    }
}
