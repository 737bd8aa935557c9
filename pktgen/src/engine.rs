//! The loop: sends what is due, takes what comes back, and lets the changes happen.

use std::hint;

use lodestone::dpdk::{BURST, Burst, Mbuf, cycles};
use lodestone::packet::PacketBuf;

use crate::change::{Progress, Timeline};
use crate::frame::{Content, fragments};
use crate::io::{End, Rotation, discard};
use crate::neighbour::Hosts;
use crate::pace::Pace;
use crate::prebuilt::Prebuilt;
use crate::profile::Kind;
use crate::traffic::Generator;
use crate::verify::{Verifier, outer};

/// Nothing came for so long: what is still on its way is lost.
const SILENCE_SECONDS: f64 = 1.0;
/// A verifying run ends early when the window was lost so often: more tells nothing new.
const LOST_WINDOWS: u32 = 2;
/// Rounds between looks at the slow matters: changes, the clock of the display.
const SLOW_ROUNDS: u32 = 64;
/// No encapsulated packet is shorter than this: two IPv4 headers, a TCP or UDP header and some.
const SHORTEST_ENCAPSULATED: usize = 14 + 20 + 28;
/// Lengths of neighbour solicitations, without and with the asker's link-layer address.
const SOLICITATIONS: [usize; 2] = [14 + 40 + 24, 14 + 40 + 32];
/// Length of a report of multicast listeners (RFC 3810 §5.2) but for its records, and of a record.
const REPORT: usize = 14 + 40 + 8 + 8;
/// See [`REPORT`].
const REPORT_RECORD: usize = 20;
/// No appliance of a run listens to more groups.
const RECORD_CAP: usize = 16;

/// What is sent, and what happens to what comes back.
pub enum Work<'a> {
    /// Frames are made one by one, and each is checked.
    Verify {
        /// What comes next.
        generator: &'a mut Generator,
        /// Who checks.
        verifier: &'a mut Verifier,
        /// What happens meanwhile.
        timeline: Option<&'a mut Timeline>,
    },
    /// Frames are made beforehand, and counted.
    Count(&'a mut Prebuilt),
}

/// When to stop, and how much may be on its way.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Packets to send.
    pub packets: Option<u64>,
    /// Cycles to send for.
    pub cycles: Option<u64>,
    /// Packets on their way at most.
    pub window: Option<u64>,
    /// What a run is bound by.
    pub hz: u64,
    /// Of the digests.
    pub seed: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Packets that the device took.
    pub sent: u64,
    /// Of these, those that are to come back.
    pub forwarded: u64,
    /// Their bytes, without the check sequence.
    pub bytes: u64,
    /// Packets that were due and not taken by the device, or had no buffer.
    pub not_sent: u64,
    /// Packets that came back.
    pub returned: u64,
    /// Frames that were something else.
    pub other: u64,
    /// From the first packet to the last.
    pub cycles: u64,
    /// The run ended before all was sent: packets are lost.
    pub ended_early: bool,
}

/// The devices and the hosts that are played.
pub struct Wire<'a> {
    /// The generator's ports; by the place of the appliance's port, if there is one in the process.
    pub ends: &'a mut [End],
    /// The place of the one that sends.
    pub sender: usize,
    /// Buffers.
    pub rotation: &'a mut Rotation,
    /// Who answers for their addresses.
    pub hosts: &'a mut Hosts,
}

impl Wire<'_> {
    /// Answers what waits, and nothing else: while the appliance looks for its neighbours.
    pub fn serve(&mut self) {
        for end in &mut *self.ends {
            let (mut burst, mut answers) = (Burst::new(), Burst::new());
            end.rx.rx_burst(&mut burst);
            for mut frame in burst.drain(..) {
                if self.hosts.answer(&mut frame) {
                    answers.push(frame);
                }
            }
            transmit(end, &mut answers);
        }
    }
}

/// A run under way.
struct Run<'a, 'b> {
    wire: &'a mut Wire<'b>,
    bounds: Bounds,
    counts: Counts,
    /// Filled, and not taken by the device yet.
    waiting: Burst,
    /// Packets that did not come back, as far as was noticed on the way.
    given_up: u64,
    lost_windows: u32,
    heard_at: u64,
}

