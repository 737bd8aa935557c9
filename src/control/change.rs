//! The requests that change something: verbs as edits of the configuration, and the file.
//!
//! Whatever it is, the outcome is a whole configuration, and [`State::apply`](super::State::apply)
//! takes it or leaves it.

use std::collections::HashSet;

use super::edits;
use super::guard;
use super::management::{Management, wait_for_probes};
use super::protocol::{ErrorCode, Request, RequestError};
use crate::config::{self, BackendKey, Config, EditError, LoadError, Loaded};
use crate::health::{Supervisor, Target};
use crate::snapshot::Generation;

/// Whether anything changed, and what is worth a look.
pub(super) type Changed = (bool, Vec<String>);

impl Management {
    /// Does what a request wants, but for what workers must do.
    pub(super) fn change(
        &mut self,
        request: &Request,
        supervisor: &mut Supervisor,
    ) -> Result<Changed, RequestError> {
        match request {
            Request::Reload(params) => self.reload(params.force, supervisor),
            request => {
                let edits = edits::of(request)?;
                let edited = self.state.config().edit(&edits).map_err(|error| refused(&error))?;
                let warnings = edited.warnings;
                let (changed, concerns) =
                    self.guarded(edited.config, request.force(), supervisor)?;
                Ok((changed, concerns.into_iter().chain(warnings).collect()))
            }
        }
    }

    /// Takes a configuration that verbs made, unless it takes away what nobody may want to lose.
    fn guarded(
        &mut self,
        config: Config,
        force: bool,
        supervisor: &mut Supervisor,
    ) -> Result<Changed, RequestError> {
        let concerns = self.concerns(&config);
        if !concerns.is_empty() && !force {
            return Err(RequestError::new(
                ErrorCode::REFUSED,
                "nothing was changed, since something would be lost; if that is meant, force it",
            )
            .with_data(concerns));
        }
        let changed = self.take(config, supervisor).map_err(|error| {
            RequestError::new(ErrorCode::INVALID_CHANGE, "nothing was changed")
                .with_data(vec![error])
        })?;
        Ok((changed, concerns))
    }

    /// What a configuration would do that nobody may want, one sentence each.
    fn concerns(&self, config: &Config) -> Vec<String> {
        let concerns = guard::concerns(self.state.config(), config, |key| self.state.found(key));
        concerns.iter().map(ToString::to_string).collect()
    }

    /// Makes a configuration the running one; all of it or nothing.
    fn take(&mut self, config: Config, supervisor: &mut Supervisor) -> Result<bool, String> {
        let next = Generation(self.publisher.generation().0 + 1);
        let now = self.now();
        let applied = self.state.apply(config, next, now).map_err(|error| error.to_string())?;
        for backend in &applied.backends {
            let totals = self.backend_totals(*backend);
            self.backend_baselines.begin(*backend, totals);
        }
        for service in &applied.services {
            let totals = self.service_totals(*service);
            self.service_baselines.begin(*service, totals);
        }
        // Tables hold which addresses ports answer for, too.
        if applied.tables || applied.addresses {
            self.mark_changed();
            self.configured_by = next;
        }
        let config = self.state.config();
        if applied.targets {
            self.probes_due = now + wait_for_probes(config).unwrap_or_default();
            supervisor.set_targets(Target::all(config));
            let monitored: HashSet<_> =
                config.pools.iter().filter(|p| p.monitor.is_some()).map(|p| &p.name).collect();
            let is_probed = |key: &BackendKey| {
                monitored.contains(&key.pool) && self.state.slots().find(key).is_some()
            };
            self.probes.retain(is_probed);
            self.tally.retain(is_probed);
        }
        if applied.addresses {
            self.neighbours.configure(config, self.ports.as_ref(), now);
        }
        Ok(applied.changed)
    }

    /// Reads the configuration file again; all of it or nothing. What was changed at run time and
    /// not saved is not undone unless forced.
    pub(super) fn reload(
        &mut self,
        force: bool,
        supervisor: &mut Supervisor,
    ) -> Result<Changed, RequestError> {
        let Loaded { config, warnings, .. } = self.read_file()?;
        let undone = config::undone(&self.saved, self.state.config(), &config);
        let undone: Vec<_> = undone.iter().map(ToString::to_string).collect();
        if !undone.is_empty() && !force {
            return Err(RequestError::new(
                ErrorCode::REFUSED,
                format!(
                    "{} does not have what was changed at run time, and to reload it would undo \
                     that; write it there (`lodectl config save` does, if the file is otherwise as \
                     it was), or force the reload",
                    self.config_path.display()
                ),
            )
            .with_data(undone));
        }
        // The file is what is wanted: what it takes away is told, and not refused.
        let concerns = self.concerns(&config);
        let saved = config.clone();
        let changed = self.take(config, supervisor).map_err(|error| {
            let message = format!("{} is not applied, what runs stays", self.config_path.display());
            RequestError::new(ErrorCode::CONFIG_REFUSED, message).with_data(vec![error])
        })?;
        self.saved = saved;
        let undone = undone.into_iter().map(|change| format!("undone: {change}"));
        let warnings = warnings.iter().map(ToString::to_string);
        Ok((changed, warnings.chain(undone).chain(concerns).collect()))
    }

    /// What the file says now, and its warnings.
    pub(super) fn read_file(&self) -> Result<Loaded, RequestError> {
        config::load_stamped(&self.config_path).map_err(|error| {
            let mistakes = match &error {
                LoadError::Invalid { errors, .. } => {
                    errors.mistakes.iter().map(ToString::to_string).collect()
                }
                LoadError::Read { .. } => vec![error.to_string()],
            };
            let message = format!("{} is refused, what runs stays", self.config_path.display());
            RequestError::new(ErrorCode::CONFIG_REFUSED, message).with_data(mistakes)
        })
    }
}

fn refused(error: &EditError) -> RequestError {
    match error {
        EditError::NotFound { .. } => RequestError::new(ErrorCode::NOT_FOUND, error.to_string()),
        EditError::Invalid { mistakes } => {
            RequestError::new(ErrorCode::INVALID_CHANGE, "nothing was changed")
                .with_data(mistakes.clone())
        }
        other => RequestError::new(ErrorCode::INVALID_CHANGE, other.to_string()),
    }
}
