//! One object, read by ranges. Every answer says which version of it the bytes are of, so that
//! bytes of two versions never come together.

use super::{
    blocks::{Blocks, Fetch},
    client::{Connector, wait},
    url,
};
use crate::{Error, Result, source::Source};
use base64::{Engine, prelude::BASE64_STANDARD};
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
    RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, http::HttpBuilder, path::Path as Key,
};
use std::{io, ops::Range, path::Path, sync::Arc, time::Duration};

/// Bytes that are read of its beginning before its length is known: header and manifest of most
/// archives.
const HEAD: u64 = 64 << 10;
/// Least and most bytes that are read of its end at once: trailer and index of most archives.
const TAIL: Range<u64> = 64 << 10..1 << 20;
/// The end is this part of it.
const TAIL_PART: u64 = 2048;

/// A bucket or server, and what lies in it.
#[derive(Clone)]
pub(super) struct Location {
    pub store: Arc<dyn ObjectStore>,
    pub key: Key,
}

impl Location {
    /// What a URL without secrets names.
    pub fn of(url: &Path) -> Result<Location> {
        Self::with(url, Connector::default())
    }

    /// What is to be written there; `only_new` where nothing may be replaced.
    pub fn to_write(url: &Path, only_new: bool) -> Result<Location> {
        if url::parts(url).is_some_and(|(scheme, _)| scheme.starts_with("http")) {
            let why = format!(
                "{}: what HTTP names can only be read: write to s3://, gs://, az:// or a file",
                url.display()
            );
            return Err(Error::InvalidArgument(why.into()));
        }
        Self::with(url, Connector { only_new, ..Connector::default() })
    }

    /// Fails with `AlreadyExists` where there is something.
    pub fn check_absent(&self) -> io::Result<()> {
        match wait(self.store.head(&self.key)) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            // Who may not list a bucket is not told either that something is absent.
            Err(
                object_store::Error::NotFound { .. } | object_store::Error::PermissionDenied { .. },
            ) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn with(url: &Path, mut connector: Connector) -> Result<Location> {
        let shown = url.display().to_string();
        let wrong = |e: &dyn std::fmt::Display| {
            Error::InvalidArgument(format!("{shown}: {}", redacted(&e.to_string())).into())
        };
        let (scheme, rest) = url::parts(url).ok_or_else(|| wrong(&"this is no URL"))?;
        let (host, below) = rest.split_once('/').unwrap_or((rest, ""));
        if below.is_empty() || below.ends_with('/') {
            return Err(wrong(&"an object has a name: this is a bucket or a directory"));
        }
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(5), ..Default::default() };
        let retry = RetryConfig { backoff, max_retries: 6, retry_timeout: Duration::from_secs(90) };
        let store: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
            "s3" => AmazonS3Builder::from_env()
                .with_bucket_name(host)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()
                .map(|s| Arc::new(s) as _),
            "gs" => GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(host)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()
                .map(|s| Arc::new(s) as _),
            "az" => MicrosoftAzureBuilder::from_env()
                .with_container_name(host)
                .with_retry(retry)
                .with_http_connector(connector)
                .build()
                .map(|s| Arc::new(s) as _),
            _ => {
                let origin = format!("{scheme}://{host}");
                if let Some(user) = url::secret(&origin) {
                    let user = url::percent_decoded(&user).unwrap_or(user);
                    let basic = format!("Basic {}", BASE64_STANDARD.encode(user));
                    let value = basic.parse().map_err(|_| wrong(&"the user's name is unusable"))?;
                    connector.authorization = Some(value);
                }
                let query = url::secret(&shown).map(|q| format!("?{q}")).unwrap_or_default();
                HttpBuilder::new()
                    .with_url(format!("{origin}{query}"))
                    .with_client_options(ClientOptions::new().with_allow_http(scheme == "http"))
                    .with_retry(retry)
                    .with_http_connector(connector)
                    .build()
                    .map(|s| Arc::new(s) as _)
            }
        };
        let store = store.map_err(|e| wrong(&e))?;
        let key = match scheme.starts_with("http") {
            true => Key::from_url_path(below),
            false => Key::parse(below),
        };
        Ok(Location { store, key: key.map_err(|e| wrong(&e))? })
    }

    /// Some bytes, and what they are of.
    fn get(&self, range: Range<u64>) -> io::Result<(ObjectMeta, Vec<u8>)> {
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..Default::default() };
        let got = wait(async {
            let got = self.store.get_opts(&self.key, options).await?;
            let meta = got.meta.clone();
            let range = got.range.clone();
            Ok((meta, range, got.bytes().await?))
        });
        let (meta, range, bytes) = got.map_err(|e| self.failed(e))?;
        if range.end - range.start != bytes.len() as u64 {
            let why = "the server sent another number of bytes than it said";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok((meta, bytes.into()))
    }

    /// What an error of the client says, without anything secret.
    pub fn failed(&self, e: object_store::Error) -> io::Error {
        use object_store::Error as E;
        let kind = match &e {
            E::NotFound { .. } => io::ErrorKind::NotFound,
            E::AlreadyExists { .. } | E::Precondition { .. } => io::ErrorKind::AlreadyExists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                io::ErrorKind::PermissionDenied
            }
            _ => io::ErrorKind::Other,
        };
        let why = match &e {
            E::NotFound { .. } => "there is nothing of this name".to_owned(),
            E::AlreadyExists { .. } | E::Precondition { .. } => {
                "there is one of this name already".to_owned()
            }
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => {
                "the server does not allow it: are the credentials in the environment the right \
                 ones?"
                    .to_owned()
            }
            E::NotSupported { .. } => {
                "the server does not give ranges of it: download all of it first".to_owned()
            }
            _ => redacted(&e.to_string()),
        };
        io::Error::new(kind, why)
    }
}

