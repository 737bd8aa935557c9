//! Events on their way to subscribers, and counters when they are due.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Mutex, broadcast, mpsc, oneshot};
use tokio::time::Instant;

use super::asked::stats_request;
use super::{Command, PeerCredentials, Role};
use crate::control::protocol::notification_line;

/// Events that wait for the slowest subscriber. The oldest make room for more.
pub(super) const EVENT_CAP: usize = 1_024;

/// Longest event on the wire, in bytes.
const EVENT_LEN_CAP: usize = 16 * 1024;

/// Counters are taken at most this often, whatever the number of subscribers: half of the shortest
/// interval.
const FRESH: Duration = Duration::from_millis(50);

/// Where management publishes what happens.
///
/// Clones publish to the same subscribers. Memory is bounded: 1,024 events of at most 16 KiB.
#[derive(Clone, Debug)]
pub struct Feed(broadcast::Sender<Arc<str>>);

impl Default for Feed {
    fn default() -> Self {
        Self(broadcast::Sender::new(EVENT_CAP))
    }
}

impl Feed {
    /// Tells every subscriber. Costs nothing while there is none, and never waits for one.
    ///
    /// `event` becomes the `params` of a notification, so it should serialise to an object.
    pub fn publish<T: Serialize>(&self, event: &T) {
        if self.0.receiver_count() == 0 {
            return;
        }
        let line = notification_line("event", event);
        if line.len() > EVENT_LEN_CAP {
            tracing::error!(
                len = line.len(),
                cap = EVENT_LEN_CAP,
                "an event is too long for its subscribers; please report this"
            );
            return;
        }
        // All may have left meanwhile.
        let _ = self.0.send(line.into());
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.subscribe()
    }
}

/// The newest counters, shared by those who want them at about the same time.
#[derive(Debug)]
pub(super) struct Snapshots {
    commands: mpsc::Sender<Command>,
    newest: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Snapshots {
    pub(super) fn new(commands: mpsc::Sender<Command>) -> Self {
        Self { commands, newest: Mutex::new(None) }
    }

    /// A line with the counters, at most 50 ms old; `None` if the control loop does not answer.
    pub(super) async fn newest(&self, role: Role, peer: PeerCredentials) -> Option<Arc<str>> {
        // Held while the control loop is asked: who comes meanwhile gets the same answer.
        let mut newest = self.newest.lock().await;
        if let Some((taken, line)) = newest.as_ref()
            && taken.elapsed() < FRESH
        {
            return Some(Arc::clone(line));
        }
        let (reply, answer) = oneshot::channel();
        let command = Command { request: stats_request(), role, peer, reply };
        self.commands.send(command).await.ok()?;
        let stats = answer.await.ok()?.ok()?;
        let line: Arc<str> = notification_line("stats", &stats).into();
        *newest = Some((Instant::now(), Arc::clone(&line)));
        Some(line)
    }
}
