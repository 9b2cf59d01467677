//! The files to compress, as one address space.

use crate::{
    Error, Result,
    container::{Entry, EntryKind, Manifest, Name, Piece},
    dtype::Dtype,
    remote,
    source::{FileSource, Source, Stamp},
};
use std::{
    collections::HashMap,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Above this many files they are opened anew for every read instead of being kept open.
const OPEN_FILES: usize = 200;
/// Longer than the clocks of file systems stand still: a write that comes later than this after
/// another one gives a file another time.
const TICK: Duration = Duration::from_millis(20);

/// Files laid end to end, in the order of their manifest.
pub struct Input<'a> {
    /// What they are.
    pub manifest: Manifest,
    sources: Vec<Box<dyn Source + 'a>>,
    starts: Vec<u64>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("manifest", &self.manifest).finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// One file in memory. A name that cannot be stored is refused when it is compressed.
    pub fn from_bytes(name: &str, bytes: &'a [u8], flat: Option<Dtype>) -> Input<'a> {
        let entry =
            Entry { kind: EntryKind::File, path: name.into(), len: bytes.len() as u64, flat };
        let manifest = Manifest { is_directory: false, entries: vec![entry] };
        Input { manifest, sources: vec![Box::new(Memory(bytes))], starts: vec![0] }
    }

    /// One file whose bytes come from anywhere. A name that cannot be stored is refused when it is
    /// compressed.
    pub fn from_source(name: &str, source: Box<dyn Source + 'a>, flat: Option<Dtype>) -> Input<'a> {
        let entry = Entry { kind: EntryKind::File, path: name.into(), len: source.len(), flat };
        let manifest = Manifest { is_directory: false, entries: vec![entry] };
        Input { manifest, sources: vec![source], starts: vec![0] }
    }

    /// A file or a directory with everything below it, names in byte order.
    ///
    /// # Errors
    /// `Io` for what cannot be read; `InvalidArgument` for symbolic links (unless `follow`),
    /// sockets, pipes and devices inside a directory.
    pub fn open(path: &Path, flat: Option<Dtype>, follow: bool) -> Result<Input<'a>> {
        let path = &remote::clean(path)?;
        if remote::is_url(path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let source = remote::open(path)?;
            source.expect(&(0..source.len()));
            return Ok(Input::from_source(&name, source, flat));
        }
        let mut found = Vec::new();
        let is_directory = kind_of(path, follow)? == EntryKind::Directory;
        if is_directory {
            walk(path, &Name::default(), follow, &mut Vec::new(), &mut found)?;
        } else {
            let name = Name::from_os(path.file_name().unwrap_or(path.as_os_str()))?;
            found.push((path.to_owned(), name, EntryKind::File));
        }
        let keep_open = found.len() <= OPEN_FILES;
        let mut manifest = Manifest { is_directory, entries: Vec::new() };
        let (mut sources, mut starts, mut start) = (Vec::new(), Vec::new(), 0u64);
        for (path, name, kind) in found {
            let mut source: Box<dyn Source> = Box::new(Memory(&[]));
            if kind == EntryKind::File {
                let file = fs::File::open(&path).map_err(|e| Error::io("open", &path, e))?;
                let file = FileSource::new(file).map_err(|e| Error::io("read", &path, e))?;
                let stamp = file.stamp();
                source = Box::new(Named { stamp, file: keep_open.then_some(file), path });
            }
            starts.push(start);
            start = start.checked_add(source.len()).ok_or_else(|| {
                Error::InvalidArgument("the files are too large for one archive".into())
            })?;
            let flat = flat.filter(|_| kind == EntryKind::File);
            manifest.entries.push(Entry { kind, path: name, len: source.len(), flat });
            sources.push(source);
        }
        Ok(Input { manifest, sources, starts })
    }

    /// A directory of files that exist in memory only: their paths below it, with `/` between
    /// the parts, and their bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for a path that is absolute, leads out of the directory or stands twice.
    pub fn from_files(files: Vec<(impl Into<Name>, Box<dyn Source + 'a>)>) -> Result<Input<'a>> {
        let mut files: Vec<(Name, _)> = files.into_iter().map(|f| (f.0.into(), f.1)).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        let mut manifest = Manifest { is_directory: true, entries: Vec::<Entry>::new() };
        let mut seen: HashMap<Name, EntryKind> = HashMap::new();
        let (mut sources, mut starts, mut start) = (Vec::new(), Vec::new(), 0u64);
        for (path, source) in files {
            path.check()?;
            let slashes = (0..path.as_bytes().len()).filter(|&i| path.as_bytes()[i] == b'/');
            let parents =
                slashes.map(|i| (Name::from(&path.as_bytes()[..i]), EntryKind::Directory));
            for (path, kind) in parents.chain([(path.clone(), EntryKind::File)]) {
                match seen.get(&path) {
                    Some(&before) if kind == EntryKind::Directory && before == kind => continue,
                    Some(_) => {
                        let why = format!("{path} stands twice among the files");
                        return Err(Error::InvalidArgument(why.into()));
                    }
                    None => seen.insert(path.clone(), kind),
                };
                let len = if kind == EntryKind::File { source.len() } else { 0 };
                manifest.entries.push(Entry { kind, path, len, flat: None });
                starts.push(start);
                if kind == EntryKind::Directory {
                    sources.push(Box::new(Memory(&[])) as Box<dyn Source + 'a>);
                }
            }
            start = start.checked_add(source.len()).ok_or_else(|| {
                Error::InvalidArgument("the files are too large for one archive".into())
            })?;
            sources.push(source);
        }
        Ok(Input { manifest, sources, starts })
    }

    /// The same without the entries that are named, and without what lies below directories that
    /// are.
    #[must_use]
    pub fn without(self, is_left_out: impl Fn(&Name) -> bool) -> Input<'a> {
        let Input { manifest, sources, .. } = self;
        let mut kept = Manifest { is_directory: manifest.is_directory, entries: Vec::new() };
        let (mut left, mut out) = (Vec::new(), Vec::<Name>::new());
        for (entry, source) in manifest.entries.into_iter().zip(sources) {
            let below = |dir: &Name| {
                let rest = entry.path.as_bytes().strip_prefix(dir.as_bytes());
                rest.is_some_and(|rest| rest.first() == Some(&b'/'))
            };
            // Parents stand before their children.
            if out.last().is_some_and(below) {
                continue;
            }
            if manifest.is_directory && is_left_out(&entry.path) {
                out.push(entry.path);
                continue;
            }
            kept.entries.push(entry);
            left.push(source);
        }
        Input::from_sources(kept, left)
    }

    /// Files whose bytes come from anywhere, one source an entry, of its length.
    pub(in crate::archive) fn from_sources(
        manifest: Manifest,
        sources: Vec<Box<dyn Source + 'a>>,
    ) -> Self {
        let starts = manifest.entries.iter().scan(0, |end, e| {
            let start = *end;
            *end += e.len;
            Some(start)
        });
        Input { starts: starts.collect(), manifest, sources }
    }

    /// Number of bytes in all.
    pub fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0) + self.sources.last().map_or(0, |s| s.len())
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files: entry of the manifest, first byte in the address space, bytes.
    pub fn files(&self) -> impl Iterator<Item = (&Entry, u64, &(dyn Source + 'a))> {
        let parts = self.manifest.entries.iter().zip(&self.starts).zip(&self.sources);
        parts.map(|((entry, start), source)| (entry, *start, &**source))
    }

    /// The bytes of one entry of the manifest; none where there is no such entry.
    pub fn file(&self, entry: usize) -> &(dyn Source + 'a) {
        self.sources.get(entry).map_or(&Memory(&[]), |source| &**source)
    }

    /// Fills `out` with the bytes of `pieces`, which may cross file boundaries.
    ///
    /// # Errors
    /// `Io` with the file's path, also where a file has become shorter.
    pub fn read(&self, pieces: &[Piece], out: &mut [u8]) -> Result<()> {
        let mut out = out;
        for piece in pieces {
            let (head, tail) = out.split_at_mut(piece.len as usize);
            self.read_piece(piece.offset, head)?;
            out = tail;
        }
        Ok(())
    }

    /// The bytes of `pieces` without copying, where they are one stretch of a file in memory.
    pub fn borrow(&self, pieces: &[Piece]) -> Option<&[u8]> {
        let [piece] = pieces else { return None };
        let file = self.starts.partition_point(|&s| s <= piece.offset).checked_sub(1)?;
        let from = usize::try_from(piece.offset - self.starts[file]).ok()?;
        self.sources[file].as_slice()?.get(from..)?.get(..piece.len as usize)
    }

    /// Waits, where a file was written to a moment ago, until another write would show in its
    /// times. To be called before anything is read, so that [`Input::changed`] misses nothing.
    pub(in crate::archive) fn settle(&self) {
        let last = self.sources.iter().filter_map(|s| s.changed_at()).max();
        let age = last.and_then(|at| SystemTime::now().duration_since(at).ok());
        if let Some(rest) = age.and_then(|age| TICK.checked_sub(age)) {
            std::thread::sleep(rest);
        }
    }

    /// The entries whose files were written to, replaced or removed since they were opened.
    pub(crate) fn changed(&self) -> Vec<usize> {
        let sources = self.sources.iter().enumerate();
        // A file that cannot be looked at any more is not what it was.
        sources.filter(|(_, s)| s.has_changed().unwrap_or(true)).map(|(i, _)| i).collect()
    }

    /// The path of an entry, for people.
    pub(in crate::archive) fn shown(&self, entry: usize) -> &Name {
        &self.manifest.entries[entry].path
    }

    fn read_piece(&self, mut offset: u64, mut out: &mut [u8]) -> Result<()> {
        let mut file = self.starts.partition_point(|&s| s <= offset).saturating_sub(1);
        while !out.is_empty() {
            let within = offset - self.starts[file];
            let n = (self.sources[file].len() - within).min(out.len() as u64) as usize;
            let (head, tail) = std::mem::take(&mut out).split_at_mut(n);
            self.sources[file].read_at(within, head).map_err(|e| {
                let path = self.manifest.entries[file].path.to_string();
                let path = Path::new(&path);
                let changed = |how| {
                    let why = format!("it {how} while it was being read");
                    Error::io("read", path, io::Error::new(ErrorKind::ResourceBusy, why))
                };
                match e.kind() {
                    ErrorKind::UnexpectedEof => changed("became shorter"),
                    ErrorKind::NotFound => changed("was removed"),
                    // A fault that is not the operating system's.
                    _ if e.get_ref().is_some_and(|e| e.is::<Error>()) => {
                        Error::from(e).in_file(path.display())
                    }
                    _ => Error::io("read", path, e),
                }
            })?;
            out = tail;
            offset += n as u64;
            file += 1;
        }
        Ok(())
    }
}

pub(in crate::archive) struct Memory<'a>(pub &'a [u8]);

impl Source for Memory<'_> {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self.0)
    }
}