/// Sends and receives until the bounds are reached and all is back. `display` is called now and
/// then with what is counted so far.
///
/// # Errors
/// A change is refused.
pub fn run(
    wire: &mut Wire<'_>,
    mut work: Work<'_>,
    pace: &mut Pace,
    bounds: Bounds,
    mut display: impl FnMut(&Counts, Option<&Verifier>, u64),
) -> anyhow::Result<Counts> {
    let start = cycles();
    let mut run = Run {
        wire,
        bounds,
        counts: Counts::default(),
        waiting: Burst::new(),
        given_up: 0,
        lost_windows: 0,
        heard_at: start,
    };
    let silence = (SILENCE_SECONDS * bounds.hz as f64) as u64;
    let mut planned = 0;
    let mut rounds = 0_u32;
    loop {
        let now = cycles();
        let elapsed = now.saturating_sub(start);
        let left = bounds.packets.map_or(u64::MAX, |packets| packets.saturating_sub(planned));
        let is_over = left == 0
            || bounds.cycles.is_some_and(|most| elapsed >= most)
            || run.lost_windows >= LOST_WINDOWS && matches!(work, Work::Verify { .. });
        if !is_over {
            let room = bounds.window.map_or(u64::MAX, |most| most.saturating_sub(run.on_way()));
            let most = left.min(room).min((BURST - run.waiting.len()) as u64);
            let due = pace.due(elapsed, most) as usize;
            if due > 0 {
                planned += run.prepare(&mut work, due, now);
            }
            run.counts.cycles = elapsed;
        }
        run.send();
        let came = run.receive(&mut work);
        rounds += 1;
        if rounds >= SLOW_ROUNDS || is_over {
            rounds = 0;
            let progress = run.progress(is_over);
            if let Work::Verify { verifier, timeline: Some(timeline), .. } = &mut work {
                timeline.poll(progress, verifier, run.wire.hosts)?;
            }
            let verifier = match &work {
                Work::Verify { verifier, .. } => Some(&**verifier),
                Work::Count(_) => None,
            };
            display(&run.counts, verifier, elapsed);
        }
        if came {
            run.heard_at = now;
        } else {
            hint::spin_loop();
        }
        let is_silent = now.saturating_sub(run.heard_at) > silence;
        if is_over {
            let is_back = run.on_way() == 0 && run.waiting.is_empty();
            let is_quiet = match &work {
                Work::Verify { timeline: Some(timeline), .. } => timeline.is_done(),
                _ => true,
            };
            if is_back && is_quiet || is_silent {
                run.counts.not_sent += discard(&mut run.waiting);
                run.counts.ended_early = run.lost_windows >= LOST_WINDOWS;
                return Ok(run.counts);
            }
        } else if is_silent && run.on_way() > 0 && bounds.window.is_some() {
            run.lost_windows += 1;
            run.given_up += run.on_way();
            run.heard_at = now;
        }
    }
}

impl Run<'_, '_> {
    /// Packets that are to come back and are neither here nor given up.
    fn on_way(&self) -> u64 {
        (self.counts.forwarded + self.waiting.len() as u64)
            .saturating_sub(self.counts.returned + self.given_up)
    }

    fn progress(&self, is_over: bool) -> Progress {
        Progress {
            sent: self.counts.forwarded,
            settled: self.counts.returned + self.given_up,
            is_over,
        }
    }

    /// Fills `waiting` with the next packets; returns how many there were buffers for.
    #[inline]
    fn prepare(&mut self, work: &mut Work<'_>, count: usize, now: u64) -> u64 {
        let mut empty = Burst::new();
        self.wire.rotation.take(&mut empty, count);
        let taken = empty.len() as u64;
        match work {
            Work::Verify { generator, verifier, .. } => {
                for mbuf in empty {
                    self.prepare_one(generator, verifier, mbuf, now);
                }
            }
            Work::Count(prebuilt) => {
                for mut mbuf in empty {
                    let frame = prebuilt.next_frame();
                    let len = frame.len();
                    match mbuf.append(len) {
                        Some(room) => {
                            room.copy_from_slice(frame);
                            prebuilt.stamp(room, now);
                        }
                        None => self.counts.not_sent += 1,
                    }
                    self.counts.bytes += len as u64;
                    self.waiting.push(mbuf);
                }
            }
        }
        taken
    }

