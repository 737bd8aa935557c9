//! Where a worker's cycles go: each lap belongs to one stage, and nothing is left over.

use crate::forward::Counters;

/// The last mark, and what the round so far was worth.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    /// `None` before the first round.
    last: Option<u64>,
    was_busy: bool,
}

impl Stopwatch {
    /// A round begins: what passed since the last mark was the rest of the round before, or all of
    /// it if that one brought nothing.
    #[inline]
    pub fn begin(&mut self, now: u64, counters: &mut Counters) {
        let passed = self.lap(now);
        if self.was_busy {
            counters.add_other_cycles(passed);
        } else {
            counters.add_idle_cycles(passed);
        }
    }

    /// Cycles since the last mark; `now` is the next.
    #[inline]
    pub fn lap(&mut self, now: u64) -> u64 {
        let last = self.last.replace(now).unwrap_or(now);
        // A thread that moved to a core whose counter lags a little has not gone back in time.
        now.saturating_sub(last)
    }

    /// The round is over.
    #[inline]
    pub fn end(&mut self, is_busy: bool) {
        self.was_busy = is_busy;
    }
}
