//! What a terminal shows while a run goes on.

use std::io::{IsTerminal, Write};

use crate::engine::Counts;
use crate::report::Nanoseconds;
use crate::verify::Verifier;

/// A line that is written over itself once a second, on standard error if that is a terminal.
pub struct Live {
    hz: u64,
    next: u64,
    before: (u64, u64, u64),
    is_shown: bool,
    is_dirty: bool,
}

impl Live {
    /// Shows nothing if `is_quiet`, or if nobody looks.
    pub fn new(hz: u64, is_quiet: bool) -> Self {
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        Self { hz, next: hz, before: (0, 0, 0), is_shown, is_dirty: false }
    }

    /// Shows what is counted, if it is time.
    pub fn show(&mut self, counts: &Counts, verifier: Option<&Verifier>, elapsed: u64) {
        if !self.is_shown || elapsed < self.next {
            return;
        }
        self.next = elapsed + self.hz;
        let (sent, returned, at) = self.before;
        self.before = (counts.sent, counts.returned, elapsed);
        let seconds = (elapsed - at) as f64 / self.hz as f64;
        let line = line(
            elapsed as f64 / self.hz as f64,
            (counts.sent - sent) as f64 / seconds,
            counts.returned.saturating_sub(returned) as f64 / seconds,
            counts,
        );
        let more = verifier.map_or(String::new(), |verifier| {
            let latency = verifier.latency.summary();
            format!(
                "  p50 {} p99 {}  {} violations",
                Nanoseconds(latency.p50_ns),
                Nanoseconds(latency.p99_ns),
                verifier.violations.total()
            )
        });
        self.is_dirty = true;
        // A terminal that is gone loses the line, not the run.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}{more}");
    }

    /// Ends the line.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_dirty) {
            let _ = writeln!(std::io::stderr());
        }
    }
}

fn line(seconds: f64, sent_rate: f64, returned_rate: f64, counts: &Counts) -> String {
    format!(
        "{seconds:6.1} s  {:.3} Mpps out  {:.3} Mpps in  {} sent  {} on the way",
        sent_rate / 1e6,
        returned_rate / 1e6,
        counts.sent,
        counts.forwarded.saturating_sub(counts.returned)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_rates_and_counts() {
        let counts = Counts { sent: 10, forwarded: 9, returned: 7, ..Counts::default() };
        assert_eq!(
            line(1.0, 2e6, 1.5e6, &counts),
            "   1.0 s  2.000 Mpps out  1.500 Mpps in  10 sent  2 on the way"
        );
    }
}
