//! The verbs that change something.

use super::management::Management;
use super::protocol::{ErrorCode, Request, RequestError};
use super::state::ApplyError;
use crate::config::{self, BackendKey, LoadError};
use crate::health::{Supervisor, Target};
use crate::snapshot::Generation;
use crate::steer::{self, AdminState};

/// Whether anything changed, and what is worth a look.
type Changed = (bool, Vec<String>);

impl Management {
    pub(super) fn change(
        &mut self,
        request: &Request,
        supervisor: &mut Supervisor,
    ) -> Result<Changed, RequestError> {
        let (admin, backend) = match request {
            Request::BackendDrain(params) => (AdminState::Draining, &params.backend),
            Request::BackendEnable(params) => (AdminState::Enabled, &params.backend),
            Request::BackendDisable(params) => (AdminState::Disabled, &params.backend),
            _ => return self.reload(supervisor),
        };
        let key = self.state.find(&backend.pool, &backend.name).ok_or_else(|| {
            RequestError::new(
                ErrorCode::NOT_FOUND,
                format!(
                    "there is no backend {}/{}; `lodectl show backends` lists them",
                    backend.pool, backend.name
                ),
            )
        })?;
        let changed = self.state.set_admin(&key, admin);
        Ok((changed, self.warnings(&key)))
    }

    /// What a changed backend leaves behind.
    fn warnings(&self, key: &BackendKey) -> Vec<String> {
        let pools = &self.state.config().pools;
        let Some(pool) = pools.iter().find(|pool| pool.name == key.pool) else { return Vec::new() };
        if steer::eligible(&self.state.pool(pool)).members.is_empty() {
            vec![format!(
                "pool {} has no backend left that takes new flows; enable one, or its packets are \
                 dropped as no-backend",
                pool.name
            )]
        } else {
            Vec::new()
        }
    }

    /// Reads the configuration file again; all of it or nothing.
    pub(super) fn reload(&mut self, supervisor: &mut Supervisor) -> Result<Changed, RequestError> {
        let refused = |message: String, data| {
            RequestError::new(ErrorCode::CONFIG_REFUSED, message).with_data(data)
        };
        let path = self.config_path.display().to_string();
        let (config, warnings) = config::load(&self.config_path).map_err(|error| {
            let mistakes = match &error {
                LoadError::Invalid { errors, .. } => {
                    errors.mistakes.iter().map(ToString::to_string).collect()
                }
                LoadError::Read { .. } => vec![error.to_string()],
            };
            refused(format!("{path} is refused, the old configuration stays"), mistakes)
        })?;
        let next = Generation(self.publisher.generation().0 + 1);
        let now = self.now();
        let applied = self.state.apply(config, next, now).map_err(|error: ApplyError| {
            refused(
                format!("{path} is not applied, the old configuration stays"),
                vec![error.to_string()],
            )
        })?;
        if applied.changed {
            let config = self.state.config();
            supervisor.set_targets(Target::all(config));
            self.probes.retain(|key| self.state.slots().find(key).is_some());
            self.neighbours.configure(config, self.ports.as_ref(), now);
        }
        Ok((applied.changed, warnings.iter().map(ToString::to_string).collect()))
    }
}
