//! URLs as paths, without what is secret in them.

use crate::{Error, Result};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Schemes of what is not on disk.
const SCHEMES: [&str; 5] = ["s3", "gs", "az", "http", "https"];

/// What was secret in URLs: by `scheme://host` what stood before it, and by the whole URL what
/// stood behind it.
static SECRETS: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Whether a path is a URL of something that is not on disk.
pub fn is_url(path: &Path) -> bool {
    parts(path).is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// Scheme and rest.
pub(super) fn parts(path: &Path) -> Option<(&str, &str)> {
    path.to_str()?.split_once("://")
}

/// The same place without what is secret in its URL; a path on disk as it is, and that of
/// `file://`.
///
/// # Errors
/// `InvalidArgument` for a URL that names nothing.
pub fn clean(path: &Path) -> Result<PathBuf> {
    let Some((scheme, rest)) = parts(path) else { return Ok(path.to_owned()) };
    if scheme == "file" {
        return on_disk(rest);
    }
    if !SCHEMES.contains(&scheme) {
        return Ok(path.to_owned());
    }
    let (authority, below) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let is_http = scheme.starts_with("http");
    // Keys of objects may have any character.
    let below = if is_http { below.split('#').next().unwrap_or_default() } else { below };
    let (below, query) = match below.split_once('?').filter(|_| is_http) {
        Some((below, query)) => (below, Some(query)),
        None => (below, None),
    };
    let origin = format!("{scheme}://{host}");
    let url = format!("{origin}/{below}");
    let wrong = |why: &str| Err(Error::InvalidArgument(format!("{url}: {why}").into()));
    if host.is_empty() {
        return wrong("a URL names a host or bucket, and what lies there");
    }
    if user.is_some() && !is_http {
        return wrong("credentials of a bucket are read from the environment, not from its URL");
    }
    let mut secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    let secrets = secrets.get_or_insert_default();
    if let Some(user) = user {
        secrets.insert(origin, user.to_owned());
    }
    if let Some(query) = query {
        secrets.insert(url.clone(), query.to_owned());
    }
    Ok(url.into())
}

/// What was secret at a host, or behind a URL.
#[cfg(feature = "remote")]
pub(super) fn secret(of: &str) -> Option<String> {
    let secrets = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    secrets.as_ref()?.get(of).cloned()
}

/// The path of a `file://` URL.
fn on_disk(rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let decoded = percent_decoded(path).filter(|_| path.starts_with('/'));
    decoded.map(PathBuf::from).ok_or_else(|| {
        let why = format!(
            "file://{rest}: the URL of a file is file:///, then its path from the \
                           root on"
        );
        Error::InvalidArgument(why.into())
    })
}

pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = tail.get(..2).filter(|d| d.iter().all(u8::is_ascii_hexdigit))?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(url: &str) -> String {
        clean(Path::new(url)).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn urls_lose_what_is_secret_and_nothing_else() {
        assert_eq!(cleaned("https://u:p@h:8/a/b.lmc?sig=x#f"), "https://h:8/a/b.lmc");
        assert_eq!(cleaned("s3://bucket/a?b#c.lmc"), "s3://bucket/a?b#c.lmc");
        assert_eq!(cleaned("file:///a%20b/c"), "/a b/c");
        assert_eq!(cleaned("a/b.lmc"), "a/b.lmc");
        assert_eq!(cleaned("weird://x?y"), "weird://x?y");
        for wrong in ["https:///x", "s3://u:secret@b/k", "file://x/y", "file:///%zz"] {
            let e = clean(Path::new(wrong)).unwrap_err().to_string();
            assert!(!e.contains("secret"), "{e}");
        }
    }
}
