//! Reading a section of the file: typed values, each with its place, and a mistake for everything
//! that is not as it should be. Nothing here stops at the first mistake.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigErrors, Mistake, Place, Warning};
use super::key;

/// Values are shown in messages up to this many characters.
const SHOWN_CAP: usize = 60;

/// Mistakes and warnings found so far in one text.
pub(super) struct Report<'t> {
    text: &'t str,
    /// Byte offset at which each line starts.
    lines: Vec<usize>,
    mistakes: RefCell<Vec<Mistake>>,
    warnings: RefCell<Vec<Warning>>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(after.map(|(offset, _)| offset + 1)).collect();
        Self { text, lines, mistakes: RefCell::default(), warnings: RefCell::default() }
    }

    /// Notes a mistake at `place`.
    pub(super) fn mistake(&self, place: &Place, mend: impl Into<String>) {
        self.mistakes.borrow_mut().push(Mistake { place: place.clone(), mend: mend.into() });
    }

    /// Notes a warning at `place`.
    pub(super) fn warn(&self, place: &Place, message: impl Into<String>) {
        self.warnings.borrow_mut().push(Warning { place: place.clone(), message: message.into() });
    }

    /// Notes that the text is not TOML.
    pub(super) fn syntax(&self, error: &toml::de::Error) {
        let offset = error.span().map_or(0, |span| span.start);
        let line = self.line(offset);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        let before = self.text.get(start..offset).unwrap_or("");
        let column = Some(before.chars().count() + 1);
        let place = Place { line, column, key: String::new(), owner: None, value: None };
        let what = error.message().replace('\n', ", ");
        self.mistake(&place, format!("this is not TOML: {what}; mend the syntax here first"));
    }

    /// Everything found, in the order of the lines.
    pub(super) fn finish(self) -> (ConfigErrors, Vec<Warning>) {
        let mut mistakes = self.mistakes.into_inner();
        let mut warnings = self.warnings.into_inner();
        mistakes.sort_by_key(|mistake| mistake.place.line);
        warnings.sort_by_key(|warning| warning.place.line);
        (ConfigErrors { mistakes }, warnings)
    }

    /// The line, from 1, of a byte offset.
    fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).max(1)
    }

    /// The text of a span on one line, shortened.
    fn shown(&self, span: Range<usize>) -> String {
        let written = self.text.get(span).unwrap_or("");
        let mut line = written.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = line.char_indices().nth(SHOWN_CAP) {
            line.truncate(end);
            line.push('…');
        }
        line
    }
}

/// What a section may hold.
#[derive(Debug)]
pub(super) struct Spec {
    /// Its path without indices, such as `pool.backend`.
    pub(super) path: &'static str,
    /// Every key, in the order of the documentation.
    pub(super) keys: &'static [&'static str],
    /// Keys whose values no message shows.
    pub(super) secrets: &'static [&'static str],
    /// Keys that one might expect here, with the reason why there are none.
    pub(super) refused: &'static [key::Refused],
}

/// A value and where it was written, or would have been.
#[derive(Clone, Debug)]
pub(super) struct Field<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// One table of the file. Making it notes the keys that it does not know.
pub(super) struct Section<'a> {
    report: &'a Report<'a>,
    table: &'a DeTable<'a>,
    place: Place,
    spec: &'static Spec,
}

impl<'a> Section<'a> {
    fn new(
        report: &'a Report<'a>,
        table: &'a DeTable<'a>,
        mut place: Place,
        spec: &'static Spec,
    ) -> Self {
        place.value = None;
        let name = table.iter().find(|(key, _)| key.get_ref() == "name");
        if let Some(name) = name.and_then(|(_, value)| value.get_ref().as_str()) {
            let kind = spec.path.rsplit('.').next().unwrap_or(spec.path);
            if !name.is_empty() && name.chars().count() <= SHOWN_CAP {
                place.owner = Some(format!("{kind} `{}`", name.escape_debug()));
            }
        }
        let section = Self { report, table, place, spec };
        section.note_unknown_keys();
        section
    }

    /// The whole document: a section whose keys are sections.
    pub(super) fn document(
        report: &'a Report<'a>,
        table: &'a DeTable<'a>,
        spec: &'static Spec,
    ) -> Self {
        let place = Place { line: 1, column: None, key: String::new(), owner: None, value: None };
        let section = Self { report, table, place, spec };
        section.note_unknown_keys();
        section
    }

    /// Where the section begins.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Where mistakes go.
    pub(super) const fn report(&self) -> &'a Report<'a> {
        self.report
    }

    /// Whether the key is written, whatever its value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The place of a key: its own line if it is written, else where its section begins.
    pub(super) fn place_of(&self, key: &str) -> Place {
        let place = self.place_of_key(key);
        match self.find(key) {
            Some((_, value)) if !self.spec.secrets.contains(&key) => {
                Place { value: Some(self.report.shown(value.span())), ..place }
            }
            _ => place,
        }
    }

