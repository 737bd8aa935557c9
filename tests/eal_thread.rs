//! Threads of ours that EAL knows, and the clock.
#![cfg(feature = "dpdk")]

use std::thread;

use lodestone::dpdk::{
    Clock, DpdkError, Eal, EalConfig, LcoreId, Mempool, MempoolConfig, ThreadRegistration, cycles,
    tsc_hz,
};

#[test]
fn threads_register_and_unregister() {
    let eal = Eal::init(&EalConfig {
        management_core: 0,
        hugepages: false,
        packet_memory_mib: 64,
        devices: vec![],
    })
    .unwrap();
    let error = ThreadRegistration::new(eal).unwrap_err();
    assert!(matches!(error, DpdkError::ThreadRegistered { lcore: 0 }), "{error}");

    let pool = Mempool::new(
        eal,
        &MempoolConfig { name: "packets".to_owned(), mbuf_count: 1023, mtu: 1500, numa: None },
    )
    .unwrap();
    let worker = move || {
        assert_eq!(LcoreId::current(), None);
        let registration = ThreadRegistration::new(eal).unwrap();
        let lcore = registration.lcore();
        assert_eq!(LcoreId::current(), Some(lcore));
        let again = ThreadRegistration::new(eal).unwrap_err();
        assert!(matches!(again, DpdkError::ThreadRegistered { .. }), "{again}");
        // Through the thread's cache and back.
        drop((0..100).map(|_| pool.alloc().unwrap()).collect::<Vec<_>>());
        drop(registration);
        assert_eq!(LcoreId::current(), None);
        lcore
    };
    let first = thread::spawn(worker).join().unwrap();
    let second = thread::spawn(worker).join().unwrap();
    assert_eq!(first, second, "the number is free again");
    assert_ne!(first, LcoreId(0), "the management thread has that one");
    assert_eq!(pool.in_use(), 0, "what a cache holds is available");

    assert!(tsc_hz(eal) > 100_000_000);
    let clock = Clock::new(eal);
    let start = cycles();
    let before = clock.tick(start);
    assert!(clock.tick(start + tsc_hz(eal)).since(before).abs_diff(1000) <= 1);
}
