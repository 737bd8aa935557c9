//! Management's sign of life, for whoever watches it from another thread.
//!
//! Management turns its loop at least every 10 ms and says so here. It also notes afterwards how long
//! it stood still, so that a stall is known even if nobody watched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

/// A turn that takes longer is a stall: no probe is answered and no verb served meanwhile.
pub const STALL_LIMIT: Duration = Duration::from_secs(5);

/// A stall that ended longer ago is no alarm any more.
const ALARM_AGE: Duration = Duration::from_hours(1);

/// Notices that wait. A process has few in its life; more means that nobody takes them.
const NOTICE_CAP: usize = 16;

/// What the service manager wants to know of management's course.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Every worker has tables with all VIPs, the first time.
    Serving,
    /// The configuration is being read again (SIGHUP).
    Reloading,
    /// That ended, well or not; the appliance serves as before.
    Reloaded,
    /// Management failed, and waits before it starts again; workers forward on.
    Interrupted,
    /// It starts again.
    Resumed,
    /// The daemon ends.
    Stopping,
}

/// How often management failed, and when the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Since the start of the daemon.
    pub count: u32,
    /// Since the start of the daemon, in steps of 100 ms.
    pub last: Duration,
}

/// Management's last long standstill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// How long it stood, in steps of 100 ms.
    pub lasted: Duration,
    /// When it went on, since the start of the daemon, in steps of 100 ms.
    pub ended: Duration,
}

/// Shared by management, which writes, and by those who watch it.
#[derive(Debug)]
pub struct Pulse {
    started: Instant,
    /// Milliseconds from `started` to the newest turn.
    /// Written by: management. Read by: watchdog.
    turned_at: AtomicU64,
    /// The newest [`Stall`] in one word, [`Stall::to_word`]; 0 is none.
    /// Written by: management. Read by: any.
    stall: AtomicU64,
    /// [`Failures`] in one word, [`Failures::to_word`]; 0 is none.
    /// Written by: management. Read by: any.
    failures: AtomicU64,
    notices: Sender<Notice>,
    inbox: Receiver<Notice>,
}

impl Pulse {
    /// A pulse that beats for the first time now. `started` is when the daemon started; all times
    /// here count from it.
    #[must_use]
    pub fn new(started: Instant) -> Self {
        let (notices, inbox) = bounded(NOTICE_CAP);
        let turned_at = AtomicU64::new(milliseconds(started.elapsed()));
        let (stall, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { started, turned_at, stall, failures, notices, inbox }
    }

    /// Time since the daemon started.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Management's loop turns. For management only: two writers would take each other's stalls.
    pub fn turn(&self) {
        self.turn_at(self.now());
    }

    fn turn_at(&self, now: Duration) {
        let stood = self.standstill_at(now);
        self.turned_at.store(milliseconds(now), Ordering::Relaxed);
        if stood >= STALL_LIMIT {
            let stall = Stall { lasted: stood, ended: now };
            self.stall.store(stall.to_word(), Ordering::Relaxed);
        }
    }

    /// Management failed and is to start again. For management only.
    pub fn failed(&self) {
        self.failed_at(self.now());
    }

    fn failed_at(&self, now: Duration) {
        let count = self.failures().map_or(0, |failures| failures.count).saturating_add(1);
        let failures = Failures { count, last: now };
        self.failures.store(failures.to_word(), Ordering::Relaxed);
    }

    /// How often management failed; `None` if it never did.
    #[must_use]
    pub fn failures(&self) -> Option<Failures> {
        Failures::from_word(self.failures.load(Ordering::Relaxed))
    }

    /// How long ago the loop turned.
    #[must_use]
    pub fn standstill(&self) -> Duration {
        self.standstill_at(self.now())
    }

    fn standstill_at(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.turned_at.load(Ordering::Relaxed)))
    }

    /// The last time that the loop stood still for [`STALL_LIMIT`] or longer and went on.
    #[must_use]
    pub fn last_stall(&self) -> Option<Stall> {
        Stall::from_word(self.stall.load(Ordering::Relaxed))
    }

    /// The alarm of a failure within the last hour, for `status`.
    #[must_use]
    pub fn failure_alarm(&self) -> Option<String> {
        self.failure_alarm_at(self.now())
    }

    /// The alarm of a stall that ended within the last hour, for `status`.
    #[must_use]
    pub fn stall_alarm(&self) -> Option<String> {
        self.stall_alarm_at(self.now())
    }

    fn failure_alarm_at(&self, now: Duration) -> Option<String> {
        let Failures { count, last } = self.failures()?;
        let ago = now.saturating_sub(last);
        (ago < ALARM_AGE).then(|| {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!(
                "management failed {times} since the start, the last time {} ago, and started again \
                 with its last state, forwarding went on; look at the log for why, and report a panic",
                rounded(ago)
            )
        })
    }

    fn stall_alarm_at(&self, now: Duration) -> Option<String> {
        let Stall { lasted, ended } = self.last_stall()?;
        let ago = now.saturating_sub(ended);
        (ago < ALARM_AGE).then(|| {
            format!(
                "management stood still for {} until {} ago: no probes and no verbs meanwhile, \
                 forwarding went on; look at the log, and for what else runs on its core",
                rounded(lasted),
                rounded(ago)
            )
        })
    }

    /// Tells the watcher. Never waits: if sixteen notices lie there, nobody takes them, and this one
    /// is left out.
    pub fn tell(&self, notice: Notice) {
        let _ = self.notices.try_send(notice);
    }

    /// Where the notices come out, in their order. Each is taken once: there is one watcher.
    #[must_use]
    pub fn notices(&self) -> Receiver<Notice> {
        self.inbox.clone()
    }
}

