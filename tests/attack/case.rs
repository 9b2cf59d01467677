//! Cases: numbers, the generators that they seed, and for how long there are more of them.

use crate::common::Rng;
use std::{
    collections::BTreeMap,
    env,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// Tests of this program run one at a time: they count memory, and starve nobody's clock.
static ALONE: Mutex<()> = Mutex::new(());

/// How long a test goes on unless it is told.
const SPAN: Duration = Duration::from_millis(1500);

/// How often a long run says how far it is.
const REPORT: Duration = Duration::from_secs(60);

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The cases of one test.
pub struct Cases {
    name: &'static str,
    end: Instant,
    /// When to say next how far it is.
    report: Instant,
    next: u64,
    only: Option<u64>,
    run: u64,
    counts: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

impl Cases {
    pub fn new(name: &'static str) -> Cases {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let span = number("LMC_ATTACK_SECONDS").map_or(SPAN, Duration::from_secs);
        let first = number("LMC_ATTACK_SEED").unwrap_or(1) << 32;
        let only = number("LMC_ATTACK_CASE");
        Cases {
            name,
            end: Instant::now() + span,
            report: Instant::now() + REPORT,
            next: only.unwrap_or(first),
            only,
            run: 0,
            counts: BTreeMap::new(),
            failures: Vec::new(),
            _alone: alone,
        }
    }

    /// The next case; `None` when the time is over, or too much has failed.
    pub fn next(&mut self) -> Option<Case> {
        let over = match self.only {
            Some(_) => self.run == 1,
            None => self.run > 0 && Instant::now() > self.end,
        };
        if over || self.failures.len() >= 20 {
            return None;
        }
        if Instant::now() > self.report {
            self.report = Instant::now() + REPORT;
            println!("{}", self.line());
        }
        let number = self.next;
        self.next += 1;
        self.run += 1;
        crate::memory::CASE.store(number, Ordering::Relaxed);
        Some(Case { number, rng: Rng::new(number.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5bd1) })
    }

    /// Counts something that happened in a case.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A promise was broken: a failure where it is `required`, else counted, the first with its
    /// words.
    pub fn broken(&mut self, required: bool, what: &'static str, case: u64, why: &str) {
        let line = format!("LMC_ATTACK_CASE={case}: {what}: {why}");
        if required {
            self.failures.push(line);
        } else if !self.counts.contains_key(what) {
            println!("{}: {line}", self.name);
        }
        self.count(what);
    }

    fn line(&self) -> String {
        let counts: Vec<_> = self.counts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        format!("{}: {} cases; {}", self.name, self.run, counts.join("; "))
    }

    pub fn finish(self) {
        println!("{}", self.line());
        assert!(self.failures.is_empty(), "{}\n{}", self.name, self.failures.join("\n"));
    }
}

/// One case.
pub struct Case {
    pub number: u64,
    pub rng: Rng,
}

/// What cases draw.
pub trait Draw {
    /// A number below `n`, 0 where `n` is 0.
    fn below(&mut self, n: usize) -> usize;

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A number with a fondness for ends, powers of two and neighbours of `near`.
    fn number(&mut self, near: u64) -> u64;
}

impl Draw for Rng {
    fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 16) % n.max(1) as u64) as usize
    }

    fn number(&mut self, near: u64) -> u64 {
        let power = 1u64 << self.below(64);
        match self.below(10) {
            0 => self.below(4) as u64,
            1 => u64::MAX - self.below(4) as u64,
            2 => power,
            3 => power.wrapping_sub(1),
            4 => power.wrapping_add(self.below(3) as u64),
            5 => near.wrapping_add(1),
            6 => near.wrapping_sub(1),
            7 => near.wrapping_mul(2),
            8 => (1 << 63) | near,
            _ => self.next() >> self.below(64),
        }
    }
}
