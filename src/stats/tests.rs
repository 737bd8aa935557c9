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
    counters.new_flow(Family::Ipv4, BackendId(1));
    counters.new_flow(Family::Ipv4, BackendId(1));
    counters.unverified_flow(Family::Ipv6, BackendId(1));
    counters.refused_flow(Family::Ipv6);
    counters.expired_flow(Family::Ipv4);
    counters.set_entries(Family::Ipv4, 17);
    counters.set_entries(Family::Ipv6, 18);
    counters.set_entries(Family::Ipv4, 19);
    counters.set_generation(7);
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
        }
    );
    let ipv4 = FlowTotals { hits: 1, new: 2, expired: 1, entries: 19, ..FlowTotals::default() };
    assert_eq!(snapshot.ipv4, ipv4);
    let ipv6 = FlowTotals { unverified: 1, refused: 1, entries: 18, ..FlowTotals::default() };
    assert_eq!(snapshot.ipv6, ipv6);
    assert_eq!(snapshot.backend(BackendId(1)).new_flows, 3);
    assert_eq!(snapshot.totals.polls(), 3);
    assert_eq!((snapshot.generation, view.generation()), (7, 7));
}

#[test]
fn frames_are_conserved_and_a_lost_one_shows() {
    let (mut counters, view) = worker::<Why>(0);
    counters.add_rx(10, 640);
    counters.add_originated(2);
    counters.add_tx(7, 448);
    counters.add_punted(1);
    counters.add_dropped(Why::Bad, 3);
    let lost = view.snapshot().conservation();
    assert_eq!(lost, Err(Imbalance { came: 12, went: 11 }));
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
    one.set_generation(4);
    two.add_rx(2, 120);
    two.add_tx(2, 160);
    two.add_backend(BackendId(1), 2, 120);
    two.set_generation(3);
    let mut sum = one_view.snapshot();
    sum.add(&two_view.snapshot());
    assert_eq!((sum.totals.rx_packets, sum.totals.rx_bytes), (3, 180));
    assert_eq!(sum.dropped(Why::Bad), 1);
    assert_eq!(sum.backend(BackendId(1)).packets, 2);
    assert_eq!(sum.generation, 3, "the oldest");
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
    assert_eq!(Row::CHUNK % BACKEND_STRIDE, 0, "a backend's counters are on one line");
}
