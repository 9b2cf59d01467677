//! Where stretches of floats begin and end.
//!
//! Windows a step apart are looked at until one holds floats. From there on the next windows need
//! only hold words with like exponents. Where one does not, the place between them is halved until the end lies within a
//! few windows; there, word by word, an exponent says how much likelier it is among those of the
//! stretch than among words of any kind, and the stretch ends where the sum of that is largest.
//! What is left between stretches is searched in finer steps, for smaller tensors.

use super::{
    Stretch,
    kind::{self, Kind, classify},
    probe::{self, Profile},
};
use crate::{Result, bits::log2_q16, source::Source};

/// Finest and coarsest distance of windows.
const STEPS: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 20;
/// Distance of windows in spans of up to 4096 of them; longer ones have longer steps.
const STEP: u64 = 128 << 10;
/// Windows of a span at which longer steps begin.
const STEPS_OF_A_SPAN: u64 = 4096;
/// The distance up to which words are looked at one by one.
const NEAR: u64 = 64 << 10;

/// The stretches in the bytes `from..to`, in order, apart from each other, each of at least `least`
/// bytes.
pub(super) fn stretches(
    source: &dyn Source,
    from: u64,
    to: u64,
    least: u64,
) -> Result<Vec<Stretch>> {
    let step = ((to - from) / STEPS_OF_A_SPAN).next_power_of_two().clamp(STEP, *STEPS.end());
    let mut search = Search { source, least, found: Vec::new(), buffer: Vec::new() };
    search.search(from, to, step)?;
    search.found.sort_unstable_by_key(|s| s.from);
    Ok(search.found)
}

struct Search<'s> {
    source: &'s dyn Source,
    least: u64,
    found: Vec<Stretch>,
    buffer: Vec<u8>,
}

impl Search<'_> {
    /// Looks through `from..to` in steps, and in finer ones around what is found.
    fn search(&mut self, from: u64, to: u64, step: u64) -> Result<()> {
        // The end of the last stretch, if there was one.
        let mut last: Option<u64> = None;
        let mut at = from.next_multiple_of(8);
        while let Some(kind) = self.next_floats(&mut at, to, step)? {
            let done = last.unwrap_or(from);
            let Found { start, end } = self.extent(kind, at, done, to, step)?;
            if end - start < self.least {
                at += step;
                continue;
            }
            let before = done.max(start.saturating_sub(step));
            if let Some(last) = last {
                self.search_finer(last, before.min(last + step), step)?;
            }
            self.search_finer(before, start, step)?;
            self.found.push(Stretch { from: start, to: end, kind });
            last = Some(end);
            at = end.next_multiple_of(8).max(at + 8);
        }
        match last {
            Some(last) => self.search_finer(last, to.min(last + step), step),
            None => Ok(()),
        }
    }

    fn search_finer(&mut self, from: u64, to: u64, step: u64) -> Result<()> {
        let step = step / 4;
        if !STEPS.contains(&step) || to.saturating_sub(from) < self.least {
            return Ok(());
        }
        self.search(from, to, step)
    }

    /// The kind of the first window from `at` on that holds floats, moving `at` there.
    fn next_floats(&mut self, at: &mut u64, to: u64, step: u64) -> Result<Option<Kind>> {
        while *at < to {
            if self.profile(*at, to)?.may_be_floats() {
                let window = self.read(*at, kind::WINDOW as u64, to)?;
                if let Some(kind) = classify(window) {
                    // A window in which a tensor begins tells less than the one after it.
                    let next = *at + kind::WINDOW as u64;
                    let after = classify(self.read(next, kind::WINDOW as u64, to)?);
                    if after.is_some() {
                        *at = next;
                    }
                    return Ok(after.or(Some(kind)));
                }
            }
            *at += step;
        }
        Ok(None)
    }

    fn read(&mut self, at: u64, len: u64, to: u64) -> Result<&[u8]> {
        let len = len.min(to.saturating_sub(at)) as usize;
        self.buffer.resize(self.buffer.len().max(len), 0);
        let bytes = &mut self.buffer[..len];
        if len > 0 {
            self.source.read_at(at, bytes)?;
        }
        Ok(bytes)
    }

    fn profile(&mut self, at: u64, to: u64) -> Result<Profile> {
        self.read(at, probe::WINDOW as u64, to).map(Profile::of)
    }

    /// Whether the window at `at` holds words as those of the stretch.
    fn goes_on(&mut self, likelihood: &Likelihood, at: u64, to: u64) -> Result<bool> {
        let kind = likelihood.kind;
        let bytes = self.read(kind.align_up(at), probe::WINDOW as u64, to)?;
        Ok(likelihood.mean(kind.heads(bytes)) > likelihood.own / 4)
    }

    /// How far words of a kind reach that are found in the window at `at`, within `from..to`.
    fn extent(&mut self, kind: Kind, at: u64, from: u64, to: u64, step: u64) -> Result<Found> {
        let likelihood = Likelihood::of(kind, self.read(at, kind::WINDOW as u64, to)?);
        // It was found in the window before, maybe, and in none before that.
        let bad = at.saturating_sub(step + kind::WINDOW as u64);
        let (mut good, mut bad) = (at, from.max(bad));
        while good - bad > NEAR {
            let middle = (good + bad) / 16 * 8;
            if self.goes_on(&likelihood, middle, to)? {
                good = middle;
            } else {
                bad = middle;
            }
        }
        let start = self.scan_back(&likelihood, bad, good)?;
        let end = self.end(&likelihood, at, to, step)?.max(start);
        let start = self.trimmed(&likelihood, start, end)?;
        Ok(Found { start, end })
    }

    /// Where the words that fit begin in a stretch: windows that hold some may begin with others.
    fn trimmed(&mut self, likelihood: &Likelihood, start: u64, end: u64) -> Result<u64> {
        let kind = likelihood.kind;
        let bytes = self.read(start, kind::WINDOW as u64, end)?;
        let misfits = likelihood.misfits(kind.heads(bytes));
        Ok(start + (misfits * kind.word_len()) as u64)
    }

    fn end(&mut self, likelihood: &Likelihood, at: u64, to: u64, step: u64) -> Result<u64> {
        let mut good = at;
        loop {
            let mut bad = good + step;
            if bad + probe::WINDOW as u64 <= to {
                if self.goes_on(likelihood, bad, to)? {
                    good = bad;
                    continue;
                }
                while bad - good > NEAR {
                    let middle = (good + bad) / 16 * 8;
                    if self.goes_on(likelihood, middle, to)? {
                        good = middle;
                    } else {
                        bad = middle;
                    }
                }
            }
            let limit = to.min(bad + kind::WINDOW as u64);
            let end = self.scan_forward(likelihood, good, limit)?;
            // The words of a window that did not look like it may do so one by one.
            if limit == to || end + 64 < limit {
                return Ok(end);
            }
            good = bad;
        }
    }

    /// The end of the words that fit, which are at `from`, before `to`.
    fn scan_forward(&mut self, likelihood: &Likelihood, from: u64, to: u64) -> Result<u64> {
        let kind = likelihood.kind;
        let first = kind.align_up(from);
        let bytes = self.read(first, to.saturating_sub(first), to)?;
        let fitting = likelihood.fitting(kind.heads(bytes));
        Ok(first + (fitting * kind.word_len()) as u64)
    }

    /// The start of the words that fit, of which there are some from `to` on, after `from`.
    fn scan_back(&mut self, likelihood: &Likelihood, from: u64, to: u64) -> Result<u64> {
        let kind = likelihood.kind;
        let first = kind.align_up(from);
        let last = kind.align_up(to);
        let bytes = self.read(first, last.saturating_sub(first), self.source.len())?;
        let heads: Vec<u16> = kind.heads(bytes).collect();
        let fitting = likelihood.fitting(heads.into_iter().rev());
        Ok(last - (fitting * kind.word_len()) as u64)
    }
}

