//! Tables of search results, and their CSV (RFC 4180).

use std::fmt::Write as _;

/// Columns and rows of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Names, with units.
    pub columns: Vec<&'static str>,
    /// As many numbers each as there are columns.
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    /// The table as CSV. No field needs quotes: names are words and values are numbers.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text += "\r\n";
        for row in &self.rows {
            let fields: Vec<_> = row.iter().map(|value| number(*value)).collect();
            let _ = write!(text, "{}\r\n", fields.join(","));
        }
        text
    }
}

/// A number without needless digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_header_and_a_line_a_row() {
        let table = Table {
            columns: vec!["flows", "packets_per_second"],
            rows: vec![vec![1000.0, 2.5e6], vec![1e6, 0.125]],
        };
        assert_eq!(
            table.to_csv(),
            "flows,packets_per_second\r\n1000,2500000\r\n1000000,0.125000\r\n"
        );
    }
}
