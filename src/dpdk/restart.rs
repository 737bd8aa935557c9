//! Starting a port's device anew while workers run: after a reset of the device, its queues stand still
//! until it is started again.
//!
//! Management asks every worker to leave the port's queues alone (`gate`), starts the device anew when all
//! have, and gives the queues back. It never waits: each call does what can be done by then.

use std::time::Duration;

use super::gate::{Gate, gate};
use super::{Mempool, PooledQueues, Port, QueuePair};

/// How long workers may take to leave the queues alone before that is told.
const PATIENCE: Duration = Duration::from_secs(1);

/// After a failed start the device is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How often the link of a virtual function is looked at, and the least time between two restarts for it.
const LINK_INTERVAL: Duration = Duration::from_millis(100);
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// What came of looking after a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tending {
    /// The device was reset; it is being started anew.
    Reset,
    /// It runs again.
    Running,
    /// It does not start; it will be tried again.
    Failed {
        /// The text of the error number.
        reason: String,
    },
    /// A worker does not leave the queues alone; the device waits for it.
    Waiting,
    /// The device was taken out of the machine.
    Removed,
}

/// A port's way through its restarts.
#[derive(Debug)]
pub struct Restart {
    gates: Vec<Gate>,
    phase: Phase,
    link: Link,
    resets: u64,
    removal_told: bool,
}

/// The link of a virtual function. When its physical function goes down and up, the function loses what it
/// was told (its multicast groups, its VLANs, its queues), and not every driver reports that; but its link
/// is always lost.
#[derive(Debug, Default)]
struct Link {
    look_at: Duration,
    restart_from: Duration,
    /// Whether it was up since the device last started: before that a loss is no news.
    has_been_up: bool,
    was_lost: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Closing { since: Duration, told: bool },
    Failed { retry_at: Duration },
}

/// A device as this module needs it: a [`Port`], or a test's.
trait Device {
    fn take_reset(&self) -> bool;
    fn was_removed(&self) -> bool;
    /// Whether it is a virtual function.
    fn is_virtual_function(&self) -> bool;
    fn has_link(&self) -> bool;
    /// Called only while nobody uses the queues.
    fn start_anew(&self) -> Result<(), String>;
}

impl Device for Port {
    fn take_reset(&self) -> bool {
        self.events.take_reset()
    }

    fn was_removed(&self) -> bool {
        Port::was_removed(self)
    }

    fn is_virtual_function(&self) -> bool {
        self.is_virtual_function
    }

    fn has_link(&self) -> bool {
        self.link_up()
    }

    fn start_anew(&self) -> Result<(), String> {
        self.restart_device()
    }
}

impl Restart {
    /// Puts a gate before each pair of queues of a port.
    #[must_use]
    pub fn guard(queues: Vec<QueuePair>, pool: Mempool) -> (Self, Vec<PooledQueues>) {
        let (gates, queues) = queues
            .into_iter()
            .map(|pair| {
                let (gate, passage) = gate();
                (gate, PooledQueues::new(pair, pool).behind(passage))
            })
            .unzip();
        (Self::new(gates), queues)
    }

    fn new(gates: Vec<Gate>) -> Self {
        let link = Link::default();
        Self { gates, phase: Phase::Running, link, resets: 0, removal_told: false }
    }

