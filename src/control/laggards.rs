//! Which workers have had the time to adopt a generation and did not.
//!
//! A worker lags if it runs less than what was published [`PATIENCE`] ago. So a worker that is stuck
//! lags until it catches up, however often something is published meanwhile, and one that is about
//! to adopt what was published a moment ago does not.

use std::collections::VecDeque;
use std::time::Duration;

use super::adoption::PATIENCE;
use crate::snapshot::{Generation, Publisher};

/// When the latest generations were published.
#[derive(Debug, Default)]
pub struct Laggards {
    /// Oldest first, and all but the first published less than [`PATIENCE`] before the last.
    published: VecDeque<(Generation, Duration)>,
}

impl Laggards {
    /// `generation`, the newest, was published at `now`, any monotonic time.
    pub fn published(&mut self, generation: Generation, now: Duration) {
        // Of those that are due the newest is enough.
        while self.published.get(1).is_some_and(|&(_, at)| is_due(at, now)) {
            self.published.pop_front();
        }
        self.published.push_back((generation, now));
    }

    /// The generation that every worker should run at `now`, at least.
    fn due(&self, now: Duration) -> Generation {
        let due = self.published.iter().rev().find(|&&(_, at)| is_due(at, now));
        due.map_or(Generation(0), |&(generation, _)| generation)
    }

    /// The workers that lag at `now`, by their places among the publisher's readers.
    #[must_use]
    pub fn find<T>(&self, publisher: &Publisher<T>, now: Duration) -> Vec<usize> {
        publisher.lagging(self.due(now))
    }
}

fn is_due(published: Duration, now: Duration) -> bool {
    now.saturating_sub(published) >= PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::shared;

    #[test]
    fn who_is_stuck_lags_until_it_catches_up_whatever_is_published_meanwhile() {
        let (mut publisher, mut readers) = shared(0, 2);
        let mut laggards = Laggards::default();
        let tick = PATIENCE / 10;
        let mut now = Duration::ZERO;
        assert!(laggards.find(&publisher, now).is_empty());
        // The snapshots of reader 1 fill what may be held; then nothing is published any more.
        for step in 0..40 {
            if publisher.has_room() {
                laggards.published(publisher.publish(step).unwrap(), now);
            }
            readers[0].refresh();
            let expected: &[usize] = if now < PATIENCE { &[] } else { &[1] };
            assert_eq!(laggards.find(&publisher, now), expected, "at {now:?}");
            now += tick;
        }
        readers[1].refresh();
        assert!(laggards.find(&publisher, now).is_empty());
    }

    #[test]
    fn who_takes_each_generation_in_time_never_lags_and_little_is_remembered() {
        let (mut publisher, mut readers) = shared(0, 1);
        let mut laggards = Laggards::default();
        for step in 0..1_000 {
            let now = PATIENCE / 10 * step;
            laggards.published(publisher.publish(step).unwrap(), now);
            assert!(laggards.find(&publisher, now).is_empty(), "at {now:?}");
            readers[0].refresh();
            publisher.reclaim();
        }
        assert!(laggards.published.len() <= 12, "{}", laggards.published.len());
    }

    #[test]
    fn what_is_the_newest_is_due_after_its_time_and_not_before() {
        let (mut publisher, _readers) = shared(0, 1);
        let mut laggards = Laggards::default();
        let start = Duration::from_secs(100);
        laggards.published(publisher.publish(1).unwrap(), start);
        assert!(laggards.find(&publisher, start + PATIENCE / 10 * 9).is_empty());
        assert_eq!(laggards.find(&publisher, start + PATIENCE), [0]);
    }
}
