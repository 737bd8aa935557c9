//! Threads that EAL knows: only they have a cache of packet buffers.

use std::fmt;
use std::marker::PhantomData;

use super::{DpdkError, Eal, last_error_text};

/// The number that EAL gave a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LcoreId(pub u32);

impl LcoreId {
    /// The calling thread's, if it is registered.
    #[must_use]
    pub fn current() -> Option<Self> {
        // SAFETY: reads a thread-local integer.
        let id = unsafe { dpdk_sys::lodestone_lcore_id() };
        // LCORE_ID_ANY is a cast in C and has no binding.
        (id != u32::MAX).then_some(Self(id))
    }
}

impl fmt::Display for LcoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Registers the calling thread with EAL while it lives. Registering rules out DPDK's secondary
/// processes, which Lodestone does not support anyway.
///
/// It stays on its thread:
///
/// ```compile_fail
/// fn is_send<T: Send>() {}
/// is_send::<lodestone::dpdk::ThreadRegistration>();
/// ```
#[derive(Debug)]
pub struct ThreadRegistration {
    lcore: LcoreId,
    /// Not `Send`: what is undone on drop is the calling thread's registration.
    not_send: PhantomData<*const ()>,
}

impl ThreadRegistration {
    /// Registers the calling thread, which keeps its affinity.
    ///
    /// # Errors
    ///
    /// The thread is registered already (as the one that started EAL is), or EAL has no number
    /// left (it has 128).
    pub fn new(_eal: &Eal) -> Result<Self, DpdkError> {
        if let Some(LcoreId(lcore)) = LcoreId::current() {
            return Err(DpdkError::ThreadRegistered { lcore });
        }
        // SAFETY: EAL runs (`_eal`), and this thread is not registered.
        let status = unsafe { dpdk_sys::rte_thread_register() };
        match LcoreId::current() {
            Some(lcore) if status == 0 => Ok(Self { lcore, not_send: PhantomData }),
            _ => Err(DpdkError::ThreadRefused { reason: last_error_text() }),
        }
    }

    /// The number that EAL gave this thread.
    #[must_use]
    pub fn lcore(&self) -> LcoreId {
        self.lcore
    }
}

impl Drop for ThreadRegistration {
    fn drop(&mut self) {
        // SAFETY: this thread registered in `new`, and the value never left it. Its cached buffers
        // stay in the pool's cache of that number, for the next thread that gets it.
        unsafe { dpdk_sys::rte_thread_unregister() };
    }
}
