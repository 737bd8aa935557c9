//! The gate before a worker's queues of one port: while management restarts the device, nobody polls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Management's end.
#[derive(Debug)]
pub(super) struct Gate(Arc<State>);

/// The worker's end: it asks before each burst.
#[derive(Debug)]
pub(super) struct Passage(Arc<State>);

/// Written by: see the fields. Both are on one line, which all read and, but for a restart, nobody writes.
#[derive(Debug, Default)]
struct State {
    /// Whether the queues must be left alone. Written by: management.
    is_closed: AtomicBool,
    /// Whether the worker has seen that. Written by: the worker; management takes it back while it
    /// opens.
    is_left_alone: AtomicBool,
}

/// An open gate.
pub(super) fn gate() -> (Gate, Passage) {
    let state = Arc::new(State::default());
    (Gate(Arc::clone(&state)), Passage(state))
}

impl Gate {
    /// Asks the worker to leave the queues alone.
    pub(super) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
    }

    /// Whether the worker will not touch the queues before the gate opens. False while it is open.
    pub(super) fn is_left_alone(&self) -> bool {
        // Acquire: the worker's last burst is over.
        self.0.is_closed.load(Ordering::Relaxed) && self.0.is_left_alone.load(Ordering::Acquire)
    }

    /// Gives the queues back.
    pub(super) fn open(&self) {
        // In this order: a worker that sees the gate open must not have left word from before.
        self.0.is_left_alone.store(false, Ordering::Relaxed);
        // Release: the restarted device is what the worker's next burst sees.
        self.0.is_closed.store(false, Ordering::Release);
    }
}

impl Passage {
    /// Whether the queues may be used for one burst. Once it said no, it says so until management has
    /// opened the gate.
    #[inline]
    pub(super) fn may_pass(&self) -> bool {
        if !self.0.is_closed.load(Ordering::Acquire) {
            return true;
        }
        self.leave();
        false
    }

    #[cold]
    fn leave(&self) {
        // Written once, not with every poll: the line stays shared.
        if !self.0.is_left_alone.load(Ordering::Relaxed) {
            self.0.is_left_alone.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_are_left_alone_only_after_the_worker_said_so() {
        let (gate, passage) = gate();
        assert!(passage.may_pass() && !gate.is_left_alone());
        gate.close();
        assert!(!gate.is_left_alone(), "the worker may be in a burst");
        assert!(!passage.may_pass());
        assert!(gate.is_left_alone());
        gate.open();
        assert!(!gate.is_left_alone() && passage.may_pass());
        gate.close();
        assert!(!gate.is_left_alone(), "word from the last time does not count");
    }

    #[test]
    fn a_worker_is_never_in_a_burst_while_management_restarts() {
        let (gate, passage) = gate();
        let in_burst = AtomicBool::new(false);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    if passage.may_pass() {
                        in_burst.store(true, Ordering::Relaxed);
                        std::hint::spin_loop();
                        in_burst.store(false, Ordering::Relaxed);
                    }
                }
            });
            for _ in 0..2_000 {
                gate.close();
                while !gate.is_left_alone() {
                    std::thread::yield_now();
                }
                assert!(!in_burst.load(Ordering::Relaxed));
                gate.open();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
