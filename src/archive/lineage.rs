//! Finding and opening what an archive is a delta to, down to one that stands alone.
//!
//! ```text
//! 1. by name     the base is called what the archive remembers: a file that was given, or else
//!                one beside the archive; its own base is found first, in the same way
//! 2. by content  where names lead nowhere, every file that was given is tried on every archive
//!                that lacks its base, names first whenever another one has become whole
//! ```
//!
//! Every file is opened once, and every pair of an archive and a base tried once, so the work is
//! bounded by the square of the number of files, whatever refers to what. A base counts only once
//! it is whole itself: what is then compared are bytes, not promises. Archives that lead in a
//! circle never become whole.

mod open;

use super::{
    access::{Archive, Base, Input, base::CHECKED_WELL, is_archive, place::begins_as_archive},
    options::Options,
};
use crate::{Error, Result, remote};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Links of a chain that are followed.
const MAX_CHAIN: usize = 1000;

impl Archive<'_> {
    /// Makes sure that there is a base where one is needed: the one in `options`, or one beside
    /// the archive under the name it remembers.
    ///
    /// # Errors
    /// `BaseMismatch` where there is none or it is another one.
    #[doc(hidden)]
    pub fn ensure_base(&self, options: &Options) -> Result<()> {
        if self.base_record.is_none() || self.base.get().is_some() {
            return Ok(());
        }
        if let Some(base) = &options.base {
            return self.attach_base(base);
        }
        if !self.refers_to_base() {
            return Ok(());
        }
        let mut lineage = Lineage::new(&[], options);
        let beside = self.beside().filter(|path| Some(path) != self.path.as_ref());
        let Some(beside) = beside.filter(|path| exists(path)) else { return Err(self.no_base()) };
        if let Some(path) = &self.path {
            lineage.add(path, State::Asking);
        }
        self.attach_base(&lineage.open(&beside)?)
    }

    /// Where the base is if it is beside the archive.
    fn beside(&self) -> Option<PathBuf> {
        let name = &self.base_record.as_ref()?.name;
        let name = Some(name).filter(|name| name.is_plain())?.to_path().ok()?;
        Some(self.path.as_ref()?.parent()?.join(name))
    }
}

/// Everything that was looked at to open one base.
struct Lineage<'o> {
    others: &'o [PathBuf],
    options: &'o Options,
    members: Vec<Member>,
    by_path: HashMap<PathBuf, usize>,
    /// Archives and bases that were tried with each other.
    tried: HashSet<(usize, usize)>,
}

/// A file or directory.
struct Member {
    path: PathBuf,
    state: State,
    /// Deltas between it and what stands alone.
    links: usize,
    /// Whether its base was looked for by name.
    followed: bool,
    /// Why the first base that has the right name, and the first of any name, is not its base.
    named: Option<Error>,
    any: Option<Error>,
}

#[allow(clippy::large_enum_variant, reason = "there are as many as files, and most are archives")]
enum State {
    /// Whole: it has all that it needs.
    Whole(Arc<Base>),
    /// A delta whose base is not found yet.
    Lacking(Archive<'static>),
    /// It cannot be opened.
    Damaged(Error),
    /// The archive whose base is looked for, opened by somebody else; or one that was taken.
    Asking,
}

impl<'o> Lineage<'o> {
    fn new(others: &'o [PathBuf], options: &'o Options) -> Self {
        let (members, by_path, tried) = (Vec::new(), HashMap::new(), HashSet::new());
        Lineage { others, options, members, by_path, tried }
    }

    /// Opens a base with all that it needs.
    fn open(&mut self, path: &Path) -> Result<Arc<Base>> {
        let asked = self.member(path)?;
        self.follow(asked, 0)?;
        if matches!(self.members[asked].state, State::Lacking(_)) {
            self.search(asked)?;
        }
        match &self.members[asked].state {
            State::Whole(base) => Ok(base.clone()),
            _ => Err(self.fault(asked)),
        }
    }

    fn check_cancel(&self) -> Result<()> {
        if self.options.cancel.is_cancelled() {
            let source = std::io::ErrorKind::Interrupted.into();
            return Err(Error::Io { context: "stopped".into(), source });
        }
        Ok(())
    }

