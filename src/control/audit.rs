//! Who changed what, and how it ended.

use std::fmt;

use serde::Serialize;

use super::admin::{PeerCredentials, Role};
use super::protocol::{Request, RequestError};

/// Longest text of a request in an audit line, in bytes. A client chooses how long a request is.
const REQUEST_CAP: usize = 4_096;

/// A request that changes something, after it was done or refused: a line of the log, and an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// User id of the client when it connected; absent for a signal, which does not tell who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group id of the client when it connected; absent for a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Process id of the client when it connected; absent if the kernel does not tell.
    pub pid: Option<i32>,
    /// The socket it used; absent for a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What it asked: the request's debug form on one line, cut to 4 KiB.
    pub request: String,
    /// What came of it.
    pub outcome: AuditOutcome,
}

/// What came of a request that changes something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It is the desired state now.
    Changed,
    /// It was so before.
    Unchanged,
    /// It has no effect, for this reason.
    Refused(String),
}

impl Audit {
    /// What `peer` asked through the socket of `role`, and whether that changed anything.
    #[must_use]
    pub fn new(
        peer: PeerCredentials,
        role: Role,
        request: &Request,
        outcome: Result<bool, &RequestError>,
    ) -> Self {
        let PeerCredentials { uid, gid, pid } = peer;
        Self {
            uid: Some(uid),
            gid: Some(gid),
            pid,
            role: Some(role),
            request: cut(format!("{request:?}")),
            outcome: AuditOutcome::of(outcome),
        }
    }

    /// What a signal asked, such as `SIGHUP`, and whether that changed anything.
    #[must_use]
    pub fn of_signal(signal: &str, outcome: Result<bool, &RequestError>) -> Self {
        Self {
            uid: None,
            gid: None,
            pid: None,
            role: None,
            request: signal.to_owned(),
            outcome: AuditOutcome::of(outcome),
        }
    }

    /// Writes the line: message `audit` or `audit: refused`, target `audit`, of which the log leaves
    /// none out. What was refused since the socket is read-only has the target `refused`, whose lines
    /// are limited as all others are: who may change nothing must not fill the log either.
    pub fn log(&self) {
        let Self { uid, gid, pid, role, request, outcome } = self;
        let is_read_only = *role == Some(Role::ReadOnly);
        let role = role.map(tracing::field::display);
        match outcome {
            AuditOutcome::Refused(error) if is_read_only => {
                tracing::info!(target: "refused", request, uid, gid, pid, role, error, "audit: refused");
            }
            AuditOutcome::Refused(error) => {
                tracing::info!(target: "audit", request, uid, gid, pid, role, error, "audit: refused");
            }
            AuditOutcome::Changed | AuditOutcome::Unchanged => {
                let changed = *outcome == AuditOutcome::Changed;
                tracing::info!(target: "audit", request, uid, gid, pid, role, changed, "audit");
            }
        }
    }
}

impl fmt::Display for Audit {
    /// One sentence, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.uid, self.role) {
            (Some(uid), Some(role)) => {
                write!(f, "user {uid} ")?;
                if let Some(pid) = self.pid {
                    write!(f, "(process {pid}) ")?;
                }
                write!(f, "asked for {} on the {role} socket", self.request)?;
            }
            _ => write!(f, "a signal came: {}", self.request)?,
        }
        match &self.outcome {
            AuditOutcome::Changed => f.write_str(", and it was done"),
            AuditOutcome::Unchanged => f.write_str(", and it was so already"),
            AuditOutcome::Refused(error) => write!(f, ", and it was refused: {error}"),
        }
    }
}

impl AuditOutcome {
    fn of(outcome: Result<bool, &RequestError>) -> Self {
        match outcome {
            Ok(true) => Self::Changed,
            Ok(false) => Self::Unchanged,
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > REQUEST_CAP {
        text.truncate(text.floor_char_boundary(REQUEST_CAP));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::{BackendName, ErrorCode};

    const PEER: PeerCredentials = PeerCredentials { uid: 1_000, gid: 100, pid: Some(7) };

    #[test]
    fn an_audit_says_who_what_and_the_outcome() {
        let request = Request::BackendDrain("web/b1".parse::<BackendName>().unwrap().into());
        let refusal = RequestError::new(ErrorCode::NOT_FOUND, "there is no backend web/b1");
        let audit = Audit::new(PEER, Role::Full, &request, Err(&refusal));
        let sentence = audit.to_string();
        assert!(sentence.starts_with("user 1000 (process 7) asked for BackendDrain"), "{sentence}");
        assert!(
            sentence
                .ends_with("on the full socket, and it was refused: there is no backend web/b1"),
            "{sentence}"
        );
        let json = serde_json::to_value(&audit).unwrap();
        assert_eq!(
            (&json["uid"], &json["gid"], &json["pid"]),
            (&1_000.into(), &100.into(), &7.into())
        );
        assert_eq!(json["role"], "full");
        assert_eq!(json["outcome"]["refused"], "there is no backend web/b1");
        let done = Audit::new(PEER, Role::Full, &request, Ok(true));
        assert_eq!(serde_json::to_value(&done).unwrap()["outcome"], "changed");
        assert_eq!(
            Audit::new(PEER, Role::Full, &request, Ok(false)).outcome,
            AuditOutcome::Unchanged
        );
    }

    #[test]
    fn a_signal_has_a_line_without_a_sender() {
        let audit = Audit::of_signal("SIGHUP (reload)", Ok(true));
        assert_eq!(audit.to_string(), "a signal came: SIGHUP (reload), and it was done");
        let json = serde_json::to_value(&audit).unwrap();
        assert!(json.get("uid").is_none() && json.get("role").is_none(), "{json}");
    }

    #[test]
    fn a_request_stays_on_one_line_of_bounded_length() {
        for name in ["web/b\n1\u{1b}[2J".to_owned(), format!("web/{}", "ä".repeat(30_000))] {
            let request = Request::BackendDrain(name.parse::<BackendName>().unwrap().into());
            let audit = Audit::new(PEER, Role::ReadOnly, &request, Ok(true));
            assert!(audit.request.len() <= REQUEST_CAP + '…'.len_utf8());
            assert!(!audit.request.contains(|c: char| c.is_control()), "{}", audit.request);
        }
    }
}
