//! The watchdog: tells systemd that the appliance forwards, and how it is.
//!
//! A thread of its own on the management core. It sends the beat while every *worker* polls; if one
//! does not, systemd starts the daemon anew. Management that hangs is an alarm and no missed beat:
//! forwarding does not need it, and a restart would cost more than it mends.
//!
//! The thread depends on nothing that may hang with management: it takes no lock and writes no log.
//! Standard error may be full and whoever holds its lock stuck, so another thread logs for it.

mod judge;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use sd_notify::NotifyState;

use judge::{Finding, Judge};

use super::StartError;
use crate::control::{Notice, Pulse, WorkerRemote};
use crate::forward::DropReason;
use crate::id::WorkerId;
use crate::stats::StatsView;

/// Longest wait for the thread's end: a manager that reads nothing shall not hold up a stop.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Sentences that wait for the log.
const LOG_CAP: usize = 64;

/// The running watchdog. When it goes, systemd hears that the daemon stops.
#[derive(Debug)]
pub(super) struct Watchdog {
    pulse: Arc<Pulse>,
    ended: Receiver<()>,
}

impl Watchdog {
    /// Starts the watchdog's two threads, which run where the calling thread may run. Without
    /// `NOTIFY_SOCKET` they only log; without `WATCHDOG_USEC` there is no beat.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub(super) fn start(pulse: Arc<Pulse>, workers: &[Watched]) -> Result<Self, StartError> {
        let (log, sentences) = bounded(LOG_CAP);
        thread::Builder::new()
            .name("watchdog-log".into())
            .spawn(move || sentences.iter().for_each(Sentence::log))
            .map_err(|source| StartError::Watchdog { source })?;
        // Dropped at the thread's end, which is all that it says.
        let (running, ended) = bounded(0);
        let watch = Watch {
            judge: Judge::new(
                sd_notify::watchdog_enabled(),
                pulse.now(),
                workers.iter().map(Watched::polls),
            ),
            workers: workers.to_vec(),
            pulse: Arc::clone(&pulse),
            stage: "starts",
            before_reload: None,
            is_interrupted: false,
            status: String::new(),
            log,
        };
        thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || {
                watch.run();
                drop(running);
            })
            .map_err(|source| StartError::Watchdog { source })?;
        Ok(Self { pulse, ended })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pulse.tell(Notice::Stopping);
        // Nothing is ever sent: this returns when the thread ends, or when patience does.
        let _ = self.ended.recv_timeout(STOP_PATIENCE);
    }
}

/// The stage of an appliance that carries traffic.
const FORWARDS: &str = "forwards";

/// The stage of one that reads its configuration again.
const RELOADS: &str = "reads its configuration again";

/// A worker as the watchdog sees it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    id: WorkerId,
    core: usize,
    stats: StatsView<DropReason>,
}

impl From<&WorkerRemote> for Watched {
    fn from(worker: &WorkerRemote) -> Self {
        Self { id: worker.id, core: worker.core, stats: worker.stats.clone() }
    }
}

