//! A worker and tables that do not agree on the ports: a fault elsewhere, and still every frame has
//! a counted end.

use std::cell::RefCell;
use std::rc::Rc;

use crate::world::{World, tcp};
use lodestone::conntrack::{Conntrack, NoPrefetch};
use lodestone::forward::{DropReason, Forwarder, Tables};
use lodestone::id::WorkerId;
use lodestone::packet::{FlowHashKey, HeapBuf, PacketBuf, TcpFlags};
use lodestone::snapshot::shared;
use lodestone::stats::{self, StatsSnapshot};
use lodestone::time::Tick;
use lodestone::worker::{Burst, Queues, Worker, mailbox};

/// Frames to receive, and how many were sent.
#[derive(Default)]
struct Double(Vec<Vec<u8>>, Rc<RefCell<usize>>);

impl Queues for Double {
    type Buf = HeapBuf;

    fn receive(&mut self, burst: &mut Burst<HeapBuf>) -> usize {
        let count = self.0.len().min(burst.remaining_capacity());
        burst.extend(self.0.drain(..count).map(|frame| HeapBuf::new(&frame)));
        count
    }

    fn transmit(&mut self, burst: &mut Burst<HeapBuf>) -> usize {
        let count = burst.len();
        assert!(burst.iter().all(HeapBuf::is_linear));
        burst.clear();
        *self.1.borrow_mut() += count;
        count
    }

    fn allocate(&mut self, _frame: &[u8]) -> Option<HeapBuf> {
        None
    }
}

/// Five frames to a VIP come in by the first of so many ports.
fn run(tables: Tables, port_count: usize) -> (StatsSnapshot<DropReason>, usize) {
    let sent = Rc::new(RefCell::new(0));
    let packet = tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::SYN);
    let mut ports: Vec<_> = (0..port_count).map(|_| Double(Vec::new(), Rc::clone(&sent))).collect();
    ports[0].0 = vec![packet; 5];
    let (_publisher, mut readers) = shared(tables, 1);
    let (counters, view) = stats::worker(100);
    let (mailbox, _remote) = mailbox(1);
    let forwarder = Forwarder::<_, _, NoPrefetch>::new(Conntrack::on_heap(16, 16));
    let reader = readers.pop().unwrap();
    let mut worker = Worker::new(WorkerId(0), ports, forwarder, reader, counters, mailbox);
    assert_eq!(worker.poll(Tick(1)), 5);
    let stats = view.snapshot();
    stats.conservation().unwrap();
    let sent = *sent.borrow();
    (stats, sent)
}

#[test]
fn a_packet_toward_a_port_without_queues_is_a_counted_drop() {
    let (stats, sent) = run(World::new(16).tables, 1);
    assert_eq!((sent, stats.dropped(DropReason::NoNextHop)), (0, 5));
    let (stats, sent) = run(World::new(16).tables, 2);
    assert_eq!((sent, stats.dropped_total()), (5, 0));
}

#[test]
fn frames_from_a_port_that_the_tables_do_not_know_are_counted() {
    let (stats, sent) = run(Tables::empty(FlowHashKey([1; 16])), 1);
    assert_eq!((sent, stats.dropped(DropReason::NotForPort)), (0, 5));
}
