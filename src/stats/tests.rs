//! What one end counts, the other reads; and the conservation law.

use super::*;

#[derive(Clone, Copy)]
enum Why {
    Bad,
    Full,
    Unknown,
}

impl Reason for Why {
    const COUNT: usize = 2;

    fn index(self) -> usize {
        self as usize
    }
}

#[test]
fn what_the_worker_counts_management_reads() {
    let (mut counters, view) = worker::<Why>(4);
    let other_view = view.clone();
    counters.add_rx(32, 2_048);
    counters.add_rx(0, 0);
    counters.add_rx(8, 512);
    counters.add_tx(30, 2_500);
    counters.add_tx_retries(2);
    counters.add_replies(3);
    counters.conntrack_hit(Family::Ipv4);
    counters.new_flow(Family::Ipv4, ServiceId(3), BackendId(1));
    counters.new_flow(Family::Ipv4, ServiceId(3), BackendId(1));
    counters.unverified_flow(Family::Ipv6, ServiceId(3), BackendId(1));
    counters.refused_flow(Family::Ipv6);
    counters.expired_flow(Family::Ipv4);
    counters.set_entries(Family::Ipv4, 17);
    counters.set_entries(Family::Ipv6, 18);
    counters.set_entries(Family::Ipv4, 19);
    let snapshot = other_view.snapshot();
    assert_eq!(
        snapshot.totals,
        Totals {
            rx_packets: 40,
            rx_bytes: 2_560,
            tx_packets: 30,
            tx_bytes: 2_500,
            originated: 0,
            replies: 3,
            punted: 0,
            bursts: 2,
            empty_polls: 1,
            tx_retries: 2,
            ..Totals::default()
        }
    );
    let ipv4 = FlowTotals { hits: 1, new: 2, expired: 1, entries: 19, ..FlowTotals::default() };
    assert_eq!(snapshot.ipv4, ipv4);
    let ipv6 = FlowTotals { unverified: 1, refused: 1, entries: 18, ..FlowTotals::default() };
    assert_eq!(snapshot.ipv6, ipv6);
    assert_eq!(snapshot.backend(BackendId(1)).new_flows, 3);
    assert_eq!(snapshot.totals.polls(), 3);
}

#[test]
fn frames_are_conserved_and_a_lost_one_shows() {
    let (mut counters, view) = worker::<Why>(0);
    counters.add_rx(10, 640);
    counters.add_originated(2);
    counters.add_tx(7, 448);
    counters.add_punted(1);
    counters.add_handed_in(4);
    counters.add_handed_out(4);
    counters.add_dropped(Why::Bad, 3);
    let lost = view.snapshot().conservation();
    assert_eq!(lost, Err(Imbalance { came: 16, went: 15 }));
    counters.add_dropped(Why::Full, 1);
    let snapshot = view.snapshot();
    assert_eq!(snapshot.conservation(), Ok(()));
    assert_eq!((snapshot.dropped(Why::Bad), snapshot.dropped(Why::Full)), (3, 1));
    assert_eq!(snapshot.dropped_total(), 4);
}

#[test]
fn backends_are_counted_apart_up_to_the_capacity() {
    let (mut counters, view) = worker::<Why>(5);
    for id in 0..6 {
        let backend = BackendId(id);
        counters.add_backend(backend, u64::from(id) + 1, 100);
        counters.open_flow(backend);
        counters.open_flow(backend);
        counters.close_flow(backend);
    }
    counters.add_backend(BackendId(u16::MAX), 1, 1);
    let snapshot = view.snapshot();
    for id in 0..5 {
        let expected =
            BackendTotals { packets: u64::from(id) + 1, bytes: 100, new_flows: 0, flows: 1 };
        assert_eq!(snapshot.backend(BackendId(id)), expected);
        assert_eq!(view.backend(BackendId(id)), expected);
    }
    assert_eq!(snapshot.backend(BackendId(5)), BackendTotals::default());
    assert_eq!(view.backend(BackendId(5)), BackendTotals::default());
}

