//! DPDK's log while something starts: kept aside, so that the one sentence that matters stands
//! alone, with DPDK's own first complaint inside it.

use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the log goes meanwhile: a file in memory, and a C stream that appends to it. It is never
/// closed, because another thread of DPDK may still be writing to a stream that it was given.
struct Capture {
    file: File,
    stream: AtomicPtr<libc::FILE>,
}

static CAPTURE: OnceLock<Option<Capture>> = OnceLock::new();

/// The lines that DPDK logged during an operation.
#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    /// The first line about `subject`.
    pub(super) fn about(&self, subject: &str) -> Option<String> {
        self.lines().find(|line| line.contains(subject)).map(str::to_owned)
    }

    /// The first line: what comes later is usually its consequence.
    pub(super) fn first(&self) -> Option<String> {
        self.lines().next().map(str::to_owned)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines().map(str::trim).filter(|line| !line.is_empty())
    }
}

/// Runs `operation` while DPDK's log goes aside, and returns both results. If the log cannot be
/// captured the operation runs all the same.
pub(super) fn captured<R>(operation: impl FnOnce() -> R) -> (R, Lines) {
    let Some(capture) = CAPTURE.get_or_init(Capture::new) else {
        return (operation(), Lines::default());
    };
    let start = capture.len();
    set_stream(capture.stream.load(Ordering::Relaxed));
    let result = operation();
    set_stream(ptr::null_mut());
    (result, Lines(capture.text_from(start)))
}

/// Directs DPDK's log; null stands for its default.
fn set_stream(stream: *mut libc::FILE) {
    // SAFETY: the stream is null or `Capture::stream`, which is open until the process ends; DPDK
    // only keeps the pointer.
    unsafe { dpdk_sys::rte_openlog_stream(stream.cast()) };
}

impl Capture {
    fn new() -> Option<Self> {
        // SAFETY: the name is a valid C string, which the kernel copies.
        let descriptor = unsafe { libc::memfd_create(c"dpdk-log".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let writer = file.try_clone().ok()?.into_raw_fd();
        // SAFETY: `writer` is an open descriptor that the stream owns from here on.
        let stream = unsafe { libc::fdopen(writer, c"w".as_ptr()) };
        if stream.is_null() {
            return None;
        }
        // SAFETY: the stream was just opened and nothing was written; unbuffered, so that what is
        // logged is in the file at once.
        unsafe { libc::setvbuf(stream, ptr::null_mut(), libc::_IONBF, 0) };
        Some(Self { file, stream: AtomicPtr::new(stream) })
    }

    fn len(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn text_from(&self, start: u64) -> String {
        let mut bytes = vec![0; usize::try_from(self.len().saturating_sub(start)).unwrap_or(0)];
        match self.file.read_exact_at(&mut bytes, start) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}
