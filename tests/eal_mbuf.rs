//! Packet buffers: bounds of every way to move their ends, and no buffer lost.
#![cfg(feature = "dpdk")]

use lodestone::dpdk::{Burst, Eal, EalConfig, Mbuf, Mempool, MempoolConfig, free_burst};
use lodestone::packet::{HeapBuf, PacketBuf};

const MBUF_COUNT: u32 = 255;

// One test, since EAL starts once a process and the counts below are equalities.
#[test]
fn buffers_keep_their_bounds_and_all_come_back() {
    let eal = Eal::init(&EalConfig {
        management_core: 0,
        hugepages: false,
        packet_memory_mib: 64,
        devices: vec![],
    })
    .unwrap();
    let again =
        EalConfig { management_core: 0, hugepages: false, packet_memory_mib: 64, devices: vec![] };
    let error = Eal::init(&again).unwrap_err().to_string();
    assert!(error.contains("starts only once"), "{error}");

    let config = |name: &str, mbuf_count, mtu| MempoolConfig {
        name: name.to_owned(),
        mbuf_count,
        mtu,
        numa: None,
    };
    let pool = Mempool::new(eal, &config("packets", MBUF_COUNT, 1500)).unwrap();
    assert_eq!((pool.available(), pool.in_use()), (MBUF_COUNT, 0));

    a_new_buffer_is_empty(&pool);
    the_front_moves_within_the_headroom(&pool);
    the_end_moves_within_the_tailroom(&pool);
    behaves_as_the_heap_does(&pool);
    an_exhausted_pool_gives_nothing_and_recovers(&pool);
    a_buffer_may_be_freed_on_another_thread(&pool);
    assert_eq!((pool.available(), pool.in_use()), (MBUF_COUNT, 0));

    let jumbo = Mempool::new(eal, &config("jumbo", 15, 9200)).unwrap();
    let mut buf = jumbo.alloc().unwrap();
    assert!(buf.fill(&vec![7; 9200 + 18]), "a whole frame fits");
    assert_eq!(buf.headroom(), 128);

    let error = Mempool::new(eal, &config("huge", 1 << 20, 9200)).unwrap_err().to_string();
    assert!(error.contains("raise `[memory] packet_memory`"), "{error}");
    for bad in [config("", 15, 1500), config("no\0name", 15, 1500), config("none", 0, 1500)] {
        assert!(Mempool::new(eal, &bad).is_err(), "{bad:?}");
    }
}

fn a_new_buffer_is_empty(pool: &Mempool) {
    let buf = pool.alloc().unwrap();
    assert!(buf.bytes().is_empty() && buf.is_linear());
    assert_eq!((buf.headroom(), buf.tailroom()), (128, 2048));
    assert_eq!(pool.in_use(), 1);
}

fn the_front_moves_within_the_headroom(pool: &Mempool) {
    let mut buf = pool.alloc().unwrap();
    assert!(buf.fill(&[1, 2, 3, 4]));
    assert!(buf.replace_front(5, 5).is_none(), "longer than the frame");
    assert!(buf.replace_front(2, 131).is_none(), "beyond the headroom");
    assert!(buf.replace_front(0, usize::MAX).is_none(), "beyond everything");
    assert_eq!(buf.bytes(), [1, 2, 3, 4]);
    let frame = buf.replace_front(2, 130).unwrap();
    assert_eq!(frame.len(), 132);
    frame[0] = 9;
    assert_eq!(buf.headroom(), 0);
    assert_eq!(buf.bytes()[130..], [3, 4]);
    assert_eq!(buf.replace_front(131, 0).unwrap(), [4]);
    assert!(buf.replace_front(1, 0).unwrap().is_empty());
    assert_eq!(buf.headroom(), 132);
}

fn the_end_moves_within_the_tailroom(pool: &Mempool) {
    let mut buf = pool.alloc().unwrap();
    assert!(!buf.fill(&[0; 2049]));
    assert!(buf.bytes().is_empty());
    assert!(buf.append(2049).is_none());
    buf.append(2048).unwrap().fill(5);
    assert_eq!(buf.tailroom(), 0);
    assert!(buf.append(1).is_none());
    assert!(buf.append(0).unwrap().is_empty());
    buf.truncate(1 << 20);
    assert_eq!(buf.bytes().len(), 2048);
    buf.truncate(3);
    assert_eq!(buf.bytes(), [5, 5, 5]);
    assert_eq!(buf.tailroom(), 2045);
    assert!(buf.fill(&[6]));
    assert_eq!(buf.bytes(), [6]);
}

/// The two implementations of `PacketBuf` agree on every outcome.
fn behaves_as_the_heap_does(pool: &Mempool) {
    bolero::check!().with_iterations(2_000).with_type::<(Vec<u8>, Vec<(u8, u8, bool)>)>().for_each(
        |(frame, steps)| {
            let mut mbuf = pool.alloc().unwrap();
            if !mbuf.fill(frame) {
                return;
            }
            let mut heap = HeapBuf::new(frame);
            for &(old_len, new_len, cut) in steps {
                if cut {
                    mbuf.truncate(old_len.into());
                    heap.truncate(old_len.into());
                } else {
                    let new_front = vec![new_len; new_len.into()];
                    let grown = replace(&mut mbuf, old_len.into(), &new_front);
                    assert_eq!(grown, replace(&mut heap, old_len.into(), &new_front));
                }
                assert_eq!(mbuf.bytes(), heap.bytes());
            }
        },
    );
}

/// Replaces the front and writes it, so that both buffers hold the same bytes.
fn replace(buf: &mut impl PacketBuf, old_len: usize, front: &[u8]) -> bool {
    match buf.replace_front(old_len, front.len()) {
        Some(frame) => {
            frame[..front.len()].copy_from_slice(front);
            true
        }
        None => false,
    }
}

fn an_exhausted_pool_gives_nothing_and_recovers(pool: &Mempool) {
    let mut bursts: Vec<Burst> = Vec::new();
    let mut count = 0;
    'fill: loop {
        let mut burst = Burst::new();
        while !burst.is_full() {
            let Some(mbuf) = pool.alloc() else {
                bursts.push(burst);
                break 'fill;
            };
            burst.push(mbuf);
            count += 1;
        }
        bursts.push(burst);
    }
    assert_eq!(count, MBUF_COUNT);
    assert_eq!((pool.available(), pool.in_use()), (0, MBUF_COUNT));
    for burst in &mut bursts {
        free_burst(burst);
        assert!(burst.is_empty());
        free_burst(burst);
    }
    assert_eq!(pool.in_use(), 0);
}

fn a_buffer_may_be_freed_on_another_thread(pool: &Mempool) {
    let buf: Mbuf = pool.alloc().unwrap();
    std::thread::spawn(move || drop(buf)).join().unwrap();
    assert_eq!(pool.in_use(), 0);
}