    fn prepare_one(
        &mut self,
        generator: &mut Generator,
        verifier: &mut Verifier,
        mut mbuf: Mbuf,
        now: u64,
    ) {
        let planned = generator.plan();
        let set = &generator.sets()[planned.set];
        let content = Content {
            source: planned.source,
            flags: planned.flags,
            stamp: verifier.send(planned.flow, planned.is_last),
            cycles: now,
        };
        let len = set.template.frame_len(planned.ip_len);
        let Some(frame) = mbuf.append(len) else {
            self.counts.not_sent += 1;
            return;
        };
        set.template.write(frame, planned.ip_len, &content, verifier.filling(), self.bounds.seed);
        if set.kind == Kind::UdpFragments {
            self.prepare_fragments(mbuf, set.template.link_len());
            return;
        }
        self.counts.bytes += mbuf.bytes().len() as u64;
        if set.is_forwarded {
            self.waiting.push(mbuf);
        } else {
            // They are counted apart, and sent at once, so that `waiting` is of one kind.
            let mut burst = Burst::new();
            burst.push(mbuf);
            self.send_unreturned(&mut burst);
        }
    }

    /// Sends a datagram in two parts; neither may come back.
    #[cold]
    fn prepare_fragments(&mut self, whole: Mbuf, link_len: usize) {
        let mut burst = Burst::new();
        self.wire.rotation.take(&mut burst, 1);
        burst.push(whole);
        let Some(parts) = burst.last().map(|whole| fragments(whole.bytes(), link_len)) else {
            return;
        };
        for (mbuf, part) in burst.iter_mut().zip(&parts) {
            self.counts.bytes += part.len() as u64;
            if !mbuf.fill(part) {
                self.counts.not_sent += 1;
            }
        }
        self.send_unreturned(&mut burst);
    }

    fn send_unreturned(&mut self, burst: &mut Burst) {
        self.counts.sent += transmit(&mut self.wire.ends[self.wire.sender], burst);
        self.counts.not_sent += discard(burst);
    }

    /// Gives the device what waits; what it does not take goes on waiting.
    #[inline]
    fn send(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let sent = self.wire.ends[self.wire.sender].tx.tx_burst(&mut self.waiting) as u64;
        self.counts.sent += sent;
        self.counts.forwarded += sent;
    }

    /// Takes a burst from every port; whether anything came.
    #[inline]
    fn receive(&mut self, work: &mut Work<'_>) -> bool {
        let mut came = false;
        for place in 0..self.wire.ends.len() {
            let mut burst = Burst::new();
            if self.wire.ends[place].rx.rx_burst(&mut burst) == 0 {
                continue;
            }
            came = true;
            let mut answers = Burst::new();
            match work {
                Work::Verify { generator, verifier, .. } => {
                    let now = cycles();
                    for mut frame in burst.drain(..) {
                        if verifier.receive(frame.bytes(), place, generator.sets(), now) {
                            continue;
                        }
                        self.counts.other += 1;
                        if self.wire.hosts.answer(&mut frame) {
                            answers.push(frame);
                        }
                    }
                    self.counts.returned = verifier.returned;
                }
                Work::Count(prebuilt) => {
                    if prebuilt.is_encapsulated && burst.iter().any(may_be_talk) {
                        self.take_talk(&mut burst, &mut answers);
                    }
                    if prebuilt.is_timed() {
                        let now = cycles();
                        for frame in &burst {
                            prebuilt.record(frame.bytes(), now);
                        }
                    }
                    self.counts.returned += discard(&mut burst);
                }
            }
            transmit(&mut self.wire.ends[place], &mut answers);
        }
        came
    }

    /// Takes the frames out of a burst that are no encapsulated packets: questions of the appliance
    /// for its neighbours.
    #[cold]
    fn take_talk(&mut self, burst: &mut Burst, answers: &mut Burst) {
        let mut kept = Burst::new();
        for mut frame in burst.drain(..) {
            if !may_be_talk(&frame) || outer::is_encapsulated(frame.bytes()) {
                kept.push(frame);
                continue;
            }
            self.counts.other += 1;
            if self.wire.hosts.answer(&mut frame) {
                answers.push(frame);
            }
        }
        *burst = kept;
    }
}

/// Whether a frame has the length of one that asks for a neighbour or reports listeners, so that a look into it is worth
/// its cost.
fn may_be_talk(frame: &Mbuf) -> bool {
    let len = frame.bytes().len();
    let records = len.wrapping_sub(REPORT);
    len < SHORTEST_ENCAPSULATED
        || SOLICITATIONS.contains(&len)
        || records <= RECORD_CAP * REPORT_RECORD && records.is_multiple_of(REPORT_RECORD)
}

/// Sends a burst in as many tries as a full queue may need, and frees what is left.
fn transmit(end: &mut End, burst: &mut Burst) -> u64 {
    const TRIES: u32 = 10_000;
    let mut sent = 0;
    for _ in 0..TRIES {
        if burst.is_empty() {
            break;
        }
        sent += end.tx.tx_burst(burst) as u64;
    }
    sent
}
