//! Why a probe failed.

use std::fmt;
use std::io;

/// Why a probe failed, as far as the probe can tell. The text is short and stable: `refused`,
/// `timeout`, `bad-status 503`. (OPS-05)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing listens on the port: the connection was answered with a reset.
    Refused,
    /// No full answer within the monitor's timeout.
    Timeout,
    /// No route to the backend, or a router or firewall on the way said no.
    Unreachable,
    /// The connection opened and was then reset.
    Reset,
    /// The connection opened and was closed before the answer was complete.
    Closed,
    /// The answer came with a status that is not expected.
    BadStatus(u16),
    /// The answer is not of the protocol, or larger than a probe accepts.
    BadReply,
    /// The monitor's `path` or `host` cannot be written into a request.
    BadRequest,
    /// The appliance had no descriptor, memory or local port for the probe.
    NoSocket,
    /// Management itself did not run while the probe was under way.
    Stalled,
    /// Another error of the operating system, by its number.
    Os(i32),
}

impl Cause {
    /// Whether the cause lies in the appliance and so says nothing about the backend. Such a result
    /// is kept for people to see and moves no state: an appliance short of descriptors must not
    /// declare all of its backends dead.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::NoSocket | Self::Stalled)
    }

    /// The short name, without the number that some causes have.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::BadStatus(_) => "bad-status",
            Self::BadReply => "bad-reply",
            Self::BadRequest => "bad-request",
            Self::NoSocket => "no-socket",
            Self::Stalled => "stalled",
            Self::Os(_) => "os-error",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadStatus(status) => write!(f, "{} {status}", self.name()),
            Self::Os(number) => write!(f, "{} {number}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

impl From<&io::Error> for Cause {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionRefused => Self::Refused,
            Kind::TimedOut => Self::Timeout,
            // A firewall's "administratively prohibited" arrives as EACCES, a local one's as EPERM.
            Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::PermissionDenied => Self::Unreachable,
            Kind::ConnectionReset | Kind::ConnectionAborted => Self::Reset,
            Kind::BrokenPipe | Kind::UnexpectedEof | Kind::NotConnected => Self::Closed,
            // connect(2): every ephemeral port towards this destination is in use.
            Kind::AddrNotAvailable | Kind::OutOfMemory => Self::NoSocket,
            _ => match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::EAGAIN) => Self::NoSocket,
                Some(number) => Self::Os(number),
                None => Self::BadReply,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OPS-05
    #[test]
    fn causes_have_short_names() {
        for (cause, text) in [
            (Cause::Refused, "refused"),
            (Cause::Timeout, "timeout"),
            (Cause::BadStatus(503), "bad-status 503"),
            (Cause::Os(97), "os-error 97"),
            (Cause::NoSocket, "no-socket"),
        ] {
            assert_eq!(cause.to_string(), text);
        }
    }

    #[test]
    fn errors_of_the_system_become_causes() {
        for (number, cause) in [
            (libc::ECONNREFUSED, Cause::Refused),
            (libc::ETIMEDOUT, Cause::Timeout),
            (libc::EHOSTUNREACH, Cause::Unreachable),
            (libc::ENETUNREACH, Cause::Unreachable),
            (libc::EACCES, Cause::Unreachable),
            (libc::ECONNRESET, Cause::Reset),
            (libc::EPIPE, Cause::Closed),
            (libc::EMFILE, Cause::NoSocket),
            (libc::EADDRNOTAVAIL, Cause::NoSocket),
            (libc::EAFNOSUPPORT, Cause::Os(libc::EAFNOSUPPORT)),
        ] {
            assert_eq!(Cause::from(&io::Error::from_raw_os_error(number)), cause, "{number}");
        }
    }
}
