//! Colours, on terminals only.
//!
//! Renderers paint what they return ([`Role::paint`]), whoever reads it. Columns are counted by
//! [`width`] and filled by [`pad_start`] and [`pad_end`], which do not count what has no width. The
//! one place that writes asks [`is_wanted`] and, if not, takes all colours out again ([`plain`]). So
//! renderers stay functions from values to text, and a file never gets an escape sequence.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// When output is coloured: `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always, also into a pipe.
    Always,
    /// Never.
    Never,
}

/// Whether to colour what goes to a stream. `variable` gives the value of an environment variable.
pub fn is_wanted(
    when: When,
    is_terminal: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            // https://no-color.org: set and not empty, whatever its value.
            let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
            let is_capable =
                variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
            is_terminal && !no_color && is_capable
        }
    }
}

/// What a text is, which gives it its look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The heading of a table.
    Heading,
    /// As it should be: up, current.
    Good,
    /// Wanted, but less than full service: draining, disabled, unknown.
    Warning,
    /// Somebody must act: an alarm, down.
    Alarm,
    /// Beside the point: explanations.
    Aside,
}

impl Role {
    const fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().bold(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
            Self::Aside => Style::new().dimmed(),
        }
    }

    /// `text` in this look. Its [`width`] does not change. An empty text stays empty.
    #[must_use]
    pub fn paint(self, text: impl Display) -> String {
        let text = text.to_string();
        let style = self.style();
        if text.is_empty() { text } else { format!("{style}{text}{style:#}") }
    }

    /// A heading in this look; the spaces that indent it keep theirs.
    #[must_use]
    pub fn paint_title(self, title: &str) -> String {
        let words = title.trim_start();
        let indent = title.len() - words.len();
        format!("{}{}", " ".repeat(indent), self.paint(words))
    }
}

/// The look of an admin state, of health, and of the like.
#[must_use]
pub fn state(word: &str) -> String {
    match word {
        "up" | "enabled" | "current" | "reachable" => Role::Good.paint(word),
        "down" | "lagging" | "disabled" => Role::Alarm.paint(word),
        "draining" | "unknown" | "stale" | "incomplete" | "probing" => Role::Warning.paint(word),
        other => other.to_owned(),
    }
}

/// `text` without looks.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\x1b') {
        Cow::Owned(anstream::adapter::strip_str(text).to_string())
    } else {
        Cow::Borrowed(text)
    }
}

/// How many columns a line takes: its characters but for looks.
#[must_use]
pub fn width(text: &str) -> usize {
    plain(text).chars().count()
}

/// `text` with spaces before it, up to `columns`: as `{text:>columns$}` does with a plain one.
#[must_use]
pub fn pad_start(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` with spaces behind it, up to `columns`: as `{text:columns$}` does with a plain one.
#[must_use]
pub fn pad_end(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Role; 5] = [Role::Heading, Role::Good, Role::Warning, Role::Alarm, Role::Aside];

    /// An environment of these variables.
    fn environment<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
    }

    /// The option, whether a terminal, the environment, and whether colours are wanted then.
    type Case = (When, bool, &'static [(&'static str, &'static str)], bool);

    #[test]
    fn colours_are_for_terminals_that_can_and_people_who_want() {
        const XTERM: (&str, &str) = ("TERM", "xterm-256color");
        let cases: [Case; 10] = [
            (When::Auto, true, &[XTERM], true),
            (When::Auto, false, &[XTERM], false),
            (When::Auto, true, &[XTERM, ("NO_COLOR", "1")], false),
            (When::Auto, true, &[XTERM, ("NO_COLOR", "0")], false),
            (When::Auto, true, &[XTERM, ("NO_COLOR", "")], true),
            (When::Auto, true, &[("TERM", "dumb")], false),
            (When::Auto, true, &[("TERM", "")], false),
            (When::Auto, true, &[], false),
            (When::Always, false, &[("TERM", "dumb"), ("NO_COLOR", "1")], true),
            (When::Never, true, &[XTERM], false),
        ];
        for (when, is_terminal, variables, wanted) in cases {
            let told = is_wanted(when, is_terminal, environment(variables));
            assert_eq!(told, wanted, "{when:?} {is_terminal} {variables:?}");
        }
    }

    #[test]
    fn paint_is_put_on_and_comes_off() {
        assert_eq!(Role::Alarm.paint("down"), "\x1b[1m\x1b[31mdown\x1b[0m");
        assert_eq!(Role::Good.paint(""), "");
        for role in ALL {
            let painted = role.paint("3/3 up");
            assert_ne!(painted, "3/3 up", "{role:?}");
            assert_eq!(plain(&painted), "3/3 up", "{role:?}");
        }
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(plain("web/b1 ✓"), Cow::Borrowed("web/b1 ✓")));
    }

    #[test]
    fn painted_cells_fill_their_columns() {
        for (text, columns) in [("up", 6), ("größer", 8), ("", 3), ("longer", 2)] {
            for role in ALL {
                let painted = role.paint(text);
                assert_eq!(width(&painted), text.chars().count());
                let right = pad_start(&painted, columns);
                assert_eq!(plain(&right), format!("{text:>columns$}"));
                let left = pad_end(&painted, columns);
                assert_eq!(plain(&left), format!("{text:columns$}"));
            }
        }
    }

    /// Whatever the text: painting changes neither what is read nor how wide it is.
    #[test]
    fn painting_changes_no_text() {
        bolero::check!().with_type::<(String, u8)>().for_each(|(text, columns)| {
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            let columns = usize::from(*columns);
            for role in ALL {
                let painted = role.paint(&text);
                assert_eq!(plain(&painted), text);
                assert_eq!(width(&pad_end(&painted, columns)), text.chars().count().max(columns));
            }
        });
    }
}
