//! Why there is no admin socket.

use std::io;
use std::path::PathBuf;

use super::Role;
use super::private;

/// Longest path of a UNIX socket in bytes: `sun_path` without its terminator, unix(7).
pub(super) const PATH_CAP: usize = 107;

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Something answers on the socket.
    #[error(
        "another daemon runs and listens on {path}; stop it first, or give this one another \
         [admin] {key}",
        path = path.display(),
        key = role.socket_key()
    )]
    AnotherDaemon {
        /// Which socket.
        role: Role,
        /// Its path.
        path: PathBuf,
    },
    /// The private directory is in use: somebody else makes a socket beside this one right now.
    #[error(
        "another daemon is being started in {directory} and does not get on; stop it, or set \
         [admin] {key} to a path in another directory",
        directory = directory.display(),
        key = role.socket_key()
    )]
    Busy {
        /// Which socket.
        role: Role,
        /// Where it is to be.
        directory: PathBuf,
    },
    /// The private directory's name is taken by something that is not ours.
    #[error(
        "{path} is in the way: the socket is made in a directory of that name, which the daemon's \
         user owns and nobody else may enter; remove it",
        path = path.display()
    )]
    NotPrivate {
        /// The private directory's path.
        path: PathBuf,
    },
    /// The path is taken by something else.
    #[error(
        "{path} exists and is not a socket; remove it, or set [admin] {key} to another path",
        path = path.display(),
        key = role.socket_key()
    )]
    NotASocket {
        /// Which socket.
        role: Role,
        /// Its path.
        path: PathBuf,
    },
    /// The path cannot be a socket's.
    #[error(
        "{path} is not a usable socket path; set [admin] {key} to an absolute path of at most {cap} \
         bytes that ends in a file name, its directory of at most {directory_cap}",
        path = path.display(),
        key = role.socket_key(),
        cap = PATH_CAP,
        directory_cap = PATH_CAP - private::EXTRA_LEN
    )]
    BadPath {
        /// Which socket.
        role: Role,
        /// Its path.
        path: PathBuf,
    },
    /// The system does not know the group.
    #[error(
        "there is no group {group}; make it (groupadd --system {group}), or set [admin] {key} to \
         one that exists",
        key = role.group_key()
    )]
    NoGroup {
        /// Whose group.
        role: Role,
        /// Its name.
        group: String,
    },
    /// The system could not say whether it knows the group.
    #[error(
        "cannot look up the group {group}: {source}; mend the system's group database, or remove \
         [admin] {key}",
        key = role.group_key()
    )]
    GroupLookup {
        /// Whose group.
        role: Role,
        /// Its name.
        group: String,
        /// What the system said.
        source: io::Error,
    },
    /// The socket cannot be given to its group.
    #[error(
        "cannot give {path} to the group {group}: {source}; run the daemon with CAP_CHOWN or make \
         its user a member of the group, or remove [admin] {key}",
        path = path.display(),
        key = role.group_key()
    )]
    Chown {
        /// Which socket.
        role: Role,
        /// Its path.
        path: PathBuf,
        /// The group's name.
        group: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A system call failed.
    #[error(
        "cannot {what} {path}: {source}; check that the daemon's user may write there, or set \
         [admin] {key} to another path",
        path = path.display(),
        key = role.socket_key()
    )]
    Io {
        /// For which socket.
        role: Role,
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}
