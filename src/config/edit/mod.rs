//! Edits: how a verb changes the desired state of the appliance.
//!
//! The desired state *is* a [`Config`], so that what verbs leave behind is always something a file
//! could say, and the rules of a file are the rules of a verb.

mod check;
mod error;

use std::collections::BTreeSet;

pub use error::{EditError, ObjectKind};

use super::model::{AdminState, Backend, Config, Pool, Service};

/// One change of a configuration. [`Backend::new`], [`Pool::new`] and [`Service::new`] fill in what
/// an absent key of the file means.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Adds a pool, behind the others.
    AddPool(Pool),
    /// Removes a pool that no service uses.
    RemovePool {
        /// Its name.
        pool: String,
    },
    /// Enables, drains or disables all backends of a pool.
    SetPoolAdminState {
        /// Its name.
        pool: String,
        /// What is wanted from now on.
        admin_state: AdminState,
    },
    /// Sets the fewest healthy backends with which a pool takes new flows.
    SetPoolThreshold {
        /// Its name.
        pool: String,
        /// 1 to the number of its backends.
        threshold: usize,
    },
    /// Adds a backend to a pool, behind the others.
    AddBackend {
        /// Name of the pool.
        pool: String,
        /// The backend.
        backend: Backend,
    },
    /// Removes a backend that is not its pool's last.
    RemoveBackend {
        /// Name of the pool.
        pool: String,
        /// Name of the backend.
        backend: String,
    },
    /// Sets a backend's share of new flows.
    SetBackendWeight {
        /// Name of the pool.
        pool: String,
        /// Name of the backend.
        backend: String,
        /// `0..=1_000_000`; 0 takes none.
        weight: u32,
    },
    /// Enables, drains or disables a backend.
    SetBackendAdminState {
        /// Name of the pool.
        pool: String,
        /// Name of the backend.
        backend: String,
        /// What is wanted from now on.
        admin_state: AdminState,
    },
    /// Adds a service, behind the others.
    AddService(Service),
    /// Removes a service with its VIPs.
    RemoveService {
        /// Its name.
        service: String,
    },
    /// Enables, drains or disables a service.
    SetServiceAdminState {
        /// Its name.
        service: String,
        /// What is wanted from now on.
        admin_state: AdminState,
    },
    /// Gives a service other pools, or the same in another order.
    SetServicePools {
        /// Its name.
        service: String,
        /// Names of pools in order of preference, each once; at least one.
        pools: Vec<String>,
    },
}

/// What came of some edits.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    /// The configuration after them.
    pub config: Config,
    /// What works, but perhaps not as intended, of the pools and services that were added or changed.
    /// What the edits asked for themselves, such as an admin state, is not among it.
    pub warnings: Vec<String>,
}

/// Names of the objects that some edits concern.
#[derive(Debug, Default)]
struct Touched {
    /// Pools that were added or changed; they exist.
    pools: BTreeSet<String>,
    /// Services that were added or changed; they exist.
    services: BTreeSet<String>,
    /// Pools that were removed and not added again.
    removed_pools: BTreeSet<String>,
}

impl Config {
    /// The configuration after some edits, made in their order: all of them, or none.
    ///
    /// What counts is how it is after the last one: a batch may pass through states that would be
    /// refused, such as a pool between its last backend and the next. The result is as valid as one
    /// that was read from a file. What is checked is what the edits concern, so that the time it
    /// takes hardly depends on the size of the rest.
    ///
    /// # Errors
    ///
    /// The first edit that names what does not exist, or adds what does; else what is wrong with the
    /// result. The configuration itself stays as it is.
    pub fn edit(&self, edits: &[Edit]) -> Result<Edited, EditError> {
        let mut edited = self.clone();
        let mut touched = Touched::default();
        for edit in edits {
            edited.make(edit, &mut touched)?;
        }
        let warnings = check::validate(&mut edited, &touched)?;
        Ok(Edited { config: edited, warnings })
    }

