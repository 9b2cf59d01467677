//! What parsers hand to [`parse`](super::parse): findings, or why there are none.

use super::{
    Format, ParamGroup, Parsed, Span, Tensor,
    tile::{keep_sound, tile},
};
use crate::{error::Error, text::shown};

/// Why a parser gave up.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The file is not what it looked like; the text completes "looks like X, but …".
    Content(String),
    /// It could not be read.
    Io(Error),
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Self {
        Fault::Io(e.into())
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        Fault::Content(why.into())
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Fault::Content(why)
    }
}

/// What a parser found: spans in any order, with holes where nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) format: Format,
    pub(crate) spans: Vec<Span>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) optimizer: Vec<ParamGroup>,
    pub(crate) notes: Notes,
}

impl Found {
    /// Tiles the file with the spans that are sound and keeps the tensors that lie inside it. This is the one
    /// place where that is checked, for all formats.
    pub(crate) fn assemble(mut self, len: u64) -> Result<Parsed, Fault> {
        if self.format == Format::Opaque {
            return Ok(Parsed::opaque(len));
        }
        let spans = keep_sound(self.spans, len, &mut self.notes);
        let spans = tile(spans, len).map_err(Fault::Content)?;
        let notes = &mut self.notes;
        self.tensors.retain(|t| {
            let end = t.extent().and_then(|n| t.offset.checked_add(n));
            let inside = end.is_some_and(|end| end <= len);
            if !inside {
                notes.push(format!("tensor \"{}\" reaches past the end of the file", t.name));
            }
            inside
        });
        Ok(Parsed {
            format: self.format,
            spans,
            tensors: self.tensors,
            optimizer: self.optimizer,
            notes: self.notes.into_vec(),
            guesses: Vec::new(),
        })
    }
}

/// Notes for the user, of which a hostile file cannot make arbitrarily many.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: Vec<String>,
    dropped: u64,
}

/// Notes kept of one file.
const MAX_NOTES: usize = 20;

impl Notes {
    pub(crate) fn push(&mut self, note: String) {
        if self.kept.len() < MAX_NOTES {
            self.kept.push(note);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds another parser's notes, each with the place it speaks of.
    pub(crate) fn extend(&mut self, place: &str, other: Notes) {
        for note in other.kept {
            self.push(if place.is_empty() { note } else { format!("{place}: {note}") });
        }
        self.dropped += other.dropped;
    }

    fn into_vec(mut self) -> Vec<String> {
        if self.dropped > 0 {
            self.kept.push(format!("and {} more of the kind", self.dropped));
        }
        self.kept
    }
}

/// A file's own text, made fit to stand in a note: shortened, and with escapes in place of what
/// cannot be seen.
pub(crate) fn quote(text: &[u8]) -> String {
    const LEN: usize = 80;
    let mut out: String =
        String::from_utf8_lossy(&text[..text.len().min(4 * LEN)]).chars().take(LEN).collect();
    if out.len() < text.len() && out.chars().count() == LEN {
        out.push('…');
    }
    format!("\"{}\"", shown(&out))
}
