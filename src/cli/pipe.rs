//! Standard input and output as streams of bytes.

use super::signal;
use crate::{Error, Result, pipeline::Cancel};
use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write, stdin, stdout},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

/// Bytes read at once.
const STEP: usize = 1 << 20;

/// Reads ahead on a thread of its own, so that a signal stops the work even while nothing comes.
pub struct Forward {
    parts: Receiver<io::Result<Vec<u8>>>,
    part: Vec<u8>,
    at: usize,
    cancel: Arc<Cancel>,
}

impl Forward {
    /// Standard input.
    ///
    /// # Errors
    /// `InvalidArgument` where it is a terminal.
    pub fn stdin() -> Result<Forward> {
        if stdin().is_terminal() {
            return Err(Error::InvalidArgument(
                "standard input is a terminal: pipe something into it".into(),
            ));
        }
        Ok(Self::new(stdin()))
    }

    /// Anything that is read forward.
    pub fn new(mut reader: impl Read + Send + 'static) -> Forward {
        let (sender, parts) = sync_channel(2);
        thread::spawn(move || {
            loop {
                let mut part = Vec::with_capacity(STEP);
                let read = (&mut reader).take(STEP as u64).read_to_end(&mut part);
                let last = !matches!(read, Ok(n) if n > 0);
                if sender.send(read.map(|_| part)).is_err() || last {
                    return;
                }
            }
        });
        Forward { parts, part: Vec::new(), at: 0, cancel: signal::cancel() }
    }
}

impl Read for Forward {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.part.len() {
            match self.parts.recv_timeout(Duration::from_millis(50)) {
                Ok(part) => {
                    self.part = part?;
                    self.at = 0;
                    if self.part.is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    return Err(io::Error::other("stopped"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let n = buf.len().min(self.part.len() - self.at);
        buf[..n].copy_from_slice(&self.part[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Standard input as a file that can be read at any place: itself where it is one, otherwise a copy
/// in the directory for temporary files, which has no name there and goes with the process.
///
/// # Errors
/// `InvalidArgument` where it is a terminal; `Io`.
pub fn spool() -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let own = stdin().as_fd().try_clone_to_owned().map(File::from);
        let own = own.and_then(|f| f.metadata().map(|m| m.is_file().then_some(f)));
        if let Ok(Some(file)) = own {
            return Ok(file);
        }
    }
    let mut input = Forward::stdin()?;
    let failed = |source| Error::Io { context: "cannot keep standard input".into(), source };
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(&mut input, &mut file).map_err(failed)?;
    Ok(file)
}

/// Standard output for bytes: without the line buffering of the text stream.
///
/// # Errors
/// `InvalidArgument` where it is a terminal.
pub fn output() -> Result<Box<dyn Write + Send>> {
    if stdout().is_terminal() {
        return Err(Error::InvalidArgument(
            "standard output is a terminal: redirect it or name a file with -o".into(),
        ));
    }
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let fd = stdout().as_fd().try_clone_to_owned().map_err(|source| Error::Io {
            context: "cannot open standard output".into(),
            source,
        })?;
        Ok(Box::new(File::from(fd)))
    }
    #[cfg(not(unix))]
    {
        let _: Option<File> = None;
        Ok(Box::new(stdout()))
    }
}
