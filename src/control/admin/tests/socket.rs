//! The sockets in the file system: private, owned, replaced and removed.

use super::*;

#[test]
fn the_socket_is_private_and_goes_with_the_server() {
    let mut daemon = Daemon::start();
    let socket = socket_in(daemon.directory.path());
    let metadata = fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o660);
    let directory = socket.parent().unwrap();
    assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o7027, 0);
    let names: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["admin.sock"], "only the socket stays in its directory");
    daemon.assert_serves();
    daemon.stop();
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "the socket is removed at stop");
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
