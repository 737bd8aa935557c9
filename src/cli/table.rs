//! Aligned columns that fit a terminal of 80 columns, and numbers short enough for them.

#![expect(
    clippy::format_push_string,
    reason = "a few lines for a person; write! would return an error that cannot happen"
)]

use super::color;

/// Columns of the terminal that output is made for.
const WIDTH: usize = 80;

/// Rows under a heading: the first column to the left, as names are, the others to the right, as
/// numbers are. A name too long for its column gets a line of its own.
pub(super) struct Table<const N: usize> {
    rows: Vec<([String; N], Vec<String>)>,
}

impl<const N: usize> Table<N> {
    pub(super) fn new(heading: [&str; N]) -> Self {
        let heading = heading.map(|title| color::Role::Heading.paint_title(title));
        Self { rows: vec![(heading, Vec::new())] }
    }

    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push((cells, Vec::new()));
    }

    /// A sentence below the last row, indented and wrapped.
    pub(super) fn note(&mut self, text: &str) {
        if let Some((_, notes)) = self.rows.last_mut() {
            notes.push(wrap(text, 4));
        }
    }

    pub(super) fn render(&self) -> String {
        let mut widths = [0; N];
        for (cells, _) in &self.rows {
            for (width, cell) in widths.iter_mut().zip(cells).skip(1) {
                *width = color::width(cell).max(*width);
            }
        }
        let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        let room = WIDTH.saturating_sub(others);
        let names = self.rows.iter().filter_map(|(cells, _)| cells.first());
        let lengths = names.map(|name| color::width(name));
        let first = lengths.filter(|length| *length <= room).max().unwrap_or(0);

        let mut text = String::new();
        for (cells, notes) in &self.rows {
            let mut line = String::new();
            for (place, (cell, width)) in cells.iter().zip(widths).enumerate() {
                if place > 0 {
                    line += "  ";
                    line += &color::pad_start(cell, width);
                } else if color::width(cell) <= first {
                    line += &color::pad_end(cell, first);
                } else {
                    line += &format!("{cell}\n{:first$}", "");
                }
            }
            text += line.trim_end();
            text.push('\n');
            text.extend(notes.iter().map(String::as_str));
        }
        text
    }
}

/// `text` in lines of at most 80 columns, all but the first word's line start indented by `indent`.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut column = WIDTH;
    for word in text.split_whitespace() {
        let length = color::width(word);
        if column + 1 + length > WIDTH {
            if !wrapped.is_empty() {
                wrapped.push('\n');
            }
            wrapped += &" ".repeat(indent);
            column = indent;
        } else {
            wrapped.push(' ');
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped.push('\n');
    wrapped
}

/// A count in at most six columns: exact below 100,000, then three or more digits and a unit
/// (powers of 1000).
pub(super) fn count(number: u64) -> String {
    if number < 100_000 {
        return number.to_string();
    }
    let mut value = number;
    let mut tenths = 0;
    let mut unit = ' ';
    for next in ['k', 'M', 'G', 'T', 'P', 'E'] {
        if value < 1000 {
            break;
        }
        tenths = value % 1000 / 100;
        value /= 1000;
        unit = next;
    }
    format!("{value}.{tenths}{unit}")
}

/// A fraction of 1 as a percentage.
pub(super) fn percent(fraction: f64) -> String {
    format!("{:.1}%", fraction * 100.0)
}
