//! Frames that are made before a run, in the order in which they are sent: for rates.

use crate::frame::{Content, Filling, fragments, put_checksums};
use crate::latency::{Latency, Summary};
use crate::profile::{Kind, Profile};
use crate::stamp::{Layout, Stamp};
use crate::traffic::Generator;
use crate::wire::{self, IpHeader};

/// Frames that a set of flows is visited with at least, so that mixtures and Zipf's law show.
const LEAST_COUNT: u64 = 1 << 16;
/// Bytes of all frames at most.
const MEMORY_CAP: usize = 1 << 30;

/// A time and its complement: together they add nothing to a checksum, whatever the time.
const TIME_LEN: usize = 16;

fn write_time(bytes: &mut [u8], time: u64) {
    bytes[..8].copy_from_slice(&time.to_be_bytes());
    bytes[8..].copy_from_slice(&(!time).to_be_bytes());
}

fn read_time(bytes: &[u8]) -> Option<u64> {
    let (halves, _) = bytes.as_chunks::<8>();
    let [time, complement] = halves else { return None };
    let time = u64::from_be_bytes(*time);
    (u64::from_be_bytes(*complement) == !time).then_some(time)
}

/// Frames, one after the other and round again.
pub struct Prebuilt {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    next: usize,
    start: usize,
    latency: Option<Latency>,
    /// Somebody encapsulates them.
    pub is_encapsulated: bool,
}

impl Prebuilt {
    /// Makes the frames of a profile: every flow has one at least, unless that takes more than a
    /// GiB.
    pub fn new(profile: &Profile, generator: &mut Generator, is_encapsulated: bool) -> Self {
        let filling = Filling::new();
        let count = profile.flow_count().max(LEAST_COUNT);
        let mut prebuilt = Self::empty(is_encapsulated);
        for sequence in (1..=u32::MAX).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let planned = generator.plan();
            let set = &generator.sets()[planned.set];
            let content = Content {
                source: planned.source,
                flags: planned.flags,
                stamp: Stamp { flow: planned.flow, sequence, version: 0 },
                cycles: 0,
            };
            let mut frame = vec![0; set.template.frame_len(planned.ip_len)];
            set.template.write(&mut frame, planned.ip_len, &content, &filling, profile.seed);
            let is_added = if set.kind == Kind::UdpFragments {
                let parts = fragments(&frame, set.template.link_len());
                parts.iter().all(|part| prebuilt.add(part))
            } else {
                prebuilt.add(&frame)
            };
            if !is_added {
                break;
            }
        }
        prebuilt
    }

    /// No frames yet.
    pub fn empty(is_encapsulated: bool) -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            next: 0,
            start: 0,
            latency: None,
            is_encapsulated,
        }
    }

    /// Adds a frame; `false` if there is no room for it.
    pub fn add(&mut self, frame: &[u8]) -> bool {
        if self.bytes.len() + frame.len() > MEMORY_CAP {
            return false;
        }
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len() as u32);
        true
    }

    /// From now on frames carry the time at which they are sent, in their last 16 bytes; those that
    /// are too short for it do not. Latencies begin anew.
    pub fn keep_time(&mut self, hz: u64) {
        if self.latency.replace(Latency::new(hz)).is_some() {
            return;
        }
        let mut start = 0;
        for &end in &self.ends {
            let frame = &mut self.bytes[start..end as usize];
            start = end as usize;
            let at = if frame[12] == 0x81 { 18 } else { 14 };
            let Some(header) = IpHeader::read(&frame[at..]) else { continue };
            let packet = &mut frame[at..at + header.total_len];
            let Some(layout) = Layout::of(&header) else { continue };
            if packet.len() < layout.body() + TIME_LEN || at + packet.len() < wire::SHORTEST_FRAME {
                continue;
            }
            let time = packet.len() - TIME_LEN;
            write_time(&mut packet[time..], 0);
            put_checksums(packet, layout.ip, layout.is_tcp);
        }
    }

    /// Stamps a frame that is sent now, if there is a place for the time in it.
    #[inline]
    pub fn stamp(&self, frame: &mut [u8], now: u64) {
        if self.latency.is_some()
            && let Some(at) = frame.len().checked_sub(TIME_LEN)
            && read_time(&frame[at..]).is_some()
        {
            write_time(&mut frame[at..], now);
        }
    }

    /// Records the latency of a frame that came back, if it carries its time.
    #[inline]
    pub fn record(&mut self, frame: &[u8], now: u64) {
        if let Some(latency) = &mut self.latency
            && let Some(at) = frame.len().checked_sub(TIME_LEN)
            && let Some(sent_at) = read_time(&frame[at..])
        {
            latency.record(now.saturating_sub(sent_at));
        }
    }

    /// Whether frames carry their time.
    pub fn is_timed(&self) -> bool {
        self.latency.is_some()
    }

    /// The latencies since [`Self::keep_time`].
    pub fn latency(&self) -> Summary {
        self.latency.as_ref().map(Latency::summary).unwrap_or_default()
    }

    /// The next frame; empty if there is none at all.
    #[inline]
    pub fn next_frame(&mut self) -> &[u8] {
        let Some(&end) = self.ends.get(self.next) else { return &[] };
        let end = end as usize;
        let start = self.start;
        self.next += 1;
        self.start = end;
        if self.next == self.ends.len() {
            (self.next, self.start) = (0, 0);
        }
        &self.bytes[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_order_and_round_again() {
        let mut prebuilt = Prebuilt::empty(false);
        assert_eq!(prebuilt.next_frame(), b"");
        assert!(prebuilt.add(b"one") && prebuilt.add(b"three"));
        let frames: Vec<_> = (0..5).map(|_| prebuilt.next_frame().to_vec()).collect();
        assert_eq!(frames, [&b"one"[..], b"three", b"one", b"three", b"one"]);
    }
}
