//! Bounded work over threads: jobs run in any order, their results are delivered in job order.
//!
//! Every worker owns one state (buffers, scratch) and never holds more than one finished job, so
//! memory is bounded by the number of workers. A worker whose job is done waits for its turn and
//! delivers by itself while the data is still in its cache; the others go on coding.

use crate::{Error, Result};
use std::{
    num::NonZeroUsize,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A flag that stops work between jobs, shared with signal handlers.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// A flag that is not set.
    pub const fn new() -> Self {
        Cancel(AtomicBool::new(false))
    }

    /// Asks running work to stop after the jobs at hand.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of workers for a requested number of threads, 0 meaning one a core.
pub fn worker_count(threads: usize) -> usize {
    if threads > 0 {
        return threads;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

struct Turn<D> {
    next: usize,
    failed: Option<(usize, Error)>,
    deliver: D,
}

/// Runs jobs in three stages on `threads` workers, each with one state of `new_state`:
/// `take` in job order, one at a time (it returns `false` when there are no more jobs), `work`
/// in parallel, `deliver` in job order, one at a time.
///
/// After an error no new job starts; the error of the earliest failed job is returned.
///
/// # Errors
/// What a stage returned, or `Io` (interrupted) after `cancel`.
pub fn run_ordered<S: Send>(
    threads: usize,
    cancel: &Cancel,
    new_state: impl Fn() -> S + Sync,
    mut take: impl FnMut(&mut S) -> Result<bool> + Send,
    work: impl Fn(&mut S) -> Result<()> + Sync,
    mut deliver: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    let workers = worker_count(threads);
    if workers == 1 {
        let mut state = new_state();
        while take(&mut state)? {
            check(cancel)?;
            work(&mut state)?;
            deliver(&mut state)?;
        }
        return Ok(());
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|i| format!("lmc-{i}"))
        .build()
        .map_err(|e| Error::Io {
            context: format!("cannot start {workers} threads"),
            source: std::io::Error::other(e),
        })?;
    let source = Mutex::new((0usize, true, take));
    let turn = Mutex::new(Turn { next: 0, failed: None, deliver });
    let turned = Condvar::new();
    let taken = |state: &mut S| {
        let mut source = lock(&source);
        let (next, more, take) = &mut *source;
        let job = *next;
        if !*more {
            return (job, Ok(false));
        }
        let result = check(cancel).and_then(|()| caught(|| take(state)));
        *more = matches!(result, Ok(true));
        *next += 1;
        (job, result)
    };
    let worker = || {
        let mut state = new_state();
        loop {
            let (job, result) = taken(&mut state);
            let result = match result {
                Ok(false) => return,
                Ok(true) => caught(|| work(&mut state)),
                Err(e) => Err(e),
            };
            let mut turn = lock(&turn);
            let earlier = |t: &Turn<_>| t.failed.as_ref().is_some_and(|f| f.0 < job);
            while turn.next != job && !earlier(&turn) {
                turn = turned.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            if earlier(&turn) {
                return;
            }
            match result.and_then(|()| caught(|| (turn.deliver)(&mut state))) {
                Ok(()) => turn.next = job + 1,
                Err(e) => turn.failed = Some((job, e)),
            }
            let stop = turn.failed.is_some();
            drop(turn);
            turned.notify_all();
            if stop {
                lock(&source).1 = false;
                return;
            }
        }
    };
    pool.scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| worker());
        }
    });
    let failed = lock(&turn).failed.take();
    failed.map_or(Ok(()), |(_, e)| Err(e))
}

/// A `take` stage for jobs that are numbered beforehand: `set` tells a state its job.
pub fn numbered<S>(jobs: usize, set: impl Fn(&mut S, usize)) -> impl FnMut(&mut S) -> Result<bool> {
    let mut next = 0;
    move |state| {
        set(state, next);
        next += 1;
        Ok(next <= jobs)
    }
}

/// Turns a panic into an error: a worker that vanished would leave the others waiting for it.
fn caught<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or_else(|_| {
        Err(Error::Io {
            context: "internal error in a worker thread".into(),
            source: std::io::Error::other("panic"),
        })
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(Error::Io {
            context: "stopped".into(),
            source: std::io::ErrorKind::Interrupted.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_delivered_in_order_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let mut seen = Vec::new();
            run_ordered(
                threads,
                &Cancel::new(),
                || (0, 0),
                numbered(100, |state: &mut (usize, usize), job| state.0 = job),
                |state| {
                    state.1 = state.0 * 2;
                    if state.0 % 7 == 0 {
                        std::thread::yield_now();
                    }
                    Ok(())
                },
                |state| {
                    assert_eq!(state.1, state.0 * 2);
                    seen.push(state.0);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_earliest_failure_is_reported_and_nothing_after_it_delivered() {
        for threads in [1, 2, 5] {
            let mut last = None;
            let result = run_ordered(
                threads,
                &Cancel::new(),
                || 0,
                numbered(50, |state: &mut usize, job| *state = job),
                |job| match *job {
                    20 | 21 => Err(Error::Corrupt(job.to_string())),
                    _ => Ok(()),
                },
                |job| {
                    last = Some(*job);
                    Ok(())
                },
            );
            assert!(matches!(result, Err(Error::Corrupt(m)) if m == "20"));
            assert_eq!(last, Some(19));
        }
    }

    #[test]
    fn a_panic_in_a_worker_becomes_an_error_and_nobody_waits_for_it() {
        let result = run_ordered(
            4,
            &Cancel::new(),
            || 0,
            numbered(50, |state: &mut usize, job| *state = job),
            |job| if *job == 9 { panic!("on purpose") } else { Ok(()) },
            |_| Ok(()),
        );
        assert!(matches!(result, Err(Error::Io { .. })));
    }
}
