//! Text that came from a file, made fit to be shown to people.
//!
//! Names of tensors and files may hold anything. Sent to a terminal as they are, control
//! characters would move the cursor or set colours, line ends would forge rows, and characters
//! that turn the direction of writing around or have no width would make one name look like
//! another. They are written as escapes: `\n`, `\x1b`, `\u{202e}`. Everything that can be seen
//! stays, backslashes too: paths are to be read as they were typed. So this is for eyes only;
//! programs get exact text, see [`json`].

use std::{
    borrow::Cow,
    fmt::{self, Display, Formatter, Write},
};

/// Text with escapes in place of what cannot be seen; see [`shown`] and [`lines`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'t> {
    text: &'t str,
    keep_lines: bool,
}

/// A text that stands within a line: line ends are escaped as well.
///
/// ```
/// assert_eq!(lmc_gpu::internals::text::shown("a\nb\u{202e}é").to_string(), "a\\nb\\u{202e}é");
/// ```
pub fn shown(text: &str) -> Shown<'_> {
    Shown { text, keep_lines: false }
}

/// A text of several lines, each of which was put together from what [`shown`] gave.
pub fn lines(text: &str) -> Shown<'_> {
    Shown { text, keep_lines: true }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut from = 0;
        for (at, c) in self.text.char_indices() {
            if is_visible(c) || (self.keep_lines && c == '\n') {
                continue;
            }
            f.write_str(&self.text[from..at])?;
            from = at + c.len_utf8();
            match c {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_ascii() => write!(f, "\\x{:02x}", c as u32)?,
                c => write!(f, "{}", c.escape_unicode())?,
            }
        }
        f.write_str(&self.text[from..])
    }
}

/// Whether all of a text can be seen, so that [`shown`] gives it as it is.
pub fn is_shown_as_is(text: &str) -> bool {
    text.chars().all(is_visible)
}

/// The same JSON with escapes inside its strings, which a parser turns back into the same text.
/// What cannot be seen is only there, and never in what stands between strings but line ends.
pub fn json(json: &str) -> Cow<'_, str> {
    let is_kept = |c: char| is_visible(c) || c == '\n';
    if json.chars().all(is_kept) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_kept(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string never fails.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

/// Text that stands in HTML, in an element or an attribute.
pub fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Whether a character shows as itself, and where it stands. The standard library knows which
/// ones are controls, format characters, separators or unassigned; it says so of a character that
/// follows another, while marks that combine with a letter count as printable.
fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let mut bytes = [b'a'; 5];
    let len = c.encode_utf8(&mut bytes[1..]).len();
    let pair = std::str::from_utf8(&bytes[..1 + len]).unwrap_or("a\0");
    pair.escape_debug().nth(1) != Some('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped_and_nothing_else() {
        let hidden = (0..0x20).chain(0x7f..0xa0).chain(0x200b..=0x200f).chain(0x2028..=0x202e);
        let hidden = hidden.chain(0x2060..=0x2069).chain([0xad, 0x61c, 0xfeff, 0xe0001, 0x10ffff]);
        for c in hidden.filter_map(char::from_u32) {
            let text = shown(c.encode_utf8(&mut [0; 4])).to_string();
            assert!(text.starts_with('\\') && text.is_ascii(), "{:x} gives {text}", c as u32);
        }
        let plain = "C:\\dir\\\"é\" e\u{301} naïve Ω 模型 नमस्ते 🦀 'x' a_b-c";
        assert_eq!(shown(plain).to_string(), plain);
        assert!(is_shown_as_is(plain) && !is_shown_as_is("a\n"));
        let odd = "\u{1b}[2J\nforged\u{202e}\t\r\u{7f}";
        assert_eq!(shown(odd).to_string(), "\\x1b[2J\\nforged\\u{202e}\\t\\r\\x7f");
        assert_eq!(lines("a\nb\u{9b}").to_string(), "a\nb\\u{9b}");
    }

    #[test]
    fn json_with_escapes_is_the_same_json() {
        let text = "\u{1b}[2J\nforged\u{202e}\u{7f}\u{e0041}é";
        let plain = serde_json::json!({ text: [text, 1] });
        let escaped = json(&plain.to_string()).into_owned();
        assert!(is_shown_as_is(&escaped), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), plain);
    }
}
