//! Where the cycles go, how often the time is read, and when a worker gives its core away.

use std::cell::Cell;

use super::*;
use crate::stats::{Histogram, RuntimeTotals};

/// A time that goes on by ten cycles whenever it is read, and does something at every round.
struct Steps<F> {
    cycles: u64,
    rounds: Cell<u32>,
    at_round: F,
}

impl<F: Fn(u32)> Steps<F> {
    fn new(at_round: F) -> Self {
        Self { cycles: 1_000, rounds: Cell::new(0), at_round }
    }
}

impl<F: Fn(u32)> TimeSource for Steps<F> {
    fn cycles(&mut self) -> u64 {
        self.cycles += 10;
        self.cycles
    }

    fn tick(&self, _cycles: u64) -> Tick {
        self.rounds.set(self.rounds.get() + 1);
        (self.at_round)(self.rounds.get());
        Tick(1)
    }
}

#[test]
fn the_time_is_read_once_an_empty_round_and_four_times_more_a_burst() {
    let mut bench = bench(4);
    let mut time = Steps::new(|_| ());
    bench.worker.poll(&mut time);
    bench.worker.poll(&mut time);
    assert_eq!(time.cycles, 1_020);
    assert_eq!(bench.view.snapshot().runtime, RuntimeTotals { idle: 10, ..Default::default() });

    bench.wire.borrow_mut().incoming.extend((0..3).map(ping));
    bench.worker.poll(&mut time);
    assert_eq!(time.cycles, 1_070);
    let stats = bench.view.snapshot();
    assert_eq!((stats.latency.count(), stats.latency.max), (1, 30), "without the receive");
    assert_eq!(stats.latency.counts[Histogram::bucket(30)], 1);
    bench.worker.poll(&mut time);
    bench.worker.poll(&mut time);
    let runtime = bench.view.snapshot().runtime;
    let expected = RuntimeTotals {
        receive: 10,
        classify: 10,
        decide: 10,
        transmit: 10,
        other: 10,
        idle: 10 + 10 + 10,
    };
    assert_eq!(runtime, expected);
}

#[test]
fn frames_of_management_are_other_work_and_no_idling() {
    let mut bench = bench(4);
    let mut time = Steps::new(|_| ());
    assert!(bench.remote.send(Frame::new(PortId(0), &[0; 60]).unwrap()));
    bench.worker.poll(&mut time);
    bench.worker.poll(&mut time);
    let runtime = bench.view.snapshot().runtime;
    assert_eq!(runtime, RuntimeTotals { other: 10, ..Default::default() });
}

#[test]
fn no_cycle_is_lost_or_counted_twice() {
    bolero::check!().with_iterations(500).with_type::<Vec<(u8, bool)>>().for_each(|rounds| {
        let mut bench = bench(4);
        let mut time = Steps::new(|_| ());
        let (mut first, mut last) = (None, 0);
        let mut bursts = 0;
        for &(pings, originates) in rounds {
            bench.wire.borrow_mut().incoming.extend((0..pings % 32).map(ping));
            bursts += u64::from(pings % 32 != 0);
            if originates {
                let _ = bench.remote.send(Frame::new(PortId(0), &[0; 60]).unwrap());
            }
            last = time.cycles + 10;
            first.get_or_insert(last);
            bench.worker.poll(&mut time);
        }
        let stats = bench.view.snapshot();
        // All but what has passed since the beginning of the last round, its burst excepted.
        let burst = if rounds.last().is_some_and(|(pings, _)| pings % 32 != 0) { 40 } else { 0 };
        assert_eq!(stats.runtime.all(), last - first.unwrap_or(last) + burst);
        assert_eq!(stats.latency.count(), bursts);
        assert_eq!(stats.totals.bursts, bursts);
        assert_eq!(stats.port_rx(PortId(0)), stats.totals.rx_packets);
    });
}

#[test]
fn a_burst_that_a_port_does_not_take_is_a_stall() {
    let mut bench = bench(4);
    bench.wire.borrow_mut().incoming.extend((0..3).map(ping));
    bench.wire.borrow_mut().is_stuck = true;
    bench.worker.poll(Tick(1));
    let totals = bench.view.snapshot().totals;
    assert_eq!((totals.tx_full_bursts, totals.tx_retries), (1, TRANSMIT_RETRIES as u64));
}

/// Runs 400 rounds, of which the last 200 bring a packet each; says how often the worker was idle.
fn idles_of_half_a_run() -> u32 {
    let mut bench = bench(2);
    let (stop, wire) = (AtomicBool::new(false), Rc::clone(&bench.wire));
    let time = Steps::new(|round| {
        if round > 200 {
            wire.borrow_mut().incoming.push_back(ping(1));
        }
        stop.store(round == 400, Ordering::Relaxed);
    });
    let mut idled = 0;
    bench.worker.run(&stop, time, || idled += 1);
    let totals = bench.view.snapshot().totals;
    assert_eq!((totals.empty_polls, totals.bursts), (200, 200));
    assert_eq!(bench.view.polls(), 400, "the heartbeat moves with or without packets");
    idled
}

#[test]
fn an_idle_worker_gives_its_core_away_and_a_busy_one_does_not() {
    assert_eq!(idles_of_half_a_run(), 200 / IDLE_ROUNDS);
}
