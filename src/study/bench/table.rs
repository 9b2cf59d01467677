//! Tables of aligned text.

use std::fmt::Write as _;

use serde::Serialize;

/// A table: the first column stands left, the others right.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Cells, as many in each row as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|c| (*c).into()).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// Appends a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The table as lines of text.
    pub fn to_text(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| lines().filter_map(|l| l.get(i)).map(|c| c.chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(text, "{}", self.title);
        }
        for (row, cells) in lines().enumerate() {
            let mut line = String::new();
            for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let _ = match i {
                    0 => write!(line, "{cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            let _ = writeln!(text, "{}", line.trim_end());
            if row == 0 {
                let rule = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
                let _ = writeln!(text, "{}", "─".repeat(rule));
            }
        }
        text
    }
}

/// A speed in at most four characters.
pub fn speed(gb_s: f64) -> String {
    match gb_s {
        s if s >= 10.0 => format!("{s:.1}"),
        s if s >= 1.0 => format!("{s:.2}"),
        s if s >= 0.01 => format!("{s:.3}"),
        s => format!("{s:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("", &["name", "x"]);
        table.push(vec!["a".into(), "12.5".into()]);
        table.push(vec!["longer".into(), "3".into()]);
        let text = "name       x\n────────────\na       12.5\nlonger     3\n";
        assert_eq!(table.to_text(), text);
    }
}
