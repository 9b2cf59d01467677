//! What `--dtype` does to a file that it does not fit.

use crate::{
    archive::Input,
    container::EntryKind,
    dtype::Dtype,
    format::{self, Format},
};

/// A note for every file that has a header, which `--dtype` takes for elements, or that is not
/// whole elements.
pub fn notes(input: &Input<'_>, dtype: Dtype) -> Vec<String> {
    let mut notes = Vec::new();
    for (i, entry) in input.manifest.entries.iter().enumerate() {
        if entry.kind == EntryKind::Directory || entry.len == 0 {
            continue;
        }
        let found = format::parse(input.file(i)).map_or(Format::Opaque, |parsed| parsed.format);
        if found != Format::Opaque {
            notes.push(format!(
                "{} is a {} file, whose types are known: --dtype reads it as a flat array of \
                 {dtype}, header and all; leave it out",
                entry.path,
                found.name()
            ));
        }
        let rest = entry.len % dtype.word_len() as u64;
        if rest > 0 {
            notes.push(format!(
                "{} has {} bytes, which are not whole words of {dtype}: the last {rest} of them \
                 are stored as bytes",
                entry.path, entry.len
            ));
        }
    }
    notes
}
