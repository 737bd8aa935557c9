//! What differs between two lists of things that are known by a key.

use std::collections::HashMap;
use std::hash::Hash;

/// What came, went and changed from one list to another. Order in the lists is no difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference<'a, T> {
    /// Only in the old list, in its order.
    pub left: Vec<&'a T>,
    /// Only in the new list, in its order.
    pub joined: Vec<&'a T>,
    /// In both and not equal: old and new.
    pub changed: Vec<(&'a T, &'a T)>,
}

impl<'a, T: PartialEq> Difference<'a, T> {
    /// Compares two lists, whose keys are unique within each. As long as things are at the same
    /// place in both it costs no more than comparing them.
    #[must_use]
    pub fn new<K: Eq + Hash>(old: &'a [T], new: &'a [T], key: impl Fn(&'a T) -> K) -> Self {
        let mut changed = Vec::new();
        let mut compare = |old: &'a T, new: &'a T| {
            if old != new {
                changed.push((old, new));
            }
        };
        // Those that are not at the same place in both.
        let (mut moved_old, mut moved_new) = (Vec::new(), Vec::new());
        for (old, new) in old.iter().zip(new) {
            if key(old) == key(new) {
                compare(old, new);
            } else {
                moved_old.push(old);
                moved_new.push(new);
            }
        }
        let common = old.len().min(new.len());
        moved_old.extend(&old[common..]);
        moved_new.extend(&new[common..]);

        let mut places: HashMap<K, usize> =
            moved_old.iter().enumerate().map(|(place, item)| (key(item), place)).collect();
        let mut left: Vec<Option<&'a T>> = moved_old.iter().copied().map(Some).collect();
        let mut joined = Vec::new();
        for new in moved_new {
            match places.remove(&key(new)).and_then(|place| left[place].take()) {
                Some(old) => compare(old, new),
                None => joined.push(new),
            }
        }
        Self { left: left.into_iter().flatten().collect(), joined, changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Item = (u8, u8);

    #[test]
    fn order_is_no_difference_and_each_item_is_told_once() {
        let old: [Item; 4] = [(1, 0), (2, 0), (3, 0), (4, 0)];
        let new: [Item; 4] = [(4, 0), (2, 1), (5, 0), (1, 9)];
        let found = Difference::new(&old, &new, |item| item.0);
        assert_eq!(found.left, [&(3, 0)]);
        assert_eq!(found.joined, [&(5, 0)]);
        assert_eq!(found.changed, [(&(2, 0), &(2, 1)), (&(1, 0), &(1, 9))]);
    }

    #[test]
    fn it_is_what_maps_say() {
        use std::collections::BTreeMap;
        bolero::check!().with_type::<(Vec<Item>, Vec<Item>)>().for_each(|(old, new)| {
            let unique = |items: &[Item]| -> BTreeMap<u8, u8> { items.iter().copied().collect() };
            let (old_map, new_map) = (unique(old), unique(new));
            // In the order of their last mention: not sorted.
            let list = |items: &[Item], map: &BTreeMap<u8, u8>| -> Vec<Item> {
                let mut seen = std::collections::BTreeSet::new();
                items.iter().filter(|item| seen.insert(item.0)).map(|i| (i.0, map[&i.0])).collect()
            };
            let (old, new) = (list(old, &old_map), list(new, &new_map));
            let found = Difference::new(&old, &new, |item| item.0);
            for item in &found.left {
                assert!(!new_map.contains_key(&item.0));
            }
            for item in &found.joined {
                assert!(!old_map.contains_key(&item.0));
            }
            for (before, after) in &found.changed {
                assert!(before.0 == after.0 && before.1 != after.1);
            }
            let equal = old.iter().filter(|item| new_map.get(&item.0) == Some(&item.1)).count();
            assert_eq!(old.len(), found.left.len() + found.changed.len() + equal);
            assert_eq!(new.len(), found.joined.len() + found.changed.len() + equal);
        });
    }
}