impl Failures {
    /// Both in one word, so that nobody reads one failure's number with another one's time. The
    /// number is never 0.
    fn to_word(self) -> u64 {
        u64::from(self.count) << 32 | tenths(self.last)
    }

    fn from_word(word: u64) -> Option<Self> {
        let last = Duration::from_millis((word & u64::from(u32::MAX)) * 100);
        let count = u32::try_from(word >> 32).unwrap_or(u32::MAX);
        (word != 0).then_some(Self { count, last })
    }
}

impl Stall {
    /// Both times in one word, so that nobody reads one stall's length with another one's end: tenths
    /// of a second, 32 bits each, enough for 13 years. A stall lasts longer than 100 ms: never 0.
    fn to_word(self) -> u64 {
        tenths(self.lasted) << 32 | tenths(self.ended)
    }

    fn from_word(word: u64) -> Option<Self> {
        let time = |tenths: u64| Duration::from_millis(tenths * 100);
        (word != 0)
            .then(|| Self { lasted: time(word >> 32), ended: time(word & u64::from(u32::MAX)) })
    }
}

fn tenths(time: Duration) -> u64 {
    u64::from(u32::try_from(time.as_millis() / 100).unwrap_or(u32::MAX))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// For people: seconds below two minutes, else minutes.
fn rounded(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A pulse whose daemon started, and whose management turned, at time zero.
    #[expect(
        clippy::disallowed_methods,
        reason = "the start is a point in time; the rest is given"
    )]
    fn pulse() -> Pulse {
        let pulse = Pulse::new(Instant::now());
        pulse.turn_at(Duration::ZERO);
        pulse
    }

    #[test]
    fn quick_turns_are_no_stall() {
        let pulse = pulse();
        for turn in 1..1_000 {
            pulse.turn_at(Duration::from_millis(turn * 10));
        }
        pulse.turn_at(Duration::from_millis(9_989) + STALL_LIMIT);
        assert_eq!(pulse.last_stall(), None);
        assert_eq!(pulse.stall_alarm_at(seconds(20)), None);
    }

    #[test]
    fn a_stall_is_seen_while_it_lasts_and_known_afterwards() {
        let pulse = pulse();
        for turn in 1..=100 {
            pulse.turn_at(seconds(turn));
        }
        assert_eq!(pulse.standstill_at(seconds(107)), seconds(7));
        assert_eq!(pulse.last_stall(), None, "it goes on");
        pulse.turn_at(seconds(112));
        pulse.turn_at(seconds(113));
        assert_eq!(pulse.standstill_at(seconds(113)), Duration::ZERO);
        assert_eq!(pulse.last_stall(), Some(Stall { lasted: seconds(12), ended: seconds(112) }));
        let alarm = pulse.stall_alarm_at(seconds(112 + 185)).unwrap();
        assert!(alarm.starts_with("management stood still for 12 s until 3 min ago: "), "{alarm}");
        assert_eq!(pulse.stall_alarm_at(seconds(112) + ALARM_AGE), None);
    }

    #[test]
    fn the_newest_stall_counts() {
        let pulse = pulse();
        for turn in [60, 120, 126] {
            pulse.turn_at(seconds(turn));
        }
        assert_eq!(pulse.last_stall(), Some(Stall { lasted: seconds(6), ended: seconds(126) }));
    }

    #[test]
    fn a_failure_is_an_alarm_for_an_hour_beside_that_of_a_stall() {
        let pulse = pulse();
        assert_eq!(pulse.failures(), None);
        pulse.failed_at(seconds(10));
        assert_eq!(pulse.failures(), Some(Failures { count: 1, last: seconds(10) }));
        let alarm = pulse.failure_alarm_at(seconds(15)).unwrap();
        assert!(alarm.starts_with("management failed once since the start"), "{alarm}");
        for _ in 0..9 {
            pulse.failed_at(seconds(20));
        }
        pulse.turn_at(seconds(30));
        let alarm = pulse.failure_alarm_at(seconds(31)).unwrap();
        assert!(
            alarm.contains("failed 10 times since the start, the last time 11 s ago"),
            "{alarm}"
        );
        let alarm = pulse.stall_alarm_at(seconds(31)).unwrap();
        assert!(alarm.starts_with("management stood still for 30 s"), "{alarm}");
        assert_eq!(pulse.failure_alarm_at(seconds(25) + ALARM_AGE), None);
        assert!(pulse.stall_alarm_at(seconds(25) + ALARM_AGE).is_some());
        assert_eq!(pulse.stall_alarm_at(seconds(30) + ALARM_AGE), None);
    }

    #[test]
    fn a_stall_fits_its_word() {
        bolero::check!().with_type::<(u32, u32)>().for_each(|&(lasted, ended)| {
            let time = |tenths: u32| Duration::from_millis(u64::from(tenths) * 100);
            let stall = Stall { lasted: time(lasted.max(1)), ended: time(ended) };
            assert_eq!(Stall::from_word(stall.to_word()), Some(stall));
        });
        // Longer than the word has room for: the longest that it has.
        let long = Stall { lasted: Duration::MAX, ended: Duration::MAX };
        assert_eq!(long.to_word(), u64::MAX);
    }

    #[test]
    fn notices_come_in_order_and_never_wait() {
        let pulse = pulse();
        let notices = pulse.notices();
        pulse.tell(Notice::Reloading);
        pulse.tell(Notice::Reloaded);
        assert_eq!(notices.try_iter().collect::<Vec<_>>(), [Notice::Reloading, Notice::Reloaded]);
        for _ in 0..100 {
            pulse.tell(Notice::Serving);
        }
        assert_eq!(notices.try_iter().count(), NOTICE_CAP);
    }

    #[test]
    fn a_turn_reads_the_clock() {
        let pulse = pulse();
        while pulse.now() < Duration::from_millis(2) {}
        assert!(pulse.standstill() >= Duration::from_millis(1));
        pulse.turn();
        assert!(pulse.turned_at.load(Ordering::Relaxed) >= 2);
    }
}