    /// How often the device was reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether the port stands still.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        self.phase != Phase::Running || self.removal_told
    }

    /// Looks after the port whose queues these are, and does what can be done by `now`. Call it every
    /// few milliseconds.
    pub fn tend(&mut self, port: &Port, now: Duration) -> Option<Tending> {
        self.step(port, now)
    }

    fn step(&mut self, device: &impl Device, now: Duration) -> Option<Tending> {
        if device.was_removed() {
            let is_news = !std::mem::replace(&mut self.removal_told, true);
            self.close();
            return is_news.then_some(Tending::Removed);
        }
        let needs_restart = self.phase == Phase::Running
            && (device.take_reset() || self.link_came_back(device, now));
        match self.phase {
            Phase::Running if needs_restart => {
                self.resets += 1;
                self.close();
                self.phase = Phase::Closing { since: now, told: false };
                Some(Tending::Reset)
            }
            Phase::Closing { since, told } => {
                if self.gates.iter().all(Gate::is_left_alone) {
                    return Some(self.start_anew(device, now));
                }
                let is_late = !told && now.saturating_sub(since) >= PATIENCE;
                if is_late {
                    self.phase = Phase::Closing { since, told: true };
                }
                is_late.then_some(Tending::Waiting)
            }
            Phase::Failed { retry_at } if now >= retry_at => Some(self.start_anew(device, now)),
            Phase::Running | Phase::Failed { .. } => None,
        }
    }

    /// Whether a virtual function's link is up after it was lost.
    fn link_came_back(&mut self, device: &impl Device, now: Duration) -> bool {
        let link = &mut self.link;
        if now < link.look_at || !device.is_virtual_function() {
            return false;
        }
        link.look_at = now + LINK_INTERVAL;
        if device.has_link() {
            link.has_been_up = true;
        } else {
            link.was_lost |= link.has_been_up;
            return false;
        }
        link.was_lost && now >= link.restart_from
    }

    fn close(&self) {
        self.gates.iter().for_each(Gate::close);
    }

    fn start_anew(&mut self, device: &impl Device, now: Duration) -> Tending {
        // What was reported by now is dealt with by this; what comes later is another reset.
        let _ = device.take_reset();
        self.link = Link { restart_from: now + RESTART_INTERVAL, ..Link::default() };
        match device.start_anew() {
            Ok(()) => {
                self.gates.iter().for_each(Gate::open);
                self.phase = Phase::Running;
                Tending::Running
            }
            Err(reason) => {
                self.phase = Phase::Failed { retry_at: now + RETRY };
                Tending::Failed { reason }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::dpdk::gate::Passage;

    #[derive(Default)]
    struct TestDevice {
        was_reset: Cell<bool>,
        was_removed: Cell<bool>,
        refuses: Cell<bool>,
        is_virtual_function: bool,
        has_link: Cell<bool>,
        starts: Cell<u32>,
    }

    impl Device for TestDevice {
        fn take_reset(&self) -> bool {
            self.was_reset.take()
        }

        fn was_removed(&self) -> bool {
            self.was_removed.get()
        }

        fn is_virtual_function(&self) -> bool {
            self.is_virtual_function
        }

        fn has_link(&self) -> bool {
            self.has_link.get()
        }

        fn start_anew(&self) -> Result<(), String> {
            self.starts.set(self.starts.get() + 1);
            if self.refuses.get() { Err("Input/output error".to_owned()) } else { Ok(()) }
        }
    }

    fn restart(workers: usize) -> (Restart, Vec<Passage>) {
        let (gates, passages) = (0..workers).map(|_| gate()).unzip();
        (Restart::new(gates), passages)
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_reset_device_starts_anew_when_every_worker_left_it_alone() {
        let device = TestDevice::default();
        let (mut restart, workers) = restart(2);
        assert_eq!(restart.step(&device, at(0)), None);
        device.was_reset.set(true);
        assert_eq!(restart.step(&device, at(10)), Some(Tending::Reset));
        assert!(restart.stands_still() && !workers[0].may_pass());
        assert_eq!(restart.step(&device, at(20)), None, "one worker may be in a burst");
        assert_eq!(device.starts.get(), 0);
        assert!(!workers[1].may_pass());
        assert_eq!(restart.step(&device, at(30)), Some(Tending::Running));
        assert!(workers.iter().all(Passage::may_pass));
        assert_eq!((device.starts.get(), restart.resets()), (1, 1));
        assert_eq!(restart.step(&device, at(40)), None);
    }

    #[test]
    fn a_worker_that_does_not_come_is_told_once_and_waited_for() {
        let device = TestDevice::default();
        let (mut restart, workers) = restart(1);
        device.was_reset.set(true);
        restart.step(&device, at(0));
        assert_eq!(restart.step(&device, at(999)), None);
        assert_eq!(restart.step(&device, at(1_000)), Some(Tending::Waiting));
        assert_eq!(restart.step(&device, at(5_000)), None);
        assert_eq!(device.starts.get(), 0);
        workers[0].may_pass();
        assert_eq!(restart.step(&device, at(5_010)), Some(Tending::Running));
    }

    #[test]
    fn a_device_that_does_not_start_is_tried_again_behind_closed_gates() {
        let device = TestDevice::default();
        let (mut restart, workers) = restart(1);
        device.was_reset.set(true);
        restart.step(&device, at(0));
        workers[0].may_pass();
        device.refuses.set(true);
        let failed = Tending::Failed { reason: "Input/output error".to_owned() };
        assert_eq!(restart.step(&device, at(10)), Some(failed.clone()));
        assert_eq!(restart.step(&device, at(500)), None);
        assert!(!workers[0].may_pass());
        assert_eq!(restart.step(&device, at(1_010)), Some(failed));
        device.refuses.set(false);
        assert_eq!(restart.step(&device, at(2_010)), Some(Tending::Running));
        assert!(workers[0].may_pass());
    }

    /// Looks every 100 ms; whether that began a restart.
    fn look(restart: &mut Restart, device: &TestDevice, from: u64, to: u64) -> bool {
        (from..to)
            .step_by(100)
            .filter_map(|now| restart.step(device, at(now)))
            .any(|told| told == Tending::Reset)
    }

    #[test]
    fn a_virtual_function_starts_anew_when_its_link_comes_back() {
        let device = TestDevice { is_virtual_function: true, ..TestDevice::default() };
        let (mut restart, workers) = restart(1);
        assert!(!look(&mut restart, &device, 0, 2_000), "it had no link yet");
        device.has_link.set(true);
        assert!(!look(&mut restart, &device, 2_000, 4_000), "its first link");
        device.has_link.set(false);
        assert!(!look(&mut restart, &device, 4_000, 5_000));
        device.has_link.set(true);
        assert!(look(&mut restart, &device, 5_000, 5_100));
        workers[0].may_pass();
        // The restart itself takes the link for a while: that is no reason for another.
        device.has_link.set(false);
        assert!(!look(&mut restart, &device, 5_200, 5_400));
        device.has_link.set(true);
        assert!(!look(&mut restart, &device, 5_400, 9_000));
        assert_eq!(device.starts.get(), 1);
        // A loss soon after a restart is not forgotten, only put off.
        device.was_reset.set(true);
        assert!(look(&mut restart, &device, 9_000, 9_100));
        workers[0].may_pass();
        look(&mut restart, &device, 9_100, 9_300);
        device.has_link.set(false);
        look(&mut restart, &device, 9_300, 9_500);
        device.has_link.set(true);
        assert!(!look(&mut restart, &device, 9_500, 10_000));
        assert!(look(&mut restart, &device, 10_000, 10_300));
    }

    #[test]
    fn other_devices_keep_what_they_were_told_without_a_link() {
        let device = TestDevice::default();
        let (mut restart, _workers) = restart(1);
        for (from, has_link) in [(0, true), (1_000, false), (2_000, true)] {
            device.has_link.set(has_link);
            assert!(!look(&mut restart, &device, from, from + 1_000));
        }
    }

    #[test]
    fn a_removed_device_is_told_once_and_left_alone_for_good() {
        let device = TestDevice::default();
        let (mut restart, workers) = restart(1);
        device.was_removed.set(true);
        assert_eq!(restart.step(&device, at(0)), Some(Tending::Removed));
        assert_eq!(restart.step(&device, at(10)), None);
        assert!(!workers[0].may_pass() && restart.stands_still());
    }
}
