//! Why the daemon did not start.

use crate::config::LoadError;
use crate::control::ManagementError;
use crate::control::admin::AdminError;
use crate::control::metrics::EndpointError;
use crate::dpdk::DpdkError;

/// Why the daemon did not start, in a sentence that says the mend.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong: every mistake, one a line.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The CPU is older than the build.
    #[error(
        "this CPU lacks {missing}; use a machine of the x86-64-v3 level (2013 or later), or build \
         with another target-cpu in .cargo/config.toml"
    )]
    OldCpu {
        /// The missing features.
        missing: String,
    },
    /// A core is not there.
    #[error(
        "`cpu.{key}` names core {core}, which does not exist or is not allowed here; the cores of \
         this machine that the daemon may use are {allowed}"
    )]
    NoSuchCore {
        /// The key that names it.
        key: &'static str,
        /// The core.
        core: usize,
        /// The cores that may be used.
        allowed: String,
    },
    /// A thread could not be pinned.
    #[error("a thread could not be pinned to core {core}; check the cpuset of the daemon's cgroup")]
    Pin {
        /// The core.
        core: usize,
    },
    /// A port, its memory or EAL did not start.
    #[error(transparent)]
    Dpdk(#[from] DpdkError),
    /// The admin socket could not be made.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// Management did not start.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// The operating system did not start a thread.
    #[error("worker {worker} did not start: {source}; raise the limit of threads")]
    Thread {
        /// Which worker.
        worker: u16,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The watchdog's thread did not start.
    #[error("the watchdog did not start: {source}; raise the limit of threads")]
    Watchdog {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A worker thread failed before it polled.
    #[error("worker {worker} did not start: {reason}")]
    Worker {
        /// Which worker.
        worker: u16,
        /// Its own sentence.
        reason: String,
    },
}
