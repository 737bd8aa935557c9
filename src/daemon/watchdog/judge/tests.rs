//! A simulated manager, workers that stop and go on, and every look in between.

use std::time::Duration;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(8);

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Workers that poll once a millisecond while they may, and a judge that looks as often as it says.
struct Simulation {
    judge: Judge,
    now: Duration,
    polls: Vec<u64>,
    stopped: Vec<bool>,
    management_stood: Duration,
    findings: Vec<(Duration, Finding)>,
}

impl Simulation {
    fn new(timeout: Option<Duration>, workers: usize) -> Self {
        Self {
            judge: Judge::new(timeout, Duration::ZERO, vec![0; workers]),
            now: Duration::ZERO,
            polls: vec![0; workers],
            stopped: vec![false; workers],
            management_stood: Duration::ZERO,
            findings: Vec::new(),
        }
    }

    fn run_until(&mut self, end: Duration) {
        while self.now < end {
            let pause = self.judge.wait();
            assert!(!pause.is_zero() && pause <= self.judge.pause(), "{pause:?}");
            self.pass(pause);
        }
    }

    /// One pause and one look.
    fn pass(&mut self, pause: Duration) {
        self.now += pause;
        for (polls, stopped) in self.polls.iter_mut().zip(&self.stopped) {
            if !stopped {
                *polls = polls.wrapping_add(u64::try_from(pause.as_millis()).unwrap().max(1));
            }
        }
        let found = self.judge.look(self.now, self.polls.iter().copied(), self.management_stood);
        self.findings.extend(found.into_iter().map(|finding| (self.now, finding)));
    }

    /// The times between one beat and the next.
    fn gaps(&self) -> Vec<Duration> {
        self.beats().windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect()
    }

    fn beats(&self) -> Vec<Duration> {
        let beats = self.findings.iter().filter(|(_, finding)| *finding == Finding::Beat);
        beats.map(|(at, _)| *at).collect()
    }

    /// What was found but beats.
    fn told(&self) -> Vec<Finding> {
        let told = self.findings.iter().map(|(_, finding)| *finding);
        told.filter(|finding| *finding != Finding::Beat).collect()
    }
}

#[test]
fn moving_workers_give_two_beats_a_timeout() {
    for timeout in [TIMEOUT, Duration::from_secs(2), Duration::from_mins(1), milliseconds(30)] {
        let mut simulation = Simulation::new(Some(timeout), 2);
        simulation.run_until(timeout * 10);
        let beats = simulation.beats();
        assert!(beats[0] <= timeout / 2, "the first comes soon: {beats:?}");
        for gap in simulation.gaps() {
            assert!(gap >= timeout / 2 && gap < timeout * 2 / 3, "{timeout:?}: {gap:?}");
        }
        assert!(simulation.told().is_empty());
    }
}

#[test]
fn a_worker_that_stands_is_named_and_ends_the_beats() {
    let mut simulation = Simulation::new(Some(TIMEOUT), 3);
    simulation.run_until(milliseconds(20_000));
    simulation.stopped[1] = true;
    simulation.run_until(milliseconds(60_000));
    let last = *simulation.beats().last().unwrap();
    assert!(last <= milliseconds(20_000) + TIMEOUT / 2, "killed within 1.5 timeouts: {last:?}");
    let told = simulation.told();
    assert!(matches!(told[..], [Finding::WorkerStands { place: 1, .. }]), "once: {told:?}");
    assert_eq!(simulation.judge.standing().collect::<Vec<_>>(), [1]);

    simulation.stopped[1] = false;
    simulation.run_until(milliseconds(61_000));
    let told = simulation.told();
    let Some(Finding::WorkerMoves { place: 1, stood }) = told.last() else { panic!("{told:?}") };
    assert!((milliseconds(39_000)..=milliseconds(41_000)).contains(stood), "{stood:?}");
    assert!(*simulation.beats().last().unwrap() > milliseconds(60_000), "at the next look");
    assert_eq!(simulation.judge.standing().count(), 0);
}

