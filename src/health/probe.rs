//! From a monitor to the file of its protocol.

use std::future::Future;

use tokio::net::TcpStream;

use super::{Cause, Target, http, tcp};
use crate::config::MonitorKind;

/// Asks a target how it is. The supervisor sets the deadline, by dropping the future.
pub trait Prober: Send + Sync + 'static {
    /// What is still open after a pass.
    type Open: Send;

    /// One probe.
    fn probe(&self, target: &Target) -> impl Future<Output = Result<Self::Open, Cause>> + Send;

    /// Closes in order what a probe left open. It may be cut short by dropping the future.
    fn close(&self, open: Self::Open) -> impl Future<Output = ()> + Send;
}

/// Probes over the kernel's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network;

/// A connection over which a probe passed.
pub enum Open {
    /// Of the TCP monitor.
    Tcp(TcpStream),
    /// Of the HTTP monitor.
    Http(Box<http::Answer>),
}

impl Prober for Network {
    type Open = Open;

    async fn probe(&self, target: &Target) -> Result<Open, Cause> {
        match &target.monitor.kind {
            MonitorKind::Tcp => Ok(Open::Tcp(tcp::probe(target.address).await?)),
            MonitorKind::Http { path, host, expected_status } => {
                let get = http::Get { path, host: host.as_deref(), expected_status };
                Ok(Open::Http(Box::new(http::probe(target.address, get).await?)))
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
