//! Where a socket is to be, and who may connect to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd;

use super::error::PATH_CAP;
use super::private::EXTRA_LEN;
use super::{AdminError, Role};

/// A group of the system.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) gid: u32,
}

/// Where a socket is to be, and who may connect to it. Its path is absolute and short enough.
#[derive(Clone, Debug)]
pub(super) struct SocketPlace {
    pub(super) role: Role,
    pub(super) path: PathBuf,
    /// Of `path`.
    pub(super) directory: PathBuf,
    /// The daemon's own if absent.
    pub(super) group: Option<Group>,
}

impl SocketPlace {
    /// The socket of `role` at `path`, for the members of `group`, a name.
    pub(super) fn new(role: Role, path: &Path, group: Option<&str>) -> Result<Self, AdminError> {
        let bad_path = || AdminError::BadPath { role, path: path.into() };
        let directory = match (path.parent(), path.file_name()) {
            (Some(parent), Some(_)) if path.is_absolute() => parent.to_owned(),
            _ => return Err(bad_path()),
        };
        // The path in the private directory may be the longer one.
        let longest = path.as_os_str().len().max(directory.as_os_str().len() + EXTRA_LEN);
        if longest > PATH_CAP {
            return Err(bad_path());
        }
        let group = group.map(|name| look_up(role, name)).transpose()?;
        Ok(Self { role, path: path.into(), directory, group })
    }

    /// Makes the directory if it is missing. Without a group nobody but the daemon's own user and
    /// group has business in it. With one, its members must get through; the socket's mode holds
    /// off everybody else, who may not even list the directory.
    pub(super) fn make_directory(&self) -> Result<(), AdminError> {
        let mode = if self.group.is_some() { 0o751 } else { 0o750 };
        let result = DirBuilder::new().recursive(true).mode(mode).create(&self.directory);
        result.map_err(|source| self.failed("create the directory", &self.directory, source))
    }

    /// What is wrong if the group's members may open the socket but not get to it. The directory
    /// may be somebody else's work.
    pub(super) fn obstacle(&self) -> Option<String> {
        let group = self.group.as_ref()?;
        let directory = fs::metadata(&self.directory).ok()?;
        let (mode, owner) = (directory.mode(), directory.gid());
        let passes = if owner == group.gid { mode & 0o010 != 0 } else { mode & 0o001 != 0 };
        (!passes).then(|| {
            format!(
                "the members of group {} may use {}, but the mode of {} ({:03o}) keeps them out; \
                 run chmod o+x on it (RuntimeDirectoryMode=0751 in a systemd unit)",
                group.name,
                self.path.display(),
                self.directory.display(),
                mode & 0o777
            )
        })
    }

    /// The error of a system call.
    pub(super) fn failed(&self, what: &'static str, path: &Path, source: io::Error) -> AdminError {
        AdminError::Io { role: self.role, what, path: path.into(), source }
    }
}

fn look_up(role: Role, name: &str) -> Result<Group, AdminError> {
    match unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(Group { name: name.to_owned(), gid: group.gid.as_raw() }),
        Ok(None) => Err(AdminError::NoGroup { role, group: name.to_owned() }),
        Err(error) => {
            Err(AdminError::GroupLookup { role, group: name.to_owned(), source: error.into() })
        }
    }
}
