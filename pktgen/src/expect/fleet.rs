//! Pools and services as the operator wants them, and what a verb of the admin protocol makes of
//! them. Kept apart from the appliance's own desired state.

use std::net::IpAddr;

use anyhow::{Context, bail, ensure};
use lodestone::config::{self, AdminState, Config, PortRange};
use lodestone::control::protocol::{Request, params, reply};

/// A backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// What verbs call it.
    pub name: String,
    /// Where packets go.
    pub address: IpAddr,
    /// Part of its identity.
    pub virtual_network: Option<String>,
    /// Relative share.
    pub weight: u32,
    /// What the operator wants of it.
    pub admin: AdminState,
    /// How often a backend joined the fleet before this one: one that leaves and comes back is
    /// another, and has none of the flows of before.
    pub incarnation: u32,
}

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// What verbs call it.
    pub name: String,
    /// Slots of its table.
    pub table_size: u32,
    /// How many backends it needs.
    pub threshold: usize,
    /// What the operator wants of all its backends.
    pub admin: AdminState,
    /// Its backends.
    pub backends: Vec<Backend>,
}

impl Pool {
    /// The state that holds for a backend: the stricter of both.
    pub fn admin_of(&self, backend: &Backend) -> AdminState {
        self.admin.max(backend.admin)
    }

    /// The backends that take new flows.
    pub fn takers(&self) -> impl Iterator<Item = &Backend> {
        let takes = |backend: &&Backend| {
            self.admin_of(backend) == AdminState::Enabled && backend.weight > 0
        };
        self.backends.iter().filter(takes)
    }
}

/// An entry point.
#[derive(Clone, Debug, PartialEq)]
pub struct Vip {
    /// Its address.
    pub address: IpAddr,
    /// Its protocol's number.
    pub protocol: u8,
    /// Its ports.
    pub ports: Vec<PortRange>,
}

/// A service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// What verbs call it.
    pub name: String,
    /// Its pools by place in the fleet, in order of preference.
    pub pools: Vec<usize>,
    /// Its entry points.
    pub vips: Vec<Vip>,
    /// How long an established flow is remembered, in milliseconds.
    pub idle_timeout_ms: u32,
}

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// Pools.
    pub pools: Vec<Pool>,
    /// Services.
    pub services: Vec<Service>,
    joined: u32,
}

