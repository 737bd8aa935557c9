//! What differs between two configurations.

use std::collections::BTreeMap;
use std::fmt;

use super::model::Config;
use super::outline::{self, Child, Entry, Table, Value};
use super::write::HIDDEN;

/// One difference between an old configuration and a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The object by what stays the same of it, such as `pool/web/backend/192.0.2.11`; see
    /// [`Self::path`].
    pub id: String,
    /// The object as people call it, such as `pool web, backend b1`.
    pub object: String,
    /// What became of it.
    pub kind: DifferenceKind,
    /// The key whose value changed, such as `weight`; absent if an object was added or removed.
    pub key: Option<&'static str>,
    /// The old value; `None` if there was none. Of a removed object, its keys and values. Secrets
    /// are hidden.
    pub old: Option<String>,
    /// The new value; `None` if there is none. Of an added object, its keys and values.
    pub new: Option<String>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// It is in the new configuration only.
    Added,
    /// It is in the old configuration only.
    Removed,
    /// It is in both, with another value of one key.
    Changed,
}

impl DifferenceKind {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

impl Difference {
    /// The object and the key, such as `pool/web/backend/192.0.2.11/weight`: the same in every diff
    /// in which they occur.
    #[must_use]
    pub fn path(&self) -> String {
        match self.key {
            Some(key) => format!("{}/{key}", self.id),
            None => self.id.clone(),
        }
    }

    /// Whether both are about the same key, or one of them about the whole object.
    fn meets(&self, other: &Self) -> bool {
        self.id == other.id && (self.key.is_none() || other.key.is_none() || self.key == other.key)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        match (self.kind, self.key) {
            (DifferenceKind::Added, _) => write!(f, "{}: added ({})", self.object, text(&self.new)),
            (DifferenceKind::Removed, _) => {
                write!(f, "{}: removed ({})", self.object, text(&self.old))
            }
            (DifferenceKind::Changed, key) => write!(
                f,
                "{}: {} {} -> {}",
                self.object,
                key.unwrap_or_default(),
                text(&self.old),
                text(&self.new)
            ),
        }
    }
}

/// What has to change to make `new` of `old`: changed and removed objects in the order of `old`,
/// then, in each list, what is added in the order of `new`.
///
/// Objects are the same by name; backends by pool, virtual network and address, so that another
/// name is a changed key; VIPs by address, protocol and ports, so that other ports are another VIP.
/// What is compared are meanings: a default that is written out is no difference. The order of
/// values inside a key counts (`pools`, `addresses`, `workers`), and the order of ports, whose
/// first counts in a tie (the key `order`); the order of monitors, pools, backends, services and
/// VIPs does not. Without differences the configurations are equal but for that order.
#[must_use]
pub fn diff(old: &Config, new: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&Parent::default(), &outline::of(old), &outline::of(new), &mut found);
    found
}

/// The changes from `base` to `running` that would be lost if `file` were loaded: the file has
/// another value there. `base` is what was loaded or saved last.
#[must_use]
pub fn undone(base: &Config, running: &Config, file: &Config) -> Vec<Difference> {
    let mut ahead: BTreeMap<String, Vec<Difference>> = BTreeMap::new();
    for difference in diff(running, file) {
        ahead.entry(difference.id.clone()).or_default().push(difference);
    }
    let is_lost = |change: &Difference| {
        ahead.get(&change.id).is_some_and(|there| there.iter().any(|other| change.meets(other)))
    };
    diff(base, running).into_iter().filter(is_lost).collect()
}

/// What the objects of a list are in.
#[derive(Default)]
struct Parent {
    id: String,
    object: String,
}

impl Parent {
    fn inside(&self, key: &str, table: &Table) -> Self {
        let join = |before: &str, separator: &str, after: &str| {
            let separator = if before.is_empty() || after.is_empty() { "" } else { separator };
            format!("{before}{separator}{after}")
        };
        Self {
            id: join(&join(&self.id, "/", key), "/", &table.identity),
            object: join(&self.object, ", ", &table.label),
        }
    }

