//! The fixtures through a real worker between DPDK ports: what leaves the port, what the counters
//! say, and that no buffer is lost.
#![cfg(feature = "dpdk")]

mod world;

use lodestone::conntrack::{Bucket, Conntrack, Ipv4Bucket, Ipv6Bucket};
use lodestone::dpdk::{
    Burst, Eal, EalConfig, HardwarePrefetch, Mempool, MempoolConfig, PooledQueues, Port,
    PortConfig, RxQueue, TxQueue, zeroed_storage,
};
use lodestone::forward::{DropReason, Forwarder, Tables};
use lodestone::id::{PortId, WorkerId};
use lodestone::packet::{PacketBuf, TcpFlags};
use lodestone::snapshot::{Publisher, shared};
use lodestone::stats::{self, StatsView};
use lodestone::time::Tick;
use lodestone::worker::{Frame, MailboxRemote, Worker, mailbox};
use world::fixtures::{self, Expected};
use world::{BACK, FRONT, World, tcp};

/// A `net_ring` port sends to itself, so a wire takes two of them: one for each direction.
const DEVICES: [&str; 4] = ["net_ring0", "net_ring1", "net_ring2", "net_ring3"];
const MBUF_COUNT: u32 = 8_191;
/// Frames that a ring holds.
const RING_ROOM: usize = 1_023;

type AppWorker = Worker<
    PooledQueues,
    Forwarder<&'static mut [Ipv4Bucket], &'static mut [Ipv6Bucket], HardwarePrefetch>,
>;

/// The far ends of the worker's two ports.
struct Peer {
    pool: Mempool,
    into: [TxQueue; 2],
    out_of: [RxQueue; 2],
}

impl Peer {
    fn send(&mut self, port: PortId, frame: &[u8]) {
        let mut mbuf = self.pool.alloc().unwrap();
        assert!(mbuf.fill(frame));
        let mut burst = Burst::new();
        burst.push(mbuf);
        assert_eq!(self.into[port.index()].tx_burst(&mut burst), 1);
    }

    /// All that has come out of a port.
    fn take(&mut self, port: PortId) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut burst = Burst::new();
        while self.out_of[port.index()].rx_burst(&mut burst) > 0 {
            frames.extend(burst.drain(..).map(|mbuf| mbuf.bytes().to_vec()));
        }
        frames
    }
}

struct Bench {
    worker: AppWorker,
    peer: Peer,
    view: StatsView<DropReason>,
    remote: MailboxRemote,
    _publisher: Publisher<Tables>,
}

fn bench(world: &World) -> Bench {
    let eal = Eal::init(&EalConfig {
        management_core: 0,
        hugepages: false,
        packet_memory_mib: 128,
        devices: DEVICES.map(str::to_owned).to_vec(),
    })
    .unwrap();
    let pool = MempoolConfig {
        name: "packets".to_owned(),
        mbuf_count: MBUF_COUNT,
        mtu: 1_600,
        numa: None,
    };
    let pool = Mempool::new(eal, &pool).unwrap();
    let (mut receive, mut transmit) = (Vec::new(), Vec::new());
    for device in DEVICES {
        let config = PortConfig {
            device: device.to_owned(),
            name: device.to_owned(),
            queue_count: 1,
            descriptor_count: 256,
            mtu: 1_500,
            mac: None,
        };
        let (_, mut queues) = Port::start(eal, &config, &pool).unwrap();
        let (rx, tx) = queues.pop().unwrap();
        receive.push(rx);
        transmit.push(tx);
    }
    // Rings 0 and 1 lead into the worker's ports, rings 2 and 3 out of them.
    let out_of = [receive.remove(2), receive.remove(2)];
    let queues: Vec<_> = receive
        .into_iter()
        .zip(transmit.drain(2..))
        .map(|pair| PooledQueues::new(pair, pool))
        .collect();
    let into = transmit.try_into().unwrap();
    let (publisher, mut readers) = shared(world.tables.clone(), 1);
    let (counters, view) = stats::worker(100);
    let (mailbox, remote) = mailbox(8);
    let conntrack = Conntrack::new(
        zeroed_storage(Ipv4Bucket::count_for(1_024)).unwrap(),
        zeroed_storage(Ipv6Bucket::count_for(1_024)).unwrap(),
    );
    let worker = Worker::new(
        WorkerId(0),
        queues,
        Forwarder::new(conntrack),
        readers.pop().unwrap(),
        counters,
        mailbox,
    );
    Bench { worker, peer: Peer { pool, into, out_of }, view, remote, _publisher: publisher }
}

