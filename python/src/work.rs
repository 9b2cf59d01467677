//! Work without the interpreter: in a thread of its own, while the calling one looks after
//! signals and tells how far it is.

use crate::error::raise;
use lmc_gpu::{Cancel, Error, Result, internals::archive::Options};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

/// How often signals are looked for.
const PERIOD: Duration = Duration::from_millis(20);

/// What a piece of work is told and tells.
#[derive(Clone, Default)]
pub struct Control {
    /// Set when it should stop.
    pub cancel: Arc<Cancel>,
    /// Bytes dealt with so far.
    pub done: Arc<AtomicU64>,
}

impl Control {
    /// Options for work under this control.
    pub fn options(&self, options: Options) -> Options {
        let done = self.done.clone();
        let add = move |n| {
            done.fetch_add(n, Ordering::Relaxed);
        };
        options.with_cancel(self.cancel.clone()).with_progress(Some(Arc::new(add)))
    }

    /// Whether to stop, as the error that says so.
    pub fn check(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            false => Ok(()),
            true => Err(Error::Io {
                context: "stopped".into(),
                source: std::io::ErrorKind::Interrupted.into(),
            }),
        }
    }
}

/// Does `job` and returns what it returns. When a signal handler or `progress` raises, the job is
/// stopped and has ended before this returns.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    file: Option<&str>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&Control) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let control = Control::default();
    let of_job = control.clone();
    start(
        py,
        file,
        move || job(&of_job),
        |told| {
            if let Some(progress) = &progress {
                let now = control.done.load(Ordering::Relaxed);
                if now > *told {
                    progress.call1(py, (now - *told,))?;
                    *told = now;
                }
            }
            Ok(())
        },
        |thread| {
            control.cancel.cancel();
            py.detach(|| {
                let _ = thread.join();
            });
        },
    )
}

/// Waits for `job`, which cannot be stopped. When a signal handler raises, it goes on by itself.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    file: Option<&str>,
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    start(py, file, job, |_| Ok(()), drop)
}

fn start<T: Send + 'static>(
    py: Python<'_>,
    file: Option<&str>,
    job: impl FnOnce() -> Result<T> + Send + 'static,
    mut tell: impl FnMut(&mut u64) -> PyResult<()>,
    stop: impl FnOnce(thread::JoinHandle<()>),
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let work = move || {
        // Nobody waits for the result of work that goes on by itself.
        let _ = sender.send(job());
    };
    let thread =
        thread::Builder::new().name("lmc-python".into()).spawn(work).map_err(|source| {
            raise(py, Error::Io { context: "cannot start a thread".into(), source }, file)
        })?;
    let mut told = 0;
    // Only this thread looks at it, so it may go along without the interpreter.
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            receiver.recv_timeout(PERIOD)
        });
        match received {
            Ok(result) => {
                tell(&mut told)?;
                return result.map_err(|e| raise(py, e, file));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let source = std::io::Error::other("panic");
                let context = "internal error in a worker thread".into();
                return Err(raise(py, Error::Io { context, source }, file));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(e) = py.check_signals().and_then(|()| tell(&mut told)) {
                    stop(thread);
                    return Err(e);
                }
            }
        }
    }
}
