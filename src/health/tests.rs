//! The monitors against real servers on the loopback interface.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{Cause, Network, Outcome, ProbeResult, Prober as _, Report, Supervisor, Target};
use crate::config::BackendKey;
use crate::config::{Monitor, MonitorKind};
use crate::steer::Health;

const LONG: Duration = Duration::from_secs(20);

fn target(address: SocketAddr, kind: MonitorKind, timeout: Duration) -> Target {
    Target {
        key: BackendKey { pool: "web".into(), virtual_network: None, address: address.ip() },
        address,
        monitor: Monitor {
            name: "check".into(),
            kind,
            port: address.port(),
            interval: timeout,
            timeout,
            rise: 2,
            fall: 2,
        },
    }
}

fn http() -> MonitorKind {
    MonitorKind::Http { path: "/healthz".into(), host: None, expected_status: vec![200, 204] }
}

/// What a scripted server does with a connection.
#[derive(Clone, Copy)]
enum Script {
    /// Reads the request, sends this and closes.
    Say(&'static str),
    /// Sends this before anything was asked, then reads until the client closes.
    Greet(&'static str),
    /// Reads and never answers.
    Silence,
    /// Sends the head of an answer, a byte every 20 ms, without end.
    Dribble,
    /// Waits so long before it answers.
    After(Duration),
    /// Closes with a reset, as a server does that dies with unread data.
    Reset,
}

/// A server that plays `script` for one connection and tells how the client ended it: `Ok` with
/// what the client said, or the error (a reset).
async fn serve(script: Script) -> (SocketAddr, JoinHandle<std::io::Result<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(async move { play(listener.accept().await?.0, script).await }))
}

async fn play(mut stream: TcpStream, script: Script) -> std::io::Result<String> {
    let mut heard = Vec::new();
    if let Script::Greet(text) = script {
        stream.write_all(text.as_bytes()).await?;
    } else {
        while !heard.ends_with(b"\r\n\r\n") && stream.read_buf(&mut heard).await? > 0 {}
    }
    match script {
        Script::Say(text) => stream.write_all(text.as_bytes()).await?,
        Script::Greet(_) | Script::Silence => {}
        Script::Dribble => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            while stream.write_all(b"x").await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        }
        Script::After(wait) => {
            sleep(wait).await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        }
        Script::Reset => {
            stream.set_zero_linger()?;
            return Ok(String::new());
        }
    }
    if matches!(script, Script::Say(_) | Script::After(_)) {
        stream.shutdown().await?;
    }
    stream.read_to_end(&mut heard).await?;
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

/// An address of the loopback interface where nothing listens.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// One probe with its close, as the supervisor makes it.
async fn probe(address: SocketAddr, kind: MonitorKind) -> Outcome {
    let target = target(address, kind, LONG);
    match timeout(LONG, Network.probe(&target)).await.expect("an answer within 20 s") {
        Ok((outcome, open)) => {
            timeout(LONG, Network.close(open)).await.expect("closed within 20 s");
            outcome
        }
        Err(cause) => Outcome::Fail(cause),
    }
}

// HP-47, HP-49
#[tokio::test]
async fn http_answers_decide_by_their_status() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Outcome::Pass),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", Outcome::Pass),
        ("HTTP/1.1 204 No Content\r\n\r\n", Outcome::Pass),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Outcome::Pass),
        ("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Outcome::Fail(Cause::BadStatus(503))),
        ("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", Outcome::Fail(Cause::BadStatus(201))),
        ("HTTP/1.1 301 Elsewhere\r\nLocation: /\r\n\r\n", Outcome::Fail(Cause::BadStatus(301))),
        ("SSH-2.0-OpenSSH_9.2\r\n", Outcome::Fail(Cause::BadReply)),
        ("HTTP/1.1 2x0 What\r\n\r\n", Outcome::Fail(Cause::BadReply)),
        ("HTTP/1.1 200 OK\r\nContent-Le", Outcome::Fail(Cause::Closed)),
        ("", Outcome::Fail(Cause::Closed)),
    ] {
        let (address, server) = serve(Script::Say(answer)).await;
        assert_eq!(probe(address, http()).await, expected, "{answer:?}");
        if matches!(expected, Outcome::Pass | Outcome::Fail(Cause::BadStatus(_))) {
            let request = server.await.unwrap().expect("closed in order, not with a reset");
            assert!(request.starts_with("GET /healthz HTTP/1.1\r\n"), "{request}");
            assert!(request.contains(&format!("host: {address}\r\n")), "{request}");
        }
    }
}

