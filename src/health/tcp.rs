//! The TCP monitor: a backend passes if a connection opens.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Cause;

/// At most so many bytes are read of what a server says before it closes.
const DRAIN_CAP: u64 = 64 * 1024;

/// Opens a connection. There is no deadline here: the caller sets it.
///
/// # Errors
/// Why it did not open.
pub async fn probe(address: SocketAddr) -> Result<TcpStream, Cause> {
    TcpStream::connect(address).await.map_err(|error| Cause::from(&error))
}

/// Closes a connection in order, with FIN: to close with unread bytes would send a reset, which
/// servers that greet first (SSH, SMTP) log as an error.
pub async fn close(mut stream: TcpStream) {
    // Whatever goes wrong here, the probe has its outcome.
    if stream.shutdown().await.is_ok() {
        let mut rest = stream.take(DRAIN_CAP);
        let mut bytes = [0; 2048];
        while matches!(rest.read(&mut bytes).await, Ok(1..)) {}
    }
}
