//! Time on a worker: always an argument, never read by the code that uses it.

/// Coarse time in milliseconds since the daemon started, wrapping. Compare with
/// [`Tick::is_after`]: two ticks that are compared lie less than 2^31 ms (24 days) apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tick(pub u32);

impl Tick {
    /// Whether `self` is later than `other`.
    #[must_use]
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }

    /// This tick, `milliseconds` later.
    #[must_use]
    #[inline]
    pub const fn plus(self, milliseconds: u32) -> Self {
        Self(self.0.wrapping_add(milliseconds))
    }

    /// Milliseconds from `earlier` to `self`, wrapping.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// What a worker's loop reads time from. It is an argument, so that tests have a time of their own.
pub trait TimeSource {
    /// A count of cycles that never goes back.
    fn cycles(&mut self) -> u64;

    /// The tick at a count.
    fn tick(&self, cycles: u64) -> Tick;
}

impl<T: TimeSource> TimeSource for &mut T {
    #[inline]
    fn cycles(&mut self) -> u64 {
        (**self).cycles()
    }

    #[inline]
    fn tick(&self, cycles: u64) -> Tick {
        (**self).tick(cycles)
    }
}

/// A time that stands still.
impl TimeSource for Tick {
    fn cycles(&mut self) -> u64 {
        0
    }

    fn tick(&self, _cycles: u64) -> Tick {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_survives_the_wrap() {
        let before = Tick(u32::MAX - 1);
        let after = before.plus(5);
        assert!(after.is_after(before));
        assert!(!before.is_after(after));
        assert!(!before.is_after(before));
        assert_eq!(after.since(before), 5);
    }
}
