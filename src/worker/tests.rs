//! The worker with queues that fail on purpose: nothing is lost, doubled or out of order, and every
//! frame is counted once.

mod handover;
mod jobs;
mod runtime;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use crate::conntrack::{Conntrack, Ipv4Bucket, Ipv6Bucket, NoPrefetch};
use crate::forward::{Forwarder, PortRecord};
use crate::packet::originate::Origin;
use crate::packet::{Builder, FlowHashKey, HeapBuf, MacAddress};
use crate::snapshot::{Publisher, shared};
use crate::stats::{self, StatsView};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const OWN: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 0, 0, 9);

/// A port on the heap: what it will receive, what it has sent, and how much it takes a time.
#[derive(Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// How many packets each of the next calls of `transmit` takes; all when empty.
    takes: VecDeque<usize>,
    /// Whether every further call takes nothing.
    is_stuck: bool,
    /// How many more buffers there are.
    buffers: usize,
}

struct Double(Rc<RefCell<Wire>>);

impl Queues for Double {
    type Buf = HeapBuf;

    fn receive(&mut self, burst: &mut Burst<HeapBuf>) -> usize {
        let mut wire = self.0.borrow_mut();
        let count = wire.incoming.len().min(burst.remaining_capacity());
        burst.extend(wire.incoming.drain(..count).map(|frame| HeapBuf::new(&frame)));
        count
    }

    fn transmit(&mut self, burst: &mut Burst<HeapBuf>) -> usize {
        let mut wire = self.0.borrow_mut();
        let limit = if wire.is_stuck { 0 } else { wire.takes.pop_front().unwrap_or(usize::MAX) };
        let count = limit.min(burst.len());
        let taken: Vec<_> = burst.drain(..count).map(|buf| buf.bytes().to_vec()).collect();
        wire.sent.extend(taken);
        count
    }

    fn allocate(&mut self, frame: &[u8]) -> Option<HeapBuf> {
        let mut wire = self.0.borrow_mut();
        wire.buffers = wire.buffers.checked_sub(1)?;
        Some(HeapBuf::new(frame))
    }
}

type HeapForwarder = Forwarder<Box<[Ipv4Bucket]>, Box<[Ipv6Bucket]>, NoPrefetch>;
type HeapWorker = Worker<Double, HeapForwarder>;

struct Bench {
    worker: HeapWorker,
    wire: Rc<RefCell<Wire>>,
    view: StatsView<DropReason>,
    remote: MailboxRemote,
    publisher: Publisher<Tables>,
}

/// A worker with one port that owns [`OWN`], and a mailbox for `mailbox_cap` frames.
fn bench(mailbox_cap: usize) -> Bench {
    let mut tables = Tables::empty(FlowHashKey([7; 16]));
    tables.ports = Arc::from([PortRecord {
        mac: MAC,
        vlan: None,
        mtu: 1500,
        arp: Box::new([OWN]),
        neighbour_discovery: Box::new([]),
        ipv4: Box::new([OWN]),
        ipv6: Box::new([]),
    }]);
    let (publisher, mut readers) = shared(tables, 1);
    let (counters, view) = stats::worker(4);
    let (mailbox, remote) = mailbox(mailbox_cap);
    let wire = Rc::new(RefCell::new(Wire { buffers: usize::MAX, ..Wire::default() }));
    let worker = Worker::new(
        WorkerId(0),
        [Double(Rc::clone(&wire))],
        Forwarder::new(Conntrack::on_heap(16, 16)),
        readers.pop().unwrap(),
        counters,
        mailbox,
    );
    Bench { worker, wire, view, remote, publisher }
}

/// The n-th echo request of a client.
fn ping(n: u8) -> Vec<u8> {
    Builder::ethernet(PEER, MAC)
        .ipv4(CLIENT, OWN)
        .echo_request(1, n.into())
        .payload(&[n; 8])
        .build()
}

/// The numbers of the echo replies that were sent, in order.
fn answered(wire: &Wire) -> Vec<u8> {
    wire.sent.iter().map(|frame| *frame.last().unwrap()).collect()
}

#[test]
fn whatever_the_queue_takes_nothing_is_lost_doubled_or_out_of_order() {
    // All ways in which two calls take 0..=5 of five packets, before the rest goes at once.
    for first in 0..=5 {
        for second in 0..=5 {
            let mut bench = bench(4);
            bench.wire.borrow_mut().incoming.extend((0..5).map(ping));
            bench.wire.borrow_mut().takes.extend([first, second]);
            assert_eq!(bench.worker.poll(Tick(1)), 5);
            assert_eq!(answered(&bench.wire.borrow()), [0, 1, 2, 3, 4], "{first}, {second}");
            let stats = bench.view.snapshot();
            stats.conservation().unwrap();
            assert_eq!((stats.totals.rx_packets, stats.totals.tx_packets), (5, 5));
            assert_eq!(stats.totals.replies, 5);
            let bytes: usize = bench.wire.borrow().sent.iter().map(Vec::len).sum();
            assert_eq!(stats.totals.tx_bytes, bytes as u64);
        }
    }
}

#[test]
fn a_queue_that_stays_full_costs_a_bounded_time_and_counted_drops() {
    let mut bench = bench(4);
    bench.wire.borrow_mut().incoming.extend((0..40).map(ping));
    bench.wire.borrow_mut().is_stuck = true;
    assert_eq!(bench.worker.poll(Tick(1)), 32);
    let stats = bench.view.snapshot();
    stats.conservation().unwrap();
    assert_eq!(stats.dropped(DropReason::TxFull), 32);
    assert_eq!(stats.totals.tx_retries, TRANSMIT_RETRIES as u64);
    bench.wire.borrow_mut().is_stuck = false;
    bench.worker.poll(Tick(2));
    assert_eq!(answered(&bench.wire.borrow()), (32..40).collect::<Vec<_>>());
    bench.view.snapshot().conservation().unwrap();
}