    /// The member at a path, which is opened when it is first asked for.
    fn member(&mut self, path: &Path) -> Result<usize> {
        self.check_cancel()?;
        let path = &remote::clean(path)?;
        if let Some(&found) = self.by_path.get(&key(path)) {
            return Ok(found);
        }
        let state = self.open_one(path).unwrap_or_else(State::Damaged);
        Ok(self.add(path, state))
    }

    fn add(&mut self, path: &Path, state: State) -> usize {
        let (named, any) = (None, None);
        let path = path.to_owned();
        self.by_path.insert(key(&path), self.members.len());
        self.members.push(Member { path, state, links: 0, followed: false, named, any });
        self.members.len() - 1
    }

    fn open_one(&self, path: &Path) -> Result<State> {
        let options = self.options;
        if remote::is_url(path) {
            let source = remote::open(path)?;
            return match begins_as_archive(&*source)? {
                true => self.of_archive(path, Archive::of_file(path, source, options.limits)?),
                false => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let input = Input::from_source(&name, source, options.dtype);
                    let mut base = Base::of_input(path, input);
                    base.place = Some(path.to_owned());
                    Ok(State::Whole(Arc::new(base)))
                }
            };
        }
        if !is_archive(path)? {
            let input = Input::open(path, options.dtype, options.follows_symlinks())?;
            let mut base = Base::of_input(path, input);
            base.place = Some(path.to_owned());
            return Ok(State::Whole(Arc::new(base)));
        }
        self.of_archive(path, Archive::at(path, options.limits)?)
    }

    fn of_archive(&self, path: &Path, archive: Archive<'static>) -> Result<State> {
        let archive = archive.at_level(self.options.level);
        if archive.base_record.is_some() && archive.refers_to_base() {
            return Ok(State::Lacking(archive));
        }
        Ok(State::Whole(Base::of_archive(path, archive)))
    }

    /// Members that have the name that a member remembers of its base.
    fn named(&mut self, of: usize) -> Result<Vec<usize>> {
        let State::Lacking(archive) = &self.members[of].state else { return Ok(Vec::new()) };
        let name = archive.base_record.as_ref().and_then(|r| r.name.to_path().ok());
        let name = name.unwrap_or_default();
        let given = self.others.iter().filter(|p| p.file_name().is_some_and(|n| *n == *name));
        let paths: Vec<PathBuf> = given.cloned().chain(archive.beside()).collect();
        let mut found = Vec::new();
        for path in paths.iter().filter(|p| exists(p)) {
            let member = self.member(path)?;
            if member != of && !found.contains(&member) {
                found.push(member);
            }
        }
        Ok(found)
    }

    /// Makes a member whole by the names of what it needs.
    fn follow(&mut self, member: usize, depth: usize) -> Result<()> {
        if std::mem::replace(&mut self.members[member].followed, true) {
            return Ok(());
        }
        if depth > MAX_CHAIN {
            return Err(too_long(&self.members[member].path));
        }
        for base in self.named(member)? {
            self.follow(base, depth + 1)?;
            if self.attach(member, base, true)? {
                break;
            }
        }
        Ok(())
    }

