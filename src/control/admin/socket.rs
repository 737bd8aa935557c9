//! The socket in the file system: made in private, put in place at once, removed by its owner only.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::AdminError;

/// Longest path of a UNIX socket in bytes: `sun_path` without its terminator, unix(7).
pub(super) const PATH_CAP: usize = 107;

/// Longest wait for a listener to take a connection. One that does not is alive, with a full
/// backlog.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A listening socket and its file, which goes when this does.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode: by now another daemon's socket may have the path.
    identity: (u64, u64),
}

impl Socket {
    /// Binds `path`, replacing the socket that a dead daemon left there.
    pub(super) fn bind(path: &Path) -> Result<Self, AdminError> {
        let directory = match (path.parent(), path.file_name()) {
            (Some(parent), Some(_)) if path.is_absolute() => parent,
            _ => return Err(AdminError::BadPath { path: path.into() }),
        };
        // The private name is a directory with a process id in it, which may be the longer path.
        let private = directory.join(format!(".{}", std::process::id()));
        let private_socket = private.join("s");
        if path.as_os_str().len().max(private_socket.as_os_str().len()) > PATH_CAP {
            return Err(AdminError::BadPath { path: path.into() });
        }

        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| AdminError::Io { what, path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(directory)
            .map_err(failed("create the directory", directory))?;
        // Two daemons that start at once must not both find a stale socket and replace it. The
        // lock is held for the length of this function.
        let lock = File::open(directory).map_err(failed("open the directory", directory))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(AdminError::AnotherDaemon { path: path.into() });
            }
            Err(TryLockError::Error(source)) => {
                return Err(failed("lock the directory", directory)(source));
            }
        }
        check_stale(path)?;

        // Left by a daemon of the same process id that died in this function.
        remove_private(&private);
        // Bound where nobody else may enter, so that nobody connects before the mode is right.
        DirBuilder::new()
            .mode(0o700)
            .create(&private)
            .map_err(failed("create the directory", &private))?;
        let socket = bind_privately(&private_socket, path);
        remove_private(&private);
        let (listener, identity) = socket.map_err(failed("make the socket", path))?;
        Ok(Self { listener, path: path.into(), identity })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| identity(&file) == self.identity) {
            // Nothing to be done if it stays: the next daemon replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn bind_privately(private: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let listener = UnixListener::bind(private)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(private, Permissions::from_mode(0o660))?;
    let identity = identity(&fs::symlink_metadata(private)?);
    fs::rename(private, path)?;
    Ok((listener, identity))
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn remove_private(private: &Path) {
    // Usually there is nothing to remove; what cannot be removed shows in the next step's error.
    let _ = fs::remove_file(private.join("s"));
    let _ = fs::remove_dir(private);
}

/// Whether `path` is free, or holds a socket that nobody listens on.
fn check_stale(path: &Path) -> Result<(), AdminError> {
    let failed = |source| AdminError::Io { what: "look at", path: path.into(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(AdminError::NotASocket { path: path.into() });
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(()) => Err(AdminError::AnotherDaemon { path: path.into() }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(AdminError::AnotherDaemon { path: path.into() })
        }
        Err(error) => Err(failed(error)),
    }
}

/// Connects and hangs up. std's connect has no timeout and waits while the backlog is full, so a
/// thread does it; the thread stays behind in the one case where the daemon then refuses to start.
fn connect(path: &Path) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let target = path.to_owned();
    thread::Builder::new()
        .name("admin-connect".into())
        .spawn(move || sender.send(UnixStream::connect(target).map(drop)))?;
    receiver.recv_timeout(CONNECT_TIMEOUT).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
