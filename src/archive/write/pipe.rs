//! Compressing what is written, for callers whose bytes come out of something that writes.

use super::{Summary, compress_reader};
use crate::{Error, Result, archive::options::CompressOptions};
use std::{
    fmt,
    io::{self, Read, Write},
    sync::{
        Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle},
};

/// Bytes that are handed over at once, and how many such parts may wait.
const PART: usize = 1 << 20;
const WAITING: usize = 2;

/// Compresses what is written to it, as one file, into another writer: the inverse of
/// [`Reader`](crate::Reader). Formats are recognised from the first bytes. A thread of its own
/// does the work, so memory is bounded by the number of threads, whatever the length.
///
/// ```
/// use lmc_gpu::{CompressOptions, Reader, RestoreOptions, Writer};
/// use std::io::{Read, Write};
/// let mut writer = Writer::new(Vec::new(), &CompressOptions::default())?;
/// writer.write_all(&[7; 100_000])?;
/// let (archive, summary) = writer.finish()?;
/// assert_eq!(summary.input_bytes, 100_000);
///
/// let mut back = Vec::new();
/// Reader::new(std::io::Cursor::new(archive), &RestoreOptions::default())?.read_to_end(&mut back)?;
/// assert_eq!(back, [7; 100_000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An archive is whole only once [`Writer::finish`] has returned: one that was dropped before ends
/// too early, which every reader of it notices.
pub struct Writer<W> {
    part: Vec<u8>,
    /// Where parts go; an empty one ends the input.
    parts: Option<SyncSender<Vec<u8>>>,
    work: Option<JoinHandle<(W, Result<Summary>)>>,
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("waiting_bytes", &self.part.len()).finish_non_exhaustive()
    }
}

impl<W: Write + Send + 'static> Writer<W> {
    /// Begins an archive in `out`, of a file called `data`.
    ///
    /// # Errors
    /// `Io` where no thread can be started.
    pub fn new(out: W, options: &CompressOptions) -> Result<Writer<W>> {
        Writer::named(out, "data", options)
    }

    /// Begins an archive of a file with a name of its own.
    ///
    /// # Errors
    /// As for [`Writer::new`]; a name that no archive can have is reported by the first write that
    /// notices, or by [`Writer::finish`].
    pub fn named(mut out: W, name: &str, options: &CompressOptions) -> Result<Writer<W>> {
        let (parts, received) = sync_channel(WAITING);
        let (name, options) = (name.to_owned(), options.clone());
        let mut input =
            Parts { received: Mutex::new(received), part: Vec::new(), at: 0, ended: false };
        let work = move || {
            let made = compress_reader(&mut input, &name, &mut out, &options);
            (out, made)
        };
        let work = Builder::new()
            .name("lmc-writer".into())
            .spawn(work)
            .map_err(|source| Error::Io { context: "cannot start a thread".into(), source })?;
        Ok(Writer { part: Vec::with_capacity(PART), parts: Some(parts), work: Some(work) })
    }

    /// Ends the archive, and gives the writer back with what compressing did.
    ///
    /// # Errors
    /// What compressing and writing reported, `Io` in most cases; of it, if it was returned by a
    /// write before, that it was.
    pub fn finish(mut self) -> Result<(W, Summary)> {
        let handed = self.hand_over(true);
        match self.join() {
            Some((out, made)) => made.map(|summary| (out, summary)),
            None => Err(handed.err().map_or_else(ended, Error::from)),
        }
    }

    /// Gives what was written to the thread that compresses it. `last` says that nothing follows.
    fn hand_over(&mut self, last: bool) -> io::Result<()> {
        let mut parts = Vec::new();
        if !self.part.is_empty() {
            parts.push(std::mem::replace(&mut self.part, Vec::with_capacity(PART)));
        }
        if last {
            parts.push(Vec::new());
        }
        for part in parts {
            let sent = self.parts.as_ref().map(|parts| parts.send(part));
            if !matches!(sent, Some(Ok(()))) {
                return Err(io::Error::from(match last {
                    // Whoever ends the archive looks at the result anyway.
                    true => ended(),
                    false => self.join().and_then(|(_, made)| made.err()).unwrap_or_else(ended),
                }));
            }
        }
        Ok(())
    }

    /// Waits for the thread, which was told that nothing follows or has failed.
    fn join(&mut self) -> Option<(W, Result<Summary>)> {
        self.parts = None;
        self.work.take()?.join().ok()
    }
}

/// The error for whoever goes on after one was returned.
fn ended() -> Error {
    let source = io::Error::other("an earlier write failed");
    Error::Io { context: "cannot go on with the archive".into(), source }
}

impl<W: Write + Send + 'static> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() >= PART {
            self.hand_over(false)?;
        }
        let n = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    /// Hands over what was written; it may take more bytes until a chunk of it can be coded.
    fn flush(&mut self) -> io::Result<()> {
        self.hand_over(false)
    }
}

impl<W> Drop for Writer<W> {
    fn drop(&mut self) {
        self.parts = None;
        if let Some(work) = self.work.take() {
            let _ = work.join();
        }
    }
}

/// What the thread reads.
struct Parts {
    received: Mutex<Receiver<Vec<u8>>>,
    part: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Parts {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.part.len() && !self.ended {
            let received = self.received.get_mut().map(|parts| parts.recv());
            let Ok(Ok(part)) = received else {
                return Err(io::Error::other("the writer was dropped before its end"));
            };
            self.ended = part.is_empty();
            (self.part, self.at) = (part, 0);
        }
        let n = buf.len().min(self.part.len() - self.at);
        buf[..n].copy_from_slice(&self.part[self.at..][..n]);
        self.at += n;
        Ok(n)
    }
}