#[test]
fn a_worker_that_goes_on_in_time_is_not_named() {
    let mut simulation = Simulation::new(Some(TIMEOUT), 1);
    for _ in 0..20 {
        simulation.stopped[0] = true;
        simulation.run_until(simulation.now + milliseconds(2_500));
        simulation.stopped[0] = false;
        simulation.run_until(simulation.now + milliseconds(600));
    }
    assert!(simulation.told().is_empty(), "{:?}", simulation.told());
    let longest = simulation.gaps().into_iter().max().unwrap();
    assert!(longest < TIMEOUT, "{longest:?}");
}

#[test]
fn management_that_stands_is_an_alarm_and_no_missed_beat() {
    let mut simulation = Simulation::new(Some(TIMEOUT), 1);
    for tenth in 1..=300 {
        simulation.management_stood = milliseconds(tenth * 100);
        simulation.pass(milliseconds(100));
    }
    assert!(simulation.judge.is_management_standing());
    simulation.management_stood = Duration::ZERO;
    simulation.run_until(milliseconds(40_000));
    let told = [Finding::ManagementStands { stood: STALL_LIMIT }, Finding::ManagementMoves];
    assert_eq!(simulation.told(), told);
    assert!(!simulation.judge.is_management_standing());
    for gap in simulation.gaps() {
        assert!(gap < TIMEOUT * 2 / 3, "beats go on: {gap:?}");
    }
}

#[test]
fn a_pause_of_the_whole_machine_accuses_no_worker() {
    let mut simulation = Simulation::new(Some(TIMEOUT), 2);
    simulation.run_until(milliseconds(5_000));
    // The watchdog wakes first: the workers had no time to poll.
    simulation.stopped = vec![true; 2];
    simulation.pass(Duration::from_mins(10));
    simulation.stopped = vec![false; 2];
    simulation.run_until(simulation.now + milliseconds(2_000));
    assert!(simulation.told().is_empty(), "{:?}", simulation.told());
    let paused = milliseconds(5_000) + Duration::from_mins(10);
    assert!(simulation.beats().iter().any(|beat| *beat >= paused), "it beats at once");
}

#[test]
fn a_counter_that_wraps_moves() {
    let mut simulation = Simulation::new(Some(TIMEOUT), 1);
    simulation.polls[0] = u64::MAX - 500;
    simulation.run_until(milliseconds(20_000));
    assert!(simulation.polls[0] < u64::MAX / 2, "it wrapped");
    assert!(simulation.told().is_empty());
}

#[test]
fn without_a_manager_workers_are_watched_all_the_same() {
    let mut simulation = Simulation::new(None, 1);
    simulation.stopped[0] = true;
    simulation.run_until(milliseconds(10_000));
    let told = [Finding::WorkerStands { place: 0, stood: PATIENCE }];
    assert_eq!(simulation.told(), told);
}

/// Whatever the workers do: while each polls within a quarter of the timeout the beats never
/// end, and no beat comes while one stands.
#[test]
fn beats_follow_the_workers() {
    bolero::check!().with_type::<Vec<(bool, bool, u8)>>().for_each(|steps| {
        let mut simulation = Simulation::new(Some(TIMEOUT), 2);
        let mut stood = [Duration::ZERO; 2];
        for (first, second, tenths) in steps.iter().take(60) {
            simulation.stopped = vec![*first, *second];
            let end = simulation.now + milliseconds(u64::from(*tenths) * 40);
            while simulation.now < end {
                let wait = simulation.judge.wait();
                simulation.pass(wait);
                for (stood, stopped) in stood.iter_mut().zip(&simulation.stopped) {
                    *stood = if *stopped { *stood + wait } else { Duration::ZERO };
                }
                let has_beaten = simulation.beats().last() == Some(&simulation.now);
                let longest = *stood.iter().max().unwrap();
                assert!(!has_beaten || longest < TIMEOUT / 2, "a beat after {longest:?}");
                if longest < TIMEOUT / 4 {
                    let last = simulation.beats().last().copied().unwrap_or_default();
                    let gap = simulation.now.saturating_sub(last);
                    assert!(gap < TIMEOUT, "no beat at {:?}", simulation.now);
                }
            }
        }
    });
}
