//! Threads that are kept from one call to the next: starting them takes as long as coding a small
//! archive.

use super::lock;
use crate::{Error, Result};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use std::{fmt, sync::Mutex};

/// Threads that wait for work. They end when this is dropped.
#[derive(Default)]
pub struct Threads(Mutex<Option<Kept>>);

struct Kept {
    pool: ThreadPool,
    /// Whose threads they are: a process that was forked has none of its parent's.
    process: u32,
}

impl Threads {
    /// So many workers, each on one of these threads.
    pub fn workers(&self, count: usize) -> Workers<'_> {
        Workers { threads: self, count }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

/// Workers for one call.
#[derive(Clone, Copy, Debug)]
pub struct Workers<'t> {
    threads: &'t Threads,
    pub(super) count: usize,
}

impl Workers<'_> {
    /// Calls `f` with a scope on at least as many threads as there are workers. Calls at the same
    /// time have threads of their own, so that none waits for another.
    pub(super) fn scope<'s>(self, f: impl FnOnce(&Scope<'s>) + Send) -> Result<()> {
        let process = std::process::id();
        let pool = match lock(&self.threads.0).take() {
            Some(Kept { pool, process: of }) if of != process => {
                // Whatever ends it would wait for threads that are not there.
                std::mem::forget(pool);
                None
            }
            kept => kept.map(|kept| kept.pool).filter(|p| p.current_num_threads() >= self.count),
        };
        let pool = match pool {
            Some(pool) => pool,
            None => ThreadPoolBuilder::new()
                .num_threads(self.count)
                .thread_name(|i| format!("lmc-{i}"))
                .build()
                .map_err(|e| Error::Io {
                    context: format!("cannot start {} threads", self.count).into(),
                    source: std::io::Error::other(e),
                })?,
        };
        pool.scope(f);
        *lock(&self.threads.0) = Some(Kept { pool, process });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, thread::ThreadId};

    fn ids(workers: Workers<'_>) -> HashSet<ThreadId> {
        let ids = Mutex::new(HashSet::new());
        let barrier = std::sync::Barrier::new(workers.count);
        let work = |_: &Scope<'_>| {
            barrier.wait();
            lock(&ids).insert(std::thread::current().id());
        };
        workers.scope(|scope| (0..workers.count).for_each(|_| scope.spawn(work))).unwrap();
        ids.into_inner().unwrap()
    }

    #[test]
    fn the_next_call_has_the_same_threads_and_one_at_the_same_time_others() {
        let threads = Threads::default();
        let first = ids(threads.workers(3));
        assert_eq!(first.len(), 3);
        assert_eq!(ids(threads.workers(3)), first);
        assert!(ids(threads.workers(2)).is_subset(&first));
        let inner = Mutex::new(HashSet::new());
        let call = |_: &Scope<'_>| *lock(&inner) = ids(threads.workers(3));
        threads.workers(3).scope(|scope| scope.spawn(call)).unwrap();
        assert!(inner.into_inner().unwrap().is_disjoint(&first));
    }

    #[test]
    fn threads_of_the_process_that_this_one_was_forked_from_are_not_waited_for() {
        let threads = Threads::default();
        let first = ids(threads.workers(2));
        lock(&threads.0).as_mut().unwrap().process += 1;
        assert!(ids(threads.workers(2)).is_disjoint(&first));
    }
}
