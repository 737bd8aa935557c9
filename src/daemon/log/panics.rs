//! Panics as lines of the log.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook};

/// Every panic of the process, of whatever thread, is an error in the log from here on: which thread,
/// where, and why. The line is written before the thread unwinds, and so before anything ends the
/// process for it. `RUST_BACKTRACE=1` adds the backtrace.
pub(super) fn log() {
    set_hook(Box::new(write));
}

fn write(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let reason = reason(panic.payload());
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!("thread {thread} panicked at {place}: {reason}\n{backtrace}");
    } else {
        tracing::error!("thread {thread} panicked at {place}: {reason}; please report this");
    }
}

fn reason(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use crate::daemon::log::{LogFormat, init};
    use crate::daemon::workers::guarded;
    use crate::id::WorkerId;

    /// Says what a child process of these tests is to do. Such a process is this program with the one
    /// test that made it.
    const CHILD: &str = "LODESTONE_TEST_CHILD";
    const SIGABRT: i32 = 6;

    fn child(test: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = format!("daemon::log::panics::tests::{test}");
        command
            .args(["--exact", &name, "--nocapture"])
            .env(CHILD, "1")
            .env_remove("RUST_BACKTRACE");
        command.stdout(Stdio::null()).stdin(Stdio::null());
        command
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    #[test]
    fn a_worker_that_panics_is_in_the_log_before_the_process_aborts() {
        if is_child() {
            let _ = init(LogFormat::Json, false);
            let worker = std::thread::Builder::new().name("worker-3".into());
            let body = || guarded(WorkerId(3), || panic!("as the test wants"));
            let _ = worker.spawn(body).unwrap().join();
            unreachable!("the process ends");
        }
        let test = "a_worker_that_panics_is_in_the_log_before_the_process_aborts";
        let output = child(test).stderr(Stdio::piped()).output().unwrap();
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{log}");
        let messages: Vec<_> = log
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|line| line["fields"]["message"].as_str().unwrap().to_owned())
            .collect();
        let [panicked, ends] = &messages[..] else { panic!("{messages:?}") };
        assert!(panicked.starts_with("thread worker-3 panicked at src/"), "{panicked}");
        assert!(panicked.contains(": as the test wants; "), "{panicked}");
        assert!(ends.starts_with("worker 3 panicked; the daemon ends"), "{ends}");
    }

    // Who reads the log may go: a line that cannot be written must not make a panic, nor a panic that
    // cannot be told an abort.
    #[test]
    fn a_log_that_nobody_reads_ends_nothing() {
        if is_child() {
            let _ = init(LogFormat::Text, false);
            // The other end closes before this line comes.
            let mut line = String::new();
            std::io::stdin().read_to_string(&mut line).unwrap();
            for _ in 0..3 {
                tracing::error!("nobody reads this");
            }
            let caught = std::panic::catch_unwind(|| panic!("as the test wants"));
            assert!(caught.is_err());
            std::process::exit(7);
        }
        let mut command = child("a_log_that_nobody_reads_ends_nothing");
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        drop(process.stderr.take());
        drop(process.stdin.take());
        assert_eq!(process.wait().unwrap().code(), Some(7));
    }
}
