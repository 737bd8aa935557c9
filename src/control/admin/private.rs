//! The private directory that sockets are made in. It is the lock, too.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use super::AdminError;
use super::place::SocketPlace;
use super::socket::Identity;

/// The directory's name, and the socket's in it.
pub(super) const DIRECTORY: &str = ".lodestone";
const SOCKET: &str = "s";

/// By how much a path in the private directory is longer than that of its parent: two slashes and
/// the two names.
pub(super) const EXTRA_LEN: usize = DIRECTORY.len() + SOCKET.len() + 2;

/// How often and how long to wait for another daemon that makes its socket beside ours. It takes
/// milliseconds.
const ATTEMPTS: usize = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// A directory beside the socket's final place that nobody else may enter (mode 0700), locked.
///
/// The lock keeps two daemons that start at once from both finding a stale socket and both
/// replacing it. It is on this directory and on no other, since whoever may read a file may lock
/// it, and only we may read this one. A daemon that died here leaves the directory behind, but not
/// the lock: the next one takes it over.
#[derive(Debug)]
pub(super) struct PrivateDirectory {
    path: PathBuf,
    _lock: File,
}

impl PrivateDirectory {
    /// Makes the directory, or takes over the one of a dead daemon. May wait for a second.
    #[expect(
        clippy::disallowed_methods,
        reason = "at start nothing runs yet, and later this is on a thread that may block"
    )]
    pub(super) fn enter(place: &SocketPlace) -> Result<Self, AdminError> {
        let path = place.directory.join(DIRECTORY);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(PAUSE);
            }
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(place.failed("create the directory", &path, error)),
            }
            let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
            let lock = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
                Ok(lock) => lock,
                // Its user was done in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) => return Err(AdminError::NotPrivate { path }),
            };
            let opened = lock.metadata().map_err(|e| place.failed("look at", &path, e))?;
            if opened.uid() != geteuid().as_raw() || opened.mode() & 0o077 != 0 {
                return Err(AdminError::NotPrivate { path });
            }
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => {
                    return Err(place.failed("lock the directory", &path, error));
                }
            }
            // Its last user may have removed it between our opening and our locking it.
            if Identity::of(&path) == Some(Identity::from(&opened)) {
                let directory = Self { path, _lock: lock };
                directory.remove_socket();
                return Ok(directory);
            }
        }
        Err(AdminError::Busy { role: place.role, directory: place.directory.clone() })
    }

    /// Where to make the socket. There is none.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// What cannot be removed shows in the next step's error.
    fn remove_socket(&self) {
        let _ = fs::remove_file(self.socket());
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    /// Removes it while it is still locked.
    fn drop(&mut self) {
        self.remove_socket();
        // One that stays is taken over by the next daemon.
        let _ = fs::remove_dir(self.path());
    }
}
