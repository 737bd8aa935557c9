//! The socket in the file system: made in private, put in place at once, removed by its owner only.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, listen, socket};

use super::AdminError;
use super::place::SocketPlace;
use super::private::PrivateDirectory;

/// Connections that wait to be accepted. Whoever comes then waits in the kernel, first come first
/// served. Few, since clients that connect and leave in a loop fill it, and each costs an accept.
const BACKLOG: i32 = 128;

/// Which file it is: device and inode. An inode is not used again while its socket is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Of what is at `path` now, if anything can be seen there.
    pub(super) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|file| Self::from(&file))
    }
}

impl From<&Metadata> for Identity {
    fn from(file: &Metadata) -> Self {
        Self { device: file.dev(), inode: file.ino() }
    }
}

/// A listening socket and its file, which goes when this does.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    pub(super) place: SocketPlace,
    /// By now another daemon's socket may have the path.
    identity: Identity,
}

impl Socket {
    /// Makes the socket. Replaces the one that a dead daemon left there, and `own`, which need not
    /// be dead. May wait for a second.
    pub(super) fn bind(place: SocketPlace, own: Option<Identity>) -> Result<Self, AdminError> {
        place.make_directory()?;
        let private = PrivateDirectory::enter(&place)?;
        if own.is_none() || Identity::of(&place.path) != own {
            check_stale(&place)?;
        }
        // Nobody else can reach the socket before its owner and mode are right: until then it is
        // in a directory that only we may enter.
        let file = private.socket();
        let failed = |what| {
            let (place, file) = (&place, &file);
            move |source| place.failed(what, file, source)
        };
        let listener = UnixListener::bind(&file).map_err(failed("make the socket"))?;
        let backlog = Backlog::new(BACKLOG).and_then(|backlog| listen(&listener, backlog));
        backlog.map_err(|error| failed("set up the socket")(error.into()))?;
        listener.set_nonblocking(true).map_err(failed("set up the socket"))?;
        fs::set_permissions(&file, Permissions::from_mode(0o660))
            .map_err(failed("set the mode of"))?;
        if let Some(group) = &place.group {
            chown(&file, None, Some(group.gid)).map_err(|source| AdminError::Chown {
                role: place.role,
                path: place.path.clone(),
                group: group.name.clone(),
                source,
            })?;
        }
        let made = fs::symlink_metadata(&file).map_err(failed("look at"))?;
        fs::rename(&file, &place.path)
            .map_err(|source| place.failed("put in place", &place.path, source))?;
        drop(private);
        if let Some(obstacle) = place.obstacle() {
            tracing::warn!("{obstacle}");
        }
        Ok(Self { listener, place, identity: Identity::from(&made) })
    }

    /// Whether clients that use the path still find this socket.
    pub(super) fn is_in_place(&self) -> bool {
        Identity::of(&self.place.path) == Some(self.identity)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_in_place() {
            // Nothing to be done if it stays: the next daemon replaces it.
            let _ = fs::remove_file(&self.place.path);
        }
    }
}

/// Whether the path is free, or holds a socket that nobody listens on.
fn check_stale(place: &SocketPlace) -> Result<(), AdminError> {
    let SocketPlace { role, ref path, .. } = *place;
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(place.failed("look at", path, error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(AdminError::NotASocket { role, path: path.clone() });
        }
        Ok(_) => {}
    }
    match connect(path) {
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(()),
        // A full backlog refuses with EAGAIN: somebody is alive, and busy.
        Ok(()) | Err(Errno::EAGAIN) => Err(AdminError::AnotherDaemon { role, path: path.clone() }),
        Err(error) => Err(place.failed("connect to", path, error.into())),
    }
}

/// Connects and hangs up, without waiting.
fn connect(path: &Path) -> Result<(), Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    nix::sys::socket::connect(client.as_raw_fd(), &UnixAddr::new(path)?)
}
