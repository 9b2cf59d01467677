//! Bounded work over threads: jobs run in any order, their results are delivered in job order.
//!
//! A job has a state (buffers, scratch), of which there are half as many again as workers, so memory
//! is bounded. A worker whose job is not the next to be delivered leaves its state to whoever
//! delivers that one, and goes on with a spare state: waking a thread that sleeps takes as long as
//! coding a tenth of a chunk.

mod threads;

pub use threads::{Threads, Workers};

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
    /// Results that wait for their turn, with the memory of their jobs.
    done: BTreeMap<usize, (S, Result<()>, u64)>,
    /// Memory of all jobs that have begun and were not delivered.
    memory: u64,
    spare: Vec<S>,
    /// States that may still be made.
    more: usize,
    failed: Option<Error>,
}

/// Runs jobs in three stages, each job with a state of `new_state`:
/// `take` in job order, one at a time (it returns `false` when there are no more jobs), `work`
/// in parallel, `deliver` in job order, one at a time.
///
/// After an error no new job starts; the error of the earliest failed job is returned.
///
/// # Errors
/// What a stage returned, or `Io` (interrupted) after `cancel`.
pub fn run_ordered<S: Send>(
    workers: Workers<'_>,
    cancel: &Cancel,
    new_state: impl Fn() -> S + Sync,
    take: impl FnMut(&mut S) -> Result<bool> + Send,
    work: impl Fn(&mut S) -> Result<()> + Sync,
    deliver: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    let memory = Memory { limit: u64::MAX, of: |_: &S| Ok(0) };
    run_within(workers, cancel, memory, new_state, take, work, deliver)
}

/// What the jobs of [`run_within`] may take together.
pub struct Memory<F> {
    /// Bytes of all jobs between `take` and the end of `deliver`. A job that takes more by itself
    /// is done alone.
    pub limit: u64,
    /// Bytes of the job that a state has just taken, or why it cannot be done.
    pub of: F,
}

/// As [`run_ordered`]; a job begins once there is memory for it beside those that have begun.
/// After `deliver`, a state holds no more than what is small beside the limit.
///
/// # Errors
/// As for [`run_ordered`], and what `memory.of` returned.
pub fn run_within<S: Send, F: Fn(&S) -> Result<u64> + Sync>(
    workers: Workers<'_>,
    cancel: &Cancel,
    memory: Memory<F>,
    new_state: impl Fn() -> S + Sync,
    mut take: impl FnMut(&mut S) -> Result<bool> + Send,
    work: impl Fn(&mut S) -> Result<()> + Sync,
    mut deliver: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    if workers.count == 1 {
        let mut state = new_state();
        while take(&mut state)? {
            check(cancel)?;
            (memory.of)(&state)?;
            work(&mut state)?;
            deliver(&mut state)?;
        }
        return Ok(());
    }
    let source = Mutex::new((0usize, true, take));
    let deliver = Mutex::new(deliver);
    let turns = Mutex::new(Turn {
        next: 0,
        busy: false,
        done: BTreeMap::new(),
        memory: 0,
        spare: Vec::new(),
        more: workers.count + workers.count.div_ceil(2),
        failed: None,
    });
    let spared = Condvar::new();
    let taken = |state: &mut S| {
        let mut source = lock(&source);
        let (next, more, take) = &mut *source;
        let job = *next;
        if !*more {
            return (job, Ok(None));
        }
        let taken = check(cancel).and_then(|()| caught(|| take(state)));
        let taken = taken.and_then(|more| match more {
            true => (memory.of)(state).map(Some),
            false => Ok(None),
        });
        *more = matches!(taken, Ok(Some(_)));
        *next += 1;
        // Those before it need nothing that is held here, so they end, and room is made.
        if let Ok(Some(bytes)) = taken {
            let mut turn = lock(&turns);
            while turn.memory > 0
                && turn.memory.saturating_add(bytes) > memory.limit
                && turn.failed.is_none()
            {
                turn = spared.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            turn.memory = turn.memory.saturating_add(bytes);
        }
        (job, taken)
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
    let hand_over = |job: usize, state: S, result: Result<()>, bytes: u64| {
        let mut turn = lock(&turns);
        turn.done.insert(job, (state, result, bytes));
        if turn.busy {
            return;
        }
        turn.busy = true;
        while turn.failed.is_none() {
            let next = turn.next;
            let Some((mut state, result, bytes)) = turn.done.remove(&next) else { break };
            drop(turn);
            let result = result.and_then(|()| caught(|| lock(&deliver)(&mut state)));
            turn = lock(&turns);
            turn.memory = turn.memory.saturating_sub(bytes);
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
            let (job, taken) = taken(&mut state);
            let (result, bytes) = match taken {
                Ok(None) => {
                    // Others may wait for it, to learn that there is nothing more.
                    lock(&turns).spare.push(state);
                    spared.notify_all();
                    return;
                }
                Ok(Some(bytes)) => (caught(|| work(&mut state)), bytes),
                Err(e) => (Err(e), 0),
            };
            hand_over(job, state, result, bytes);
        }
    };
    workers.scope(|scope| {
        for _ in 0..workers.count {
            scope.spawn(|_| worker());
        }
    })?;
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
        let all = Threads::default();
        for threads in [1, 2, 3, 8] {
            let mut seen = Vec::new();
            run_ordered(
                all.workers(threads),
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
        let all = Threads::default();
        for threads in [1, 2, 5] {
            let mut last = None;
            let result = run_ordered(
                all.workers(threads),
                &Cancel::new(),
                || 0,
                numbered(50, |state: &mut usize, job| *state = job),
                |job| match *job {
                    20 | 21 => Err(Error::Corrupt(job.to_string().into())),
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
    fn jobs_under_way_take_no_more_memory_than_the_limit_unless_one_does_alone() {
        let all = Threads::default();
        for threads in [1, 2, 5] {
            let (now, most) = (Mutex::new(0u64), Mutex::new(0u64));
            let bytes = |job: usize| if job == 30 { 50 } else { 1 + job as u64 % 5 };
            run_within(
                all.workers(threads),
                &Cancel::new(),
                Memory { limit: 8, of: |job: &usize| Ok(bytes(*job)) },
                || 0,
                numbered(60, |state: &mut usize, job| *state = job),
                |job| {
                    let mut now = lock(&now);
                    *now += bytes(*job);
                    assert!(*now <= 8 || *job == 30 && *now == 50, "{now} bytes");
                    let mut most = lock(&most);
                    *most = most.max(*now);
                    Ok(())
                },
                |job| {
                    *lock(&now) -= bytes(*job);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(*lock(&most), 50);
        }
    }

    #[test]
    fn a_failure_wakes_those_that_wait_for_memory() {
        let result = run_within(
            Threads::default().workers(4),
            &Cancel::new(),
            Memory { limit: 2, of: |_: &usize| Ok(2) },
            || 0,
            numbered(50, |state: &mut usize, job| *state = job),
            |job| if *job == 9 { Err(Error::Corrupt("9".into())) } else { Ok(()) },
            |_| Ok(()),
        );
        assert!(matches!(result, Err(Error::Corrupt(m)) if m == "9"));
    }

    #[test]
    fn a_panic_in_a_worker_becomes_an_error_and_nobody_waits_for_it() {
        let result = run_ordered(
            Threads::default().workers(4),
            &Cancel::new(),
            || 0,
            numbered(50, |state: &mut usize, job| *state = job),
            |job| if *job == 9 { panic!("on purpose") } else { Ok(()) },
            |_| Ok(()),
        );
        assert!(matches!(result, Err(Error::Io { .. })));
    }
}
