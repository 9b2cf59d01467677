//! The progress bar: on a terminal only, one at a time.

use crate::archive::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::{Arc, Mutex, PoisonError},
};

/// The bar that is on the terminal now.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A bar on standard error, or none. It is wiped when dropped.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar where someone can see it. `total` gives the number of bytes to come, where known,
    /// and is asked only then.
    pub fn new(quiet: bool, what: &'static str, total: impl FnOnce() -> Option<u64>) -> Bar {
        if quiet || !has_place() {
            return Bar(None);
        }
        let (bar, template) = match total() {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} [{wide_bar}] {decimal_bytes}/{decimal_total_bytes} \
                 {decimal_bytes_per_sec} {eta}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{msg} {spinner} {decimal_bytes} {decimal_bytes_per_sec} {elapsed}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        show(Some(bar.clone()));
        Bar(Some(bar))
    }

    /// What the library calls.
    pub fn callback(&self) -> Option<Progress> {
        let bar = self.0.clone()?;
        Some(Arc::new(move |n| bar.inc(n)))
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            show(None);
            bar.finish_and_clear();
        }
    }
}

/// Whether standard error is a terminal that no other command of a pipeline draws on: of several
/// that are joined by pipes, the last one shows how far they are.
pub fn has_place() -> bool {
    stderr().is_terminal() && !is_piped_on()
}

/// Says which bar is on the terminal.
pub fn show(bar: Option<ProgressBar>) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Prints something while a bar may be on the terminal: it is wiped first and drawn anew below.
pub fn beside<T>(print: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

#[cfg(unix)]
fn is_piped_on() -> bool {
    use std::os::{fd::AsFd, unix::fs::FileTypeExt};
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let meta = out.and_then(|fd| std::fs::File::from(fd).metadata());
    meta.is_ok_and(|m| m.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_piped_on() -> bool {
    false
}
