//! What was there when a drain began, so that the operator sees how far it is.

use std::collections::HashMap;
use std::time::Duration;

use crate::config::BackendKey;
use crate::stats::BackendTotals;

/// The drains that go on.
#[derive(Debug, Default)]
pub struct Drains {
    by_backend: HashMap<BackendKey, Began>,
}

/// A drain's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Began {
    /// When, since the daemon's start.
    pub at: Duration,
    /// Flows that were tracked then.
    pub flows: u64,
    /// Packets that had been sent until then.
    pub packets: u64,
}

impl Drains {
    /// Takes which backends drain now, with what is counted for them; those that go on keep their
    /// beginning.
    pub fn update(
        &mut self,
        draining: impl IntoIterator<Item = (BackendKey, BackendTotals)>,
        now: Duration,
    ) {
        let mut before = std::mem::take(&mut self.by_backend);
        for (key, counted) in draining {
            let fresh = Began { at: now, flows: counted.flows, packets: counted.packets };
            let began = before.remove(&key).unwrap_or(fresh);
            self.by_backend.insert(key, began);
        }
    }

    /// When a backend's drain began, and with what; `None` if it does not drain.
    #[must_use]
    pub fn get(&self, key: &BackendKey) -> Option<Began> {
        self.by_backend.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_keeps_its_beginning_until_it_ends() {
        let key = |last: u8| BackendKey {
            pool: "web".into(),
            virtual_network: None,
            address: [10, 0, 0, last].into(),
        };
        let counted = |flows| BackendTotals { flows, packets: flows * 10, ..Default::default() };
        let second = Duration::from_secs(1);
        let mut drains = Drains::default();
        drains.update([(key(1), counted(5))], second);
        drains.update([(key(1), counted(3)), (key(2), counted(9))], second * 2);
        let first = drains.get(&key(1)).unwrap();
        assert_eq!((first.at, first.flows, first.packets), (second, 5, 50));
        assert_eq!(drains.get(&key(2)).unwrap().at, second * 2);
        drains.update([(key(2), counted(0))], second * 3);
        assert_eq!(drains.get(&key(1)), None);
        drains.update([(key(1), counted(2))], second * 4);
        assert_eq!(drains.get(&key(1)).unwrap().flows, 2, "a new drain begins anew");
    }
}
