//! Text for people and JSON for programs.

use super::progress;
use crate::{
    Error, Result,
    archive::Damage,
    text::{self, shown},
};
use serde_json::Value;
use std::io::{self, BufWriter, ErrorKind, Stdout, Write, stderr, stdout};

/// Prints one line to standard output, with escapes for what cannot be seen. Readers that have
/// gone away are no error.
pub fn line(text: &str) -> Result<()> {
    line_beside(false, text)
}

/// Prints several lines whose parts the caller passed through [`shown`] where they hold names.
pub fn page(data_on_stdout: bool, text: &str) -> Result<()> {
    to_either(data_on_stdout, &text::lines(text).to_string())
}

/// Prints what this program made, as it is.
pub fn raw(bytes: &[u8]) -> Result<()> {
    printed(stdout().write_all(bytes))
}

/// As [`line`], to standard error where standard output carries data.
pub fn line_beside(data_on_stdout: bool, text: &str) -> Result<()> {
    to_either(data_on_stdout, &shown(text).to_string())
}

fn to_either(data_on_stdout: bool, text: &str) -> Result<()> {
    match data_on_stdout {
        true => put(&mut stderr(), text),
        false => put(&mut stdout(), text),
    }
}

fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    printed(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")))
}

fn printed(done: io::Result<()>) -> Result<()> {
    match done {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Io { context: "cannot print".into(), source: e })
        }
        _ => Ok(()),
    }
}

/// Standard output for what is too long to be put together before it is printed.
pub struct Out(BufWriter<Stdout>);

impl Out {
    pub fn new() -> Out {
        Out(BufWriter::new(stdout()))
    }

    /// Text for people: whole lines, see [`page`].
    pub fn text(&mut self, text: &str) -> Result<()> {
        printed(write!(self.0, "{}", text::lines(text)))
    }

    /// A part of a JSON text.
    pub fn json(&mut self, part: &str) -> Result<()> {
        printed(self.0.write_all(text::json(part).as_bytes()))
    }

    pub fn finish(mut self) -> Result<()> {
        printed(self.0.flush())
    }
}

/// Prints an error.
pub fn error(text: &str) {
    aside("error", text);
}

/// Prints a line beside the data and above the progress bar.
fn aside(kind: &str, text: &str) {
    let _ = progress::beside(|| writeln!(stderr(), "lmc-gpu: {kind}: {}", shown(text)));
}

/// Prints what was odd about the input.
pub fn notes(quiet: bool, notes: &[String]) {
    if !quiet {
        for note in notes {
            aside("note", note);
        }
    }
}

/// Says what could be done about an error.
pub fn hint(quiet: bool, text: &str) {
    if !quiet {
        aside("hint", text);
    }
}

/// Lists damage.
pub fn damage(damage: &[Damage]) {
    const TENSORS: usize = 5;
    for d in damage {
        let mut tensors: Vec<String> =
            d.tensors.iter().take(TENSORS).map(|t| format!("\"{t}\"")).collect();
        if d.tensors.len() > TENSORS {
            tensors.push(format!("{} more", d.tensors.len() - TENSORS));
        }
        let tensors = match tensors.is_empty() {
            true => String::new(),
            false => format!(" (tensor {})", tensors.join(", ")),
        };
        if d.len == 0 {
            error(&format!("{}: what came of it was restored, but {}", d.file, d.reason));
            continue;
        }
        error(&format!(
            "{}: bytes {} to {}{tensors} in chunk {} are lost: {}",
            d.file,
            d.offset,
            d.offset + d.len,
            d.chunk,
            d.reason
        ));
    }
}

/// A number of bytes with a decimal unit.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A number of things: `one` is what a single one is called, and others have an s at its end.
pub fn count(n: u64, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

/// Output over input; not a number for an empty input.
pub fn ratio(input: u64, output: u64) -> f64 {
    output as f64 / input as f64
}

/// A ratio for people.
pub fn ratio_text(input: u64, output: u64) -> String {
    match input {
        0 => "-".into(),
        _ => format!("{:.4}", ratio(input, output)),
    }
}

/// 1e9 bytes a second.
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / seconds.max(1e-9) / 1e9
}

/// Rows of text in aligned columns; those whose number is in `right` are aligned to the right.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = put_table(
        || rows.iter().cloned(),
        right,
        |row| {
            out.push_str(row);
            Ok(())
        },
    );
    out.pop();
    out
}

/// As [`table`], a row with its line end at a time. `rows` is asked for them twice, so that a
/// million rows are never there at once. What a cell holds is escaped.
pub fn put_table<I: Iterator<Item = Vec<String>>>(
    rows: impl Fn() -> I,
    right: &[usize],
    mut put: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let cells = |row: Vec<String>| row.into_iter().map(|cell| shown(&cell).to_string());
    let mut widths: Vec<usize> = Vec::new();
    for row in rows() {
        widths.resize(widths.len().max(row.len()), 0);
        for (cell, width) in cells(row).zip(&mut widths) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows() {
        text.clear();
        for (c, cell) in cells(row).enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            if c > 0 {
                text.push_str("  ");
            }
            match right.contains(&c) {
                true => text.extend([&pad, &cell[..]]),
                false => text.extend([&cell[..], &pad]),
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        put(&text)?;
    }
    Ok(())
}

/// Writes JSON to standard output, or beside it: exact, with escapes for what cannot be seen.
pub fn json(data_on_stdout: bool, value: &Value) -> Result<()> {
    to_either(data_on_stdout, &text::json(&value.to_string()))
}

/// As [`json`], a text that is JSON already.
pub fn json_text(text: &str) -> Result<()> {
    to_either(false, &text::json(text))
}

/// An `Io` error about a path that is only known here.
pub fn io(action: &str, path: &std::path::Path, e: io::Error) -> Error {
    Error::io(action, path, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.00 kB");
        assert_eq!(bytes(99_950), "100 kB");
        assert_eq!(bytes(999_499), "999 kB");
        assert_eq!(bytes(999_500), "1.00 MB");
        assert_eq!(bytes(u64::MAX), "18.4 EB");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["bcd".into(), "7".into()]];
        assert_eq!(table(&rows, &[1]), "a    10\nbcd   7");
    }
}
