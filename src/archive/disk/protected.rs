//! What output must never replace: the input, the base and every base of its chain.
//!
//! Files are compared by device and inode, so that neither links nor other spellings of a path
//! hide that two are the same; where one lies is found out by the canonical path.

use super::temporary::parent_of;
use crate::{
    Error, Result,
    archive::{
        access::{Archive, Base, Input},
        options::Options,
    },
    remote,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Places that are read while output is written.
pub(in crate::archive) struct Protected {
    /// Files, and directories with everything below them.
    places: Vec<PathBuf>,
    /// Files that are read in them, or elsewhere through links.
    files: Vec<PathBuf>,
}

impl Protected {
    /// What the options name, and their base with its chain.
    pub fn of(options: &Options) -> Protected {
        let mut protected = Protected { places: options.protected.clone(), files: Vec::new() };
        if let Some(base) = &options.base {
            protected.add_base(base);
        }
        protected
    }

    /// A file, or a directory with everything below it.
    #[must_use]
    pub fn with_place(mut self, place: &Path) -> Protected {
        self.places.push(place.to_owned());
        self
    }

    /// The files of an input.
    #[must_use]
    pub fn with_input(mut self, input: &Input<'_>) -> Protected {
        self.add_input(input);
        self
    }

    /// An archive and the bases of its chain.
    #[must_use]
    pub fn with_archive(mut self, archive: &Archive<'_>) -> Protected {
        self.add_archive(archive);
        self
    }

    fn add_input(&mut self, input: &Input<'_>) {
        let paths = input.files().filter_map(|(_, _, source)| source.path());
        self.files.extend(paths.map(Path::to_owned));
    }

    fn add_archive(&mut self, archive: &Archive<'_>) {
        self.places.extend(archive.path.clone());
        if let Some(attached) = archive.base.get() {
            self.add_base(attached.base());
        }
    }

    fn add_base(&mut self, base: &Base) {
        self.places.extend(base.place.clone());
        self.add_input(&base.input);
        if let Some(archive) = base.archive() {
            self.add_archive(archive);
        }
    }

    /// Refuses an output that is, contains or lies in any of these.
    ///
    /// # Errors
    /// `InvalidArgument` names both.
    pub fn refuse(&self, out: &Path) -> Result<()> {
        let at = identity(out);
        let wrong = |relation: &str, place: &Path| {
            Err(Error::InvalidArgument(
                format!(
                    "{} {relation} {}, which is needed as it is: choose another output with -o",
                    out.display(),
                    place.display()
                )
                .into(),
            ))
        };
        for place in self.places.iter().chain(&self.files) {
            if remote::is_url(out) && out == place {
                return wrong("is", place);
            }
            if at.is_some() && at == identity(place) {
                if out == place {
                    return Err(Error::InvalidArgument(format!(
                        "{} is read for this output, and needed as it is: choose another output \
                         with -o",
                        out.display()
                    ).into()));
                }
                return wrong("is", place);
            }
        }
        if at.is_some() && out.is_dir() {
            let parents: BTreeSet<&Path> = self.files.iter().map(|f| parent_of(f)).collect();
            for place in self.places.iter().map(|p| &**p).chain(parents) {
                // A link and what it leads to may lie in different places.
                let real = [place.canonicalize(), parent_of(place).canonicalize()];
                if real.iter().flatten().any(|p| p.ancestors().any(|a| identity(a) == at)) {
                    return wrong("contains", place);
                }
            }
        }
        let real = [parent_of(out).canonicalize(), out.canonicalize()];
        let above: Vec<_> =
            real.iter().flatten().flat_map(|p| p.ancestors()).filter_map(identity).collect();
        for place in self.places.iter().filter(|p| p.is_dir()) {
            if identity(place).is_some_and(|p| above.contains(&p)) {
                return wrong("lies in", place);
            }
        }
        Ok(())
    }
}

/// What tells files and directories apart; nothing for what does not exist or is neither.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::metadata(path).ok().filter(|m| m.is_file() || m.is_dir())?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
