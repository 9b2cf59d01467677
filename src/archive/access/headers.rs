//! Headers of files that are asked for many times, one chunk after another.

use crate::format::Parsed;
use std::sync::{Arc, Mutex, PoisonError};

/// What the header of the file that was asked for last says: much of a file may be damaged, and its
/// header is parsed once.
#[derive(Debug, Default)]
pub(in crate::archive) struct Headers(Mutex<Option<(usize, Option<Arc<Parsed>>)>>);

impl Headers {
    /// What is known of an entry, or else what `parse` says. That it says nothing is remembered
    /// only if it is to be final.
    pub fn of(
        &self,
        entry: usize,
        is_final: bool,
        parse: impl FnOnce() -> Option<Parsed>,
    ) -> Option<Arc<Parsed>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, parsed)) = &*last
            && *of == entry
        {
            return parsed.clone();
        }
        let parsed = parse().map(Arc::new);
        if parsed.is_some() || is_final {
            *last = Some((entry, parsed.clone()));
        }
        parsed
    }
}
