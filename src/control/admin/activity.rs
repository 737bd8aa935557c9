//! What the accept loop knows of a connection, and what it may do to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::PeerCredentials;

/// What the accept loop knows of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) peer: PeerCredentials,
    /// Where the milliseconds of `waiting_since` count from.
    accepted: Instant,
    /// Milliseconds from `accepted` to when it began to wait for its client, or [`Self::SERVED`].
    /// Written by the connection's task, read by the accept loop.
    waiting_since: AtomicU64,
    /// Bytes that its client has not taken yet. Written by the connection's task, read by the
    /// accept loop.
    held: AtomicUsize,
    closed: Notify,
}

// Relaxed throughout: each value stands for itself, and all of this runs on one thread today.
impl Activity {
    const SERVED: u64 = u64::MAX;

    /// Of a connection whose client has yet to be heard.
    pub(super) fn new(peer: PeerCredentials, accepted: Instant) -> Self {
        Self {
            peer,
            accepted,
            waiting_since: AtomicU64::new(Self::SERVED),
            held: AtomicUsize::new(0),
            closed: Notify::new(),
        }
    }

    /// Since when it waits for its client to send or to read; `None` while the client waits for us:
    /// for an answer, or as a subscriber for what happens next.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        match self.waiting_since.load(Ordering::Relaxed) {
            Self::SERVED => None,
            milliseconds => Some(self.accepted + Duration::from_millis(milliseconds)),
        }
    }

    /// Bytes that its client has not taken yet.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Ends the connection when it next waits for its client, at once if it does now.
    pub(super) fn close(&self) {
        self.closed.notify_one();
    }

    /// Waits until [`Self::close`].
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    pub(super) fn begin_waiting(&self) {
        let milliseconds = self.accepted.elapsed().as_millis();
        let milliseconds = u64::try_from(milliseconds).unwrap_or(Self::SERVED - 1);
        self.waiting_since.store(milliseconds, Ordering::Relaxed);
    }

    pub(super) fn begin_service(&self) {
        self.waiting_since.store(Self::SERVED, Ordering::Relaxed);
    }
}

/// All bytes that clients of one socket have not taken yet.
#[derive(Debug)]
pub(super) struct Ledger {
    total: AtomicUsize,
    cap: usize,
    exceeded: Notify,
}

impl Ledger {
    pub(super) fn new(cap: usize) -> Self {
        Self { total: AtomicUsize::new(0), cap, exceeded: Notify::new() }
    }

    /// Counts `len` bytes of `activity` until the result is dropped.
    pub(super) fn hold<'a>(&'a self, activity: &'a Activity, len: usize) -> Held<'a> {
        activity.held.store(len, Ordering::Relaxed);
        if self.total.fetch_add(len, Ordering::Relaxed) + len > self.cap {
            self.exceeded.notify_one();
        }
        Held { ledger: self, activity, len }
    }

    /// Waits until clients may leave too much untaken.
    pub(super) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    /// Which of `activities` to close so that the rest fit: those that have waited longest for
    /// their client to read. The last one is spared, however much it holds: an answer may be large.
    pub(super) fn surplus(&self, activities: &[Arc<Activity>]) -> Vec<Arc<Activity>> {
        let mut holding: Vec<_> = activities
            .iter()
            .filter(|activity| activity.held() > 0)
            .filter_map(|activity| Some((activity.waiting_since()?, activity)))
            .collect();
        holding.sort_by_key(|(since, _)| *since);
        holding.pop();
        let mut total = self.total.load(Ordering::Relaxed);
        let surplus = holding.into_iter().take_while(|(_, activity)| {
            let is_over = total > self.cap;
            total = total.saturating_sub(activity.held());
            is_over
        });
        surplus.map(|(_, activity)| Arc::clone(activity)).collect()
    }
}

/// Bytes that wait for a client.
#[derive(Debug)]
pub(super) struct Held<'a> {
    ledger: &'a Ledger,
    activity: &'a Activity,
    len: usize,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.activity.held.store(0, Ordering::Relaxed);
        self.ledger.total.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: PeerCredentials = PeerCredentials { uid: 0, gid: 0, pid: None };

    #[tokio::test(start_paused = true)]
    async fn those_who_read_longest_not_are_the_surplus() {
        let ledger = Ledger::new(100);
        let activities: Vec<_> =
            (0..4).map(|_| Arc::new(Activity::new(PEER, Instant::now()))).collect();
        let mut held = Vec::new();
        for activity in &activities {
            tokio::time::advance(Duration::from_millis(5)).await;
            activity.begin_waiting();
            held.push(ledger.hold(activity, 60));
        }
        // 240 bytes are held: two closed leave 120, three leave 60.
        let surplus = ledger.surplus(&activities);
        assert_eq!(surplus.len(), 3);
        assert!(surplus.iter().zip(&activities).all(|(a, b)| Arc::ptr_eq(a, b)));
        ledger.exceeded().await;
        // The oldest one moved on; it is the last to go now.
        drop(held.remove(0));
        activities[0].begin_waiting();
        held.push(ledger.hold(&activities[0], 30));
        assert!(Arc::ptr_eq(&ledger.surplus(&activities)[0], &activities[1]));
        // One answer alone may be larger than the cap.
        held.clear();
        let _large = ledger.hold(&activities[2], 1_000);
        assert!(ledger.surplus(&activities).is_empty());
    }
}
