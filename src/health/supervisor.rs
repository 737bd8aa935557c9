//! One task a target: when to probe, and whom to tell.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::{Cause, Damping, Jitter, Network, Outcome, ProbeResult, Prober, Target, Transition};
use crate::config::BackendKey;
use crate::steer::Health;

/// The first probe of every target starts within this, however long its interval is, so that a
/// daemon that starts knows soon whom it can use.
const FIRST_PROBES_WITHIN: Duration = Duration::from_secs(1);

/// A deadline that passed by more than this was missed because management did not run, so that the
/// backend may well have answered in time.
const STALL: Duration = Duration::from_secs(1);

/// How long closing a connection in order may take.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

/// What a probe found and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose health it is. A report may still be on its way when its target is removed: receivers
    /// ignore keys that they do not know.
    pub key: BackendKey,
    /// The probe.
    pub result: ProbeResult,
    /// The change of state that it made.
    pub transition: Option<Transition>,
    /// The state with the last results.
    pub damping: Damping,
}

/// Runs the monitors. Must be used inside a tokio runtime. Dropping it stops every probe.
///
/// Reports go over a bounded channel: a receiver that does not keep up slows the probes down, and
/// loses nothing.
pub struct Supervisor<P = Network> {
    prober: Arc<P>,
    reports: mpsc::Sender<Report>,
    start: Instant,
    jitter: Jitter,
    running: HashMap<BackendKey, Running>,
    remembered: HashMap<BackendKey, Health>,
}

/// A target's task. Dropping this stops it.
struct Running {
    target: Target,
    /// Written by: the task.
    state: watch::Receiver<Damping>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Supervisor {
    /// A supervisor without targets that probes over the kernel's network. `start` is the daemon's
    /// start, from which times are told; `seed` decides the jitter.
    #[must_use]
    pub fn new(reports: mpsc::Sender<Report>, start: Instant, seed: u64) -> Self {
        Self::with_prober(Network, reports, start, seed)
    }
}

impl<P: Prober> Supervisor<P> {
    /// The same, with another way to probe.
    #[must_use]
    pub fn with_prober(
        prober: P,
        reports: mpsc::Sender<Report>,
        start: Instant,
        seed: u64,
    ) -> Self {
        Self {
            prober: Arc::new(prober),
            reports,
            start,
            jitter: Jitter::new(seed),
            running: HashMap::new(),
            remembered: HashMap::new(),
        }
    }

    /// What the first [`Self::set_targets`] shall start from instead of from nothing: the health
    /// from before management restarted, so that a restart changes no table.
    pub fn remember(&mut self, health: impl IntoIterator<Item = (BackendKey, Health)>) {
        self.remembered.extend(health);
    }

    /// Makes `targets` the targets; of several with one key the last counts.
    ///
    /// What did not change is not touched. A target whose monitor or probed address changed starts
    /// a new schedule from its present state. One that is gone is no longer probed, and if it comes
    /// back it starts from nothing.
    pub fn set_targets(&mut self, targets: Vec<Target>) {
        let mut before = std::mem::take(&mut self.running);
        // By key, so that the jitter depends on the seed and the targets only.
        let mut targets = targets;
        targets.sort_by(|a, b| a.key.cmp(&b.key));
        for target in targets {
            let old = before.remove(&target.key).or_else(|| self.running.remove(&target.key));
            let running = match old {
                Some(mut running) if running.target.is_probed_like(&target) => {
                    running.target = target;
                    running
                }
                Some(running) => {
                    let state = running.state.borrow().clone();
                    drop(running);
                    let Target { monitor, .. } = &target;
                    let state = state.with_limits(monitor.rise, monitor.fall);
                    self.spawn(target, state)
                }
                None => {
                    let (rise, fall) = (target.monitor.rise, target.monitor.fall);
                    let state = match self.remembered.get(&target.key) {
                        Some(&health) if health != Health::Unknown => {
                            Damping::remembered(rise, fall, health, self.start.elapsed())
                        }
                        _ => Damping::new(rise, fall),
                    };
                    self.spawn(target, state)
                }
            };
            self.running.insert(running.target.key.clone(), running);
        }
        self.remembered.clear();
        // What is left in `before` stops here.
    }

    /// The present state of every target, in no order.
    pub fn states(&self) -> impl Iterator<Item = (&BackendKey, Damping)> {
        self.running.iter().map(|(key, running)| (key, running.state.borrow().clone()))
    }

    fn spawn(&mut self, target: Target, state: Damping) -> Running {
        let interval = target.monitor.interval;
        let first = self.jitter.between(Duration::ZERO, interval.min(FIRST_PROBES_WITHIN));
        // The second probe spreads the targets over the interval. It starts an interval after the
        // first at the latest, as the bound on detection demands, and not before the first has ended.
        let gap = self.jitter.between(target.monitor.timeout.min(interval), interval);
        let (publish, watched) = watch::channel(state);
        let task = Task {
            prober: Arc::clone(&self.prober),
            target: target.clone(),
            start: self.start,
            reports: self.reports.clone(),
            state: publish,
        };
        let begin = Instant::now() + first;
        Running { target, state: watched, task: tokio::spawn(task.run(begin, begin + gap)) }
    }
}

/// What probes one target.
struct Task<P> {
    prober: Arc<P>,
    target: Target,
    start: Instant,
    reports: mpsc::Sender<Report>,
    /// Written by: this task. Read by: the supervisor.
    state: watch::Sender<Damping>,
}

impl<P: Prober> Task<P> {
    /// Probes at `first`, at `second`, and from then on at a fixed rate, from start to start. One
    /// probe ends before the next begins. After a stall the grid is kept: one late probe stands for
    /// those that were missed, and targets stay spread.
    async fn run(self, first: Instant, second: Instant) {
        // A period of zero is no period; the configuration excludes it.
        let period = self.target.monitor.interval.max(Duration::from_millis(1));
        let mut ticks = interval_at(second, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        sleep_until(first).await;
        while self.probe().await.is_ok() {
            ticks.tick().await;
        }
    }

    /// One probe and its report. An error if nobody listens any more.
    async fn probe(&self) -> Result<(), mpsc::error::SendError<Report>> {
        let deadline = self.target.monitor.timeout;
        let began = Instant::now();
        let answer = timeout(deadline, self.prober.probe(&self.target)).await;
        let rtt = began.elapsed();
        let (outcome, open) = match answer {
            Ok(Ok((outcome, open))) => (outcome, Some(open)),
            Ok(Err(cause)) => (Outcome::Fail(cause), None),
            Err(_) if rtt > deadline + STALL => (Outcome::Fail(Cause::Stalled), None),
            Err(_) => (Outcome::Fail(Cause::Timeout), None),
        };

        let result = ProbeResult { at: self.start.elapsed(), outcome, rtt };
        let mut transition = None;
        self.state.send_modify(|state| transition = state.record(result));
        let damping = self.state.borrow().clone();
        let key = self.target.key.clone();
        self.reports.send(Report { key, result, transition, damping }).await?;

        if let Some(open) = open {
            let left = self.target.monitor.interval.saturating_sub(rtt).min(CLOSE_WITHIN);
            // Cut short, the connection closes as it can.
            let _ = timeout(left, self.prober.close(open)).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
