//! The text format 0.0.4 of Prometheus, written piece by piece.
//!
//! Every Prometheus and every collector that speaks its format reads it, and so does `promtool check
//! metrics`. Values are what the format calls floats: integers are written as such.

use std::fmt::{self, Display};

use super::families::FAMILIES;
use super::family::Family;
use super::observation::Observation;

/// A piece is finished when it has so many bytes. One backend or worker is never cut in two, so that
/// it may be longer by a few hundred.
const PIECE_LEN: usize = 32 * 1024;

/// The `Content-Type` of [`Text`].
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An observation on its way to text.
#[derive(Debug)]
pub struct Text {
    observation: Observation,
    /// Of [`FAMILIES`].
    family: usize,
    /// How many items of the family are written.
    item: usize,
}

impl Text {
    /// The text of an observation.
    #[must_use]
    pub const fn new(observation: Observation) -> Self {
        Self { observation, family: 0, item: 0 }
    }
}

/// The pieces, each at most a few hundred bytes above 32 KiB.
impl Iterator for Text {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut piece = String::with_capacity(PIECE_LEN + 4_096);
        while piece.len() < PIECE_LEN {
            let Some(family) = FAMILIES.get(self.family) else { break };
            if self.item == 0 {
                header(&mut piece, family);
            }
            let count = family.item_count(&self.observation);
            let mut lines = Lines::new(&mut piece, family.name);
            // At least one item follows the header: the next piece must not begin with it again.
            while self.item < count {
                family.write(&self.observation, self.item, &mut lines);
                self.item += 1;
                if lines.piece.len() >= PIECE_LEN {
                    break;
                }
            }
            if self.item >= count {
                self.family += 1;
                self.item = 0;
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}

/// `# HELP` and `# TYPE`. Help texts are constants without backslash and line feed, as a test holds.
fn header(piece: &mut String, family: &Family) {
    let Family { name, help, kind, .. } = family;
    put(piece, format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
}

/// A label's name and value.
pub(super) type Label<'a> = (&'a str, &'a dyn Display);

/// The lines of one family.
pub(super) struct Lines<'a> {
    piece: &'a mut String,
    name: &'static str,
}

impl<'a> Lines<'a> {
    /// Lines of the family `name`, at the end of `piece`.
    pub const fn new(piece: &'a mut String, name: &'static str) -> Self {
        Self { piece, name }
    }

    /// A sample with these labels.
    pub fn sample(&mut self, labels: &[Label<'_>], value: impl Into<Value>) {
        self.part("", labels, value);
    }

    /// A sample of a part of the family: `suffix` belongs to its name.
    pub fn part(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Into<Value>) {
        let value = value.into();
        if value == Value::Absent {
            return;
        }
        self.piece.push_str(self.name);
        self.piece.push_str(suffix);
        for (place, (name, text)) in labels.iter().enumerate() {
            self.piece.push(if place == 0 { '{' } else { ',' });
            self.piece.push_str(name);
            self.piece.push_str("=\"");
            put(&mut Escaped(self.piece), format_args!("{text}"));
            self.piece.push('"');
        }
        self.piece.push_str(if labels.is_empty() { " " } else { "} " });
        put(self.piece, format_args!("{value}\n"));
    }
}

/// Strings take all that is written.
fn put(text: &mut impl fmt::Write, arguments: fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

/// Writes a label's value: backslash, quote and line feed have an escape.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !text.contains(['\\', '"', '\n']) {
            self.0.push_str(text);
            return Ok(());
        }
        for letter in text.chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A whole number.
    Whole(u64),
    /// Any number.
    Real(f64),
    /// There is none: the sample is left out.
    Absent,
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) if number.is_nan() => f.write_str("NaN"),
            Self::Real(number) if number.is_infinite() => {
                f.write_str(if *number > 0.0 { "+Inf" } else { "-Inf" })
            }
            Self::Real(number) => write!(f, "{number}"),
            Self::Absent => Ok(()),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Self::Whole(is_so.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}
