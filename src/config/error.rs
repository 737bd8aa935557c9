//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// A place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1; known for mistakes of syntax.
    pub column: Option<usize>,
    /// Path of the key, such as `pool[1].backend[0].weight`; empty for the text as a whole.
    pub key: String,
    /// What the key belongs to, if that has a name: ``backend `b1` ``.
    pub owner: Option<String>,
    /// The value as written, shortened if it is long; absent for what has no value, and for secrets.
    pub value: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " ({owner})")?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        Ok(())
    }
}

/// One mistake: the configuration cannot be used until it is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and what to do about it.
    pub mend: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.mend)
    }
}

/// Something that works, but perhaps not as intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where it is.
    pub place: Place,
    /// What follows from it, and what to do if that is not wanted.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// All mistakes of a configuration. Its text has a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// In the order of the lines; never empty in an `Err`.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            mistake.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A configuration file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The text has mistakes.
    #[error("{} has {} mistake(s), and none of it was applied:\n{errors}", path.display(), errors.mistakes.len())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The mistakes.
        errors: ConfigErrors,
    },
}