struct Named {
    path: PathBuf,
    stamp: Stamp,
    file: Option<FileSource>,
}

impl Source for Named {
    fn len(&self) -> u64 {
        self.stamp.len()
    }

    fn has_changed(&self) -> io::Result<bool> {
        match &self.file {
            Some(file) => file.has_changed(),
            None => Ok(Stamp::of(&fs::metadata(&self.path)?) != self.stamp),
        }
    }

    fn changed_at(&self) -> Option<SystemTime> {
        self.stamp.latest()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => file.read_at(offset, buf),
            None => FileSource::new(fs::File::open(&self.path)?)?.read_at(offset, buf),
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

fn kind_of(path: &Path, follow: bool) -> Result<EntryKind> {
    let meta = fs::symlink_metadata(path).map_err(|e| Error::io("open", path, e))?;
    let is_link = meta.is_symlink();
    if is_link && !follow {
        return Err(Error::InvalidArgument(
            format!(
                "{} is a symbolic link: pass --follow to store what it points to",
                path.display()
            )
            .into(),
        ));
    }
    let meta = if is_link { fs::metadata(path) } else { Ok(meta) };
    let meta = meta.map_err(|e| Error::io("open", path, e))?;
    if meta.is_dir() {
        return Ok(EntryKind::Directory);
    }
    if !meta.is_file() {
        return Err(Error::InvalidArgument(
            format!("{} is neither a file nor a directory (use - to read a pipe)", path.display())
                .into(),
        ));
    }
    Ok(EntryKind::File)
}

/// Appends everything below `dir`, parents first. `above` holds the canonical paths of the
/// directories on the way here, so that links cannot lead in circles.
fn walk(
    dir: &Path,
    prefix: &Name,
    follow: bool,
    above: &mut Vec<PathBuf>,
    found: &mut Vec<(PathBuf, Name, EntryKind)>,
) -> Result<()> {
    let real = fs::canonicalize(dir).map_err(|e| Error::io("open", dir, e))?;
    if above.contains(&real) {
        return Err(Error::InvalidArgument(
            format!("{} is a symbolic link to a directory that contains it", dir.display()).into(),
        ));
    }
    above.push(real);
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(|e| Error::io("read", dir, e))? {
        paths.push(entry.map_err(|e| Error::io("read", dir, e))?.path());
    }
    paths.sort();
    for path in paths {
        let name = prefix.join(&Name::from_os(path.file_name().unwrap_or_default())?);
        let kind = kind_of(&path, follow)?;
        found.push((path.clone(), name.clone(), kind));
        if kind == EntryKind::Directory {
            walk(&path, &name, follow, above, found)?;
        }
    }
    above.pop();
    Ok(())
}
