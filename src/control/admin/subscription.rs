//! What a subscriber wants, and what it gets next.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Feed;
use crate::control::protocol::params::SubscribeParams;

/// What a subscriber gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A line with an event.
    Event(Arc<str>),
    /// So many events were dropped before it could take them.
    Lost(u64),
    /// It is time for the counters.
    Stats,
}

/// A connection's subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    events: Option<broadcast::Receiver<Arc<str>>>,
    stats: Option<Interval>,
    /// Its share of the subscriptions there may be.
    permit: OwnedSemaphorePermit,
}

impl Subscription {
    /// From now on. Needs a runtime.
    pub(super) fn new(
        params: SubscribeParams,
        stats_interval: Option<Duration>,
        feed: &Feed,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let stats = stats_interval.map(|period| {
            let mut stats = interval(period);
            // A slow reader gets fewer counters, not all of them at once later.
            stats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            stats
        });
        Self { events: params.events.then(|| feed.subscribe()), stats, permit }
    }

    /// Ends it and passes its share on.
    pub(super) fn into_permit(self) -> OwnedSemaphorePermit {
        self.permit
    }

    /// Waits for what comes next. May be dropped and called again: nothing is lost.
    pub(super) async fn next(&mut self) -> Due {
        loop {
            let Self { events, stats, .. } = self;
            let event = async {
                match events {
                    Some(events) => events.recv().await,
                    None => pending().await,
                }
            };
            let tick = async {
                match stats {
                    Some(stats) => stats.tick().await,
                    None => pending().await,
                }
            };
            let event = tokio::select! {
                event = event => event,
                _ = tick => return Due::Stats,
            };
            match event {
                Ok(line) => return Due::Event(line),
                Err(RecvError::Lagged(count)) => return Due::Lost(count),
                // The server goes; so will this.
                Err(RecvError::Closed) => self.events = None,
            }
        }
    }
}
