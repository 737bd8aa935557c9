//! Writing a configuration as the text of a file.
//!
//! A text that exists is changed where its meaning changes, and nowhere else: comments, order and
//! layout of what stays are its author's. A key is touched only if its value means something else
//! than before (`"10m"` stays when 600 s are wanted), and a key that is absent stays absent as long
//! as its default is what is wanted.

use std::collections::BTreeMap;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike};

use super::model::Config;
use super::outline::{self, Child, Entry, Value};

/// What stands where a secret would be.
pub(super) const HIDDEN: &str = "(hidden)";

/// The configuration as a new text: every key that differs from its default, in the order of the
/// documentation. [`super::parse`] reads the same configuration from it.
#[must_use]
pub fn to_toml(config: &Config) -> String {
    render(&outline::of(config))
}

/// Like [`to_toml`], for people: secrets are hidden, so it is no configuration.
#[must_use]
pub fn to_toml_redacted(config: &Config) -> String {
    let mut outline = outline::of(config);
    hide_secrets(&mut outline);
    render(&outline)
}

/// `text`, changed so that it says `config`. [`super::parse`] reads the same configuration from the
/// result, whatever `text` was: one that is no configuration is replaced as a whole.
#[must_use]
pub fn update(text: &str, config: &Config) -> String {
    let updated = super::parse(text).ok().and_then(|(old, _)| {
        if old == *config {
            return Some(text.to_owned());
        }
        let mut document: DocumentMut = text.parse().ok()?;
        let (old, new) = (outline::of(&old), outline::of(config));
        merge(document.as_table_mut(), Some(&old), &new);
        let updated = document.to_string();
        // TOML has many ways to arrange tables. Meaning goes before layout where one of them is not
        // understood here.
        let is_right = super::parse(&updated).is_ok_and(|(read, _)| read == *config);
        is_right.then_some(updated)
    });
    updated.unwrap_or_else(|| to_toml(config))
}

fn render(outline: &outline::Table) -> String {
    let mut document = DocumentMut::new();
    merge(document.as_table_mut(), None, outline);
    document.to_string()
}

fn hide_secrets(table: &mut outline::Table) {
    for entry in table.entries.iter_mut().filter(|entry| entry.is_secret) {
        entry.value = Some(Value::Text(HIDDEN.to_owned()));
    }
    for (_, child) in &mut table.children {
        match child {
            Child::Section(section) => hide_secrets(section),
            Child::List { tables, .. } => tables.iter_mut().for_each(hide_secrets),
        }
    }
}

/// Makes `table`, which says `old`, say `new`. Without an `old` it is empty.
fn merge(table: &mut dyn TableLike, old: Option<&outline::Table>, new: &outline::Table) {
    for entry in &new.entries {
        let before = old.and_then(|old| old.entry(entry.key)).and_then(|old| old.value.as_ref());
        set(table, before, entry);
    }
    for (key, child) in &new.children {
        let before = old.and_then(|old| old.child(key));
        match child {
            Child::Section(new) => {
                let before = before.and_then(|child| match child {
                    Child::Section(section) => Some(section),
                    Child::List { .. } => None,
                });
                merge_section(table, key, before, new);
            }
            Child::List { tables: new, .. } => {
                let before = match before {
                    Some(Child::List { tables, .. }) => tables.as_slice(),
                    _ => &[],
                };
                merge_list(table, key, before, new);
            }
        }
    }
}

/// Writes one key, if it has to change.
fn set(table: &mut dyn TableLike, before: Option<&Value>, entry: &Entry) {
    let Some(item) = table.get_mut(entry.key) else {
        // The default may depend on another key: what counts is what an absent key means now.
        if let Some(value) = entry.value.as_ref().filter(|_| entry.value != entry.default) {
            table.insert(entry.key, Item::Value(value_of(value)));
        }
        return;
    };
    if before == entry.value.as_ref() {
        return;
    }
    let Some(value) = &entry.value else {
        table.remove(entry.key);
        return;
    };
    let mut value = value_of(value);
    if let Some(old) = item.as_value() {
        // The comment behind the value stays.
        *value.decor_mut() = old.decor().clone();
    }
    *item = Item::Value(value);
}

fn value_of(value: &Value) -> toml_edit::Value {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Boolean(flag) => (*flag).into(),
        Value::List(values) => values.iter().map(value_of).collect::<Array>().into(),
    }
}

fn merge_section(
    parent: &mut dyn TableLike,
    key: &str,
    old: Option<&outline::Table>,
    new: &outline::Table,
) {
    if let Some(table) = parent.get_mut(key).and_then(Item::as_table_like_mut) {
        merge(table, old, new);
        return;
    }
    let table = new_table(new);
    if !table.is_empty() {
        parent.insert(key, Item::Table(table));
    }
}

