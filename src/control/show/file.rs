//! `show config`, `show version`, `diff` and `config save`.

use super::count;
use crate::config;
use crate::control::management::Management;
use crate::control::protocol::RequestError;
use crate::control::protocol::reply::{ConfigReply, DiffReply, DifferenceState, VersionReply};
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

    pub(super) fn config_diff(&self) -> Result<DiffReply, RequestError> {
        let (file, _) = self.read_file()?;
        let differences = config::diff(&file, self.state.config());
        Ok(DiffReply {
            path: self.config_path.display().to_string(),
            file_changed: file != self.saved,
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
