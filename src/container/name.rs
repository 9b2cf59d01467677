//! Paths in an archive: bytes, as the file system that they come from has them.

use crate::{Error, Result, text::shown};
use std::{
    borrow::Cow,
    cmp::Ordering,
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

/// A path below the root of an archive: bytes of any kind, with `/` between its parts. Most are
/// UTF-8, none needs to be. Order is that of the parts, so what lies in a directory follows it at
/// once.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Name(Vec<u8>);

impl Name {
    /// The path of a file or directory in terms of the file system.
    ///
    /// # Errors
    /// `InvalidArgument` for names that are no Unicode, on systems whose names are not bytes.
    pub fn from_os(name: &OsStr) -> Result<Name> {
        #[cfg(unix)]
        return Ok(Name(std::os::unix::ffi::OsStrExt::as_bytes(name).to_vec()));
        #[cfg(not(unix))]
        match name.to_str() {
            Some(text) => Ok(Name(text.as_bytes().to_vec())),
            None => Err(Error::InvalidArgument(
                format!(
                    "the name {} is no Unicode and cannot be stored: rename it",
                    Path::new(name).display()
                )
                .into(),
            )),
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its text where it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Its text, with U+FFFD for what is not UTF-8: exact for most names, and not for showing,
    /// since it may hold what a terminal obeys.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Its bytes in hexadecimal digits, where it is not UTF-8 and [`Name::to_text`] not exact.
    pub fn to_hex(&self) -> Option<String> {
        let hex = || self.0.iter().map(|b| format!("{b:02x}")).collect();
        self.as_str().is_none().then(hex)
    }

    /// Whether it has nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of something in the directory of this name; an empty one is the root.
    #[must_use]
    pub fn join(&self, part: &Name) -> Name {
        match self.is_empty() {
            true => part.clone(),
            false => Name([&self.0[..], b"/", &part.0].concat()),
        }
    }

    /// The directory it lies in, unless that is the root.
    pub fn parent(&self) -> Option<&[u8]> {
        let at = self.0.iter().rposition(|&b| b == b'/')?;
        Some(&self.0[..at])
    }

    /// Whether it is relative and stays below the root: no part is empty, `.` or `..`, and no
    /// byte is NUL.
    pub fn is_valid(&self) -> bool {
        let good = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
        !self.0.contains(&0) && self.0.split(|&b| b == b'/').all(good)
    }

    /// Whether it is valid and has one part.
    pub fn is_plain(&self) -> bool {
        self.is_valid() && !self.0.contains(&b'/')
    }

    /// Refuses a name that no archive can have.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "\"{self}\" is no name that an archive can store: name a relative path without empty \
             parts, \".\", \"..\" and NUL"
        ).into()))
    }

    /// The path on this system, below a directory.
    ///
    /// # Errors
    /// `Unsupported` where this system has no such names, which no name is on Unix.
    pub fn to_path(&self) -> Result<PathBuf> {
        #[cfg(unix)]
        return Ok(PathBuf::from(self.as_ref() as &Path));
        #[cfg(not(unix))]
        match self.as_str().filter(|text| fits_windows(text)) {
            Some(text) => Ok(text.split('/').collect()),
            None => Err(Error::Unsupported(
                format!("this system has no files named \"{self}\": restore the archive on Linux")
                    .into(),
            )),
        }
    }

    fn order(&self) -> impl Iterator<Item = u16> {
        // The end of a part is less than every byte in one.
        self.0.iter().map(|&b| if b == b'/' { 0 } else { u16::from(b) + 1 })
    }
}

/// Whether Windows has a file of this name, and it is one below the directory it is joined to.
#[cfg(any(not(unix), test))]
fn fits_windows(text: &str) -> bool {
    const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
    text.split('/').all(|part| {
        let stem = part.split('.').next().unwrap_or("").trim_end().to_ascii_lowercase();
        let numbered = stem.len() > 3
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.chars().count() == 4;
        let odd = |c: char| c < ' ' || "\\:*?\"<>|".contains(c);
        !part.contains(odd)
            && !part.ends_with(['.', ' '])
            && !DEVICES.contains(&&stem[..])
            && !numbered
    })
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(other.order())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Text on one line that no terminal obeys: control characters, those that change the direction of
/// writing, and bytes that are no text are written as escapes.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            write!(f, "{}", shown(part.valid()))?;
            for byte in part.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(unix)]
impl AsRef<Path> for Name {
    fn as_ref(&self) -> &Path {
        Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&self.0))
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name(text.into())
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Name {
        Name(bytes.into())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Name {
        Name(bytes)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<Name> for &str {
    fn eq(&self, other: &Name) -> bool {
        other == self
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<Name> for String {
    fn eq(&self, other: &Name) -> bool {
        other == self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_file_systems_allow_and_nothing_that_leads_out() {
        for good in ["a", "a/b", "...", "a\\b", "\n\u{1b}[2J", " ", "a/..b", "C:", "con"] {
            assert!(Name::from(good).is_valid(), "{good:?}");
        }
        assert!(Name::from(&b"\xff\xfe/\x80"[..]).is_valid());
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0b"] {
            let name = Name::from(bad);
            assert!(matches!(name.check(), Err(Error::InvalidArgument(_))), "{bad:?}");
        }
        assert!(Name::from("a\\b").is_plain() && !Name::from("a/b").is_plain());
    }

    #[test]
    fn names_are_ordered_by_their_parts() {
        let names = ["a", "a/b", "a/b/c", "a\u{1}", "a-b", "a.b", "ab"].map(Name::from);
        assert!(names.is_sorted_by(|a, b| a < b));
        assert!(names.map(|n| PathBuf::from(n.as_str().unwrap())).is_sorted());
    }

    #[test]
    fn what_is_shown_stays_on_its_line() {
        let name = Name::from(&b"a\n\x1b[2J\xff\\\xe2\x80\xae"[..]);
        assert_eq!(name.to_string(), "a\\n\\x1b[2J\\xff\\\\u{202e}");
        assert_eq!(name.to_hex().as_deref(), Some("610a1b5b324aff5ce280ae"));
        assert_eq!(Name::from("é\n").to_hex(), None);
    }

    #[test]
    fn windows_takes_no_streams_devices_or_drives() {
        for good in ["a/b.txt", "console", "com", "a b", "é"] {
            assert!(fits_windows(good), "{good}");
        }
        for bad in ["a:b", "C:", "nul", "NUL.txt", "a/com1", "a.", "a ", "a\\b", "a\nb", "a?"] {
            assert!(!fits_windows(bad), "{bad}");
        }
    }
}
