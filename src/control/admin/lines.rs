//! Lines from a client, one after the other, each bounded in length and time.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};
use tokio::time::{Instant, timeout_at};

use crate::control::protocol::REQUEST_CAP;

/// Bytes read at a time, and what a connection keeps between requests.
const READ_LEN: usize = 4096;

/// How reading a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The line is there, without its newline.
    Whole,
    /// The stream ended first. Half a request was not sent as a whole and has no effect.
    End,
    /// It has more than [`REQUEST_CAP`] bytes.
    TooLong,
}

/// Reads lines. Never holds more than [`REQUEST_CAP`] bytes of one.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// When the line that is being read must be there.
    deadline: Option<Instant>,
    limit: Duration,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of `reader`, each complete within `limit` from its first byte.
    pub(super) fn new(reader: R, limit: Duration) -> Self {
        let reader = BufReader::with_capacity(READ_LEN, reader);
        Self { reader, line: Vec::new(), deadline: None, limit }
    }

    /// Reads on until a line is there. May be dropped and called again: nothing is lost, and the
    /// deadline stays.
    pub(super) async fn next(&mut self) -> io::Result<Line> {
        if self.deadline.is_none() {
            if self.reader.fill_buf().await?.is_empty() {
                return Ok(Line::End);
            }
            self.deadline = Some(Instant::now() + self.limit);
        }
        let deadline = self.deadline.unwrap_or_else(Instant::now);
        timeout_at(deadline, read_rest(&mut self.reader, &mut self.line)).await?
    }

    /// What [`Self::next`] read. Call it once after [`Line::Whole`], and [`Self::done`] after that.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Goes on to the next line.
    pub(super) fn done(&mut self) {
        self.line.clear();
        self.line.shrink_to(READ_LEN);
        self.deadline = None;
    }
}

async fn read_rest<R>(reader: &mut R, line: &mut Vec<u8>) -> io::Result<Line>
where
    R: AsyncBufRead + Unpin,
{
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            return Ok(Line::End);
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.unwrap_or(available.len());
        if line.len() + taken > REQUEST_CAP {
            return Ok(Line::TooLong);
        }
        line.extend_from_slice(&available[..taken]);
        reader.consume(taken + usize::from(newline.is_some()));
        if newline.is_some() {
            return Ok(Line::Whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// A subscriber's connection stops reading whenever there is something to send.
    #[tokio::test(start_paused = true)]
    async fn reading_that_is_dropped_midway_goes_on_where_it_was() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut lines = Lines::new(server, Duration::from_secs(1));
        for piece in ["a", "bc", "\nd"] {
            client.write_all(piece.as_bytes()).await.unwrap();
            if piece != "\nd" {
                let short = Duration::from_millis(1);
                assert!(tokio::time::timeout(short, lines.next()).await.is_err());
            }
        }
        assert_eq!(lines.next().await.unwrap(), Line::Whole);
        assert_eq!(lines.line(), b"abc");
        lines.done();
        let began = Instant::now();
        for _ in 0..9 {
            let short = Duration::from_millis(100);
            assert!(tokio::time::timeout(short, lines.next()).await.is_err());
        }
        let error = lines.next().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let took = began.elapsed();
        assert!(
            (Duration::from_millis(990)..Duration::from_millis(1_010)).contains(&took),
            "{took:?}"
        );
    }
}
