//! Alarms about how traffic reaches the workers, from looks at the counters.

use std::collections::BTreeMap;
use std::time::Duration;

use super::alarms::{Alarm, AlarmKind};
use super::ports::{Ports, WorkerRemote};
use crate::id::{PORT_CAP, PortId, WorkerId};

/// Packets in a window from which on their spread says something.
pub const SIGNIFICANT_PACKETS: u64 = 1_000;

/// What has been counted up to a moment. Take one, take another some seconds later (ten, say), and
/// ask [`traffic_alarms`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficSample {
    /// Every worker.
    pub workers: Vec<WorkerTraffic>,
    /// Every port, in the order of [`PortId`].
    pub ports: Vec<PortTraffic>,
}

/// What a worker has received since start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTraffic {
    /// The worker.
    pub worker: WorkerId,
    /// Its core, for people.
    pub core: usize,
    /// Frames received, by [`PortId`].
    pub by_port: Vec<u64>,
}

/// What a port has lost since start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortTraffic {
    /// Its name.
    pub name: String,
    /// Queues that it receives on.
    pub queue_count: u16,
    /// Frames that its device dropped since no worker fetched them in time.
    pub rx_missed: u64,
}

impl TrafficSample {
    /// The counters as they are now, of ports with these names.
    #[must_use]
    pub fn take<'a>(
        workers: &[WorkerRemote],
        ports: &dyn Ports,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let ids = || (0..=u8::MAX).map(PortId).take(PORT_CAP);
        let ports: Vec<_> = ids()
            .zip(names)
            .map(|(id, name)| {
                let state = ports.state(id);
                PortTraffic {
                    name: name.to_owned(),
                    queue_count: state.queues,
                    rx_missed: state.rx_missed,
                }
            })
            .collect();
        let workers = workers
            .iter()
            .map(|worker| WorkerTraffic {
                worker: worker.id,
                core: worker.core,
                by_port: ids().take(ports.len()).map(|id| worker.stats.port_rx(id)).collect(),
            })
            .collect();
        Self { workers, ports }
    }
}

/// What an operator should know about the traffic between two moments, a sentence each: a worker
/// that gets nothing, a worker that gets everything, frames that nobody fetched. A worker or port
/// that is in one of the samples only is left out.
#[must_use]
pub fn traffic_alarms(before: &TrafficSample, after: &TrafficSample) -> Vec<Alarm> {
    let workers: Vec<_> = after
        .workers
        .iter()
        .filter_map(|now| {
            let then = before.workers.iter().find(|then| then.worker == now.worker)?;
            let received = now.by_port.iter().zip(&then.by_port);
            let by_port: Vec<_> = received.map(|(now, then)| now.saturating_sub(*then)).collect();
            Some((now.worker, now.core, by_port))
        })
        .collect();
    let all: u64 = workers.iter().flat_map(|(_, _, by_port)| by_port).sum();
    let mut alarms = Vec::new();
    let mut alarm = |subject: String, text| {
        alarms.push(Alarm::new(AlarmKind::Traffic, subject, text));
    };
    for (worker, core, by_port) in &workers {
        if by_port.iter().all(|&packets| packets == 0) && all > SIGNIFICANT_PACKETS {
            let subject = format!("worker {worker}");
            alarm(
                subject,
                format!(
                    "worker {worker} (core {core}) got none of the last {all} packets; check that RSS \
                 of the ports reaches its queue (`lodectl show ports`), and that clients are many \
                 enough to spread"
                ),
            );
        }
    }
    for (id, port) in after.ports.iter().enumerate() {
        let on_port = |by_port: &Vec<u64>| by_port.get(id).copied().unwrap_or_default();
        let all: u64 = workers.iter().map(|(_, _, by_port)| on_port(by_port)).sum();
        let busy = workers.iter().find(|(_, _, by_port)| on_port(by_port) != 0);
        let name = &port.name;
        if let Some((worker, core, by_port)) = busy
            && port.queue_count > 1
            && workers.len() > 1
            && all > SIGNIFICANT_PACKETS
            && on_port(by_port) == all
        {
            let subject = format!("port {name}");
            alarm(
                subject,
                format!(
                    "worker {worker} (core {core}) got all of the last {all} packets of port {name}, \
                 which has {} queues; turn on RSS over addresses and ports at the device or its \
                 host, or use one worker",
                    port.queue_count
                ),
            );
        }
        let then = before.ports.get(id).filter(|then| then.name == port.name);
        let missed = then.map_or(0, |then| port.rx_missed.saturating_sub(then.rx_missed));
        if missed != 0 {
            let subject = format!("{LOSS}{name}");
            alarm(
                subject,
                format!(
                    "port {name} dropped {missed} frames that no worker fetched in time; add \
                 `[cpu] workers`, or look at `lodectl show workers` for one that is overloaded or \
                 shares its core"
                ),
            );
        }
    }
    alarms
}

