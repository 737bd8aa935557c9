//! The answers of the `show` verbs: what management knows, in the protocol's types.

mod backend;
mod file;
mod flows;
mod port;
mod probes;
mod service;
mod status;
mod tables;
mod worker;

use std::collections::HashMap;
use std::time::Duration;

use super::management::Management;
use super::protocol::params::EventsParams;
use super::protocol::{ErrorCode, Reply, Request, RequestError, reply};
use crate::config;
use crate::steer::Health;

pub use probes::{Probes, probe_results};

impl Management {
    /// Answers a request that changes nothing and is answered at once.
    pub(super) fn show(&mut self, request: &Request) -> Result<Reply, RequestError> {
        Ok(match request {
            Request::Status(_) => self.status().into(),
            Request::ShowServices(_) => self.services().into(),
            Request::ShowPools(_) => self.pools().into(),
            Request::ShowBackends(_) => self.backends().into(),
            Request::ShowHealth(_) => self.health().into(),
            Request::ShowDrains(_) => self.drains().into(),
            Request::ShowWorkers(_) => self.worker_states().into(),
            Request::ShowPorts(_) => self.port_details().into(),
            Request::ShowTables(_) => self.tables().into(),
            Request::ShowConntrack(_) => self.conntrack().into(),
            Request::ShowDrops(_) => self.drops().into(),
            Request::ShowNeighbours(_) => self.neighbour_entries().into(),
            Request::ShowVersion(_) => self.version().into(),
            Request::ShowEvents(params) => self.past_events(params).into(),
            Request::ShowConfig(_) => self.running_config().into(),
            Request::ConfigDiff(_) => self.config_diff()?.into(),
            other => {
                return Err(RequestError::new(
                    ErrorCode::INTERNAL_ERROR,
                    format!("{} is not available yet", other.method()),
                ));
            }
        })
    }

    fn past_events(&self, params: &EventsParams) -> reply::EventsReply {
        let limit = params.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut events = self.events.since(params.after.unwrap_or_default(), usize::MAX);
        events.drain(..events.len().saturating_sub(limit));
        reply::EventsReply { events, newest: self.events.last_number() }
    }

    /// Something of each pool, by the pool's name.
    fn by_pool<'a, T>(&'a self, of: impl Fn(&'a config::Pool) -> T) -> HashMap<&'a str, T> {
        self.state.config().pools.iter().map(|pool| (pool.name.as_str(), of(pool))).collect()
    }

    /// Backends that are ready for new flows (up, enabled, of a weight above 0), which is what a
    /// threshold counts; and all.
    pub(in crate::control) fn healthy(&self, pool: &config::Pool) -> (u32, u32) {
        let state = self.state.pool(pool);
        (count(state.ready_count()), count(state.backends.len()))
    }
}

/// An admin state in the protocol's words.
pub(super) fn configured(state: config::AdminState) -> reply::AdminState {
    match state {
        config::AdminState::Enabled => reply::AdminState::Enabled,
        config::AdminState::Draining => reply::AdminState::Draining,
        config::AdminState::Disabled => reply::AdminState::Disabled,
    }
}

/// Health in the protocol's words.
pub(super) fn health(health: Health) -> reply::Health {
    match health {
        Health::Up => reply::Health::Up,
        Health::Down => reply::Health::Down,
        Health::Unknown => reply::Health::Unknown,
    }
}

/// A VIP's protocol in the protocol's words.
pub(super) fn protocol(protocol: config::Protocol) -> reply::Protocol {
    match protocol {
        config::Protocol::Tcp => reply::Protocol::Tcp,
        config::Protocol::Udp => reply::Protocol::Udp,
    }
}

/// Ports as the configuration writes them.
pub(super) fn ports(ranges: &[config::PortRange]) -> String {
    let range = |range: &config::PortRange| match *range {
        config::PortRange::ANY => "any".to_owned(),
        config::PortRange { first, last } if first == last => first.to_string(),
        config::PortRange { first, last } => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
