//! Restoring what is read, for callers who hand a reader on.

use super::{Restored, decompress_to_writer};
use crate::{Error, Result, archive::options::RestoreOptions};
use std::{
    fmt,
    io::{self, Read, Write},
    sync::{
        Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{Builder, JoinHandle},
};

/// Parts that may wait to be read: chunks, or less.
const WAITING: usize = 2;

/// Restores the only file of an archive that is read forward, without seeking: the inverse of
/// [`Writer`](crate::Writer), which shows both. A thread of its own does the work. Every chunk is
/// checked before its bytes are given out, and the whole file before the end is: a read that fails
/// says so with an [`Error`] inside of the [`io::Error`], which `Error::from` takes out again.
pub struct Reader<R> {
    received: Mutex<Receiver<Vec<u8>>>,
    part: Vec<u8>,
    at: usize,
    work: Option<JoinHandle<(R, Result<Restored>)>>,
    /// The reader, after the end.
    inner: Option<R>,
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("ended", &self.work.is_none()).finish_non_exhaustive()
    }
}

impl<R: Read + Send + 'static> Reader<R> {
    /// Begins to restore what `archive` yields.
    ///
    /// # Errors
    /// `Io` where no thread can be started. What is wrong with the archive is reported when it is
    /// read.
    pub fn new(mut archive: R, options: &RestoreOptions) -> Result<Reader<R>> {
        let (parts, received) = sync_channel(WAITING);
        let options = options.clone();
        let work = move || {
            let restored = decompress_to_writer(&mut archive, &mut Parts(parts), &options);
            (archive, restored)
        };
        let work = Builder::new()
            .name("lmc-reader".into())
            .spawn(work)
            .map_err(|source| Error::Io { context: "cannot start a thread".into(), source })?;
        let received = Mutex::new(received);
        Ok(Reader { received, part: Vec::new(), at: 0, work: Some(work), inner: None })
    }

    /// The reader that the archive came from, after the last byte was read; nothing before that.
    pub fn into_inner(mut self) -> Option<R> {
        self.inner.take()
    }
}

impl<R: Read + Send + 'static> Read for Reader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while self.at == self.part.len() {
            if self.work.is_none() {
                return Ok(0);
            }
            let received = self.received.get_mut().map(|parts| parts.recv());
            if let Ok(Ok(part)) = received {
                (self.part, self.at) = (part, 0);
                continue;
            }
            let ended = self.work.take().map(JoinHandle::join);
            let Some(Ok((inner, restored))) = ended else {
                return Err(io::Error::other("internal error while restoring: panic"));
            };
            self.inner = Some(inner);
            restored?;
        }
        let n = buf.len().min(self.part.len() - self.at);
        buf[..n].copy_from_slice(&self.part[self.at..][..n]);
        self.at += n;
        Ok(n)
    }
}

/// What the thread writes to. Once nobody reads any more, it fails, which ends the thread: nobody
/// waits for it, since it may wait for the archive's next bytes.
struct Parts(SyncSender<Vec<u8>>);

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads what is restored");
        if !bytes.is_empty() {
            self.0.send(bytes.to_vec()).map_err(|_| gone())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