/// How far apart two looks are.
pub const WINDOW: Duration = Duration::from_secs(10);

/// Windows in a row that must show how traffic is spread before that is an alarm: for a window or
/// two one client may well have all of it.
const RAISE_AFTER: u32 = 3;

/// Windows in a row without it after which an alarm ends: what comes and goes is one alarm.
const CLEAR_AFTER: u32 = 3;

/// The last look, and what the windows before it showed.
#[derive(Debug, Default)]
pub struct Traffic {
    last: Option<(Duration, TrafficSample)>,
    /// By subject.
    findings: BTreeMap<String, Finding>,
}

/// Something that windows showed.
#[derive(Debug)]
struct Finding {
    /// As the last window that showed it said.
    alarm: Alarm,
    /// Windows in a row that showed it.
    shown: u32,
    /// Windows in a row since then that did not.
    absent: u32,
    is_raised: bool,
}

impl Traffic {
    /// Whether it is time for another look at `now`, any monotonic time.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.last.as_ref().is_none_or(|(at, _)| now.saturating_sub(*at) >= WINDOW)
    }

    /// Takes a look.
    pub fn look(&mut self, now: Duration, sample: TrafficSample) {
        if let Some((_, before)) = &self.last {
            self.judge(traffic_alarms(before, &sample));
        }
        self.last = Some((now, sample));
    }

    /// Takes what a window showed.
    fn judge(&mut self, shown: Vec<Alarm>) {
        for finding in self.findings.values_mut() {
            finding.absent += 1;
        }
        for alarm in shown {
            // Frames that are lost are lost: the first window says all there is to say.
            let raise_after = if is_loss(&alarm) { 1 } else { RAISE_AFTER };
            let finding = self.findings.entry(alarm.subject.clone()).or_insert_with(|| Finding {
                alarm: alarm.clone(),
                shown: 0,
                absent: 1,
                is_raised: false,
            });
            finding.shown = if finding.absent == 1 { finding.shown + 1 } else { 1 };
            finding.is_raised |= finding.shown >= raise_after;
            finding.absent = 0;
            finding.alarm = alarm;
        }
        self.findings.retain(|_, finding| finding.absent < CLEAR_AFTER);
    }

    /// What is wrong.
    pub fn alarms(&self) -> impl Iterator<Item = &Alarm> {
        self.findings.values().filter(|finding| finding.is_raised).map(|finding| &finding.alarm)
    }
}

/// The subject of an alarm about lost frames, after which the port's name comes.
const LOSS: &str = "frames of port ";

