//! Ports: what does not start says why, what is sent arrives or stays, and no buffer is lost.
#![cfg(feature = "dpdk")]

use lodestone::dpdk::{
    Burst, DpdkError, Eal, EalConfig, Mempool, MempoolConfig, Port, PortConfig, Rss, RxQueue,
    TxQueue,
};
use lodestone::packet::PacketBuf;

const MBUF_COUNT: u32 = 4095;
/// A `net_ring` port loops back through rings of 1024 places, one of which stays free.
const RING_ROOM: usize = 1023;

fn config(device: &str, queue_count: u16) -> PortConfig {
    PortConfig {
        device: device.to_owned(),
        name: "front".to_owned(),
        queue_count,
        descriptor_count: 256,
        mtu: 1500,
        mac: None,
    }
}

// One test, since EAL starts once a process and the counts below are equalities.
#[test]
fn ports_start_or_say_why_and_lose_no_packet() {
    let eal = Eal::init(&EalConfig {
        management_core: 0,
        hugepages: false,
        packet_memory_mib: 128,
        devices: vec![
            "net_ring0".to_owned(),
            "net_null0,size=64,copy=0".to_owned(),
            "net_af_packet0,iface=no-such-if".to_owned(),
        ],
    })
    .unwrap();
    let pool = Mempool::new(
        eal,
        &MempoolConfig {
            name: "packets".to_owned(),
            mbuf_count: MBUF_COUNT,
            mtu: 1500,
            numa: None,
        },
    )
    .unwrap();

    refusals_name_the_mend(eal, &pool);

    let (port, mut queues) = Port::start(eal, &config("net_ring0", 1), &pool).unwrap();
    assert_eq!(port.rss(), Rss::NotNeeded);
    assert_eq!((port.name(), port.device(), port.driver()), ("front", "net_ring0", "net_ring"));
    assert_eq!(port.mtu(), 1500);
    assert!(port.link_up());
    let error = Port::start(eal, &config("net_ring0", 1), &pool).unwrap_err();
    assert!(matches!(error, DpdkError::DeviceTaken { .. }), "{error}");

    let (mut rx, mut tx) = queues.pop().unwrap();
    what_is_sent_arrives_in_order(&pool, &mut rx, &mut tx);
    what_is_not_sent_stays_in_order(&pool, &mut rx, &mut tx);
    let stats = port.stats();
    assert_eq!(stats.tx_packets, stats.rx_packets);
    assert_eq!(stats.rx_packets, 20 + 1 + RING_ROOM as u64);
    assert_eq!((pool.available(), pool.in_use()), (MBUF_COUNT, 0));

    // A port stops only with all its queues, and starts again.
    port.stop(eal, vec![(rx, tx)]).unwrap();
    let (port, _queues) = Port::start(eal, &config("net_ring0", 2), &pool).unwrap();
    assert_eq!(port.rss(), Rss::Missing, "net_ring spreads nothing");
    let error = port.stop(eal, vec![]).unwrap_err().to_string();
    assert!(error.contains("still has queues in use"), "{error}");

    a_null_port_spreads_and_loses_nothing(eal, &pool);
}

fn refusals_name_the_mend(eal: &Eal, pool: &Mempool) {
    let refusal = |config: &PortConfig| Port::start(eal, config, pool).unwrap_err().to_string();
    assert_eq!(
        refusal(&config("net_ring0", 17)),
        "port `front` (device `net_ring0`) has 16 queue pairs but 17 are needed, one a worker; \
         lower the number of `[cpu] workers` to 16, or give the device more queues"
    );
    let absent = refusal(&config("net_ring7", 1));
    assert!(absent.contains("device `net_ring7` was not found by DPDK"), "{absent}");
    let no_interface = refusal(&config("net_af_packet0,iface=no-such-if", 1));
    assert!(no_interface.contains("an interface named in `iface=` must exist"), "{no_interface}");
    assert!(no_interface.contains("DPDK says:"), "{no_interface}");
    let no_queues = refusal(&config("net_ring0", 0));
    assert!(no_queues.contains("without queues"), "{no_queues}");
    let mut jumbo = config("net_ring0", 1);
    jumbo.mtu = 9000;
    let jumbo = refusal(&jumbo);
    assert!(jumbo.contains("cannot have an MTU of 9000"), "{jumbo}");
    let nonsense = refusal(&config("eth0", 1));
    assert!(nonsense.contains("neither a PCI address"), "{nonsense}");
}