// One test, since EAL starts once a process and the counts are equalities.
#[test]
fn what_leaves_the_ports_is_what_the_fixtures_say() {
    let world = World::new(16);
    let mut bench = bench(&world);
    assert_eq!(bench.peer.pool.in_use(), 0);
    fixtures_one_by_one(&mut bench, &world);
    a_burst_of_all_in_order(&mut bench, &world);
    what_management_sends(&mut bench);
    a_full_ring(&mut bench);
    bench.view.snapshot().conservation().unwrap();
    assert_eq!(bench.peer.pool.in_use(), 0, "buffers that nobody has any more");
}

fn fixtures_one_by_one(bench: &mut Bench, world: &World) {
    for fixture in fixtures::all(&world.tables.flow_hash_key) {
        let words = fixture.words;
        let before = bench.view.snapshot();
        bench.peer.send(fixture.port, &fixture.frame);
        assert_eq!(bench.worker.poll(Tick(1)), 1, "{words}");
        let after = bench.view.snapshot();
        let out = [bench.peer.take(FRONT), bench.peer.take(BACK)];
        let punted = bench.remote.next_punted();
        let nothing = Vec::<Vec<u8>>::new();
        let dropped = match &fixture.expected {
            Expected::Carried(frame) => {
                assert_eq!(out, [nothing, vec![frame.clone()]], "{words}");
                0
            }
            Expected::Answered(frame) => {
                let mut expected = [nothing.clone(), nothing];
                expected[fixture.port.index()].push(frame.clone());
                assert_eq!(out, expected, "{words}");
                assert_eq!(after.totals.replies, before.totals.replies + 1, "{words}");
                0
            }
            Expected::Punted(_, frame) => {
                assert_eq!(out, [nothing.clone(), nothing], "{words}");
                assert_eq!(punted, Frame::new(fixture.port, frame), "{words}");
                assert_eq!(after.totals.punted, before.totals.punted + 1, "{words}");
                0
            }
            Expected::Dropped(reason) => {
                assert_eq!(out, [nothing.clone(), nothing], "{words}");
                assert_eq!(after.dropped(*reason), before.dropped(*reason) + 1, "{words}");
                1
            }
        };
        assert_eq!(after.dropped_total(), before.dropped_total() + dropped, "{words}");
        assert_eq!(after.totals.rx_bytes - before.totals.rx_bytes, fixture.frame.len() as u64);
        after.conservation().unwrap();
        assert_eq!(bench.peer.pool.in_use(), 0, "{words}");
    }
}

/// Together, a burst holds frames of every kind: what leaves each port keeps its order.
fn a_burst_of_all_in_order(bench: &mut Bench, world: &World) {
    let fixtures = fixtures::all(&world.tables.flow_hash_key);
    let mut expected = [Vec::new(), Vec::new()];
    let mut count = 0;
    for fixture in fixtures.into_iter().filter(|fixture| fixture.port == FRONT) {
        bench.peer.send(FRONT, &fixture.frame);
        count += 1;
        match fixture.expected {
            Expected::Carried(frame) => expected[BACK.index()].push(frame),
            Expected::Answered(frame) => expected[FRONT.index()].push(frame),
            Expected::Punted(..) | Expected::Dropped(_) => {}
        }
    }
    let mut handled = 0;
    while handled < count {
        let now = bench.worker.poll(Tick(2));
        assert!(now > 0, "{handled} of {count} frames were received");
        handled += now;
    }
    while bench.remote.next_punted().is_some() {}
    assert_eq!([bench.peer.take(FRONT), bench.peer.take(BACK)], expected);
}

fn what_management_sends(bench: &mut Bench) {
    let frame = Frame::new(BACK, &[0x5a; 60]).unwrap();
    assert!(bench.remote.send(frame));
    assert_eq!(bench.worker.poll(Tick(3)), 1);
    assert_eq!(bench.peer.take(BACK), [vec![0x5a; 60]]);
}

/// Nobody takes frames off the ring: what does not fit is dropped, counted and freed.
fn a_full_ring(bench: &mut Bench) {
    let before = bench.view.snapshot();
    let packet = tcp("10.1.0.100", 1, 4_000, 80, TcpFlags::ACK);
    let count = RING_ROOM + 50;
    for _ in 0..count.div_ceil(32) {
        for _ in 0..32 {
            bench.peer.send(FRONT, &packet);
        }
        bench.worker.poll(Tick(4));
    }
    let sent = count.div_ceil(32) * 32;
    let after = bench.view.snapshot();
    assert_eq!(after.totals.tx_packets - before.totals.tx_packets, RING_ROOM as u64);
    assert_eq!(
        after.dropped(DropReason::TxFull) - before.dropped(DropReason::TxFull),
        (sent - RING_ROOM) as u64
    );
    assert_eq!(bench.peer.pool.in_use() as usize, RING_ROOM, "on the ring");
    assert_eq!(bench.peer.take(BACK).len(), RING_ROOM);
}