// HP-47
#[tokio::test]
async fn a_dead_port_refuses_and_a_reset_is_told() {
    assert_eq!(probe(nobody().await, MonitorKind::Tcp).await, Outcome::Fail(Cause::Refused));
    assert_eq!(probe(nobody().await, http()).await, Outcome::Fail(Cause::Refused));
    let (address, _server) = serve(Script::Reset).await;
    assert_eq!(probe(address, http()).await, Outcome::Fail(Cause::Reset));
}

#[tokio::test]
async fn a_head_without_end_is_a_bad_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await;
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    assert_eq!(probe(address, http()).await, Outcome::Fail(Cause::BadReply));
}

#[tokio::test]
async fn a_path_that_is_none_fails_without_a_connection() {
    let kind = MonitorKind::Http { path: "/a b".into(), host: None, expected_status: vec![200] };
    assert_eq!(probe(nobody().await, kind).await, Outcome::Fail(Cause::BadRequest));
}

// HP-47
#[tokio::test]
async fn tcp_passes_on_a_connection_and_closes_it_in_order() {
    for script in [Script::Silence, Script::Greet("SSH-2.0-OpenSSH_9.2\r\n")] {
        let (address, server) = serve(script).await;
        assert_eq!(probe(address, MonitorKind::Tcp).await, Outcome::Pass);
        assert_eq!(server.await.unwrap().expect("no reset"), "");
    }
}

/// The first report of a supervisor whose one target is `target`.
async fn first_report(target: Target) -> Report {
    let (sender, mut reports) = mpsc::channel(1);
    let mut supervisor = Supervisor::new(sender, Instant::now(), 1);
    supervisor.set_targets(vec![target]);
    timeout(LONG, reports.recv()).await.expect("a report within 20 s").unwrap()
}

// HP-47, HP-51: the deadline is hard, over connecting, asking and answering together.
#[tokio::test]
async fn silence_and_dribbling_fail_at_the_deadline() {
    const DEADLINE: Duration = Duration::from_millis(300);
    for script in [Script::Silence, Script::Dribble, Script::After(DEADLINE * 3)] {
        let (address, _server) = serve(script).await;
        let report = first_report(target(address, http(), DEADLINE)).await;
        assert_eq!(report.result.outcome, Outcome::Fail(Cause::Timeout));
        let late = report.result.rtt.checked_sub(DEADLINE).expect("not before the deadline");
        assert!(late < Duration::from_millis(500), "late by {late:?}");
        assert_eq!(report.transition.unwrap().to, Health::Down);
    }
}

// HP-51: a slow answer within the deadline passes, and its time is kept.
#[tokio::test]
async fn a_slow_answer_in_time_passes_with_its_rtt() {
    const WAIT: Duration = Duration::from_millis(200);
    let (address, _server) = serve(Script::After(WAIT)).await;
    let report = first_report(target(address, http(), Duration::from_secs(5))).await;
    let ProbeResult { outcome, rtt, .. } = report.result;
    assert_eq!(outcome, Outcome::Pass);
    assert!((WAIT..WAIT * 10).contains(&rtt), "{rtt:?}");
    assert_eq!(report.damping.history(), [report.result]);
}

// HP-52: a backend that dies goes down, and comes back by itself.
#[tokio::test]
async fn a_backend_goes_down_and_comes_back() {
    const INTERVAL: Duration = Duration::from_millis(200);
    let address = nobody().await;
    let (sender, mut reports) = mpsc::channel(8);
    let mut supervisor = Supervisor::new(sender, Instant::now(), 1);
    supervisor.set_targets(vec![target(address, MonitorKind::Tcp, INTERVAL)]);
    let mut next = async || loop {
        let report = timeout(LONG, reports.recv()).await.expect("a report").unwrap();
        if let Some(transition) = report.transition {
            return (transition.to, report);
        }
    };

    assert_eq!(next().await.0, Health::Down);
    let listener = TcpListener::bind(address).await.unwrap();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    assert_eq!(next().await.0, Health::Up);
    server.abort();
    let died = Instant::now();
    let (health, report) = next().await;
    assert_eq!(health, Health::Down);
    assert_eq!(report.damping.last_cause(), Some(Cause::Refused));
    // Interval × fall + timeout + 1 s.
    assert!(died.elapsed() < INTERVAL * 2 + INTERVAL + Duration::from_secs(1));
}