fn new_table(outline: &outline::Table) -> Table {
    let mut table = Table::new();
    merge(&mut table, None, outline);
    table
}

fn merge_list(
    parent: &mut dyn TableLike,
    key: &str,
    old: &[outline::Table],
    new: &[outline::Table],
) {
    if new.is_empty() {
        parent.remove(key);
        return;
    }
    let matched = matches(old, new);
    match parent.get_mut(key) {
        Some(Item::ArrayOfTables(tables)) => merge_tables(tables, old, new, &matched),
        Some(Item::Value(toml_edit::Value::Array(array))) => {
            merge_inline(array, old, new, &matched);
        }
        _ => {
            let tables: ArrayOfTables = new.iter().map(new_table).collect();
            parent.insert(key, Item::ArrayOfTables(tables));
        }
    }
}

/// For each new table the place of the old one that becomes it, if there is one: the table of the
/// same object, else one that its object replaces.
fn matches(old: &[outline::Table], new: &[outline::Table]) -> Vec<Option<usize>> {
    let mut places: BTreeMap<&str, usize> =
        old.iter().enumerate().map(|(place, table)| (table.identity.as_str(), place)).collect();
    let mut matched: Vec<_> =
        new.iter().map(|table| places.remove(table.identity.as_str())).collect();
    let mut left: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut places: Vec<_> = places.into_values().collect();
    // The last of a kinship is taken first; in the end they have the order of the old text.
    places.sort_unstable_by(|a, b| b.cmp(a));
    for place in places {
        if let Some(kinship) = old.get(place).and_then(|table| table.kinship.as_deref()) {
            left.entry(kinship).or_default().push(place);
        }
    }
    for (place, table) in matched.iter_mut().zip(new) {
        if place.is_none()
            && let Some(kinship) = &table.kinship
        {
            *place = left.get_mut(kinship.as_str()).and_then(Vec::pop);
        }
    }
    matched
}

/// `[[key]]` tables.
fn merge_tables(
    tables: &mut ArrayOfTables,
    old: &[outline::Table],
    new: &[outline::Table],
    matched: &[Option<usize>],
) {
    let mut written: Vec<_> = std::mem::take(tables).into_iter().map(Some).collect();
    for (new, place) in new.iter().zip(matched) {
        let kept = place.and_then(|place| Some((written.get_mut(place)?.take()?, old.get(place)?)));
        tables.push(match kept {
            Some((mut table, old)) => {
                merge(&mut table, Some(old), new);
                table
            }
            None => new_table(new),
        });
    }
    settle(tables);
}

/// Inline tables in an array.
fn merge_inline(
    array: &mut Array,
    old: &[outline::Table],
    new: &[outline::Table],
    matched: &[Option<usize>],
) {
    let mut written: Vec<_> = array.iter().cloned().map(Some).collect();
    let decor = array.iter().last().map(|value| value.decor().clone());
    array.clear();
    for (new, place) in new.iter().zip(matched) {
        let kept = place.and_then(|place| Some((written.get_mut(place)?.take()?, old.get(place)?)));
        let value = if let Some((toml_edit::Value::InlineTable(mut table), old)) = kept {
            merge(&mut table, Some(old), new);
            table.into()
        } else {
            let table: InlineTable = new_table(new).into_inline_table();
            let mut value = toml_edit::Value::from(table);
            if let Some(decor) = &decor {
                *value.decor_mut() = decor.clone();
            }
            value
        };
        array.push_formatted(value);
    }
}

/// Makes the places of the tables in the text agree with their order in the array.
///
/// The library prints tables by the place that they were read at; one without a place follows the
/// one before it. That is right as long as the old order holds. Otherwise the whole array goes where
/// its first table was.
fn settle(tables: &mut ArrayOfTables) {
    let mut places = Vec::new();
    for table in tables.iter() {
        note_places(table, &mut places);
    }
    let has_first = tables.get(0).is_some_and(|table| table.position().is_some());
    let first = places.iter().copied().min();
    if (has_first || first.is_none()) && places.is_sorted() {
        return;
    }
    tables.iter_mut().for_each(forget_places);
    if let Some(table) = tables.get_mut(0) {
        table.set_position(first);
    }
}

fn note_places(table: &Table, places: &mut Vec<isize>) {
    places.extend(table.position());
    for (_, item) in table {
        match item {
            Item::Table(table) => note_places(table, places),
            Item::ArrayOfTables(tables) => {
                tables.iter().for_each(|table| note_places(table, places));
            }
            _ => {}
        }
    }
}

fn forget_places(table: &mut Table) {
    table.set_position(None);
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(table) => forget_places(table),
            Item::ArrayOfTables(tables) => tables.iter_mut().for_each(forget_places),
            _ => {}
        }
    }
}
