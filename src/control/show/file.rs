//! `show config`, `show version` and `diff`.

use crate::control::management::Management;
use crate::control::protocol::reply::VersionReply;
use crate::version;

impl Management {
    pub(super) fn version(&self) -> VersionReply {
        VersionReply {
            version: version::VERSION.to_owned(),
            commit: version::COMMIT.to_owned(),
            dpdk: version::DPDK.to_owned(),
        }
    }

    /// How many changes made at run time the file does not have.
    pub(super) fn unsaved_changes(&self) -> u32 {
        0
    }
}
