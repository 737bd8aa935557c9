//! The open connections of a socket: bounded in number and in what they hold.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::PeerCredentials;
use super::activity::Activity;
use super::connection::{Shared, serve};
use crate::control::protocol::{ErrorCode, RequestError, response_line};

/// The most connections of a socket at a time.
pub(super) const CONNECTION_CAP: usize = 256;

/// How long a connection may wait for its client without having to go for a new one: a client
/// needs a moment between connecting and writing.
const GRACE: Duration = Duration::from_millis(20);

/// How long a new connection waits for a place before it is refused. Those behind it wait, too.
const PATIENCE: Duration = Duration::from_millis(100);

/// The open connections; all end when this is dropped.
#[derive(Debug)]
pub(super) struct Connections {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    activities: Vec<Arc<Activity>>,
}

impl Connections {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, tasks: JoinSet::new(), activities: Vec::new() }
    }

    /// Serves a new connection, if need be in place of another one.
    pub(super) async fn admit(&mut self, stream: UnixStream) {
        if !self.make_room().await {
            refuse(stream).await;
            return;
        }
        let peer = match stream.peer_cred() {
            Ok(peer) => PeerCredentials { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() },
            Err(error) => {
                tracing::warn!(%error, "admin socket: the kernel does not say who connected");
                return;
            }
        };
        let activity = Arc::new(Activity::new(peer, Instant::now()));
        self.activities.push(Arc::clone(&activity));
        self.tasks.spawn(serve(stream, Arc::clone(&self.shared), activity));
    }

    /// Closes those that hold too much for clients that do not read, when there are any.
    pub(super) async fn trim(&mut self) {
        self.shared.ledger.exceeded().await;
        for activity in self.shared.ledger.surplus(&self.activities) {
            tracing::warn!(
                uid = activity.peer.uid,
                pid = activity.peer.pid,
                len = activity.held(),
                "admin socket: a client does not take its answer, and memory is short; closed"
            );
            activity.close();
        }
    }

    fn forget_ended(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            report(ended);
        }
        // Those that ended have given up their share.
        self.activities.retain(|activity| Arc::strong_count(activity) > 1);
    }

    /// Whether there is a place for one more: a free one, or that of one that waits for its client.
    async fn make_room(&mut self) -> bool {
        let began = Instant::now();
        loop {
            self.forget_ended();
            if self.tasks.len() < CONNECTION_CAP {
                return true;
            }
            let ended = if let Some(activity) = dispensable(&self.activities, Instant::now()) {
                activity.close();
                self.tasks.join_next().await
            } else if began.elapsed() < PATIENCE {
                timeout(GRACE, self.tasks.join_next()).await.unwrap_or_default()
            } else {
                return false;
            };
            if let Some(ended) = ended {
                report(ended);
            }
        }
    }
}

/// Which connection has to go for a new one: of those that wait for their client, one of the user
/// with most connections, of the process with most of these, that has waited longest. So whoever
/// opens many connections and lets them be pays with his own.
fn dispensable(activities: &[Arc<Activity>], now: Instant) -> Option<&Arc<Activity>> {
    let mut by_user = BTreeMap::<u32, usize>::new();
    let mut by_process = BTreeMap::<(u32, Option<i32>), usize>::new();
    for Activity { peer: PeerCredentials { uid, pid, .. }, .. } in activities.iter().map(|a| &**a) {
        *by_user.entry(*uid).or_default() += 1;
        *by_process.entry((*uid, *pid)).or_default() += 1;
    }
    let waiting = activities.iter().filter_map(|activity| {
        let PeerCredentials { uid, pid, .. } = activity.peer;
        let (user, process) = (by_user.get(&uid), by_process.get(&(uid, pid)));
        let since = activity.waiting_since()?;
        let is_ripe = now.saturating_duration_since(since) >= GRACE;
        is_ripe.then_some(((user, process, Reverse(since)), activity))
    });
    waiting.max_by_key(|(rank, _)| *rank).map(|(_, activity)| activity)
}

/// A panic in one connection ends that connection; say so.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "admin socket: a connection's task failed; please report this");
    }
}

/// Says why and hangs up. One attempt: nobody waits for a client here.
async fn refuse(mut stream: UnixStream) {
    let error = RequestError::new(
        ErrorCode::TOO_MANY_CONNECTIONS,
        format!("all {CONNECTION_CAP} admin connections are at work; try again in a second"),
    );
    let line = response_line::<()>(None, &Err(error));
    // A fresh socket's buffer has room for the line; a client that left does not matter.
    let _ = timeout(PATIENCE, stream.write_all(line.as_bytes())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_most_connections_pays_for_a_new_one() {
        let mut activities = Vec::new();
        // In the order in which they begin to wait.
        for (uid, pid) in [(1, 10), (0, 20), (0, 21), (0, 21), (0, 22), (1, 11)] {
            tokio::time::advance(Duration::from_millis(5)).await;
            let peer = PeerCredentials { uid, gid: 0, pid: Some(pid) };
            let activity = Arc::new(Activity::new(peer, Instant::now()));
            activity.begin_waiting();
            activities.push(activity);
        }
        assert!(dispensable(&activities[4..], Instant::now()).is_none(), "they just came");
        let later = Instant::now() + GRACE;
        let mut order = Vec::new();
        while let Some(found) = dispensable(&activities, later) {
            let place = activities.iter().position(|activity| Arc::ptr_eq(activity, found));
            order.push(activities.remove(place.unwrap()).peer);
        }
        let order: Vec<_> = order.iter().map(|peer| (peer.uid, peer.pid.unwrap())).collect();
        // User 0 has four; process 21 has two of them; then the longest wait.
        assert_eq!(order, [(0, 21), (0, 20), (1, 10), (0, 21), (0, 22), (1, 11)]);
        let served =
            Arc::new(Activity::new(PeerCredentials { uid: 0, gid: 0, pid: None }, Instant::now()));
        served.begin_service();
        assert!(dispensable(&[served], later + GRACE).is_none());
    }
}
