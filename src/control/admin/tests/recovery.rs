//! Sockets that are lost come back.

use super::*;

/// Waits until `is_so`, for as long as it may take a busy machine.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        pause(10);
    }
    panic!("{what} in 10 s");
}

fn serves(path: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(path) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut line = String::new();
    stream.write_all(SHOW).is_ok()
        && BufReader::new(stream).read_line(&mut line).is_ok_and(|len| len > 0)
}

#[test]
fn a_removed_socket_is_made_anew_and_told() {
    let daemon = Daemon::start();
    assert_eq!(daemon.alarm(), None);
    for path in [socket_in(daemon.directory.path()), read_only_in(daemon.directory.path())] {
        let mut open = connect(&path);
        open.write_all(SHOW).unwrap();
        answer_from(&mut open);
        fs::remove_file(&path).unwrap();
        wait_until("the socket is back", || serves(&path));
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o660);
        let alarm = daemon.alarm().unwrap();
        let told = format!("{} was removed or replaced", path.display());
        assert!(alarm.contains(&told), "{alarm}");
        // Who was connected did not notice.
        open.write_all(SHOW).unwrap();
        assert_eq!(answer_from(&mut open)["result"]["generation"], json!(7));
    }
}

#[test]
fn a_removed_directory_is_made_anew() {
    let mut daemon = Daemon::start();
    let path = socket_in(daemon.directory.path());
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    wait_until("both sockets are back", || {
        serves(&path) && serves(&read_only_in(daemon.directory.path()))
    });
    daemon.stop();
    assert!(!path.exists(), "the new one goes with the server, too");
}

#[test]
fn what_took_the_place_is_not_ours_to_remove() {
    let daemon = Daemon::start();
    let path = socket_in(daemon.directory.path());
    let alarm = |part: &str| daemon.alarm().is_some_and(|alarm| alarm.contains(part));

    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    // It may have been made anew in between.
    if fs::read_to_string(&path).is_ok() {
        wait_until("the file is told", || alarm("exists and is not a socket"));
        pause(1_200);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }
    wait_until("the socket is back", || serves(&path));

    let other = daemon.directory.path().join("run/other.sock");
    let listener = UnixListener::bind(&other).unwrap();
    fs::rename(&other, &path).unwrap();
    wait_until("the other daemon is told", || alarm("another daemon runs"));
    pause(1_200);
    UnixStream::connect(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_ok() {}
    drop(listener);
    wait_until("the socket is back", || serves(&path));
    assert!(alarm("has been made anew"));
}

#[test]
fn an_alarm_ends_with_what_it_tells_whatever_ended_it() {
    let daemon = Daemon::start();
    let path = socket_in(daemon.directory.path());
    // Somebody takes the socket's place, and gives it back.
    let aside = daemon.directory.path().join("run/aside.sock");
    fs::rename(&path, &aside).unwrap();
    fs::write(&path, "precious").unwrap();
    wait_until("the file is told", || {
        daemon.alarm().is_some_and(|alarm| alarm.contains("exists and is not a socket"))
    });
    fs::rename(&aside, &path).unwrap();
    wait_until("nothing is wrong any more", || daemon.alarm().is_none());
    assert!(serves(&path), "the same socket");
}
