//! Bases: what an archive may be a delta to.
//!
//! A base is a raw file, a directory or an archive, which may itself be a delta. Its files, laid
//! end to end, are an address space that chunks refer to; the archive's base record lists their
//! paths and lengths. Every reference carries the digest of the bytes it names, so a base is
//! checked where it is used, and reading one tensor of a delta reads only what that needs.

use super::{
    Archive, Input,
    decode::Buffers,
    file::Shared,
    relation::{self, Item},
};
use crate::{
    Error, Result,
    container::{BaseRecord, EntryKind, Name, Origin, Piece},
    dtype::Dtype,
    format, hash,
    source::Source,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// Chunks whose references are checked before work begins.
const CHECKED: usize = 4;
/// The same for a base that nothing speaks for but these.
pub(in crate::archive) const CHECKED_WELL: usize = 64;

/// What an archive is, or becomes, a delta to: a raw file, a directory or an archive, open.
/// [`CompressOptions::with_base`](crate::CompressOptions::with_base) and
/// [`RestoreOptions::with_base`](crate::RestoreOptions::with_base) take it.
pub struct Base {
    name: Name,
    shown: String,
    /// Where it is on disk, if it is raw.
    pub(in crate::archive) place: Option<PathBuf>,
    pub(in crate::archive) input: Input<'static>,
    /// Where it is an archive.
    pub(in crate::archive) archive: Option<Arc<Shared>>,
    items: OnceLock<Vec<Item>>,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Base({})", self.shown)
    }
}

impl Base {
    /// A base that is an archive which is open, with its own base attached where it needs one.
    #[doc(hidden)]
    pub fn of_archive(path: &Path, archive: Archive<'static>) -> Arc<Base> {
        let (shared, input) = Shared::with_files(archive);
        let mut base = Self::of_input(path, input);
        base.archive = Some(shared);
        Arc::new(base)
    }

    /// The archive that it is, if it is one; its address space is that of the base.
    pub(in crate::archive) fn archive(&self) -> Option<&Archive<'static>> {
        self.archive.as_ref().map(|shared| &shared.archive)
    }

    /// Files that are open already or exist in memory only. `path` gives the name that archives
    /// remember.
    #[doc(hidden)]
    pub fn of_files(path: &Path, input: Input<'static>) -> Arc<Base> {
        Arc::new(Self::of_input(path, input))
    }

    /// One file in memory.
    pub fn from_bytes(name: &str, bytes: Arc<[u8]>, dtype: Option<Dtype>) -> Arc<Base> {
        let mut input = Input::from_bytes(name, &[], dtype);
        input.manifest.entries[0].len = bytes.len() as u64;
        let input = Input::from_sources(input.manifest, vec![Box::new(InMemory(bytes))]);
        Arc::new(Self::of_input(Path::new(name), input))
    }

    pub(in crate::archive) fn of_input(path: &Path, input: Input<'static>) -> Base {
        // A name that this system's archives cannot have is no hint.
        let name = path.file_name().and_then(|name| Name::from_os(name).ok()).unwrap_or_default();
        Base {
            name,
            shown: path.display().to_string(),
            place: None,
            input,
            archive: None,
            items: OnceLock::new(),
        }
    }

    /// Its spans, parsed when they are first asked for.
    pub(in crate::archive) fn items(&self) -> Result<&[Item]> {
        if let Some(items) = self.items.get() {
            return Ok(items);
        }
        let items =
            relation::items(&self.input, format::parse, |_, _| ()).map_err(|e| self.fault(e))?;
        Ok(self.items.get_or_init(|| items))
    }

    /// Where it is, for people.
    pub(in crate::archive) fn shown(&self) -> &str {
        &self.shown
    }

    /// What an archive remembers of it.
    pub(in crate::archive) fn record(&self) -> BaseRecord {
        let files = self.input.manifest.entries.iter().filter(|e| e.kind != EntryKind::Directory);
        BaseRecord {
            name: self.name.clone(),
            files: files.map(|e| (e.path.clone(), e.len)).collect(),
        }
    }

    /// Reads pieces of its address space.
    pub(in crate::archive) fn read(&self, pieces: &[Piece], out: &mut [u8]) -> Result<()> {
        self.input.read(pieces, out).map_err(|e| self.fault(e))
    }

    /// See [`Input::settle`].
    pub(in crate::archive) fn settle(&self) {
        self.raw_files().input.settle();
    }

    /// Makes sure that the raw files at the bottom of the chain are what they were when they were
    /// opened: nothing restores a delta to bytes that are no longer anywhere. Archives need no
    /// such look, since whatever is read of them has a digest.
    pub(in crate::archive) fn check_unchanged(&self) -> Result<()> {
        let input = &self.raw_files().input;
        match input.changed().first() {
            None => Ok(()),
            Some(&first) => Err(Error::BaseMismatch(format!(
                "the base {}: {} changed while it was being read: use it when nobody writes to it",
                self.raw_files().shown,
                input.shown(first)
            ).into())),
        }
    }

    /// The base itself, or what it is a delta to in the end.
    fn raw_files(&self) -> &Base {
        let mut base = self;
        while let Some(below) = base.archive().and_then(Archive::attached) {
            base = below.base();
        }
        base
    }

    /// A fault while reading the base: its content, unless the operating system failed.
    fn fault(&self, e: Error) -> Error {
        match e {
            Error::BaseMismatch(why) => Error::BaseMismatch(innermost(&why).into()),
            Error::Io { context, source } if is_content(&source) || below(&source).is_some() => {
                let whole = || format!("the base {}: {context}: {source}", self.shown);
                Error::BaseMismatch(below(&source).unwrap_or_else(whole).into())
            }
            e @ Error::Io { .. } => e,
            e => Error::BaseMismatch(format!("the base {}: {e}", self.shown).into()),
        }
    }
}

