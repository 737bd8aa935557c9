//! The sockets in the file system: private, owned, replaced and removed.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown, symlink};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, listen, socket};
use nix::unistd::{Group, geteuid, getgid, getgroups};

use super::place::SocketPlace;
use super::*;

/// A group that sockets of this user may be given to, other than its own if there is one.
fn some_group() -> Group {
    let found = if geteuid().is_root() {
        // The first account that every system has.
        Group::from_name("daemon").unwrap()
    } else {
        let others = getgroups().unwrap().into_iter().filter(|gid| *gid != getgid());
        others.chain([getgid()]).find_map(|gid| Group::from_gid(gid).unwrap())
    };
    found.expect("this user's groups have names")
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// With a group for each socket.
fn grouped(directory: &Path, full: &str, read_only: &str) -> Admin {
    Admin {
        group: Some(full.to_owned()),
        read_only_group: Some(read_only.to_owned()),
        ..both_in(directory)
    }
}

#[test]
fn the_socket_is_private_and_goes_with_the_server() {
    let mut daemon = Daemon::start();
    let socket = socket_in(daemon.directory.path());
    for socket in [&socket, &read_only_in(daemon.directory.path())] {
        let metadata = fs::symlink_metadata(socket).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o660);
    }
    let directory = socket.parent().unwrap();
    assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o7027, 0);
    let names = names_in(directory);
    assert_eq!(names, ["admin.sock", "read-only.sock"], "only the sockets stay in their directory");
    daemon.assert_serves();
    daemon.stop();
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the sockets are removed at stop");
}

#[test]
fn a_dead_daemons_socket_is_replaced_and_a_live_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "std leaves the file behind, as a killed daemon does");
    let first = Server::bind(&only(&path)).unwrap();
    let error = Server::bind(&only(&path)).unwrap_err();
    assert!(matches!(error, AdminError::AnotherDaemon { .. }), "{error}");
    assert!(error.to_string().contains("another daemon runs"), "{error}");
    drop(first);
    assert!(!path.exists());
}

#[test]
fn only_its_own_socket_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let first = Server::bind(&only(&path)).unwrap();
    fs::remove_file(&path).unwrap();
    let second = Server::bind(&only(&path)).unwrap();
    drop(first);
    assert!(path.exists(), "the second daemon's socket is not the first one's to remove");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn unusable_paths_are_refused_with_the_mend() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let error = Server::bind(&only(&file)).unwrap_err();
    assert!(matches!(error, AdminError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    for path in ["relative.sock", "/", &format!("/tmp/{}", "x".repeat(120))] {
        let error = Server::bind(&only(path)).unwrap_err();
        assert!(matches!(error, AdminError::BadPath { .. }), "{path}: {error}");
    }
    let error = Server::bind(&only(file.join("below").join("admin.sock"))).unwrap_err();
    assert!(error.to_string().contains("cannot create the directory"), "{error}");
}

#[test]
fn each_socket_belongs_to_its_group() {
    let directory = tempfile::tempdir().unwrap();
    let group = some_group();
    let own = Group::from_gid(getgid()).unwrap().expect("this user's group has a name");
    let server = Server::bind(&grouped(directory.path(), &own.name, &group.name)).unwrap();
    for (socket, group) in
        [(socket_in(directory.path()), &own), (read_only_in(directory.path()), &group)]
    {
        let metadata = fs::symlink_metadata(&socket).unwrap();
        assert_eq!(metadata.gid(), group.gid.as_raw(), "{}", socket.display());
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o660);
    }
    // Their members get through the directory, and cannot list it.
    let made = fs::metadata(directory.path().join("run")).unwrap();
    assert_eq!(made.permissions().mode() & 0o027, 0o001);
    drop(server);
}

