//! Hints to the cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ptr;

use crate::conntrack::Prefetch;

/// Asks the processor to bring the cache line at the start of `target` close. Nothing else happens.
#[inline]
pub fn prefetch_read<T>(target: &T) {
    // SAFETY: a prefetch changes nothing and faults on no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(target).cast()) };
}

/// The processor's own prefetch, for the connection tables.
#[derive(Clone, Copy, Debug)]
pub struct HardwarePrefetch;

impl Prefetch for HardwarePrefetch {
    #[inline]
    fn prefetch<T>(target: &T) {
        prefetch_read(target);
    }
}