/// A text without what is secret in the URLs that it names.
pub(super) fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out += before;
        let ends = |c: char| c.is_whitespace() || "\"'<>,)".contains(c);
        let (url, tail) = after.split_at(after.find(ends).unwrap_or(after.len()));
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let (authority, below) = url.split_at(url.find('/').unwrap_or(url.len()));
        out += authority.rsplit('@').next().unwrap_or_default();
        out += below;
        rest = tail;
    }
    out + rest
}

/// An object that is open.
pub struct Object {
    len: u64,
    blocks: Blocks<Ranges>,
}

/// Its ranges, all of one version.
struct Ranges {
    location: Location,
    version: ObjectMeta,
}

impl Fetch for Ranges {
    fn fetch(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (meta, bytes) = self.location.get(range)?;
        let of = |m: &ObjectMeta| (m.size, m.e_tag.clone(), m.version.clone());
        if of(&meta) != of(&self.version) || is_newer(&meta, &self.version) {
            let why = "it was replaced while it was being read";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        Ok(bytes)
    }
}

/// Whether the times that a server gives differ, where it has nothing better.
fn is_newer(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    a.e_tag.is_none() && a.last_modified != b.last_modified
}

impl Object {
    /// Opens what a URL without secrets names, and reads its beginning and its end.
    pub fn open(url: &Path) -> Result<Object> {
        let location = Location::of(url)?;
        let opened = Self::at(location);
        opened.map_err(|e| Error::io("open", url, e))
    }

    fn at(location: Location) -> io::Result<Object> {
        let (version, head) = match location.get(0..HEAD) {
            Err(e) if e.to_string().contains("416") => {
                // No range of it fits where it is empty.
                let meta = wait(location.store.head(&location.key));
                match meta {
                    Ok(meta) if meta.size == 0 => (meta, Vec::new()),
                    _ => return Err(e),
                }
            }
            got => got?,
        };
        let len = version.size;
        let blocks = Blocks::new(Ranges { location, version });
        let read = head.len() as u64;
        blocks.keep(0, head);
        let tail = (len / TAIL_PART).clamp(TAIL.start, TAIL.end);
        let from = len.saturating_sub(tail).max(read);
        if from < len {
            let tail = blocks.fetch(from..len)?;
            blocks.keep(from, tail);
        }
        Ok(Object { len, blocks })
    }
}

impl Source for Object {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len => self.blocks.read(offset, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn expect(&self, range: &Range<u64>) {
        self.blocks.expect(range.clone());
    }

    fn forget(&self, range: &Range<u64>) {
        self.blocks.forget(range);
    }
}
