use super::*;
use crate::cli::color::plain;
use crate::cli::table::count;
use crate::control::protocol::reply::*;
use crate::control::protocol::{ErrorCode, RequestError};

fn assert_fits(text: &str) {
    for line in plain(text).lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
    }
}

#[test]
fn status_shows_the_appliance_at_a_glance() {
    let reply = StatusReply {
        name: "lb1".into(),
        version: "0.1.0".into(),
        commit: "abc".into(),
        dpdk: "22.11.9".into(),
        uptime_seconds: 3725,
        generation: 12,
        digests: Digests { configuration: "0a".into(), inputs: "0b".into(), tables: "0c".into() },
        config_path: "/etc/lodestone.toml".into(),
        unsaved_changes: 0,
        management: ManagementStatus { core: 0, restarts: 0 },
        workers: vec![WorkerStatus { worker: 0, core: 1, generation: 12, lagging: false }],
        ports: vec![PortStatus {
            name: "lan".into(),
            device: "net_af_packet0".into(),
            mac: "02:00:00:00:00:01".into(),
            link_up: true,
            rss: "not needed".into(),
            mtu: 1500,
            rx_packets: 1_234_567,
            tx_packets: 99_999,
            rx_missed: 0,
        }],
        services: vec![ServiceSummary {
            name: "web".into(),
            pools: vec![
                PoolSummary { name: "near".into(), healthy: 2, total: 3 },
                PoolSummary { name: "far".into(), healthy: 1, total: 1 },
            ],
        }],
        alarms: vec!["worker 1 lags".into()],
    };
    let text = plain(&status(&reply)).into_owned();
    assert_fits(&text);
    assert_eq!(
        text,
        "\
lb1: lodestone 0.1.0 (commit abc, DPDK 22.11.9), up 1 h 2 min
configuration /etc/lodestone.toml
generation 12, tables 0c
inputs 0b, configuration 0a

WORKER  CORE  GENERATION    STATE
0          1          12  current

PORT  LINK                MAC   MTU         RSS    RX     TX  MISSED
lan     up  02:00:00:00:00:01  1500  not needed  1.2M  99999       0
    device net_af_packet0

SERVICE  POOL  HEALTHY
web      near      2/3
          far      1/1

ALARM: worker 1 lags
"
    );
}

#[test]
fn services_say_where_new_flows_go_and_why() {
    let pool = |name: &str, share| PoolState {
        name: name.into(),
        healthy: 2,
        total: 3,
        threshold: 1,
        share,
    };
    let reply = ServicesReply {
        services: vec![ServiceState {
            name: "web".into(),
            admin_state: AdminState::Enabled,
            traffic: ServiceTraffic { packets: 1, bytes: 2, new_flows: 3 },
            vips: vec![VipState {
                address: "192.0.2.1".parse().unwrap(),
                protocol: Protocol::Tcp,
                ports: "80,443".into(),
            }],
            steering: "failover".into(),
            affinity: "client-ip-port-proto".into(),
            idle_timeout_ms: 300_000,
            pools: vec![pool("near", 1.0), pool("far", 0.0)],
            reason: "near is the first pool at its threshold".into(),
        }],
    };
    let text = plain(&services(&reply)).into_owned();
    assert_fits(&text);
    assert_eq!(
        text,
        "\
web
  VIP 192.0.2.1 tcp ports 80,443
  steering failover, affinity client-ip-port-proto, idle timeout 5 min 0 s
  near is the first pool at its threshold
  POOL  HEALTHY  THRESHOLD  NEW FLOWS
  near      2/3          1     100.0%
  far       2/3          1       0.0%
  carried 1 packets, 2 bytes, 3 new flows
"
    );
}

// OPS-05
#[test]
fn backends_say_why_they_are_down() {
    let probe = |failure: Option<&str>| ProbeResult {
        age_ms: 400,
        took_ms: 3,
        failure: failure.map(str::to_owned),
    };
    let backend = BackendState {
        name: "b1".into(),
        address: "10.0.1.1".parse().unwrap(),
        admin_state: AdminState::Enabled,
        health: Health::Up,
        weight: 1,
        share: 0.5,
        packets: 123_456,
        bytes: 9_876_543,
        new_flows: 321,
        flows: 17,
        next_hop: Some("02:00:00:00:00:02".into()),
        probes: vec![probe(None); 10],
    };
    let failures = [None, None, Some("timeout"), Some("refused"), Some("refused")];
    let down = BackendState {
        name: "a-name-too-long-for-its-column-in-eighty".into(),
        address: "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff".parse().unwrap(),
        admin_state: AdminState::Draining,
        health: Health::Down,
        next_hop: None,
        probes: failures.map(probe).to_vec(),
        ..backend.clone()
    };
    let fresh = BackendState { name: "b3".into(), probes: Vec::new(), ..backend.clone() };
    let backends_of_web = vec![backend, down, fresh];
    let reply = BackendsReply {
        pools: vec![PoolBackends { pool: "web".into(), backends: backends_of_web }],
    };
    let text = plain(&backends(&reply)).into_owned();
    assert_fits(&text);
    assert_eq!(
        text,
        "\
BACKEND     STATE  HEALTH  WEIGHT  SLOTS  PACKETS  BYTES  FLOWS
web/b1    enabled      up       1  50.0%   123.4k   9.8M    321
    10.0.1.1 by next hop 02:00:00:00:00:02
    probes: 10 x passed; last 0.4 s ago in 3 ms
web/a-name-too-long-for-its-column-in-eighty
         draining    down       1  50.0%   123.4k   9.8M    321
    2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff next hop unresolved
    probes: 2 x passed, timeout, 2 x refused; last 0.4 s ago in 3 ms
web/b3    enabled      up       1  50.0%   123.4k   9.8M    321
    10.0.1.1 by next hop 02:00:00:00:00:02
    not probed yet
"
    );
}

