//! What is probed.

use std::net::SocketAddr;

use crate::config::{BackendKey, Config, Monitor};

/// One backend and how it is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose health it is.
    pub key: BackendKey,
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
                    key: BackendKey::new(pool, backend),
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
