//! `show config`, `show version`, `diff` and `config save`.

use super::count;
use crate::config::{self, Expected};
use crate::control::management::Management;
use crate::control::protocol::reply::{
    ConfigReply, DiffReply, DifferenceState, SaveReply, VersionReply,
};
use crate::control::protocol::{ErrorCode, RequestError};
use crate::version;

impl Management {
    #[expect(clippy::unused_self, reason = "an answer like the others")]
    pub(super) fn version(&self) -> VersionReply {
        VersionReply {
            version: version::VERSION.to_owned(),
            commit: version::COMMIT.to_owned(),
            dpdk: version::DPDK.to_owned(),
        }
    }

    pub(super) fn running_config(&self) -> ConfigReply {
        ConfigReply {
            path: self.config_path.display().to_string(),
            text: config::to_toml_redacted(self.state.config()),
            unsaved_changes: self.unsaved_changes(),
        }
    }

    /// How many changes made at run time the file does not have, as it was loaded or saved last.
    pub(super) fn unsaved_changes(&self) -> u32 {
        if self.saved == *self.state.config() {
            return 0;
        }
        count(config::diff(&self.saved, self.state.config()).len())
    }

    /// Writes what runs to the file.
    pub(in crate::control) fn save_config(
        &mut self,
        force: bool,
    ) -> Result<SaveReply, RequestError> {
        let running = self.state.config();
        let path = self.config_path.display().to_string();
        let (differences, expected) = match self.read_file() {
            Ok(file) if force || config::diff(&self.saved, &file.config).is_empty() => {
                (config::diff(&file.config, running), Some(file.stamp))
            }
            Ok(file) => {
                let changes = config::diff(&self.saved, &file.config);
                return Err(RequestError::new(
                    ErrorCode::REFUSED,
                    format!(
                        "{path} was changed since it was loaded, and to save would undo that; \
                         reload it first, or force the save"
                    ),
                )
                .with_data(changes.iter().map(ToString::to_string).collect()));
            }
            Err(_) if force => (config::diff(&self.saved, running), None),
            Err(error) => {
                return Err(RequestError::new(
                    ErrorCode::REFUSED,
                    format!("{}; mend it first, or force the save to replace it", error.message),
                )
                .with_data(error.data));
            }
        };
        let expected = expected.as_ref().map_or(Expected::Anything, Expected::Unchanged);
        let saved = config::save(&self.config_path, running, expected)
            .map_err(|error| RequestError::new(ErrorCode::NOT_WRITTEN, error.to_string()))?;
        let written = if saved.is_written { count(differences.len()) } else { 0 };
        self.saved = running.clone();
        let warnings = saved.warning.into_iter().collect();
        Ok(SaveReply { path, changed: saved.is_written, written, warnings })
    }

    pub(super) fn config_diff(&self) -> Result<DiffReply, RequestError> {
        let file = self.read_file()?.config;
        let differences = config::diff(&file, self.state.config());
        Ok(DiffReply {
            path: self.config_path.display().to_string(),
            file_changed: !config::diff(&self.saved, &file).is_empty(),
            differences: differences
                .into_iter()
                .map(|difference| DifferenceState {
                    object: difference.object,
                    key: difference.key.map(str::to_owned),
                    running: difference.new,
                    file: difference.old,
                })
                .collect(),
        })
    }
}
