//! What the watchdog makes of what it sees: a pure state machine over time and counters.

use std::time::Duration;

use crate::control::STALL_LIMIT;

/// A worker that has not polled for so long stands, if the beat allows that much.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a look found out. Each change is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Every worker polls, and it is time to say so.
    Beat,
    /// The worker at this place has not polled for so long: no beat until it does.
    WorkerStands {
        /// Its place in the order that the counters come in.
        place: usize,
        /// How long it has not polled.
        stood: Duration,
    },
    /// It polls again.
    WorkerMoves {
        /// Its place.
        place: usize,
        /// How long it had not polled.
        stood: Duration,
    },
    /// Management's loop does not turn. An alarm, no reason to withhold a beat: forwarding goes on.
    ManagementStands {
        /// How long it has not turned.
        stood: Duration,
    },
    /// It turns again.
    ManagementMoves,
}

/// Compares what workers counted now and before.
#[derive(Debug)]
pub(super) struct Judge {
    /// Time between beats.
    interval: Duration,
    /// How long a worker may stand.
    patience: Duration,
    looked_at: Duration,
    beaten_at: Option<Duration>,
    workers: Vec<Vital>,
    management_stands: bool,
}

#[derive(Clone, Copy, Debug)]
struct Vital {
    polls: u64,
    stood: Duration,
    is_told: bool,
}

impl Judge {
    /// For a manager that wants a beat at least every `timeout`; it gets two. `polls` are the
    /// workers' counters now.
    pub(super) fn new(
        timeout: Option<Duration>,
        now: Duration,
        polls: impl IntoIterator<Item = u64>,
    ) -> Self {
        let interval = timeout.map_or(PATIENCE, |timeout| timeout / 2);
        let vital = |polls| Vital { polls, stood: Duration::ZERO, is_told: false };
        Self {
            interval,
            patience: interval.min(PATIENCE),
            looked_at: now,
            beaten_at: None,
            workers: polls.into_iter().map(vital).collect(),
            management_stands: false,
        }
    }

    /// How often to look: a worker that goes on late in the interval is seen before the manager's
    /// patience ends.
    pub(super) fn pause(&self) -> Duration {
        (self.interval / 4).clamp(Duration::from_millis(1), Duration::from_millis(500))
    }

    /// The workers that stand, by place.
    pub(super) fn standing(&self) -> impl Iterator<Item = usize> + '_ {
        self.workers.iter().enumerate().filter(|(_, vital)| vital.is_told).map(|(place, _)| place)
    }

    /// Whether management stands.
    pub(super) fn is_management_standing(&self) -> bool {
        self.management_stands
    }

    /// One look: `polls` are the workers' counters in the order of [`Self::new`], `stood` is how
    /// long ago management's loop turned.
    pub(super) fn look(
        &mut self,
        now: Duration,
        polls: impl IntoIterator<Item = u64>,
        stood: Duration,
    ) -> Vec<Finding> {
        // If this thread itself could not look (a paused virtual machine, a debugger), then the
        // workers may not have been able to poll. Only time that was watched counts against them.
        let watched = now.saturating_sub(self.looked_at).min(2 * self.pause());
        self.looked_at = now;
        let mut findings = Vec::new();
        for (place, (vital, polls)) in self.workers.iter_mut().zip(polls).enumerate() {
            if vital.polls == polls {
                vital.stood += watched;
                if vital.stood >= self.patience && !vital.is_told {
                    vital.is_told = true;
                    findings.push(Finding::WorkerStands { place, stood: vital.stood });
                }
            } else {
                if vital.is_told {
                    findings.push(Finding::WorkerMoves { place, stood: vital.stood + watched });
                }
                *vital = Vital { polls, stood: Duration::ZERO, is_told: false };
            }
        }
        let stands = stood >= STALL_LIMIT;
        if stands != self.management_stands {
            self.management_stands = stands;
            findings.push(if stands {
                Finding::ManagementStands { stood }
            } else {
                Finding::ManagementMoves
            });
        }
        let is_due = self.beaten_at.is_none_or(|at| now.saturating_sub(at) >= self.interval);
        if is_due && !self.workers.iter().any(|vital| vital.is_told) {
            self.beaten_at = Some(now);
            findings.push(Finding::Beat);
        }
        findings
    }

    /// How long to wait for the next look: until the pause is over or the next beat is due.
    pub(super) fn wait(&self) -> Duration {
        let next_beat =
            self.beaten_at.map(|at| (at + self.interval).saturating_sub(self.looked_at));
        next_beat.filter(|wait| !wait.is_zero()).map_or(self.pause(), |wait| wait.min(self.pause()))
    }
}

#[cfg(test)]
mod tests;