    fn make(&mut self, edit: &Edit, touched: &mut Touched) -> Result<(), EditError> {
        match edit {
            Edit::AddPool(pool) => {
                if self.pools.iter().any(|other| other.name == pool.name) {
                    return Err(EditError::exists(ObjectKind::Pool, &pool.name));
                }
                self.pools.push(pool.clone());
                touched.removed_pools.remove(&pool.name);
                touched.pools.insert(pool.name.clone());
            }
            Edit::RemovePool { pool } => {
                let place = self.place_of_pool(pool)?;
                self.pools.remove(place);
                touched.pools.remove(pool);
                touched.removed_pools.insert(pool.clone());
            }
            Edit::SetPoolAdminState { pool, admin_state } => {
                self.pool_mut(pool, touched)?.admin_state = *admin_state;
            }
            Edit::SetPoolThreshold { pool, threshold } => {
                self.pool_mut(pool, touched)?.threshold = *threshold;
            }
            Edit::AddBackend { pool, backend } => self.add_backend(pool, backend, touched)?,
            Edit::RemoveBackend { pool, backend } => {
                let pool = self.pool_mut(pool, touched)?;
                let place = place_of_backend(pool, backend)?;
                pool.backends.remove(place);
            }
            Edit::SetBackendWeight { pool, backend, weight } => {
                self.backend_mut(pool, backend, touched)?.weight = *weight;
            }
            Edit::SetBackendAdminState { pool, backend, admin_state } => {
                self.backend_mut(pool, backend, touched)?.admin_state = *admin_state;
            }
            Edit::AddService(service) => {
                if self.services.iter().any(|other| other.name == service.name) {
                    return Err(EditError::exists(ObjectKind::Service, &service.name));
                }
                self.services.push(service.clone());
                touched.services.insert(service.name.clone());
            }
            Edit::RemoveService { service } => {
                let place = self.place_of_service(service)?;
                self.services.remove(place);
                touched.services.remove(service);
            }
            Edit::SetServiceAdminState { service, admin_state } => {
                self.service_mut(service, touched)?.admin_state = *admin_state;
            }
            Edit::SetServicePools { service, pools } => {
                self.service_mut(service, touched)?.pools.clone_from(pools);
            }
        }
        Ok(())
    }

    fn add_backend(
        &mut self,
        pool: &str,
        backend: &Backend,
        touched: &mut Touched,
    ) -> Result<(), EditError> {
        let pool = self.pool_mut(pool, touched)?;
        let name = format!("{}/{}", pool.name, backend.name);
        if pool.backends.iter().any(|other| other.name == backend.name) {
            return Err(EditError::exists(ObjectKind::Backend, &name));
        }
        let identity = |backend: &Backend| (backend.virtual_network.clone(), backend.address);
        let same = pool.backends.iter().find(|other| identity(other) == identity(backend));
        if let Some(other) = same {
            return Err(EditError::SameBackend {
                backend: name,
                other: format!("{}/{}", pool.name, other.name),
            });
        }
        pool.backends.push(backend.clone());
        Ok(())
    }

    fn place_of_pool(&self, name: &str) -> Result<usize, EditError> {
        self.pools.iter().position(|pool| pool.name == name).ok_or_else(|| {
            let names = self.pools.iter().map(|pool| pool.name.as_str());
            EditError::not_found(ObjectKind::Pool, name, names)
        })
    }

    fn place_of_service(&self, name: &str) -> Result<usize, EditError> {
        self.services.iter().position(|service| service.name == name).ok_or_else(|| {
            let names = self.services.iter().map(|service| service.name.as_str());
            EditError::not_found(ObjectKind::Service, name, names)
        })
    }

    fn pool_mut(&mut self, name: &str, touched: &mut Touched) -> Result<&mut Pool, EditError> {
        let place = self.place_of_pool(name)?;
        touched.pools.insert(name.to_owned());
        Ok(&mut self.pools[place])
    }

    fn service_mut(
        &mut self,
        name: &str,
        touched: &mut Touched,
    ) -> Result<&mut Service, EditError> {
        let place = self.place_of_service(name)?;
        touched.services.insert(name.to_owned());
        Ok(&mut self.services[place])
    }

    fn backend_mut(
        &mut self,
        pool: &str,
        name: &str,
        touched: &mut Touched,
    ) -> Result<&mut Backend, EditError> {
        let pool = self.pool_mut(pool, touched)?;
        let place = place_of_backend(pool, name)?;
        Ok(&mut pool.backends[place])
    }
}

fn place_of_backend(pool: &Pool, name: &str) -> Result<usize, EditError> {
    pool.backends.iter().position(|backend| backend.name == name).ok_or_else(|| {
        let names = pool.backends.iter().map(|backend| backend.name.as_str());
        EditError::not_found(ObjectKind::Backend, name, names).in_pool(&pool.name)
    })
}
