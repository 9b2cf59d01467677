//! The memo: numbered values that a pickle fetches again.

use std::collections::HashMap;

use super::Id;

/// Entries by index. Pickles number them 0, 1, 2, …, so they lie in a vector; any index far beyond
/// the number of entries goes to a map, so one entry with a huge index costs one entry.
#[derive(Default)]
pub(super) struct Memo {
    dense: Vec<Option<Id>>,
    sparse: HashMap<u64, Id>,
    /// Entries made so far.
    puts: usize,
}

impl Memo {
    /// Number of entries made, the index of the next `MEMOIZE`.
    pub(super) fn len(&self) -> u64 {
        self.puts as u64
    }

    pub(super) fn put(&mut self, index: u64, id: Id) {
        self.puts += 1;
        if index >= 2 * self.len() + 1024 {
            self.sparse.insert(index, id);
            return;
        }
        let index = index as usize;
        if index >= self.dense.len() {
            self.dense.resize(index + 1, None);
        }
        self.dense[index] = Some(id);
        if !self.sparse.is_empty() {
            self.sparse.remove(&(index as u64));
        }
    }

    pub(super) fn get(&self, index: u64) -> Option<Id> {
        let dense = usize::try_from(index).ok().and_then(|i| self.dense.get(i).copied().flatten());
        dense.or_else(|| self.sparse.get(&index).copied())
    }
}
