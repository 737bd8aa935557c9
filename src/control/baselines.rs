//! Counters that begin anew while the worker's go on.
//!
//! Workers count by number, and only ever upwards. When a number changes hands, management
//! remembers how far it was counted, so that what is shown of the new tenant begins at zero.

use std::collections::HashMap;

use crate::stats::{BackendTotals, ServiceTotals};

/// Totals of which an earlier reading can be taken away.
pub trait Since: Copy {
    /// What was counted after `earlier`. Gauges stay as they are.
    #[must_use]
    fn since(self, earlier: Self) -> Self;
}

impl Since for BackendTotals {
    fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(earlier.packets),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            new_flows: self.new_flows.wrapping_sub(earlier.new_flows),
            ..self
        }
    }
}

impl Since for ServiceTotals {
    fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.wrapping_sub(earlier.packets),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            new_flows: self.new_flows.wrapping_sub(earlier.new_flows),
        }
    }
}

/// How far each number was counted when its present tenant got it.
#[derive(Clone, Debug)]
pub struct Baselines<T> {
    by_number: HashMap<u16, T>,
}

impl<T> Default for Baselines<T> {
    fn default() -> Self {
        Self { by_number: HashMap::new() }
    }
}

impl<T: Since + Default + PartialEq> Baselines<T> {
    /// A number got a tenant: `totals` is what all workers together have counted for it so far.
    /// They count nothing more for the tenant before: the number has rested.
    pub fn begin(&mut self, number: impl Into<u16>, totals: T) {
        if totals == T::default() {
            self.by_number.remove(&number.into());
        } else {
            self.by_number.insert(number.into(), totals);
        }
    }

    /// What was counted for the number's present tenant, of `totals` in all.
    #[must_use]
    pub fn since(&self, number: impl Into<u16>, totals: T) -> T {
        self.by_number.get(&number.into()).map_or(totals, |&earlier| totals.since(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BackendId;

    #[test]
    fn a_new_tenant_begins_at_zero_and_gauges_stay() {
        let totals = |packets, flows| BackendTotals { packets, bytes: 9, new_flows: 3, flows };
        let mut baselines = Baselines::default();
        assert_eq!(baselines.since(BackendId(1), totals(5, 2)), totals(5, 2));
        baselines.begin(BackendId(1), totals(5, 0));
        let since = baselines.since(BackendId(1), totals(12, 4));
        assert_eq!(since, BackendTotals { packets: 7, bytes: 0, new_flows: 0, flows: 4 });
        assert_eq!(baselines.since(BackendId(2), totals(5, 2)), totals(5, 2));
        baselines.begin(BackendId(1), BackendTotals::default());
        assert!(baselines.by_number.is_empty());
    }
}
