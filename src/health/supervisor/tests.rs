//! Schedules, on a paused clock with backends that are values.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use super::*;
use crate::config::{Monitor, MonitorKind};

const SECOND: Duration = Duration::from_secs(1);

/// Backends that answer after `rtt`, from `dead_from` on never; counts what it does.
struct Simulated {
    rtt: Duration,
    dead_from: Instant,
    started: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
}

/// Counts itself while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Prober for Simulated {
    type Open = ();

    async fn probe(&self, _target: &Target) -> Result<(Outcome, ()), Cause> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let _counted = Counted::new(&self.under_way);
        if Instant::now() >= self.dead_from {
            std::future::pending::<()>().await;
        }
        sleep(self.rtt).await;
        Ok((Outcome::Pass, ()))
    }

    async fn close(&self, (): ()) {}
}

struct Bench {
    supervisor: Supervisor<Simulated>,
    reports: mpsc::Receiver<Report>,
    started: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
}

impl Bench {
    fn new(rtt: Duration, dies_after: Duration, seed: u64) -> Self {
        let (sender, reports) = mpsc::channel(4096);
        let (started, under_way) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let prober = Simulated {
            rtt,
            dead_from: Instant::now() + dies_after,
            started: Arc::clone(&started),
            under_way: Arc::clone(&under_way),
        };
        let supervisor = Supervisor::with_prober(prober, sender, Instant::now(), seed);
        Self { supervisor, reports, started, under_way }
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    fn state(&self, target: &Target) -> Damping {
        self.supervisor.states().find(|(key, _)| **key == target.key).expect("a target").1
    }

    /// The reports so far: target, start of the probe, transition.
    fn drain(&mut self) -> Vec<(IpAddr, Duration, Option<Transition>)> {
        std::iter::from_fn(|| self.reports.try_recv().ok())
            .map(|report| {
                let started = report.result.at.saturating_sub(report.result.rtt);
                (report.key.address, started, report.transition)
            })
            .collect()
    }
}

const FOREVER: Duration = Duration::from_secs(1_000_000);

fn target(number: u8, interval: Duration, timeout: Duration) -> Target {
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, number));
    Target {
        key: BackendKey { pool: "web".into(), virtual_network: None, address },
        address: SocketAddr::new(address, 80),
        monitor: Monitor {
            name: "check".into(),
            kind: MonitorKind::Tcp,
            port: 80,
            interval,
            timeout,
            rise: 2,
            fall: 3,
        },
    }
}