    /// The value of a key that may be absent. `None` if it is, or if it is not as it should be,
    /// which is then noted.
    pub(super) fn optional<T>(
        &self,
        key: &'static str,
        kind: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Field<T>> {
        debug_assert!(self.spec.keys.contains(&key), "`{key}` is missing in the section's keys");
        let (_, value) = self.find(key)?;
        self.read(value, self.place_of(key), kind)
    }

    /// The value of a key, or `default` if it is absent. `None` only for a noted mistake.
    pub(super) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        kind: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Field<T>> {
        if self.has(key) {
            return self.optional(key, kind);
        }
        Some(Field { value: default, place: self.place_of(key) })
    }

    /// The value of a key that must be there. `None` only for a noted mistake.
    pub(super) fn required<T>(
        &self,
        key: &'static str,
        example: &str,
        kind: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Field<T>> {
        if !self.has(key) {
            self.report.mistake(&self.place_of(key), format!("is missing; write {example}"));
        }
        self.optional(key, kind)
    }

    /// The elements of an array; none if the key is absent. `None` only for noted mistakes, one for
    /// each element that is not as it should be.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        kind: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Vec<Field<T>>> {
        debug_assert!(self.spec.keys.contains(&key), "`{key}` is missing in the section's keys");
        let Some((_, value)) = self.find(key) else { return Some(Vec::new()) };
        let place = self.place_of(key);
        let DeValue::Array(elements) = value.get_ref() else {
            let found = value.get_ref().type_str();
            let what =
                format!("expects an array in brackets, as in [a, b], not {}", article(found));
            self.report.mistake(&place, what);
            return None;
        };
        let fields: Vec<_> = elements
            .iter()
            .enumerate()
            .map(|(index, element)| {
                let place = Place {
                    line: self.report.line(element.span().start),
                    key: format!("{}[{index}]", place.key),
                    value: Some(self.report.shown(element.span())),
                    ..place.clone()
                };
                self.read(element, place, &kind)
            })
            .collect();
        fields.into_iter().collect()
    }

    /// The table under a key; an absent one is the same as an empty one.
    pub(super) fn section(
        &self,
        key: &'static str,
        spec: &'static Spec,
        empty: &'a DeTable<'a>,
    ) -> Section<'a> {
        let place = self.place_of(key);
        let table = match self.find(key).map(|(_, value)| value.get_ref()) {
            Some(DeValue::Table(table)) => table,
            Some(_) => {
                self.report.mistake(&place, format!("is a section; write [{}]", spec.path));
                empty
            }
            None => empty,
        };
        Section::new(self.report, table, place, spec)
    }

    /// The tables of a `[[key]]`; none if the key is absent.
    pub(super) fn sections(&self, key: &'static str, spec: &'static Spec) -> Vec<Section<'a>> {
        let Some((_, value)) = self.find(key) else { return Vec::new() };
        let place = self.place_of(key);
        let many = format!("can be there several times; write [[{}]]", spec.path);
        let DeValue::Array(elements) = value.get_ref() else {
            self.report.mistake(&Place { value: None, ..place }, many);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let place = Place {
                line: self.report.line(element.span().start),
                key: format!("{}[{index}]", place.key),
                ..place.clone()
            };
            if let DeValue::Table(table) = element.get_ref() {
                sections.push(Section::new(self.report, table, place, spec));
            } else {
                let value = Some(self.report.shown(element.span()));
                self.report.mistake(&Place { value, ..place }, many.clone());
            }
        }
        sections
    }

    fn read<T>(
        &self,
        value: &Spanned<DeValue<'_>>,
        place: Place,
        kind: impl Fn(&DeValue<'_>) -> Result<T, String>,
    ) -> Option<Field<T>> {
        match kind(value.get_ref()) {
            Ok(value) => Some(Field { value, place }),
            Err(mend) => {
                self.report.mistake(&place, mend);
                None
            }
        }
    }

    fn find(&self, key: &str) -> Option<(&'a Spanned<Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
        self.table.iter().find(|(name, _)| name.get_ref() == key)
    }

    /// Like [`Self::place_of`], without the value.
    fn place_of_key(&self, key: &str) -> Place {
        let line = self
            .find(key)
            .map_or(self.place.line, |(written, _)| self.report.line(written.span().start));
        let dot = if self.place.key.is_empty() { "" } else { "." };
        Place { line, key: format!("{}{dot}{key}", self.place.key), ..self.place.clone() }
    }

    fn note_unknown_keys(&self) {
        for written in self.table.keys() {
            let name = written.get_ref().as_ref();
            if self.spec.keys.contains(&name) {
                continue;
            }
            let (mend, near) = key::unknown(name, self.spec);
            // A misspelt secret is still a secret.
            let secret = near.is_some_and(|near| self.spec.secrets.contains(&near));
            let place = if secret { self.place_of_key(name) } else { self.place_of(name) };
            let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            let place = if bare && name.len() <= SHOWN_CAP {
                place
            } else {
                let start = place.key.len().saturating_sub(name.len());
                let before = place.key.get(..start).unwrap_or("").to_owned();
                let short: String = name.escape_debug().take(SHOWN_CAP).collect();
                Place { key: format!("{before}\"{short}\""), ..place }
            };
            self.report.mistake(&place, mend);
        }
    }
}

/// Notes every field whose value an earlier one has; `key` gives what is compared.
pub(super) fn unique<'f, T: 'f, K: Ord>(
    report: &Report<'_>,
    fields: impl IntoIterator<Item = &'f Field<T>>,
    key: impl Fn(&T) -> K,
    what: &str,
) {
    let mut seen = BTreeMap::new();
    for field in fields {
        match seen.entry(key(&field.value)) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(&field.place);
            }
            std::collections::btree_map::Entry::Occupied(first) => {
                let first = first.get();
                let mend = format!("{what}; {} (line {}) has it already", first.key, first.line);
                report.mistake(&field.place, mend);
            }
        }
    }
}

/// A type's name with its article.
pub(super) fn article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}