fn is_loss(alarm: &Alarm) -> bool {
    alarm.subject.starts_with(LOSS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers' packets of two ports, and the frames that each port missed.
    fn sample(workers: &[[u64; 2]], missed: [u64; 2]) -> TrafficSample {
        let worker = |(id, by_port): (u16, &[u64; 2])| WorkerTraffic {
            worker: WorkerId(id),
            core: usize::from(id) + 1,
            by_port: by_port.to_vec(),
        };
        let port = |name: &str, queue_count, rx_missed| PortTraffic {
            name: name.to_owned(),
            queue_count,
            rx_missed,
        };
        let queue_count = u16::try_from(workers.len()).unwrap();
        TrafficSample {
            workers: (0..).zip(workers).map(worker).collect(),
            ports: vec![
                port("front", queue_count, missed[0]),
                port("back", queue_count, missed[1]),
            ],
        }
    }

    fn texts(before: &TrafficSample, after: &TrafficSample) -> Vec<String> {
        traffic_alarms(before, after).into_iter().map(|alarm| alarm.text).collect()
    }

    fn alarms(before: &[[u64; 2]], after: &[[u64; 2]]) -> Vec<String> {
        texts(&sample(before, [0; 2]), &sample(after, [0; 2]))
    }

    #[test]
    fn spread_traffic_and_little_traffic_are_no_alarm() {
        assert!(alarms(&[[5, 5], [5, 5]], &[[9_005, 5], [1_005, 5]]).is_empty());
        assert!(alarms(&[[0, 0], [0, 0]], &[[1_000, 0], [0, 0]]).is_empty(), "not enough to tell");
        assert!(alarms(&[[0, 0], [0, 0]], &[[0, 0], [0, 0]]).is_empty());
        assert!(alarms(&[[0, 0]], &[[90_000, 0]]).is_empty(), "the only worker has everything");
    }

    #[test]
    fn a_worker_without_traffic_and_one_with_all_of_it_are_named() {
        let alarms = alarms(&[[70, 0], [9, 9], [0, 9]], &[[70, 0], [2_009, 9], [0, 10]]);
        assert_eq!(alarms.len(), 2, "{alarms:?}");
        assert!(
            alarms[0].starts_with("worker 0 (core 1) got none of the last 2001 packets; "),
            "{alarms:?}"
        );
        assert!(
            alarms[1].starts_with(
                "worker 1 (core 2) got all of the last 2000 packets of port front, which has 3 queues; "
            ),
            "{alarms:?}"
        );
        assert!(alarms[1].contains("turn on RSS"), "{alarms:?}");
    }

    #[test]
    fn a_port_with_one_queue_has_one_worker() {
        let before = sample(&[[0, 0], [0, 9]], [0; 2]);
        let mut after = sample(&[[2_000, 0], [0, 10]], [0; 2]);
        after.ports[0].queue_count = 1;
        assert!(traffic_alarms(&before, &after).is_empty());
    }

    #[test]
    fn frames_that_nobody_fetched_are_told_once_by_window() {
        let (before, after) = (sample(&[[0, 0]], [3, 8]), sample(&[[9, 9]], [3, 20]));
        let alarms = texts(&before, &after);
        assert_eq!(alarms.len(), 1, "{alarms:?}");
        assert!(
            alarms[0].starts_with("port back dropped 12 frames that no worker fetched in time; "),
            "{alarms:?}"
        );
        assert!(traffic_alarms(&after, &after).is_empty(), "it has stopped");
        assert!(traffic_alarms(&TrafficSample::default(), &after).is_empty(), "nothing to compare");
    }

    #[test]
    fn looks_are_a_window_apart() {
        let mut traffic = Traffic::default();
        assert!(traffic.is_due(Duration::ZERO));
        traffic.look(Duration::ZERO, sample(&[[0, 0], [0, 0]], [0; 2]));
        assert!(!traffic.is_due(WINDOW / 2) && traffic.is_due(WINDOW));
    }

    /// How many alarms there are after each window. A letter says what a window showed: `s` that
    /// worker 0 has all packets, `.` that both have some, `m` that frames were missed beside that.
    fn raised(windows: &str) -> String {
        let mut traffic = Traffic::default();
        let (mut workers, mut missed) = ([[0, 0], [0, 0]], [0, 0]);
        traffic.look(Duration::ZERO, sample(&workers, missed));
        let mut told = String::new();
        for (letter, number) in windows.chars().zip(1..) {
            workers[0][0] += 9_000;
            workers[1][0] += if letter == 's' { 0 } else { 5 };
            missed[1] += if letter == 'm' { 12 } else { 0 };
            traffic.look(WINDOW * number, sample(&workers, missed));
            told += &traffic.alarms().count().to_string();
        }
        told
    }

    #[test]
    fn a_spread_that_comes_and_goes_is_one_alarm_or_none() {
        // Worker 1 has nothing, and port `front` gives all to worker 0.
        assert_eq!(raised("sss..."), "002220");
        assert_eq!(raised("ss.ss.ss."), "000000000", "never long enough");
        assert_eq!(raised("ssss.s..s.s..ss.."), "00222222222222222", "never gone for long enough");
        assert_eq!(raised("sss...ss"), "00222000", "begins anew");
    }

    #[test]
    fn lost_frames_are_told_at_once_and_for_some_windows() {
        assert_eq!(raised("..m...m.m..."), "001110111110");
    }
}