#[tokio::test(start_paused = true)]
async fn probes_start_at_a_fixed_rate_and_never_overlap() {
    // The answer takes nearly all of the interval: a schedule from end to start would drift.
    let mut bench = Bench::new(SECOND * 9 / 10, FOREVER, 3);
    bench.supervisor.set_targets(vec![target(1, SECOND, SECOND)]);
    for _ in 0..10_000 {
        sleep(Duration::from_millis(10)).await;
        assert!(bench.under_way.load(Ordering::Relaxed) <= 1);
    }
    assert!((99..=101).contains(&bench.started()), "{} probes in 100 s", bench.started());
    let starts: Vec<_> = bench.drain().into_iter().map(|(_, start, _)| start).collect();
    for pair in starts[1..].windows(2) {
        let gap = pair[1].saturating_sub(pair[0]);
        assert!(gap.abs_diff(SECOND) <= Duration::from_millis(2), "{gap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn first_probes_start_within_a_second_and_later_ones_spread_over_the_interval() {
    let interval = SECOND * 30;
    let mut bench = Bench::new(Duration::ZERO, FOREVER, 4);
    bench.supervisor.set_targets((0..200).map(|n| target(n, interval, SECOND)).collect());
    sleep(SECOND + Duration::from_millis(5)).await;
    let first = bench.drain();
    assert_eq!(first.len(), 200);
    let early = first.iter().filter(|(_, start, _)| *start < SECOND / 2).count();
    assert!((70..130).contains(&early), "{early} of 200 in the first half second");

    sleep(interval).await;
    let second = bench.drain();
    assert_eq!(second.len(), 200, "one more each, an interval later at most");
    for third in 0..3_u32 {
        let span = interval * third / 3..interval * (third + 1) / 3;
        let hits = second.iter().filter(|(_, start, _)| span.contains(start)).count();
        assert!((40..95).contains(&hits), "{hits} of 200 in third {third}");
    }
}

// The bound on detection: interval × fall + timeout, for every phase of the schedule.
#[tokio::test(start_paused = true)]
async fn a_death_is_reported_within_interval_times_fall_and_timeout() {
    let (interval, limit) = (SECOND * 2, SECOND);
    for seed in 0..40 {
        let dies = SECOND * 10 + Duration::from_millis(50) * u32::try_from(seed).unwrap();
        let mut bench = Bench::new(Duration::from_millis(1), dies, seed);
        let dead_from = Instant::now() + dies;
        bench.supervisor.set_targets(vec![target(1, interval, limit)]);
        loop {
            let report = bench.reports.recv().await.unwrap();
            if report.transition.is_some_and(|transition| transition.to == Health::Down) {
                break;
            }
        }
        let took = dead_from.elapsed();
        assert!(took <= interval * 3 + limit + Duration::from_millis(5), "{took:?}");
        assert!(took > interval * 2, "three failures, not fewer: {took:?}");
    }
}

// HP-04
#[tokio::test(start_paused = true)]
async fn what_did_not_change_keeps_its_state_and_schedule() {
    let interval = SECOND * 10;
    let mut bench = Bench::new(Duration::ZERO, FOREVER, 5);
    let (kept, gone, new) =
        (target(1, interval, SECOND), target(2, interval, SECOND), target(3, interval, SECOND));
    bench.supervisor.set_targets(vec![kept.clone(), gone.clone()]);
    sleep(SECOND * 25).await;
    let grid = bench.drain().iter().rfind(|report| report.0 == kept.key.address).unwrap().1;
    let before = bench.state(&kept);
    assert_eq!(before.health(), Health::Up);

    // Another name of the monitor is no change; nor are the others that come and go.
    let mut renamed = kept.clone();
    renamed.monitor.name = "other".into();
    bench.supervisor.set_targets(vec![new.clone(), renamed]);
    assert_eq!(bench.state(&kept), before);
    assert_eq!(bench.state(&new).health(), Health::Unknown);
    sleep(SECOND * 12).await;
    let reports = bench.drain();
    let next = reports.iter().find(|report| report.0 == kept.key.address).unwrap().1;
    assert!(
        next.saturating_sub(grid).abs_diff(interval) <= Duration::from_millis(2),
        "{grid:?} {next:?}"
    );
    assert!(reports.iter().any(|report| report.0 == new.key.address));
    assert!(reports.iter().all(|report| report.0 != gone.key.address), "no longer probed");

    // One that comes back starts from nothing.
    bench.supervisor.set_targets(vec![gone.clone()]);
    assert_eq!(bench.state(&gone).health(), Health::Unknown);
    bench.supervisor.set_targets(vec![]);
    assert_eq!(bench.supervisor.states().count(), 0);
    sleep(SECOND * 30).await;
    assert_eq!(bench.drain(), []);
}

#[tokio::test(start_paused = true)]
async fn another_monitor_starts_from_the_present_state() {
    let mut bench = Bench::new(Duration::from_millis(1), SECOND * 5, 6);
    let old = target(1, SECOND * 10, SECOND);
    bench.supervisor.set_targets(vec![old.clone()]);
    sleep(SECOND * 2).await;
    assert_eq!(bench.state(&old).health(), Health::Up);
    bench.drain();
    sleep(SECOND * 4).await;

    let mut faster = target(1, SECOND, SECOND / 2);
    faster.monitor.fall = 2;
    bench.supervisor.set_targets(vec![faster.clone()]);
    assert_eq!(bench.state(&old).health(), Health::Up, "an edit of the monitor takes nobody down");
    sleep(SECOND * 4).await;
    assert_eq!(bench.state(&faster).health(), Health::Down, "but its failures do");
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_management_starts_from_what_it_knew() {
    let mut bench = Bench::new(Duration::ZERO, Duration::ZERO, 7);
    let (known, unknown) = (target(1, SECOND, SECOND / 2), target(2, SECOND, SECOND / 2));
    bench.supervisor.remember([(known.key.clone(), Health::Up)]);
    bench.supervisor.set_targets(vec![known.clone(), unknown.clone()]);
    sleep(SECOND * 8 / 5).await;
    assert_eq!(bench.state(&unknown).health(), Health::Down, "the first result decides");
    assert_eq!(bench.state(&known).health(), Health::Up, "the first failure of three");
    sleep(SECOND * 3).await;
    assert_eq!(bench.state(&known).health(), Health::Down);
}

/// A prober during whose probe the whole management thread stands still, as under a debugger.
struct Frozen;

impl Prober for Frozen {
    type Open = ();

    async fn probe(&self, _target: &Target) -> Result<(Outcome, ()), Cause> {
        tokio::time::advance(SECOND * 30).await;
        std::future::pending().await
    }

    async fn close(&self, (): ()) {}
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_management_slept_through_is_not_held_against_the_backend() {
    let (sender, mut reports) = mpsc::channel(8);
    let mut supervisor = Supervisor::with_prober(Frozen, sender, Instant::now(), 8);
    let mut once = target(1, SECOND, SECOND);
    once.monitor.fall = 1;
    supervisor.remember([(once.key.clone(), Health::Up)]);
    supervisor.set_targets(vec![once.clone()]);
    let report = reports.recv().await.unwrap();
    assert_eq!(report.result.outcome, Outcome::Fail(Cause::Stalled));
    assert_eq!((report.transition, report.damping.health()), (None, Health::Up));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_supervisor_or_the_receiver_stops_the_probes() {
    let mut bench = Bench::new(Duration::ZERO, FOREVER, 9);
    bench.supervisor.set_targets(vec![target(1, SECOND, SECOND)]);
    sleep(SECOND * 5).await;
    drop(bench.supervisor);
    let count = bench.started.load(Ordering::Relaxed);
    sleep(SECOND * 5).await;
    assert_eq!(bench.started.load(Ordering::Relaxed), count);

    let mut bench = Bench::new(Duration::ZERO, FOREVER, 9);
    bench.supervisor.set_targets(vec![target(1, SECOND, SECOND)]);
    drop(bench.reports);
    sleep(SECOND * 5).await;
    assert_eq!(bench.started.load(Ordering::Relaxed), 1, "nobody listens");
}
