//! Connections that are a stream.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::connection::SUBSCRIPTION_CAP;
use super::feed::EVENT_CAP;
use super::*;

/// A subscribed connection.
struct Subscriber {
    reader: BufReader<UnixStream>,
}

impl Subscriber {
    fn new(mut stream: UnixStream, params: &Value) -> Self {
        subscribe(&mut stream, params);
        let mut subscriber = Self { reader: BufReader::new(stream) };
        assert_eq!(subscriber.next()["result"], *params);
        subscriber
    }

    fn next(&mut self) -> Answer {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn send(&mut self, line: &[u8]) {
        self.reader.get_mut().write_all(line).unwrap();
    }
}

fn subscribe(stream: &mut UnixStream, params: &Value) {
    let request = json!({"jsonrpc": "2.0", "id": 5, "method": "subscribe", "params": params});
    writeln!(stream, "{request}").unwrap();
}

fn events() -> Value {
    json!({"events": true, "stats_interval_ms": 0})
}

fn stats(interval: u32) -> Value {
    json!({"events": false, "stats_interval_ms": interval})
}

fn event(number: usize) -> Value {
    json!({"jsonrpc": "2.0", "method": "event", "params": {"number": number}})
}

#[test]
fn events_come_in_order_after_the_answer_on_both_sockets() {
    let daemon = Daemon::start();
    let feed = daemon.server().feed();
    feed.publish(&json!({"number": "before anyone listens"}));
    let mut subscribers = [
        Subscriber::new(daemon.connect(), &events()),
        Subscriber::new(daemon.connect_read_only(), &events()),
    ];
    for number in 0..100 {
        feed.publish(&json!({ "number": number }));
    }
    for subscriber in &mut subscribers {
        for number in 0..100 {
            assert_eq!(subscriber.next(), event(number));
        }
    }
}

#[test]
fn counters_come_at_once_and_at_their_interval() {
    let daemon = Daemon::start();
    let mut subscriber = Subscriber::new(daemon.connect(), &stats(100));
    let began = tokio::time::Instant::now();
    for _ in 0..4 {
        let got = subscriber.next();
        assert_eq!((&*got["method"], &*got["params"]["generation"]), (&json!("stats"), &json!(7)));
    }
    // Three intervals lie between four; a little less, since counters may be 50 ms old.
    assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
}

#[test]
fn many_who_want_counters_cost_as_much_as_one() {
    let asked = Arc::new(AtomicUsize::new(0));
    let daemon = Daemon::start_with(|_| {}, {
        let asked = Arc::clone(&asked);
        move |mut commands| async move {
            while let Some(command) = commands.recv().await {
                asked.fetch_add(1, Ordering::Relaxed);
                let _ = command.reply.send(Ok(changed("ok")));
            }
        }
    });
    let began = tokio::time::Instant::now();
    let mut subscribers: Vec<_> =
        (0..40).map(|_| Subscriber::new(daemon.connect(), &stats(100))).collect();
    for _ in 0..5 {
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.next()["method"], json!("stats"));
        }
    }
    let most = usize::try_from(began.elapsed().as_millis() / 50).unwrap() + 1;
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked >= 5 && asked <= most, "asked {asked} times, at most {most}");
}

#[test]
fn requests_are_still_answered_and_the_newest_subscription_holds() {
    let daemon = Daemon::start();
    let feed = daemon.server().feed();
    let mut subscriber = Subscriber::new(daemon.connect(), &events());
    for number in 0..10 {
        feed.publish(&json!({ "number": number }));
        assert_eq!(subscriber.next(), event(number));
        subscriber.send(RELOAD);
        assert_eq!(subscriber.next()["result"]["generation"], json!(7));
    }
    subscribe(subscriber.reader.get_mut(), &json!({}));
    assert_eq!(subscriber.next()["result"], json!({"events": false, "stats_interval_ms": 0}));
    feed.publish(&json!({"number": "after it ended"}));
    subscriber.send(RELOAD);
    assert_eq!(subscriber.next()["result"]["generation"], json!(7));
}