    fn difference(&self, kind: DifferenceKind, key: Option<&'static str>) -> Difference {
        let (id, object) = (self.id.clone(), self.object.clone());
        Difference { id, object, kind, key, old: None, new: None }
    }
}

fn shown(entry: &Entry) -> Option<String> {
    let value = entry.value.as_ref()?;
    Some(if entry.is_secret { HIDDEN.to_owned() } else { value.to_string() })
}

/// An object in short: its keys that are not as they would be without.
fn summary(table: &Table) -> String {
    let entries = table.entries.iter().filter(|entry| entry.value != entry.default);
    let parts: Vec<_> = entries
        .filter(|entry| entry.key != "name")
        .filter_map(|entry| Some(format!("{} {}", entry.key, shown(entry)?)))
        .collect();
    parts.join(", ")
}

/// The differences inside an object that is in both.
fn compare(place: &Parent, old: &Table, new: &Table, found: &mut Vec<Difference>) {
    for (before, after) in old.entries.iter().zip(&new.entries) {
        if before.value != after.value {
            found.push(Difference {
                old: shown(before),
                new: shown(after),
                ..place.difference(DifferenceKind::Changed, Some(after.key))
            });
        }
    }
    for ((key, old), (_, new)) in old.children.iter().zip(&new.children) {
        match (old, new) {
            (Child::Section(old), Child::Section(new)) => {
                compare(&place.inside(key, new), old, new, found);
            }
            (Child::List { tables: old, .. }, Child::List { tables: new, is_ordered }) => {
                compare_lists(place, key, old, new, found);
                if *is_ordered {
                    compare_order(place, key, old, new, found);
                }
            }
            _ => {}
        }
    }
}

fn compare_lists(
    parent: &Parent,
    key: &'static str,
    old: &[Table],
    new: &[Table],
    found: &mut Vec<Difference>,
) {
    let mut added: BTreeMap<_, _> =
        new.iter().map(|table| (table.identity.as_str(), table)).collect();
    for before in old {
        match added.remove(before.identity.as_str()) {
            Some(after) => compare(&parent.inside(key, after), before, after, found),
            None => whole(DifferenceKind::Removed, parent, key, before, found),
        }
    }
    for after in new.iter().filter(|table| added.contains_key(table.identity.as_str())) {
        whole(DifferenceKind::Added, parent, key, after, found);
    }
}

/// An object that is in one of them only, with everything inside it.
fn whole(
    kind: DifferenceKind,
    parent: &Parent,
    key: &str,
    table: &Table,
    found: &mut Vec<Difference>,
) {
    let place = parent.inside(key, table);
    let text = Some(summary(table));
    let (old, new) = if kind == DifferenceKind::Added { (None, text) } else { (text, None) };
    found.push(Difference { old, new, ..place.difference(kind, None) });
    for (key, child) in &table.children {
        if let Child::List { tables, .. } = child {
            for table in tables {
                whole(kind, &place, key, table, found);
            }
        }
    }
}

/// A difference if the objects that are in both have another order.
fn compare_order(
    parent: &Parent,
    key: &'static str,
    old: &[Table],
    new: &[Table],
    found: &mut Vec<Difference>,
) {
    let in_both = |tables: &[Table], others: &[Table]| {
        let is_there = |table: &&Table| others.iter().any(|other| other.identity == table.identity);
        let common = tables.iter().filter(is_there);
        common.map(|table| Value::Text(table.identity.clone())).collect::<Vec<_>>()
    };
    let (before, after) = (in_both(old, new), in_both(new, old));
    if before != after {
        let place = Parent { id: format!("{}{key}", parent.id), object: format!("{key}s") };
        found.push(Difference {
            old: Some(Value::List(before).to_string()),
            new: Some(Value::List(after).to_string()),
            ..place.difference(DifferenceKind::Changed, Some("order"))
        });
    }
}