#[test]
fn workers_fit_the_terminal_at_any_count() {
    let worker = WorkerState {
        worker: 0,
        core: 1,
        generation: 12,
        rx_packets: 1000,
        tx_packets: 990,
        replies: 3,
        punted: 2,
        dropped: 8,
        polls: 5_000_000,
        empty_polls: 4_900_000,
        runtime: Runtime {
            cycles_per_second: 2_000_000_000,
            idle_share: 0.75,
            stages: vec![
                StageCycles { stage: "receive".into(), cycles: 1000, cycles_per_packet: 10.0 },
                StageCycles { stage: "decide".into(), cycles: 3000, cycles_per_packet: 30.0 },
            ],
            tx_retries: 5,
            tx_stalls: 1,
            handed_out: 2,
            handed_in: 3,
            burst_latency: vec![
                LatencyBucket { up_to_cycles: 1000, bursts: 99 },
                LatencyBucket { up_to_cycles: 4000, bursts: 1 },
            ],
        },
        packets_per_burst: 3.25,
    };
    let reply = WorkersReply { workers: vec![worker.clone()] };
    assert_eq!(
        plain(&workers(&reply)),
        "\
WORKER  CORE  GEN    RX   TX  REPLIES  PUNTED  DROPPED  POLLS  EMPTY  BURST
0          1   12  1000  990        3       2        8   5.0M   4.9M    3.2

worker 0: idle 75.0%, handed over 2 out 3 in, TX offered again 5, stalled 1
  STAGE    CYCLES  A PACKET  SHARE
  receive    1000      10.0  25.0%
  decide     3000      30.0  75.0%
  burst p50 1000 (0.5 us), p99 1000 (0.5 us), p99.99 4000 (2.0 us), max 4000 (2.0 us)
"
    );
}

#[test]
fn drops_show_what_happened_and_on_request_the_rest() {
    let reason = |name: &str, per_worker: [u64; 2]| DropState {
        reason: name.into(),
        description: "What it means.".into(),
        total: per_worker.iter().sum(),
        per_worker: per_worker.to_vec(),
    };
    let reasons = vec![reason("not-vip", [12, 3]), reason("tx-full", [0, 0])];
    let reply = DropsReply { workers: vec![0, 1], reasons };
    let some = "\
REASON   TOTAL
not-vip     15
    What it means.
    worker 0: 12, worker 1: 3
";
    assert_eq!(plain(&drops(&reply, false)), some);
    assert_eq!(plain(&drops(&reply, true)), format!("{some}tx-full      0\n    What it means.\n"));
    let nothing = DropsReply { workers: vec![0], reasons: Vec::new() };
    assert_eq!(drops(&nothing, false), "nothing was dropped\n");
}

#[test]
fn conntrack_shows_every_shard() {
    let shard = ShardState {
        worker: 0,
        family: Family::Ipv4,
        entries: 10,
        capacity: 1_000_000,
        hits: 500,
        new: 12,
        unverified: 1,
        refused: 0,
        expired: 3,
        removed: 4,
    };
    let reply = ConntrackReply { shards: vec![shard] };
    assert_eq!(
        plain(&conntrack(&reply)),
        "\
WORKER  FAMILY  ENTRIES   CAP  HITS  NEW  UNVERIF  REFUSED  EXPIRED
0         IPv4       10  1.0M   500   12        1        0        3
"
    );
}

#[test]
fn changes_and_refusals_are_sentences() {
    let done =
        ChangeReply { generation: 8, changed: true, workers_adopted: 2, warnings: Vec::new() };
    assert_eq!(change(&done), "done: 2 workers run generation 8\n");
    let nothing = ChangeReply { changed: false, warnings: vec!["mind".into()], ..done };
    assert_eq!(change(&nothing), "nothing to change (generation 8)\nwarning: mind\n");
    let refused = RequestError::new(ErrorCode::CONFIG_REFUSED, "the file has 1 mistake")
        .with_data(vec!["line 3: mend it".into()]);
    assert_eq!(refusal(&refused), "lodectl: the file has 1 mistake\n  - line 3: mend it\n");
}

#[test]
fn numbers_stay_short() {
    for (number, text) in [
        (0, "0"),
        (99_999, "99999"),
        (100_000, "100.0k"),
        (999_999, "999.9k"),
        (1_000_000, "1.0M"),
        (u64::MAX, "18.4E"),
    ] {
        assert_eq!(count(number), text);
    }
}