    /// Makes a member whole by trying what was given.
    fn search(&mut self, asked: usize) -> Result<()> {
        let mut given = Vec::new();
        for path in self.others.iter().filter(|p| exists(p)) {
            let member = self.member(path)?;
            self.follow(member, 0)?;
            given.push(member);
        }
        while matches!(self.members[asked].state, State::Lacking(_)) {
            let lacking = |m: &Member| matches!(m.state, State::Lacking(_));
            // From the last one on: they are most often given from the newest to the oldest, so
            // that the next one is what it is a delta to.
            let all = (0..self.members.len()).rev();
            let lacking: Vec<usize> = all.filter(|&i| lacking(&self.members[i])).collect();
            let mut found = false;
            for &member in &lacking {
                for base in self.named(member)? {
                    found |= self.attach(member, base, true)?;
                }
            }
            'content: for &member in lacking.iter().filter(|_| !found) {
                for &base in &given {
                    if self.attach(member, base, false)? {
                        found = true;
                        break 'content;
                    }
                }
            }
            if !found {
                break;
            }
        }
        Ok(())
    }

    /// Gives a member that lacks it a base that is whole, unless that is another one.
    fn attach(&mut self, member: usize, base: usize, by_name: bool) -> Result<bool> {
        self.check_cancel()?;
        let links = self.members[base].links + 1;
        let (State::Lacking(archive), State::Whole(whole)) =
            (&self.members[member].state, &self.members[base].state)
        else {
            return Ok(false);
        };
        if !self.tried.insert((member, base)) {
            return Ok(false);
        }
        let attached = match by_name {
            true => archive.attach_base(whole),
            false => archive.attach_checked(whole, CHECKED_WELL),
        };
        let member = &mut self.members[member];
        if let Err(e) = attached {
            let why = if by_name { &mut member.named } else { &mut member.any };
            why.get_or_insert(e);
            return Ok(false);
        }
        if links > MAX_CHAIN {
            return Err(too_long(&member.path));
        }
        member.links = links;
        if let State::Lacking(archive) = std::mem::replace(&mut member.state, State::Asking) {
            member.state = State::Whole(Base::of_archive(&member.path, archive));
        }
        Ok(true)
    }

    /// Why a member did not become whole: the fault furthest down the chain.
    fn fault(&mut self, asked: usize) -> Error {
        let mut way = Vec::new();
        let mut at = asked;
        loop {
            if let Some(from) = way.iter().position(|&i| i == at) {
                return self.circle(&way[from..]);
            }
            way.push(at);
            let next = match self.named(at) {
                Ok(named) => {
                    named.into_iter().find(|&i| !matches!(self.members[i].state, State::Whole(_)))
                }
                Err(e) => return e,
            };
            let member = &mut self.members[at];
            if let Some(e) = member.named.take() {
                return e;
            }
            at = match (std::mem::replace(&mut member.state, State::Asking), next) {
                (State::Damaged(e), _) => return e,
                (State::Lacking(archive), None) => {
                    return member.any.take().unwrap_or_else(|| archive.no_base());
                }
                (state @ State::Lacking(_), Some(next)) => {
                    member.state = state;
                    next
                }
                // What asked: its base is where it began.
                _ => asked,
            };
        }
    }

    /// The error for archives each of which needs the next one, and the last one the first.
    fn circle(&self, members: &[usize]) -> Error {
        let shown = |i: &usize| self.members[*i].path.display().to_string();
        let mut names: Vec<String> = members.iter().map(shown).collect();
        names.extend(members.first().map(shown));
        Error::BaseMismatch(
            format!(
                "{}: none of these archives has a base that stands alone: pass the one that one of \
             them was made against with --base",
                names.join(" is a delta to ")
            )
            .into(),
        )
    }
}

fn too_long(path: &Path) -> Error {
    Error::LimitExceeded(
        format!("a chain of more than {MAX_CHAIN} bases at {}", path.display()).into(),
    )
}

/// Whether there may be something at a path: of a URL, opening it tells.
fn exists(path: &Path) -> bool {
    remote::is_url(path) || path.exists()
}

/// What paths to the same file have in common.
fn key(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{archive::compress_path, dtype::Dtype};

    #[test]
    fn every_file_is_opened_once_and_every_pair_tried_once() {
        const N: usize = 8;
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().with_threads(1).with_dtype(Some(Dtype::F32));
        let (new, moved) = (dir.path().join("new"), dir.path().join("moved"));
        std::fs::create_dir(&moved).unwrap();
        let mut bytes: Vec<u8> = (0..40_000u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let mut paths: Vec<PathBuf> = Vec::new();
        for i in 0..N {
            bytes[8 * i] ^= 0x55;
            std::fs::write(&new, &bytes).unwrap();
            let base = paths.last().map(|path| Base::open_with(path, &[], &options).unwrap());
            paths.push(dir.path().join(format!("{i}.lmc")));
            compress_path(&new, &paths[i], &options.clone().with_base(base).compressing()).unwrap();
        }
        let open = |paths: &[PathBuf], most: usize| {
            let others = [paths, paths].concat();
            let mut lineage = Lineage::new(&others, &options);
            lineage.open(&paths[N - 1]).unwrap();
            assert_eq!(lineage.members.len(), N);
            assert!(lineage.tried.len() <= most, "{} pairs", lineage.tried.len());
        };
        open(&paths, N - 1);
        // Under other names they are found by what they hold.
        let renamed: Vec<PathBuf> = (0..N).map(|i| moved.join(format!("{}", i * 5 % N))).collect();
        for (from, to) in paths.iter().zip(&renamed) {
            std::fs::rename(from, to).unwrap();
        }
        open(&renamed, N * N);
    }
}