fn what_is_sent_arrives_in_order(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let mut burst = numbered(pool, 0, 20);
    assert_eq!(tx.tx_burst(&mut burst), 20);
    assert!(burst.is_empty());
    assert_eq!(pool.in_use(), 20, "on the ring");

    // Receiving fills the room behind what is there already.
    burst.extend(numbered(pool, 100, 2));
    assert_eq!(rx.rx_burst(&mut burst), 20);
    assert_eq!(numbers(&burst), [100, 101].into_iter().chain(0..20).collect::<Vec<_>>());
    assert!(burst.iter().all(PacketBuf::is_linear));

    // A full burst takes nothing, and nothing is lost by asking.
    assert_eq!(tx.tx_burst(&mut numbered(pool, 7, 1)), 1);
    burst.extend(numbered(pool, 200, 10));
    assert!(burst.is_full());
    assert_eq!(rx.rx_burst(&mut burst), 0);
    burst.clear();
    assert_eq!(rx.rx_burst(&mut burst), 1);
    assert_eq!(numbers(&burst), [7]);
    assert_eq!(tx.tx_burst(&mut Burst::new()), 0);
}

fn what_is_not_sent_stays_in_order(pool: &Mempool, rx: &mut RxQueue, tx: &mut TxQueue) {
    let mut sent = 0;
    let mut burst = Burst::new();
    while burst.is_empty() {
        burst = numbered(pool, sent, 32);
        sent += u32::try_from(tx.tx_burst(&mut burst)).unwrap();
    }
    assert_eq!(sent as usize, RING_ROOM);
    // The last burst began at 992 and 31 of it fitted.
    assert_eq!(numbers(&burst), [1023]);
    assert_eq!(tx.tx_burst(&mut burst), 0);
    assert_eq!(numbers(&burst), [1023]);
    assert_eq!(pool.in_use() as usize, RING_ROOM + 1);
    drop(burst);

    let mut next = 0;
    let mut burst = Burst::new();
    while rx.rx_burst(&mut burst) > 0 {
        for number in numbers(&burst) {
            assert_eq!(number, next);
            next += 1;
        }
        burst.clear();
    }
    assert_eq!(next, sent);
}

fn a_null_port_spreads_and_loses_nothing(eal: &Eal, pool: &Mempool) {
    let mut config = config("net_null0", 2);
    "void".clone_into(&mut config.name);
    let (port, mut queues) = Port::start(eal, &config, pool).unwrap();
    let Rss::On { types } = port.rss() else { panic!("net_null offers RSS") };
    assert!(types.has_ipv4() && types.has_tcp(), "{types}");
    let before = pool.in_use();
    for (rx, tx) in &mut queues {
        let mut burst = Burst::new();
        assert_eq!(rx.rx_burst(&mut burst), 32);
        assert_eq!(burst[0].bytes().len(), 64);
        assert_eq!(tx.tx_burst(&mut burst), 32);
    }
    assert_eq!(pool.in_use(), before);
    port.stop(eal, queues).unwrap();
}

/// Packets whose content is a number, from `first` on.
fn numbered(pool: &Mempool, first: u32, count: u32) -> Burst {
    (first..first + count)
        .map(|number| {
            let mut mbuf = pool.alloc().unwrap();
            assert!(mbuf.fill(&number.to_be_bytes()));
            mbuf
        })
        .collect()
}

fn numbers(burst: &Burst) -> Vec<u32> {
    burst.iter().map(|mbuf| u32::from_be_bytes(mbuf.bytes().try_into().unwrap())).collect()
}
