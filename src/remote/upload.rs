//! Writing an object: in parts, several on their way at the same time, and visible only once all
//! of them are there.

use super::{client::wait, object::Location};
use object_store::{MultipartUpload, ObjectStoreExt, PutMode, PutPayload};
use std::{
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Bytes of a part. What is shorter goes in one request.
const PART: usize = 8 << 20;
/// After so many parts they become twice as large: servers take 10,000 of them.
const DOUBLED: usize = 1500;
/// Most bytes on their way at the same time, and most parts.
const FLYING: usize = 32 << 20;
/// How long a process that is stopped waits for servers to forget what it sent.
const GRACE: Duration = Duration::from_secs(5);

type Begun = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// Uploads that were begun and neither completed nor aborted.
static LIVE: Mutex<Vec<Begun>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Aborts what was begun, for a process that ends.
pub fn abort_all() {
    let live = std::mem::take(&mut *lock(&LIVE));
    if live.is_empty() {
        return;
    }
    let (done, all) = mpsc::channel();
    for begun in live {
        let done = done.clone();
        // A thread that cannot be started leaves parts behind, which nobody sees.
        let _ = thread::Builder::new().spawn(move || {
            abort(&begun);
            let _ = done.send(());
        });
    }
    drop(done);
    let until = std::time::Instant::now() + GRACE;
    while let Some(rest) = until.checked_duration_since(std::time::Instant::now()) {
        if all.recv_timeout(rest).is_err() {
            break;
        }
    }
}

fn abort(begun: &Begun) {
    let upload = lock(begun).take();
    if let Some(mut upload) = upload
        && let Err(e) = wait(upload.abort())
    {
        log::debug!("an upload was not aborted: {}", super::object::redacted(&e.to_string()));
    }
}

/// An object that is being written. Dropped before it is finished, it never was.
pub struct Upload {
    location: Location,
    /// Whether it must not take the place of another one.
    only_new: bool,
    part: Vec<u8>,
    parts: usize,
    begun: Option<Begun>,
    flying: Vec<JoinHandle<io::Result<()>>>,
}

impl Upload {
    /// Begins what a URL without secrets names.
    ///
    /// # Errors
    /// `Io` (`AlreadyExists`) where there is one and none may be replaced.
    pub fn create(url: &Path, only_new: bool) -> crate::Result<Upload> {
        let location = Location::to_write(url, only_new)?;
        if only_new {
            location.check_absent().map_err(|e| crate::Error::io("write", url, e))?;
        }
        let (part, flying) = (Vec::new(), Vec::new());
        Ok(Upload { location, only_new, part, parts: 0, begun: None, flying })
    }

    /// Bytes of the part that is being filled.
    fn part_len(&self) -> usize {
        PART << (self.parts / DOUBLED)
    }

    fn begin(&mut self) -> io::Result<Begun> {
        if let Some(begun) = &self.begun {
            return Ok(begun.clone());
        }
        let Location { store, key, .. } = &self.location;
        let upload = wait(store.put_multipart(key)).map_err(|e| self.location.failed(e))?;
        let begun: Begun = Arc::new(Mutex::new(Some(upload)));
        lock(&LIVE).push(begun.clone());
        Ok(self.begun.insert(begun).clone())
    }

    /// Sends the part, and waits for others where too many are on their way.
    fn send(&mut self) -> io::Result<()> {
        let begun = self.begin()?;
        let most = (FLYING / self.part_len()).max(1);
        while self.flying.len() >= most {
            self.land()?;
        }
        let payload = PutPayload::from(std::mem::take(&mut self.part));
        let stopped = || io::Error::from(io::ErrorKind::Interrupted);
        let sent = lock(&begun).as_mut().ok_or_else(stopped)?.put_part(payload);
        let location = self.location.clone();
        let send = move || wait(sent).map_err(|e| location.failed(e));
        self.flying.push(thread::Builder::new().name("lmc-upload".into()).spawn(send)?);
        self.parts += 1;
        Ok(())
    }

    /// Waits for the oldest part on its way.
    fn land(&mut self) -> io::Result<()> {
        let oldest = self.flying.remove(0);
        oldest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Makes it visible, as a whole.
    ///
    /// # Errors
    /// `AlreadyExists` where somebody else was faster and none may be replaced.
    pub fn finish(mut self) -> io::Result<()> {
        if self.begun.is_none() {
            let mode = if self.only_new { PutMode::Create } else { PutMode::Overwrite };
            let payload = PutPayload::from(std::mem::take(&mut self.part));
            let Location { store, key, .. } = &self.location;
            let put = wait(store.put_opts(key, payload, mode.into()));
            return put.map(|_| ()).map_err(|e| self.location.failed(e));
        }
        if !self.part.is_empty() {
            self.send()?;
        }
        while !self.flying.is_empty() {
            self.land()?;
        }
        if self.only_new {
            self.location.check_absent()?;
        }
        let begun = self.begin()?;
        let upload = lock(&begun).take();
        let mut upload = upload.ok_or(io::ErrorKind::Interrupted)?;
        let completed = wait(upload.complete());
        if completed.is_err() {
            // Aborted when this is dropped.
            *lock(&begun) = Some(upload);
        }
        completed.map(|_| ()).map_err(|e| self.location.failed(e))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.part_len();
        if self.part.capacity() == 0 {
            self.part.reserve_exact(len);
        }
        let n = bytes.len().min(len - self.part.len());
        self.part.extend_from_slice(&bytes[..n]);
        if self.part.len() == len {
            self.send()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        while !self.flying.is_empty() {
            // What was wrong was told already, or does not matter any more.
            let _ = self.land();
        }
        if let Some(begun) = &self.begun {
            abort(begun);
            lock(&LIVE).retain(|live| !Arc::ptr_eq(live, begun));
        }
    }
}
