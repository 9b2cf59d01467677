//! Bounded work over threads: jobs run in any order, their results are delivered in job order.
//!
//! A job has a state (buffers, scratch), of which there are half as many again as workers, so memory
//! is bounded. A worker whose job is not the next to be delivered leaves its state to whoever
//! delivers that one, and goes on with a spare state: waking a thread that sleeps takes as long as
//! coding a tenth of a chunk.

use crate::{Error, Result};
use std::{
    collections::BTreeMap,
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

/// Results on their way.
struct Turn<S> {
    /// The job to be delivered next.
    next: usize,
    /// Whether some worker is delivering.
    busy: bool,
    done: BTreeMap<usize, (S, Result<()>)>,
    spare: Vec<S>,
    /// States that may still be made.
    more: usize,
    failed: Option<Error>,
}

/// Runs jobs in three stages on `threads` workers, each job with a state of `new_state`:
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
    let deliver = Mutex::new(deliver);
    let turns = Mutex::new(Turn {
        next: 0,
        busy: false,
        done: BTreeMap::new(),
        spare: Vec::new(),
        more: workers + workers.div_ceil(2),
        failed: None,
    });
    let spared = Condvar::new();
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
    // A state for the next job; none after a failure.
    let state = || {
        let mut turn = lock(&turns);
        loop {
            if turn.failed.is_some() {
                return None;
            }
            if let Some(state) = turn.spare.pop() {
                return Some(state);
            }
            if turn.more > 0 {
                turn.more -= 1;
                drop(turn);
                return Some(new_state());
            }
            turn = spared.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    };
    // Delivers all that is ready, unless another worker is at it.
    let hand_over = |job: usize, state: S, result: Result<()>| {
        let mut turn = lock(&turns);
        turn.done.insert(job, (state, result));
        if turn.busy {
            return;
        }
        turn.busy = true;
        while turn.failed.is_none() {
            let next = turn.next;
            let Some((mut state, result)) = turn.done.remove(&next) else { break };
            drop(turn);
            let result = result.and_then(|()| caught(|| lock(&deliver)(&mut state)));
            turn = lock(&turns);
            match result {
                Ok(()) => turn.next = next + 1,
                Err(e) => turn.failed = Some(e),
            }
            turn.spare.push(state);
            spared.notify_all();
        }
        turn.busy = false;
        if turn.failed.is_some() {
            drop(turn);
            lock(&source).1 = false;
        }
    };
    let worker = || {
        while let Some(mut state) = state() {
            let (job, result) = taken(&mut state);
            let result = match result {
                Ok(false) => {
                    // Others may wait for it, to learn that there is nothing more.
                    lock(&turns).spare.push(state);
                    spared.notify_all();
                    return;
                }
                Ok(true) => caught(|| work(&mut state)),
                Err(e) => Err(e),
            };
            hand_over(job, state, result);
        }
    };
    pool.scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|_| worker());
        }
    });
    let failed = lock(&turns).failed.take();
    failed.map_or(Ok(()), Err)
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