#[test]
fn wrong_parameters_are_refused_and_the_subscription_stays() {
    let daemon = Daemon::start();
    let mut subscriber = Subscriber::new(daemon.connect(), &events());
    for (params, word) in [
        (json!({"stats_interval_ms": 99}), "100..=60000"),
        (json!({"stats_interval_ms": 60_001}), "100..=60000"),
        (json!({"stats_interval_ms": -1}), "u32"),
        (json!({"events": 1}), "boolean"),
        (json!({"event": true}), "event"),
        (json!([true, 100]), "by name"),
    ] {
        subscribe(subscriber.reader.get_mut(), &params);
        let error = &subscriber.next()["error"];
        assert_eq!(error["code"], json!(-32602), "{params}");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    daemon.server().feed().publish(&json!({"number": 1}));
    assert_eq!(subscriber.next(), event(1));
}

#[test]
fn who_lags_is_told_how_much_was_lost() {
    const COUNT: usize = 20_000;
    let daemon = Daemon::start();
    let mut subscriber = Subscriber::new(daemon.connect(), &events());
    let padding = "x".repeat(1_000);
    for number in 0..COUNT {
        daemon.server().feed().publish(&json!({"number": number, "padding": padding}));
    }
    // Others are served while this one does not read.
    daemon.assert_serves();
    // Every event is either there, in order, or counted as lost in its place.
    let (mut next, mut lost) = (0, 0);
    while next < COUNT {
        let got = subscriber.next();
        if got["method"] == json!("lost") {
            let count = usize::try_from(got["params"]["events"].as_u64().unwrap()).unwrap();
            (next, lost) = (next + count, lost + count);
        } else {
            assert_eq!(got["params"]["number"], json!(next));
            next += 1;
        }
    }
    // What was not lost lay in the ring or in the kernel's buffers, at most 4 MB of them.
    assert!(lost >= COUNT - EVENT_CAP - 4_000, "{lost}");
}

#[test]
fn a_subscriber_that_never_reads_is_closed() {
    let daemon = Daemon::start_with(
        |server| server.limits.write = Duration::from_millis(200),
        |commands| answer_all(commands, "ok".into()),
    );
    let mut deaf = Subscriber::new(daemon.connect(), &events());
    let mut attentive = Subscriber::new(daemon.connect(), &stats(100));
    let padding = "x".repeat(8_000);
    for _ in 0..200 {
        daemon.server().feed().publish(&json!({"padding": padding}));
    }
    pause(600);
    let got = rest_of(deaf.reader.get_mut());
    assert!(got.len() < 200 * 8_000, "it was cut off: {}", got.len());
    attentive.next();
    daemon.assert_serves();
}

#[test]
fn a_subscriber_is_not_idle() {
    let daemon = Daemon::start();
    let mut subscriber = Subscriber::new(daemon.connect(), &events());
    pause(20);
    let _idle: Vec<_> = (0..CONNECTION_CAP + 50).map(|_| daemon.connect()).collect();
    daemon.assert_serves();
    daemon.server().feed().publish(&json!({"number": 3}));
    assert_eq!(subscriber.next(), event(3));
}

#[test]
fn subscriptions_are_bounded_and_leave_room_for_requests() {
    let daemon = Daemon::start();
    let mut subscribers: Vec<_> =
        (0..SUBSCRIPTION_CAP).map(|_| Subscriber::new(daemon.connect(), &events())).collect();
    let mut late = daemon.connect();
    subscribe(&mut late, &events());
    let error = &answer_from(&mut late)["error"];
    assert_eq!(error["code"], json!(4));
    // The connection lives on, and so do others.
    late.write_all(RELOAD).unwrap();
    assert_eq!(answer_from(&mut late)["result"]["generation"], json!(7));
    daemon.assert_serves();
    // The read-only socket has its own.
    Subscriber::new(daemon.connect_read_only(), &events());
    // One that changes does not count twice; one that ends makes room.
    subscribe(subscribers[0].reader.get_mut(), &stats(60_000));
    assert_eq!(subscribers[0].next()["result"], stats(60_000));
    subscribe(subscribers[1].reader.get_mut(), &stats(0));
    assert_eq!(subscribers[1].next()["result"], stats(0));
    Subscriber::new(late, &events());
}

#[test]
fn an_event_that_is_too_long_is_not_sent() {
    let daemon = Daemon::start();
    let mut subscriber = Subscriber::new(daemon.connect(), &events());
    daemon.server().feed().publish(&json!({"padding": "x".repeat(100_000)}));
    daemon.server().feed().publish(&json!({"number": 1}));
    assert_eq!(subscriber.next(), event(1));
}
