//! The HTTP monitor: a backend passes if a GET is answered with an expected status.
//!
//! One connection a probe, `Connection: close`. The head of the answer decides; of the body no more
//! is read than closing in order needs.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Cause;

/// Largest head of an answer, in bytes; a larger one is a bad reply.
const HEAD_CAP: usize = 16 * 1024;

/// At most so many bytes of the body are read before closing.
const BODY_CAP: usize = 64 * 1024;

const USER_AGENT: &str = concat!("lodestone/", env!("CARGO_PKG_VERSION"));

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// Path and query.
    pub path: &'a str,
    /// `Host` header; the probed address if absent.
    pub host: Option<&'a str>,
}

/// An answer whose head has come, with the connection that it comes over.
pub struct Answer {
    /// Its status code.
    pub status: u16,
    connection: http1::Connection<TokioIo<TcpStream>, Empty<Bytes>>,
    body: Incoming,
}

/// Connects, asks, and waits for the head of the answer. There is no deadline here: the caller sets
/// it.
///
/// # Errors
/// Why there is no answer.
pub async fn probe(address: SocketAddr, get: Get<'_>) -> Result<Answer, Cause> {
    let request = request(address, get).map_err(|_| Cause::BadRequest)?;
    let stream = super::tcp::probe(address).await?;
    let (mut sender, mut connection) = http1::Builder::new()
        .max_buf_size(HEAD_CAP)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| cause(&error))?;

    let answer = sender.send_request(request);
    tokio::pin!(answer);
    // The connection moves the bytes for the answer. It can end first, on an error of the socket;
    // the answer then knows why.
    let response = tokio::select! {
        biased;
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
    .map_err(|error| cause(&error))?;

    let status = response.status().as_u16();
    Ok(Answer { status, connection, body: response.into_body() })
}

/// Reads what is left of a small body, so that the connection ends with FIN and not with a reset.
pub async fn close(answer: Answer) {
    let Answer { connection, mut body, .. } = answer;
    let drain = async move {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > BODY_CAP {
                break;
            }
        }
    };
    // Whatever goes wrong here, the probe has its outcome.
    let _ = tokio::join!(connection, drain);
}

fn request(address: SocketAddr, get: Get<'_>) -> Result<Request<Empty<Bytes>>, hyper::http::Error> {
    // RFC 9110 §7.2: the port is left out if it is the scheme's own.
    let host = match (get.host, address) {
        (Some(host), _) => host.to_owned(),
        (None, SocketAddr::V4(v4)) if v4.port() == 80 => v4.ip().to_string(),
        (None, SocketAddr::V6(v6)) if v6.port() == 80 => format!("[{}]", v6.ip()),
        // RFC 9112 §3.2: no zone in a Host field.
        (None, SocketAddr::V6(v6)) => format!("[{}]:{}", v6.ip(), v6.port()),
        (None, address) => address.to_string(),
    };
    Request::get(get.path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
}

fn cause(error: &hyper::Error) -> Cause {
    if error.is_parse() {
        return Cause::BadReply;
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return Cause::Closed;
    }
    match error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) => Cause::from(error),
        None => Cause::BadReply,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_host() {
        let get = |host| Get { path: "/healthz?deep=1", host };
        for (address, host, expected) in [
            ("192.0.2.1:80", None, "192.0.2.1"),
            ("192.0.2.1:8080", None, "192.0.2.1:8080"),
            ("[2001:db8::1]:80", None, "[2001:db8::1]"),
            ("[2001:db8::1]:8080", None, "[2001:db8::1]:8080"),
            ("192.0.2.1:8080", Some("shop.example"), "shop.example"),
        ] {
            let request = request(address.parse().unwrap(), get(host)).unwrap();
            assert_eq!(request.headers()[header::HOST], expected);
            assert_eq!(request.headers()[header::CONNECTION], "close");
            assert_eq!(request.uri().to_string(), "/healthz?deep=1");
        }
        let bad = Get { path: "/a b", host: None };
        assert!(request("192.0.2.1:80".parse().unwrap(), bad).is_err());
    }
}