struct Found {
    start: u64,
    end: u64,
}

/// How much likelier an exponent is in a stretch than anywhere, as a logarithm in units of 1/256.
struct Likelihood {
    kind: Kind,
    shift: u32,
    gains: Vec<i32>,
    /// The mean gain in the window that it was made of.
    own: i32,
}

/// Words that fit badly end a stretch when they have lost this much.
const GIVE_UP: i32 = 512 << 8;

impl Likelihood {
    /// From a window that holds words of this kind and begins at a multiple of 8.
    fn of(kind: Kind, window: &[u8]) -> Likelihood {
        // The upper eight bits of an exponent are enough.
        let bits = kind.exponent_bits().min(8);
        let mut counts = vec![0u32; 1 << bits];
        let shift = 15 - bits;
        let octaves = 1 << (kind.exponent_bits() - bits);
        for head in kind.heads(&window[kind.phase.min(window.len())..]) {
            counts[usize::from((head & 0x7fff) >> shift)] += 64;
        }
        let total: u32 = counts.iter().sum();
        let gain = |i: usize| {
            // Tensors beside it may have other scales.
            let near = |k: usize| counts[k] >> (i.abs_diff(k) as u32 * octaves).min(31);
            let near = (0..counts.len()).map(near).max();
            let near = log2_q16(near.unwrap_or(0).max(1)) as i32;
            ((near - log2_q16(total.max(1)) as i32) / 256 + (bits << 8) as i32).max(-12 << 8)
        };
        let mut gains: Vec<i32> = (0..counts.len()).map(gain).collect();
        // Zeros stand in tensors and between them.
        gains[0] = 0;
        let mut found = Likelihood { kind, shift, gains, own: 0 };
        found.own = found.mean(kind.heads(&window[kind.phase.min(window.len())..]));
        found
    }

    /// The mean gain of a word.
    fn mean(&self, heads: impl Iterator<Item = u16>) -> i32 {
        let (sum, n) = heads.fold((0, 0), |(sum, n), head| (sum + self.gain(head), n + 1));
        sum / n.max(1)
    }

    /// How many words from the first on do not fit, if others after them do.
    fn misfits(&self, heads: impl Iterator<Item = u16>) -> usize {
        let (mut sum, mut least, mut misfits) = (0, 0, 0);
        for (i, head) in heads.enumerate() {
            sum += self.gain(head);
            if sum < least {
                (least, misfits) = (sum, i + 1);
            }
        }
        misfits
    }

    fn gain(&self, head: u16) -> i32 {
        self.gains[usize::from((head & 0x7fff) >> self.shift)]
    }

    /// How many words from the first on fit.
    fn fitting(&self, heads: impl Iterator<Item = u16>) -> usize {
        let (mut sum, mut most, mut fitting) = (0, 0, 0);
        for (i, head) in heads.enumerate() {
            sum += self.gain(head);
            if sum > most {
                (most, fitting) = (sum, i + 1);
            } else if sum + GIVE_UP < most {
                break;
            }
        }
        fitting
    }
}