impl Fleet {
    /// The fleet of an appliance's configuration.
    ///
    /// # Errors
    /// Where new flows go depends on more than this computes: on probes, or on a service that is
    /// not enabled.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let mut fleet = Self { pools: Vec::new(), services: Vec::new(), joined: 0 };
        for pool in &config.pools {
            ensure!(
                pool.monitor.is_none(),
                "pool `{}` has a monitor, so that its backends depend on probes that nobody answers \
                 here; take `monitor` out of it",
                pool.name
            );
            let backends = pool.backends.iter().map(|backend| fleet.join(backend)).collect();
            fleet.pools.push(Pool {
                name: pool.name.clone(),
                table_size: pool.table_size,
                threshold: pool.threshold,
                admin: pool.admin_state,
                backends,
            });
        }
        for service in &config.services {
            ensure!(
                service.admin_state == AdminState::Enabled,
                "service `{}` is not enabled; enable it or take it out",
                service.name
            );
            let place = |name: &String| fleet.pools.iter().position(|pool| pool.name == *name);
            let vips = service.vips.iter().map(|vip| Vip {
                address: vip.address,
                protocol: vip.protocol.number(),
                ports: vip.ports.clone(),
            });
            fleet.services.push(Service {
                name: service.name.clone(),
                pools: service.pools.iter().filter_map(place).collect(),
                vips: vips.collect(),
                idle_timeout_ms: u32::try_from(service.idle_timeout.as_millis())
                    .unwrap_or(u32::MAX),
            });
        }
        Ok(fleet)
    }

    fn join(&mut self, backend: &config::Backend) -> Backend {
        self.joined += 1;
        Backend {
            name: backend.name.clone(),
            address: backend.address,
            virtual_network: backend.virtual_network.clone(),
            weight: backend.weight,
            admin: backend.admin_state,
            incarnation: self.joined,
        }
    }

    /// The place of the service that has an address, protocol and port.
    pub fn service_of(&self, address: IpAddr, protocol: u8, port: u16) -> Option<usize> {
        let has = |vip: &Vip| {
            vip.address == address
                && vip.protocol == protocol
                && vip.ports.iter().any(|range| (range.first..=range.last).contains(&port))
        };
        self.services.iter().position(|service| service.vips.iter().any(has))
    }

    /// The pool that takes a service's new flows: the first that reaches its threshold, else the
    /// first with anybody.
    pub fn pool_of(&self, service: &Service) -> Option<&Pool> {
        let pools = || service.pools.iter().filter_map(|&place| self.pools.get(place));
        pools()
            .find(|pool| pool.takers().count() >= pool.threshold.max(1))
            .or_else(|| pools().find(|pool| pool.takers().next().is_some()))
    }

    /// The fleet after a verb.
    ///
    /// # Errors
    /// A verb whose result this does not compute, or of something that there is not.
    pub fn after(&self, request: &Request) -> anyhow::Result<Self> {
        let mut fleet = self.clone();
        match request {
            Request::BackendAdd(params) => fleet.add(params)?,
            Request::BackendRemove(params) => {
                let (pool, place) = fleet.find(&params.backend)?;
                ensure!(pool.backends.len() > 1, "pool `{}` needs a backend", pool.name);
                pool.backends.remove(place);
            }
            Request::BackendWeight(params) => {
                fleet.backend(&params.backend)?.weight = params.weight;
            }
            Request::BackendDrain(params) => {
                fleet.backend(&params.backend)?.admin = AdminState::Draining;
            }
            Request::BackendEnable(params) => {
                fleet.backend(&params.backend)?.admin = AdminState::Enabled;
            }
            Request::BackendDisable(params) => {
                fleet.backend(&params.backend)?.admin = AdminState::Disabled;
            }
            Request::PoolDrain(params) => fleet.pool(&params.pool)?.admin = AdminState::Draining,
            Request::PoolEnable(params) => fleet.pool(&params.pool)?.admin = AdminState::Enabled,
            Request::PoolDisable(params) => fleet.pool(&params.pool)?.admin = AdminState::Disabled,
            other => bail!(
                "what `{}` does to flows is not computed here; use verbs of backends, or \
                 pool.drain, pool.enable and pool.disable",
                other.method()
            ),
        }
        Ok(fleet)
    }

    fn add(&mut self, params: &params::BackendAddParams) -> anyhow::Result<()> {
        let mut backend = config::Backend::new(&params.backend.name, params.address);
        backend.virtual_network.clone_from(&params.virtual_network);
        backend.weight = params.weight.unwrap_or(backend.weight);
        backend.admin_state = match params.admin_state {
            None | Some(reply::AdminState::Enabled) => AdminState::Enabled,
            Some(reply::AdminState::Draining) => AdminState::Draining,
            Some(reply::AdminState::Disabled) => AdminState::Disabled,
        };
        let backend = self.join(&backend);
        self.pool(&params.backend.pool)?.backends.push(backend);
        Ok(())
    }

    fn pool(&mut self, name: &str) -> anyhow::Result<&mut Pool> {
        let found = self.pools.iter_mut().find(|pool| pool.name == name);
        found.with_context(|| format!("there is no pool `{name}`"))
    }

    fn find(
        &mut self,
        name: &lodestone::control::protocol::BackendName,
    ) -> anyhow::Result<(&mut Pool, usize)> {
        let pool = self.pool(&name.pool)?;
        let place = pool.backends.iter().position(|backend| backend.name == name.name);
        let place = place
            .with_context(|| format!("pool `{}` has no backend `{}`", name.pool, name.name))?;
        Ok((pool, place))
    }

    fn backend(
        &mut self,
        name: &lodestone::control::protocol::BackendName,
    ) -> anyhow::Result<&mut Backend> {
        let (pool, place) = self.find(name)?;
        Ok(&mut pool.backends[place])
    }
}