#[test]
fn services_and_ports_are_counted_apart_up_to_the_capacity() {
    let (mut counters, view) = worker::<Why>(1);
    for id in [0, 7, u16::try_from(SERVICE_CAP - 1).unwrap(), u16::MAX] {
        counters.add_service(ServiceId(id), u64::from(id) + 1, 100);
        counters.new_flow(Family::Ipv6, ServiceId(id), BackendId(0));
    }
    counters.add_port_rx(PortId(2), 5);
    counters.add_port_rx(PortId(200), 5);
    let mut snapshot = view.snapshot();
    let expected = ServiceTotals { packets: 8, bytes: 100, new_flows: 1 };
    assert_eq!((snapshot.service(ServiceId(7)), view.service(ServiceId(7))), (expected, expected));
    assert_eq!(snapshot.service(ServiceId(6)), ServiceTotals::default());
    let last = ServiceId(u16::try_from(SERVICE_CAP - 1).unwrap());
    assert_eq!(snapshot.service(last).packets, SERVICE_CAP as u64);
    assert_eq!(view.service(ServiceId(u16::MAX)), ServiceTotals::default(), "beyond the capacity");
    assert_eq!((snapshot.port_rx(PortId(2)), snapshot.port_rx(PortId(0))), (5, 0));
    snapshot.add(&view.snapshot());
    assert_eq!(snapshot.service(ServiceId(7)).packets, 16);
    assert_eq!(snapshot.port_rx(PortId(2)), 10);
}

#[test]
fn cycles_go_to_their_stage_and_bursts_to_the_histogram() {
    let (mut counters, view) = worker::<Why>(0);
    let cycles = BurstCycles { receive: 5, classify: 50, decide: 70, transmit: 80 };
    counters.add_burst_cycles(cycles);
    counters.add_handed_cycles(BurstCycles { receive: 1, ..BurstCycles::default() });
    counters.add_other_cycles(10);
    counters.add_idle_cycles(1_000);
    let snapshot = view.snapshot();
    let RuntimeTotals { receive, classify, decide, transmit, other, idle } = snapshot.runtime;
    assert_eq!((receive, classify, decide, transmit, other, idle), (6, 50, 70, 80, 10, 1_000));
    assert_eq!(snapshot.runtime.all(), 1_216);
    assert_eq!((snapshot.latency.count(), snapshot.latency.max), (1, 200), "without the receive");
}

#[test]
fn the_heartbeat_moves_with_every_poll() {
    let (mut counters, view) = worker::<Why>(0);
    assert_eq!(view.polls(), 0);
    counters.add_rx(0, 0);
    assert_eq!(view.polls(), 1);
    counters.add_rx(3, 180);
    assert_eq!(view.polls(), 2);
}

#[test]
fn nothing_out_of_range_or_below_zero() {
    let (mut counters, view) = worker::<Why>(1);
    counters.add_dropped(Why::Unknown, 9);
    counters.close_flow(BackendId(0));
    let snapshot = view.snapshot();
    assert_eq!(snapshot.dropped_total(), 0);
    assert_eq!(snapshot.dropped(Why::Unknown), 0);
    assert_eq!(snapshot.backend(BackendId(0)).flows, 0);
}

#[test]
fn workers_add_up() {
    let (mut one, one_view) = worker::<Why>(1);
    let (mut two, two_view) = worker::<Why>(2);
    one.add_rx(1, 60);
    one.add_dropped(Why::Bad, 1);
    two.add_rx(2, 120);
    two.add_tx(2, 160);
    two.add_backend(BackendId(1), 2, 120);
    let mut sum = one_view.snapshot();
    sum.add(&two_view.snapshot());
    assert_eq!((sum.totals.rx_packets, sum.totals.rx_bytes), (3, 180));
    assert_eq!(sum.dropped(Why::Bad), 1);
    assert_eq!(sum.backend(BackendId(1)).packets, 2);
    assert_eq!(sum.conservation(), Ok(()));
}

#[test]
fn two_workers_share_no_cache_line() {
    let rows = [Row::new(3), Row::new(3)];
    for row in &rows {
        let start = std::ptr::from_ref(row.counter(0).unwrap()).addr();
        assert_eq!(start % 128, 0);
    }
    assert_eq!(size_of::<Padded<[Counter; Row::CHUNK]>>(), 128);
    assert_eq!(align_of::<Padded<Cells>>(), 128);
    assert_eq!(Row::CHUNK % BACKEND.stride, 0, "a backend's counters are on one line");
}
