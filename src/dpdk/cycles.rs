//! The time stamp counter, and what it says in milliseconds.

use std::arch::x86_64::_rdtsc;

use super::Eal;
use crate::time::{Tick, TimeSource};

/// The time stamp counter of this core. On the machines that Lodestone supports it runs at one
/// rate on all cores (`constant_tsc`).
#[must_use]
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: the instruction only reads a counter, and every x86-64 processor has it.
    unsafe { _rdtsc() }
}

/// Cycles a second, as EAL measured it.
#[must_use]
pub fn tsc_hz(_eal: &Eal) -> u64 {
    // SAFETY: EAL runs (`_eal`), so the rate is known.
    unsafe { dpdk_sys::rte_get_tsc_hz() }
}

/// Turns cycles into ticks without a division. A worker reads [`cycles`] once a burst and hands
/// the tick down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The count at tick zero.
    origin: u64,
    /// 2^64 milliseconds a cycle: the high half of a product with it is milliseconds. Its rounding
    /// loses less than a millisecond in 2^64 / (1000 · 2^32) days, so ticks do not drift.
    milliseconds_per_cycle: u64,
}

impl Clock {
    /// A clock at tick zero now. Every worker gets a copy of one clock, so that ticks agree.
    #[must_use]
    pub fn new(eal: &Eal) -> Self {
        Self::with_rate(cycles(), tsc_hz(eal))
    }

    /// A clock at tick zero when the counter stood at `origin`, for a counter of `hz` cycles a
    /// second; slower than 1001 Hz counts as 1001 Hz.
    #[must_use]
    pub fn with_rate(origin: u64, hz: u64) -> Self {
        let scaled = (1000_u128 << 64) / u128::from(hz.max(1001));
        Self { origin, milliseconds_per_cycle: u64::try_from(scaled).unwrap_or(u64::MAX) }
    }

    /// The tick at a count. A count before the origin (another core's counter may lag a little) is
    /// tick zero.
    #[must_use]
    #[inline]
    pub fn tick(&self, cycles: u64) -> Tick {
        let elapsed = cycles.saturating_sub(self.origin);
        let product = u128::from(elapsed) * u128::from(self.milliseconds_per_cycle);
        // A tick wraps by definition.
        #[expect(clippy::cast_possible_truncation, reason = "the low half of milliseconds")]
        let tick = (product >> 64) as u32;
        Tick(tick)
    }
}

impl TimeSource for Clock {
    #[inline]
    fn cycles(&mut self) -> u64 {
        cycles()
    }

    #[inline]
    fn tick(&self, cycles: u64) -> Tick {
        Self::tick(self, cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_593_906_000;

    #[test]
    fn a_second_is_a_thousand_ticks_and_a_year_does_not_drift() {
        let clock = Clock::with_rate(500, HZ);
        assert_eq!(clock.tick(500), Tick(0));
        assert_eq!(clock.tick(0), Tick(0));
        // One cycle more than the exact number, for the rounding down.
        assert_eq!(clock.tick(500 + HZ + 1), Tick(1000));
        let days = 40;
        assert_eq!(clock.tick(500 + HZ * 86_400 * days + HZ / 1000), Tick(86_400_000 * 40));
        let year_ms = 365 * 86_400_000_u64;
        let year = clock.tick(500 + HZ * 86_400 * 365 + HZ / 1000);
        assert_eq!(u64::from(year.0), year_ms % (1 << 32));
    }

    #[test]
    fn ticks_never_go_back() {
        bolero::check!().with_type::<(u64, u64, u32)>().for_each(|&(origin, at, step)| {
            let clock = Clock::with_rate(origin, HZ);
            let before = clock.tick(at);
            let after = clock.tick(at.saturating_add(step.into()));
            assert!(!before.is_after(after));
        });
    }
}
