//! From a monitor to the file of its protocol.

use std::future::Future;

use tokio::net::TcpStream;

use super::{Cause, Outcome, Target, http, tcp};
use crate::config::MonitorKind;

/// Asks a target how it is. The supervisor sets the deadline, by dropping the future.
pub trait Prober: Send + Sync + 'static {
    /// What is still open after an answer.
    type Open: Send;

    /// One probe: what the answer says and what is still open, or why there is no answer.
    fn probe(
        &self,
        target: &Target,
    ) -> impl Future<Output = Result<(Outcome, Self::Open), Cause>> + Send;

    /// Closes in order what a probe left open. It may be cut short by dropping the future.
    fn close(&self, open: Self::Open) -> impl Future<Output = ()> + Send;
}

/// Probes over the kernel's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network;

/// A connection over which an answer came.
pub enum Open {
    /// Of the TCP monitor.
    Tcp(TcpStream),
    /// Of the HTTP monitor.
    Http(Box<http::Answer>),
}

impl Prober for Network {
    type Open = Open;

    async fn probe(&self, target: &Target) -> Result<(Outcome, Open), Cause> {
        match &target.monitor.kind {
            MonitorKind::Tcp => {
                let stream = tcp::probe(target.address).await?;
                Ok((Outcome::Pass, Open::Tcp(stream)))
            }
            MonitorKind::Http { path, host, expected_status } => {
                let get = http::Get { path, host: host.as_deref() };
                let answer = http::probe(target.address, get).await?;
                let outcome = if expected_status.contains(&answer.status) {
                    Outcome::Pass
                } else {
                    Outcome::Fail(Cause::BadStatus(answer.status))
                };
                Ok((outcome, Open::Http(Box::new(answer))))
            }
        }
    }

    async fn close(&self, open: Open) {
        match open {
            Open::Tcp(stream) => tcp::close(stream).await,
            Open::Http(answer) => http::close(*answer).await,
        }
    }
}
