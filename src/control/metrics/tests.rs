//! The text and the endpoint. Whether each number moves is asked in `control::tests::metrics`.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::endpoint::{CONNECTION_CAP, Limits};
use super::text::{Lines, Value};
use super::*;
use crate::steer::{AdminState, Health};

fn line(labels: &[super::text::Label<'_>], value: impl Into<Value>) -> String {
    let mut piece = String::new();
    Lines::new(&mut piece, "x").sample(labels, value);
    piece
}

#[test]
fn samples_are_written_as_the_format_wants_them() {
    assert_eq!(line(&[], 7), "x 7\n");
    assert_eq!(line(&[("a", &"b"), ("c", &1)], true), "x{a=\"b\",c=\"1\"} 1\n");
    assert_eq!(line(&[("a", &"q\"b\\n\nö")], 0.25), "x{a=\"q\\\"b\\\\n\\nö\"} 0.25\n");
    assert_eq!(line(&[], u64::MAX), "x 18446744073709551615\n");
    for (number, text) in
        [(f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf"), (f64::NAN, "NaN"), (-0.5, "-0.5")]
    {
        assert_eq!(line(&[], number), format!("x {text}\n"));
    }
    assert_eq!(line(&[], None::<u64>), "", "what is not known has no sample");
}

// What a label says comes back, whatever it is.
#[test]
fn labels_are_escaped_without_loss() {
    bolero::check!().with_type::<String>().for_each(|text| {
        let written = line(&[("a", text)], 1);
        let inner = written.strip_prefix("x{a=\"").unwrap().strip_suffix("\"} 1\n").unwrap();
        assert!(!inner.contains('\n'));
        let mut read = String::new();
        let mut letters = inner.chars();
        while let Some(letter) = letters.next() {
            assert_ne!(letter, '"', "the value would end here");
            read.push(match letter {
                '\\' => match letters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                },
                other => other,
            });
        }
        assert_eq!(read, *text);
    });
}

#[test]
fn families_have_names_of_their_own_that_follow_the_conventions() {
    let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), FAMILIES.len());
    for Family { name, kind, help, labels, .. } in FAMILIES {
        assert!(name.starts_with("lodestone_"), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert!(help.ends_with('.') && !help.contains(['\\', '\n']), "{name}: {help}");
        assert!(labels.iter().all(|label| label.bytes().all(|b| b.is_ascii_lowercase())));
    }
}

/// Many backends in one pool.
fn large(backends: usize) -> Observation {
    let backend = |number| BackendObservation {
        pool: 0,
        name: format!("b{number}"),
        address: [10, 0, 0, 1].into(),
        totals: crate::stats::BackendTotals::default(),
        health: Health::Up,
        admin: AdminState::Enabled,
        weight: 1,
        slot_share: 0.5,
        resolved: true,
        probes: Some(ProbeTally::default()),
    };
    let pool = PoolObservation { name: "web".into(), healthy: 1, backends: 1, threshold: 1 };
    Observation {
        pools: vec![pool],
        backends: (0..backends).map(backend).collect(),
        ..Observation::default()
    }
}

#[test]
fn pieces_are_bounded_and_together_the_whole() {
    // Wherever the pieces end: also right behind a header.
    for backends in 2_000..2_040 {
        let pieces: Vec<_> = Text::new(large(backends)).collect();
        assert!(pieces.len() > 10);
        assert!(pieces.iter().all(|piece| piece.len() < 34 * 1024));
        let text = pieces.concat();
        let mut headers: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(headers.len(), FAMILIES.len());
        headers.dedup();
        assert_eq!(headers.len(), FAMILIES.len(), "{backends}: each family has one header");
        let ups = text.lines().filter(|line| line.starts_with("lodestone_backend_up{"));
        assert_eq!(ups.count(), backends, "no backend is lost, and none comes twice");
        assert!(text.ends_with('\n'));
    }
}

/// An endpoint that is served, and whoever answers for management.
struct Served {
    endpoint: std::sync::Arc<Endpoint>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    fn start(limits: Limits, backends: usize) -> Self {
        let mut endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        endpoint.limits = limits;
        Self::run(endpoint.into(), backends)
    }

    fn run(endpoint: std::sync::Arc<Endpoint>, backends: usize) -> Self {
        let (sender, mut scrapes) = mpsc::channel::<Scrape>(1);
        let served = std::sync::Arc::clone(&endpoint);
        let task = tokio::spawn(async move {
            let answers = async {
                while let Some(scrape) = scrapes.recv().await {
                    scrape.answer(large(backends));
                }
            };
            tokio::select! {
                Err(error) = served.run(sender) => panic!("{error}"),
                () = answers => {}
            }
        });
        Self { endpoint, task }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.endpoint.address()).await.unwrap()
    }

    /// All that is answered until the end of the connection.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn get(&self) -> String {
        self.ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is an end as well.
    let read = stream.read_to_end(&mut bytes);
    let _ = timeout(Duration::from_secs(20), read).await.expect("an end");
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn one_path_and_two_methods_are_served() {
    let served = Served::start(Limits::default(), 3);
    let whole = served.get().await;
    assert!(whole.starts_with("HTTP/1.1 200 OK\r\n"), "{whole}");
    assert!(whole.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(whole.contains("\nlodestone_backend_up{pool=\"web\",backend=\"b2\"} 1\n"), "{whole}");
    let query = served.ask("GET /metrics?a=b HTTP/1.0\r\n\r\n").await;
    assert!(query.starts_with("HTTP/1.0 200 OK\r\n") && query.contains("lodestone_backend_up"));
    let head = served.ask("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let elsewhere = served.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(elsewhere.starts_with("HTTP/1.1 404 "), "{elsewhere}");
    let post = served.ask("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await;
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD\r\n"), "{post}");
}

#[tokio::test]
async fn garbage_and_long_heads_are_refused_and_others_served() {
    let served = Served::start(Limits::default(), 1);
    assert!(served.ask("\x01\x02 garbage\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(64 * 1024));
    let answer = served.ask(&long).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(100));
    assert!(served.ask(&many).await.starts_with("HTTP/1.1 431 "));
    assert!(served.get().await.contains("lodestone_backend_up"));
}

#[tokio::test]
async fn who_does_not_ask_in_time_is_hung_up_on() {
    let limits = Limits { head: Duration::from_millis(100), ..Limits::default() };
    let served = Served::start(limits, 1);
    let start = Instant::now();
    for begun in ["", "GET /met"] {
        assert!(!served.ask(begun).await.contains("200 OK"));
    }
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn idle_clients_make_room_for_one_that_asks() {
    let served = Served::start(Limits::default(), 1);
    let mut idle = Vec::new();
    for _ in 0..=3 * CONNECTION_CAP {
        idle.push(served.connect().await);
    }
    assert!(served.get().await.contains("lodestone_backend_up"));
    let first = timeout(Duration::from_secs(2), rest(&mut idle[0])).await;
    assert_eq!(first.expect("the oldest is closed"), "");
}

#[tokio::test]
async fn clients_that_never_read_hold_up_nobody_and_end() {
    let connection = Duration::from_secs(1);
    let served = Served::start(Limits { connection, ..Limits::default() }, 20_000);
    let mut stuck = Vec::new();
    for _ in 0..3 {
        let mut stream = served.connect().await;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        stuck.push(stream);
    }
    let other = served.ask("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(other.starts_with("HTTP/1.1 200 OK\r\n"), "{other}");
    tokio::time::sleep(connection + Duration::from_millis(500)).await;
    for mut stream in stuck {
        let cut = rest(&mut stream).await;
        assert!(!cut.ends_with("0\r\n\r\n"), "the last chunk never came");
    }
}

// Management restarts after a panic with a new runtime: the listener is the same.
#[tokio::test]
async fn it_is_served_again_after_its_run_ended() {
    let served = Served::start(Limits::default(), 1);
    assert!(served.get().await.contains("lodestone_backend_up"));
    served.task.abort();
    let endpoint = std::sync::Arc::clone(&served.endpoint);
    let mut waiting = served.connect().await;
    waiting.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let again = Served::run(endpoint, 1);
    assert!(rest(&mut waiting).await.contains("lodestone_backend_up"), "it waited");
    assert!(again.get().await.contains("lodestone_backend_up"));
}

#[tokio::test]
async fn without_management_the_answer_says_so() {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (sender, scrapes) = mpsc::channel(1);
    drop(scrapes);
    let address = endpoint.address();
    let task = tokio::spawn(async move { endpoint.run(sender).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 503 "));
    task.abort();
}

#[test]
fn an_address_that_cannot_be_had_is_an_error_with_the_mend() {
    let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let taken = Endpoint::bind(endpoint.address()).unwrap_err();
    assert!(matches!(taken, EndpointError::InUse { .. }));
    assert!(taken.to_string().contains("another program listens there"), "{taken}");
    // TEST-NET-1 (RFC 5737) is nobody's.
    let foreign = Endpoint::bind("192.0.2.1:9640".parse().unwrap()).unwrap_err();
    assert!(foreign.to_string().contains("no such address"), "{foreign}");
}