#[test]
fn an_unknown_group_is_refused_with_the_mend_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let known = some_group().name;
    for (full, read_only, key) in
        [("no-such-group", &*known, "[admin] group"), (&known, "no-such-group", "read_only_group")]
    {
        let error = Server::bind(&grouped(directory.path(), full, read_only)).unwrap_err();
        assert!(matches!(error, AdminError::NoGroup { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("groupadd --system no-such-group") && text.contains(key), "{text}");
    }
    assert_eq!(names_in(directory.path()), [""; 0], "not even a directory");
}

#[test]
fn a_directory_that_keeps_the_group_out_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let group = some_group();
    let run = directory.path().join("run");
    let place =
        |name: &str| SocketPlace::new(Role::ReadOnly, &run.join(name), Some(&group.name)).unwrap();
    fs::DirBuilder::new().mode(0o750).create(&run).unwrap();
    if fs::metadata(&run).unwrap().gid() != group.gid.as_raw() {
        let obstacle = place("s").obstacle().unwrap();
        assert!(obstacle.contains("chmod o+x") && obstacle.contains("(750)"), "{obstacle}");
    }
    chown(&run, None, Some(group.gid.as_raw())).unwrap();
    assert_eq!(place("s").obstacle(), None, "the directory is the group's");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o711)).unwrap();
    assert_eq!(place("s").obstacle(), None);
}

#[test]
fn what_a_crash_left_in_the_private_directory_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let private = directory.path().join(private::DIRECTORY);
    fs::DirBuilder::new().mode(0o700).create(&private).unwrap();
    drop(UnixListener::bind(private.join("s")).unwrap());
    let server = Server::bind(&only(&path)).unwrap();
    assert_eq!(names_in(directory.path()), ["admin.sock"]);
    drop(server);
    assert_eq!(names_in(directory.path()), [""; 0]);
}

#[test]
fn a_private_directory_that_is_not_private_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let private = directory.path().join(private::DIRECTORY);
    let elsewhere = directory.path().join("elsewhere");
    fs::DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
    fs::write(elsewhere.join("s"), "precious").unwrap();
    let refused = || {
        let error = Server::bind(&only(&path)).unwrap_err();
        assert!(matches!(error, AdminError::NotPrivate { .. }), "{error}");
        assert!(error.to_string().ends_with("remove it"), "{error}");
    };
    symlink(&elsewhere, &private).unwrap();
    refused();
    fs::remove_file(&private).unwrap();
    fs::write(&private, "").unwrap();
    refused();
    fs::remove_file(&private).unwrap();
    // Somebody else could wait in there.
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o750)).unwrap();
    refused();
    assert_eq!(fs::read_to_string(elsewhere.join("s")).unwrap(), "precious");
    fs::remove_dir(&private).unwrap();
    drop(Server::bind(&only(&path)).unwrap());
}

#[test]
fn a_lock_that_is_held_is_waited_for_and_then_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let place = SocketPlace::new(Role::Full, &path, None).unwrap();
    let lock = private::PrivateDirectory::enter(&place).unwrap();
    let error = Server::bind(&only(&path)).unwrap_err();
    assert!(matches!(error, AdminError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("another daemon is being started"), "{error}");
    let waits = thread::spawn({
        let path = path.clone();
        move || Server::bind(&only(path)).map(drop)
    });
    pause(100);
    drop(lock);
    waits.join().unwrap().unwrap();
}

#[test]
fn of_many_that_start_at_once_one_gets_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    // A stale one, which all of them may want to replace.
    drop(UnixListener::bind(&path).unwrap());
    let starts: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            thread::spawn(move || Server::bind(&only(path)))
        })
        .collect();
    let (won, lost): (Vec<_>, Vec<_>) =
        starts.into_iter().map(|start| start.join().unwrap()).partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for error in lost.into_iter().map(Result::unwrap_err) {
        assert!(matches!(error, AdminError::AnotherDaemon { .. }), "{error}");
    }
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_daemon_with_a_full_backlog_is_alive() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let flags = SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    nix::sys::socket::bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    let error = Server::bind(&only(&path)).unwrap_err();
    assert!(matches!(error, AdminError::AnotherDaemon { .. }), "{error}");
}

#[test]
fn nobody_gets_through_to_a_socket_that_is_not_ready() {
    // Watches the directory while sockets are made: at its path a socket is never seen without its
    // mode, and what it is made in never without its own.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watcher = thread::spawn({
        let (path, private) = (path.clone(), directory.path().join(private::DIRECTORY));
        move || {
            let mut seen = 0;
            while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                for (path, mode) in [(&path, 0o660), (&private, 0o700)] {
                    if let Ok(file) = fs::symlink_metadata(path) {
                        assert_eq!(file.mode() & 0o777, mode, "{}", path.display());
                        seen += 1;
                    }
                }
            }
            seen
        }
    });
    for _ in 0..200 {
        drop(Server::bind(&only(&path)).unwrap());
    }
    drop(done);
    assert!(watcher.join().unwrap() > 0);
}
