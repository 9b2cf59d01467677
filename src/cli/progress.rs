//! The progress bar: on a terminal only.

use crate::archive::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::Arc,
};

/// A bar on standard error, or none. It is wiped when dropped.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar where someone can see it. `total` gives the number of bytes to come, where known,
    /// and is asked only then.
    pub fn new(quiet: bool, what: &'static str, total: impl FnOnce() -> Option<u64>) -> Bar {
        if quiet || !stderr().is_terminal() {
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
            bar.finish_and_clear();
        }
    }
}
