//! Answers in JSON of which a test can only look at what is there.
//!
//! `serde_json::Value` gives `null` for a member that is absent, and `null` equals `null`: a test
//! that compares a member under a wrong name with itself passes for ever.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Index};

use serde::Deserialize;
use serde_json::Value;

/// A JSON value whose index operators panic for what is absent; for what may be absent there is
/// [`Value::get`] and [`Value::pointer`].
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Value")]
pub(in crate::control) struct Answer {
    value: Value,
    /// By member's name or by place.
    parts: BTreeMap<String, Answer>,
}

impl From<Value> for Answer {
    fn from(value: Value) -> Self {
        let parts = match &value {
            Value::Object(members) => {
                members.iter().map(|(name, part)| (name.clone(), part.clone().into())).collect()
            }
            Value::Array(items) => {
                let numbered = items.iter().enumerate();
                numbered.map(|(place, part)| (place.to_string(), part.clone().into())).collect()
            }
            _ => BTreeMap::new(),
        };
        Self { value, parts }
    }
}

impl Deref for Answer {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Index<&str> for Answer {
    type Output = Self;

    fn index(&self, name: &str) -> &Self {
        self.parts.get(name).unwrap_or_else(|| panic!("no `{name}` in {self}"))
    }
}

impl Index<usize> for Answer {
    type Output = Self;

    fn index(&self, place: usize) -> &Self {
        &self[place.to_string().as_str()]
    }
}

impl<T> PartialEq<T> for Answer
where
    Value: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        self.value == *other
    }
}

impl PartialEq for Answer {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

#[test]
fn what_is_there_is_found() {
    let answer = Answer::from(serde_json::json!({"a": [{"b": null}, 7]}));
    assert_eq!(answer["a"][0]["b"], Value::Null);
    assert_eq!(answer["a"][1], 7);
    assert_eq!(answer["a"], answer["a"]);
    assert_eq!(answer.get("c"), None);
}

#[test]
#[should_panic = "no `c` in {\"a\":1}"]
fn what_is_absent_equals_nothing() {
    let answer = Answer::from(serde_json::json!({"a": 1}));
    assert_eq!(answer["c"], answer["c"]);
}
