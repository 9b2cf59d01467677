//! Whether words were made of some floats in some way: found out from a few of them.

use super::{Quantise, Target, codes_of, given_codes, known_subs, split_blocks};
use crate::{
    codec::{ChunkSpec, quantised},
    predict::quantise::given,
    simd::Level,
};

/// Buffers for trials.
#[derive(Default)]
pub struct Trial {
    buffers: super::Quantised,
}

/// How well codes agree with their predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of codes.
    pub n: usize,
    /// Those that are as predicted.
    pub equal: usize,
    /// Sum of the distances from the predictions.
    pub distance: u64,
    /// Sum of the distances from the mean.
    pub spread: u64,
    /// How many different codes there are.
    pub kinds: usize,
}

impl Agreement {
    /// Whether nearly all are as predicted, and it is no accident.
    pub fn is_exact(&self) -> bool {
        self.kinds > 3 && self.equal * 16 >= self.n * 15
    }

    /// Whether predictions tell something about the codes.
    pub fn helps(&self) -> bool {
        self.is_exact() || self.distance * 4 < self.spread * 3
    }
}

impl Trial {
    /// Predicts words and compares; `None` where they cannot have been made so.
    pub fn agreement(
        &mut self,
        level: Level,
        spec: &ChunkSpec,
        how: &Quantise,
        words: &[u8],
        known: &[u8],
    ) -> Option<Agreement> {
        let target = Target::of(spec.dtype)?;
        if !how.fits(spec, words.len(), known.len()) {
            return None;
        }
        let super::Quantised { wide, ranges, found, real, subs, fields, .. } = &mut self.buffers;
        how.widen(level, spec, known, wide);
        match target {
            Target::Words(kind) => {
                how.words(level, kind, spec, wide, &mut found[2]);
                real[2].clear();
                real[2].extend_from_slice(words);
            }
            Target::Blocks(kind, layout) => {
                split_blocks(level, layout, words, real);
                let [d, m, codes] = found;
                ranges.find(level, kind, wide, d, m);
                ranges.settle(kind, [d, m], [&real[0], &real[1]]);
                codes.resize(wide.len() / 4, 0);
                ranges.codes(level, kind, how.order(), wide, codes);
            }
            Target::Given(layout, centre) => {
                quantised::split_given(level, layout, words, fields);
                codes_of(layout, words, level, &mut real[2]);
                known_subs(layout, fields, subs);
                found[2].resize(wide.len() / 4, 0);
                let c = given_codes(layout, centre, how.order());
                given::codes(level, c, false, wide, subs, &mut found[2]);
            }
        }
        Some(compare(&real[2], &found[2]))
    }
}

fn compare(real: &[u8], found: &[u8]) -> Agreement {
    // In the order of what they stand for, or of its magnitude with the sign above.
    let order = |b: u8| i64::from((b as i8) ^ ((b as i8) >> 7 & i8::MAX));
    let n = real.len();
    let sum: i64 = real.iter().map(|&b| order(b)).sum();
    let mean = sum / n.max(1) as i64;
    let mut seen = [false; 256];
    real.iter().for_each(|&b| seen[usize::from(b)] = true);
    let pairs = || real.iter().zip(found);
    Agreement {
        n,
        equal: pairs().filter(|(r, f)| r == f).count(),
        distance: pairs().map(|(r, f)| order(*r).abs_diff(order(*f))).sum(),
        spread: real.iter().map(|&r| order(r).abs_diff(mean)).sum(),
        kinds: seen.iter().filter(|s| **s).count(),
    }
}
