//! Keeping what one core writes off the cache lines that others use.

use std::ops::Deref;

/// A value on cache lines of its own. 128 bytes: x86 fetches lines of 64 bytes in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