#[test]
fn what_management_sends_goes_out_or_is_counted() {
    for buffers in 0..=3 {
        let mut bench = bench(4);
        bench.wire.borrow_mut().buffers = buffers;
        let origin = Origin { mac: MAC, vlan: None };
        for _ in 0..3 {
            let frame = Frame::new(PortId(0), &origin.arp_request(OWN, CLIENT)).unwrap();
            assert!(bench.remote.send(frame));
        }
        let elsewhere = Frame::new(PortId(9), &[0; 60]).unwrap();
        assert!(bench.remote.send(elsewhere.clone()));
        assert!(!bench.remote.send(elsewhere), "the mailbox is bounded");
        assert_eq!(bench.worker.poll(Tick(1)), 4);
        let stats = bench.view.snapshot();
        stats.conservation().unwrap();
        assert_eq!(stats.totals.originated, 4);
        assert_eq!(stats.totals.tx_packets, buffers as u64);
        assert_eq!(stats.dropped(DropReason::NoBuffer), 4 - buffers as u64);
    }
}

#[test]
fn a_full_mailbox_is_a_counted_drop_and_never_a_wait() {
    let mut bench = bench(2);
    let origin = Origin { mac: PEER, vlan: None };
    bench.wire.borrow_mut().incoming.extend((0..5).map(|_| origin.arp_announcement(CLIENT)));
    bench.worker.poll(Tick(1));
    let stats = bench.view.snapshot();
    stats.conservation().unwrap();
    assert_eq!((stats.totals.punted, stats.dropped(DropReason::PuntFull)), (2, 3));
    let frame = bench.remote.next_punted().unwrap();
    let (packet, padding) = (origin.arp_announcement(CLIENT), 60 - 42);
    assert_eq!(frame.port, PortId(0));
    assert_eq!(frame.bytes.as_slice(), &packet[..packet.len() - padding]);
    drop(bench.remote);
    bench.wire.borrow_mut().incoming.push_back(origin.arp_announcement(CLIENT));
    bench.worker.poll(Tick(2));
    assert_eq!(bench.view.snapshot().dropped(DropReason::PuntFull), 4, "management is gone");
}

#[test]
fn a_new_generation_is_adopted_without_traffic() {
    let mut bench = bench(2);
    bench.worker.poll(Tick(1));
    let generation = bench.publisher.publish(Tables::empty(FlowHashKey([7; 16]))).unwrap();
    assert_eq!(bench.publisher.lagging(generation), [0]);
    bench.worker.poll(Tick(2));
    assert!(bench.publisher.lagging(generation).is_empty());
}

/// What happens to a worker between two rounds, and in the next one.
#[derive(Clone, Debug, bolero::TypeGenerator)]
struct Round {
    pings: u8,
    announcements: u8,
    garbage: Vec<Vec<u8>>,
    originated: u8,
    buffers: u8,
    takes: Vec<u8>,
    is_stuck: bool,
    reads_mail: bool,
}

#[test]
fn frames_are_conserved_whatever_fails_and_whenever() {
    bolero::check!().with_iterations(1_500).with_type::<Vec<Round>>().for_each(|rounds| {
        let mut bench = bench(3);
        let origin = Origin { mac: PEER, vlan: None };
        let (mut next, mut read) = (0_u16, 0);
        for (round, tick) in rounds.iter().zip(1..) {
            {
                let mut wire = bench.wire.borrow_mut();
                for _ in 0..round.pings % 40 {
                    let request = Builder::ethernet(PEER, MAC).ipv4(CLIENT, OWN);
                    let request = request.echo_request(1, 1).payload(&next.to_be_bytes());
                    wire.incoming.push_back(request.build());
                    next += 1;
                }
                let announcements = usize::from(round.announcements % 6);
                wire.incoming.extend(vec![origin.arp_announcement(CLIENT); announcements]);
                wire.incoming.extend(round.garbage.iter().cloned());
                wire.buffers = usize::from(round.buffers % 4);
                wire.takes = round.takes.iter().map(|&takes| usize::from(takes % 33)).collect();
                wire.is_stuck = round.is_stuck;
            }
            for _ in 0..round.originated % 5 {
                let _ = bench.remote.send(Frame::new(PortId(0), &[0; 60]).unwrap());
            }
            bench.worker.poll(Tick(tick));
            while round.reads_mail && bench.remote.next_punted().is_some() {
                read += 1;
            }
            let stats = bench.view.snapshot();
            stats.conservation().unwrap();
            let wire = bench.wire.borrow();
            assert_eq!(stats.totals.tx_packets, wire.sent.len() as u64);
            let bytes: usize = wire.sent.iter().map(Vec::len).sum();
            assert_eq!(stats.totals.tx_bytes, bytes as u64);
        }
        while bench.remote.next_punted().is_some() {
            read += 1;
        }
        assert_eq!(bench.view.snapshot().totals.punted, read);
        // Replies leave in the order of their requests, none twice; some were dropped.
        let wire = bench.wire.borrow();
        let replies = wire.sent.iter().filter(|frame| frame.len() == 44);
        let replies: Vec<_> = replies.map(|frame| &frame[42..]).collect();
        assert!(replies.windows(2).all(|pair| pair[0] < pair[1]), "{replies:?}");
    });
}
