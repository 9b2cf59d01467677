//! Text for people and JSON for programs.

use crate::{Error, Result, archive::Damage};
use serde_json::Value;
use std::io::{self, ErrorKind, Write, stderr, stdout};

/// Prints a line to standard output. Readers that have gone away are no error.
pub fn line(text: &str) -> Result<()> {
    put(&mut stdout(), text)
}

/// As [`line`], to standard error where standard output carries data.
pub fn line_beside(data_on_stdout: bool, text: &str) -> Result<()> {
    match data_on_stdout {
        true => put(&mut stderr(), text),
        false => line(text),
    }
}

fn put(out: &mut dyn Write, text: &str) -> Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Io { context: "cannot print".into(), source: e })
        }
        _ => Ok(()),
    }
}

/// Prints an error.
pub fn error(text: &str) {
    let _ = writeln!(stderr(), "lmc-gpu: error: {text}");
}

/// Prints what was odd about the input.
pub fn notes(quiet: bool, notes: &[String]) {
    if !quiet {
        for note in notes {
            let _ = writeln!(stderr(), "lmc-gpu: note: {note}");
        }
    }
}

/// Says what could be done about an error.
pub fn hint(quiet: bool, text: &str) {
    if !quiet {
        let _ = writeln!(stderr(), "lmc-gpu: hint: {text}");
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

/// Damage as JSON.
pub fn damage_json(damage: &[Damage]) -> Value {
    let one = |d: &Damage| {
        let mut found = serde_json::json!({
            "file": d.file.to_text(), "chunk": d.chunk, "offset": d.offset, "bytes": d.len,
            "tensors": d.tensors, "reason": d.reason,
        });
        if let Some(bytes) = d.file.to_hex() {
            found["file_bytes"] = bytes.into();
        }
        found
    };
    damage.iter().map(one).collect()
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
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max();
    let widths: Vec<usize> = (0..n).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut text = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            if c > 0 {
                text.push_str("  ");
            }
            match right.contains(&c) {
                true => text.extend([&pad, &cell[..]]),
                false => text.extend([&cell[..], &pad]),
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out.pop();
    out
}

/// Writes JSON to standard output, or beside it.
pub fn json(data_on_stdout: bool, value: &Value) -> Result<()> {
    line_beside(data_on_stdout, &value.to_string())
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