/// What an error says of the base where it arose, not of those on the way there.
fn innermost(text: &str) -> &str {
    text.find("the base ").map_or(text, |at| &text[at..])
}

/// The same of an error from further down the chain that passed through the standard library.
fn below(e: &std::io::Error) -> Option<String> {
    match e.get_ref()?.downcast_ref::<Error>()? {
        Error::BaseMismatch(why) => Some(innermost(why).to_owned()),
        _ => None,
    }
}

fn is_content(e: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    // Of a file that is no longer what it was when it was opened.
    let changed = e.kind() == ErrorKind::ResourceBusy;
    changed || matches!(e.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

struct InMemory(Arc<[u8]>);

impl Source for InMemory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.0[..].read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// A base in the address space of an archive's base record.
#[derive(Debug)]
pub(in crate::archive) struct Attached {
    base: Arc<Base>,
    record: BaseRecord,
    /// End of every file in the record's address space, and first byte in the base's own.
    files: Vec<(u64, u64)>,
}

impl Attached {
    /// Finds the record's files in a base.
    ///
    /// # Errors
    /// `BaseMismatch` names both where a file is missing or has another length.
    pub fn new(record: &BaseRecord, base: &Arc<Base>) -> Result<Attached> {
        let own: Vec<_> =
            base.input.files().filter(|(e, ..)| e.kind != EntryKind::Directory).collect();
        let by_path: HashMap<&Name, usize> =
            own.iter().enumerate().map(|(i, (e, ..))| (&e.path, i)).collect();
        let mut files = Vec::with_capacity(record.files.len());
        let mut end = 0u64;
        for (path, len) in &record.files {
            let found = match (&own[..], record.files.len()) {
                ([only], 1) => Some(only),
                _ => by_path.get(path).map(|&i| &own[i]),
            };
            let why = match found {
                None => format!("has no {path}"),
                Some((e, ..)) if e.len != *len => {
                    format!("holds {path} with {} bytes instead of {len}", e.len)
                }
                Some((_, start, _)) => {
                    end += len;
                    files.push((end, *start));
                    continue;
                }
            };
            return Err(Error::BaseMismatch(
                format!(
                    "{} ({} bytes) is not the base that the archive was made against, \"{}\" ({} \
                     bytes): it {why}",
                    base.shown,
                    base.input.len(),
                    record.name,
                    record.total_len().unwrap_or(0)
                )
                .into(),
            ));
        }
        Ok(Attached { base: base.clone(), record: record.clone(), files })
    }

    /// The error for a base whose bytes differ at these pieces, which have another digest than the
    /// archive remembers.
    pub fn other_bytes(&self, pieces: &[Piece], expected: u64, found: u64) -> Error {
        let first = pieces.first().map_or(0, |p| p.offset);
        let mut end = 0;
        let file = self.record.files.iter().find(|f| {
            end += f.1;
            first < end
        });
        let bytes: u64 = pieces.iter().map(|p| p.len).sum();
        Error::BaseMismatch(format!(
            "{} is not the base that the archive was made against, \"{}\": {} holds other bytes \
             (digest {found:016x} of {bytes} of them, and {expected:016x} was expected)",
            self.base.shown,
            self.record.name,
            file.map_or("it".into(), |f| f.0.to_string())
        ).into())
    }

    /// The base.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Reads pieces of the record's address space, inside of which they lie, from what is
    /// prepared or else from the base.
    pub fn read(&self, pieces: &[Piece], buffers: &Buffers, out: &mut [u8]) -> Result<()> {
        self.base.read_near(&self.own_pieces(pieces)?, buffers, out)
    }

    /// The same pieces in the base's own address space.
    pub fn own_pieces(&self, pieces: &[Piece]) -> Result<Vec<Piece>> {
        let mut own = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (mut from, to) = (piece.offset, piece.offset + piece.len);
            while from < to {
                let i = self.files.partition_point(|f| f.0 <= from);
                let Some(&(end, start)) = self.files.get(i) else {
                    return Err(Error::Corrupt("a reference reaches beyond the base".into()));
                };
                let first = if i == 0 { 0 } else { self.files[i - 1].0 };
                let n = to.min(end) - from;
                own.push(Piece { offset: start + (from - first), len: n });
                from += n;
            }
        }
        Ok(own)
    }
}

impl Archive<'_> {
    /// Whether any chunk needs the base.
    #[doc(hidden)]
    pub fn refers_to_base(&self) -> bool {
        self.chunks.iter().any(|c| c.meta.references.iter().any(is_base))
    }

    /// Gives the archive its base. A second call changes nothing.
    ///
    /// # Errors
    /// `BaseMismatch` where it is not the base that the archive was made against, as far as
    /// names, lengths and a few digests tell: the others are checked where they are used.
    #[doc(hidden)]
    pub fn attach_base(&self, base: &Arc<Base>) -> Result<()> {
        self.attach_checked(base, CHECKED)
    }

    /// As [`Archive::attach_base`], with the digests of so many chunks' references checked.
    pub(in crate::archive) fn attach_checked(&self, base: &Arc<Base>, chunks: usize) -> Result<()> {
        let Some(record) = &self.base_record else { return Ok(()) };
        if self.base.get().is_some() {
            return Ok(());
        }
        let attached = Attached::new(record, base)?;
        let checked = self.check_base(&attached, chunks);
        base.rest();
        checked?;
        let _ = self.base.set(attached);
        Ok(())
    }

    /// Checks the digests of the references of a few chunks.
    fn check_base(&self, attached: &Attached, most: usize) -> Result<()> {
        let with = |i: &usize| self.chunks[*i].meta.references.iter().any(is_base);
        let chunks: Vec<usize> = (0..self.chunks.len()).filter(with).collect();
        let n = chunks.len().min(most);
        for k in 0..n {
            let chunk = chunks[(2 * k + 1) * chunks.len() / (2 * n)];
            let mut bytes = Vec::new();
            let buffers = Buffers::default();
            for r in &self.chunks[chunk].meta.references {
                let Origin::Base { digest } = r.origin else { continue };
                bytes.resize(r.len() as usize, 0);
                attached.read(&r.pieces, &buffers, &mut bytes)?;
                let found = hash::digest(self.level, &bytes);
                if found != digest {
                    return Err(attached.other_bytes(&r.pieces, digest, found));
                }
            }
        }
        Ok(())
    }

    /// The error for a base that is needed and not there.
    pub(in crate::archive) fn no_base(&self) -> Error {
        let (name, files, bytes) = self.base_record.as_ref().map_or((Name::default(), 0, 0), |r| {
            (r.name.clone(), r.files.len(), r.total_len().unwrap_or(0))
        });
        let this = self.path.as_ref().map_or("the archive".into(), |p| p.display().to_string());
        Error::BaseMismatch(
            format!(
                "{this} is a delta and needs its base \"{name}\" ({files} files, {bytes} bytes), \
             which is not there: pass it with --base"
            )
            .into(),
        )
    }

    /// Fills `out` with the bytes of a reference to the base.
    pub(in crate::archive) fn read_base(
        &self,
        pieces: &[Piece],
        buffers: &Buffers,
        out: &mut [u8],
    ) -> Result<()> {
        match self.base.get() {
            Some(attached) => attached.read(pieces, buffers, out),
            None => Err(self.no_base()),
        }
    }

    /// Where a chunk came out wrong: the base, if its bytes are not those that were referred to.
    pub(in crate::archive) fn base_at_fault(&self, chunk: usize, known: &[&[u8]]) -> Option<Error> {
        let attached = self.base.get()?;
        let references = &self.chunks[chunk].meta.references;
        references.iter().zip(known).find_map(|(r, bytes)| {
            let Origin::Base { digest } = r.origin else { return None };
            let found = hash::digest(self.level, bytes);
            (found != digest).then(|| attached.other_bytes(&r.pieces, digest, found))
        })
    }
}

fn is_base(r: &crate::container::Reference) -> bool {
    r.origin != Origin::Sibling
}
