//! Keeping management running: started again whatever ends it, with a pause that grows.
//!
//! Workers forward without management (fail static), so nothing that ends it may end the daemon: a
//! restart of the daemon would cost the connection tables and mend no more than a restart of
//! management does.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::events::{EventKind, Severity};
use super::management::{Management, ManagementError};
use super::pulse::Notice;

/// The pause after the first failure. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Management that ran so long before it failed begins with [`FIRST_PAUSE`] again.
const CALM: Duration = Duration::from_mins(1);

/// While it waits it says so often that it is not stuck.
const BEAT: Duration = Duration::from_secs(1);

/// How long to wait before the next start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause(Option<Duration>);

impl Pause {
    /// The pause after a run that failed after `ran`.
    pub fn after(&mut self, ran: Duration) -> Duration {
        let next = match self.0 {
            Some(last) if ran < CALM => (last * 2).min(LONGEST_PAUSE),
            _ => FIRST_PAUSE,
        };
        *self.0.insert(next)
    }
}

/// The signals that management heeds. They outlive its runs: one that comes while it does not run is
/// heeded by the next run, or ends the pause.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAsks {
    Stop,
    Reload,
}

impl Signals {
    /// Needs a runtime at the time of the call only.
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next of them. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> SignalAsks {
        tokio::select! {
            _ = self.terminate.recv() => SignalAsks::Stop,
            _ = self.interrupt.recv() => SignalAsks::Stop,
            _ = self.hangup.recv() => SignalAsks::Reload,
        }
    }

    /// The next one that asks for a stop; what asks for a reload stays for [`Self::next`].
    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// How a run ended.
enum End {
    /// It was told to stop.
    Stopped,
    /// For this reason, which is a part of a sentence.
    Failed(String),
}

impl Management {
    /// Runs until SIGTERM, SIGINT or [`Stopper::stop`](super::Stopper::stop). If it panics, it is
    /// started again with its last state, after a pause of 100 ms that doubles up to 30 s; however
    /// often that happens, workers forward on.
    ///
    /// # Errors
    /// The runtime cannot be made at the start.
    pub fn run(&mut self) -> Result<(), ManagementError> {
        // What waits between two runs is made before anything may be short.
        let waiting = runtime()?;
        let mut signals = {
            let _context = waiting.enter();
            Signals::new()?
        };
        let mut first = Some(runtime()?);
        let mut pause = Pause::default();
        loop {
            let began = self.now();
            let runtime = first.take().map_or_else(runtime, Ok);
            let End::Failed(reason) = self.run_once(runtime, &mut signals) else { break };
            let pause = pause.after(self.now().saturating_sub(began));
            self.after_failure(&reason, pause);
            if waiting.block_on(self.wait(pause, &mut signals)) {
                break;
            }
            self.pulse.tell(Notice::Resumed);
        }
        self.record_appliance(EventKind::Stopping, Severity::Info, "it was told to stop");
        Ok(())
    }

    fn run_once(&mut self, runtime: io::Result<Runtime>, signals: &mut Signals) -> End {
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                return End::Failed(format!(
                    "cannot run: {error}; check the limits of open files and threads"
                ));
            }
        };
        // The runtime goes inside: what its tasks drop may panic as well.
        let run = AssertUnwindSafe(move || runtime.block_on(self.serve(signals)));
        match catch_unwind(run) {
            Ok(()) => End::Stopped,
            Err(_) => End::Failed("panicked".to_owned()),
        }
    }

    /// Counts and tells it. State is whole: a change is applied before anything that could fail
    /// follows.
    fn after_failure(&mut self, reason: &str, pause: Duration) {
        let pause = pause.as_secs_f64();
        let message = format!(
            "management {reason}; it starts again with its last state in {pause:.1} s, workers \
             forward on"
        );
        self.pulse.failed();
        self.pulse.tell(Notice::Interrupted);
        self.tally.management_restarted();
        let record = || {
            self.record_appliance(EventKind::ManagementRestarted, Severity::Error, &message);
        };
        if catch_unwind(AssertUnwindSafe(record)).is_err() {
            tracing::error!("{message}; the event of it is lost");
        }
        // Whatever became of the tables that were about to be published.
        self.mark_changed();
    }

    /// Waits. `true` if it was told to stop.
    async fn wait(&self, pause: Duration, signals: &mut Signals) -> bool {
        let stop = self.stop_notice();
        let mut left = pause;
        while !left.is_zero() {
            self.pulse.turn();
            let part = left.min(BEAT);
            left = left.saturating_sub(part);
            tokio::select! {
                () = stop.notified() => return true,
                () = signals.stop() => return true,
                () = sleep(part) => {}
            }
        }
        false
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_to_thirty_seconds_and_begins_anew_after_a_calm_minute() {
        let mut pause = Pause::default();
        let short = Duration::from_millis(1);
        let pauses: Vec<_> = (0..12).map(|_| pause.after(short).as_millis()).collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000]
        );
        assert_eq!(pause.after(CALM.saturating_sub(short)), LONGEST_PAUSE);
        assert_eq!(pause.after(CALM), FIRST_PAUSE);
        assert_eq!(pause.after(short), FIRST_PAUSE * 2);
    }
}