impl Watched {
    fn polls(&self) -> u64 {
        self.stats.polls()
    }
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
enum Sentence {
    Error(String),
    Info(String),
}

impl Sentence {
    fn log(self) {
        match self {
            Self::Error(text) => tracing::error!("{text}"),
            Self::Info(text) => tracing::info!("{text}"),
        }
    }
}

/// The thread's state.
struct Watch {
    judge: Judge,
    workers: Vec<Watched>,
    pulse: Arc<Pulse>,
    /// What the appliance does, in a word or two.
    stage: &'static str,
    /// What it did before it began to read its configuration again.
    before_reload: Option<&'static str>,
    /// Whether management waits after a failure.
    is_interrupted: bool,
    /// The status line that systemd has.
    status: String,
    log: Sender<Sentence>,
}

impl Watch {
    fn run(mut self) {
        self.tell(&[]);
        let notices = self.pulse.notices();
        let mut look_at = self.pulse.now() + self.judge.wait();
        loop {
            match notices.recv_timeout(look_at.saturating_sub(self.pulse.now())) {
                Ok(notice) => {
                    self.notice(notice);
                    if notice == Notice::Stopping {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // `self` holds the other end: this cannot be. Then there is nobody to watch.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // However many notices come: each beat has its time.
            if self.pulse.now() >= look_at {
                self.look();
                look_at = self.pulse.now() + self.judge.wait();
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        let (stage, news) = match notice {
            Notice::Interrupted | Notice::Resumed => {
                self.is_interrupted = notice == Notice::Interrupted;
                // A reload that management failed in is over.
                if let (RELOADS, Some(before)) = (self.stage, self.before_reload.take()) {
                    self.stage = before;
                    return self.tell(if before == FORWARDS { &[NotifyState::Ready] } else { &[] });
                }
                return self.tell(&[]);
            }
            Notice::Serving | Notice::Reloaded => (FORWARDS, NotifyState::Ready),
            Notice::Reloading => {
                if self.stage != RELOADS {
                    self.before_reload = Some(self.stage);
                }
                (RELOADS, NotifyState::Reloading)
            }
            Notice::Stopping => ("stops", NotifyState::Stopping),
        };
        self.stage = stage;
        self.tell(&[news]);
    }

    fn look(&mut self) {
        let polls = self.workers.iter().map(Watched::polls);
        let findings = self.judge.look(self.pulse.now(), polls, self.pulse.standstill());
        if findings.contains(&Finding::Beat) {
            self.tell(&[NotifyState::Watchdog]);
        } else if !findings.is_empty() {
            self.tell(&[]);
        }
        for finding in findings {
            if let Some(sentence) = self.sentence(finding) {
                // If none fits, the log stands still; the beat must not.
                let _ = self.log.try_send(sentence);
            }
        }
    }

    /// Sends news, and the status line if it changed.
    fn tell(&mut self, news: &[NotifyState<'_>]) {
        let status = self.status_line();
        let mut message = news.to_vec();
        if status != self.status {
            message.push(NotifyState::Status(&status));
        }
        // The manager may be gone for a moment, while it executes itself anew. The next beat comes.
        if !message.is_empty() && sd_notify::notify(&message).is_ok() {
            self.status = status;
        }
    }

    /// One line for `systemctl status`.
    fn status_line(&self) -> String {
        let standing: Vec<_> =
            self.judge.standing().filter_map(|place| self.workers.get(place)).collect();
        let mut parts =
            vec![format!("{} with {}", self.stage, counted(self.workers.len(), "worker"))];
        if !standing.is_empty() {
            let ids: Vec<_> = standing.iter().map(|worker| worker.id.to_string()).collect();
            parts.push(format!("does not poll: worker {}", ids.join(", ")));
        }
        if self.is_interrupted {
            parts.push("management failed and waits to start again".to_owned());
        }
        if self.judge.is_management_standing() {
            parts.push("management stands still".to_owned());
        }
        parts.join("; ")
    }

    fn sentence(&self, finding: Finding) -> Option<Sentence> {
        let worker = |place: usize| self.workers.get(place);
        match finding {
            Finding::Beat => None,
            Finding::WorkerStands { place, stood } => worker(place).map(|Watched { id, core, .. }| {
                Sentence::Error(format!(
                    "worker {id} has not polled for {:.1} s: no watchdog beat until it does; look \
                     at what else runs on core {core}",
                    stood.as_secs_f64()
                ))
            }),
            Finding::WorkerMoves { place, stood } => worker(place).map(|Watched { id, .. }| {
                let stood = stood.as_secs_f64();
                Sentence::Info(format!("worker {id} polls again, after {stood:.1} s"))
            }),
            Finding::ManagementStands { stood } => Some(Sentence::Error(format!(
                "management stands still for {:.1} s: forwarding goes on, but no probes and no \
                 verbs until it does; look at what else runs on its core",
                stood.as_secs_f64()
            ))),
            Finding::ManagementMoves => Some(Sentence::Info("management goes on".to_owned())),
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
