//! What is probed.

use std::net::{IpAddr, SocketAddr};

use crate::config::{Backend, Config, Monitor, Pool};

/// Whose health it is: a backend, by its identity, in a pool. Names of backends are for people and
/// are no part of it: to rename one changes nothing. (HP-04)
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// The pool's name.
    pub pool: String,
    /// The virtual network of the backend's address.
    pub virtual_network: Option<String>,
    /// The backend's address (not necessarily the one that is probed).
    pub address: IpAddr,
}

impl TargetKey {
    /// The key of `backend` in `pool`.
    #[must_use]
    pub fn new(pool: &Pool, backend: &Backend) -> Self {
        Self {
            pool: pool.name.clone(),
            virtual_network: backend.virtual_network.clone(),
            address: backend.address,
        }
    }
}

/// One backend and how it is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose health it is.
    pub key: TargetKey,
    /// Where the probe goes.
    pub address: SocketAddr,
    /// What is asked, and how often.
    pub monitor: Monitor,
}

impl Target {
    /// Every backend of every pool that has a monitor.
    #[must_use]
    pub fn all(config: &Config) -> Vec<Self> {
        let monitor = |name: &String| config.monitors.iter().find(|monitor| monitor.name == *name);
        config
            .pools
            .iter()
            .filter_map(|pool| Some((pool, monitor(pool.monitor.as_ref()?)?)))
            .flat_map(|(pool, monitor)| {
                pool.backends.iter().map(move |backend| Self {
                    key: TargetKey::new(pool, backend),
                    address: backend.probe_target(monitor),
                    monitor: monitor.clone(),
                })
            })
            .collect()
    }

    /// Whether `other` is probed in the same way. The monitor's name does not matter.
    pub(super) fn is_probed_like(&self, other: &Self) -> bool {
        let Monitor { name: _, kind, port, interval, timeout, rise, fall } = &self.monitor;
        self.address == other.address
            && *kind == other.monitor.kind
            && *port == other.monitor.port
            && *interval == other.monitor.interval
            && *timeout == other.monitor.timeout
            && *rise == other.monitor.rise
            && *fall == other.monitor.fall
    }
}
