//! Finds how gradients were folded into moments, from a stretch of them.
//!
//! What the update did with its scalars, it did with all gradients, and most have few significant
//! bits: right scalars are those with which the shortest gradients are found. The decay rate and
//! the order are tried. The factor of clipping can be any number, but it is found in the mantissas:
//! those of `clip·G` pile up at clip, 1.5·clip, 1.25·clip, … which are G with one, two and three
//! significant bits, and so on. The mean of such a pile is close to the factor times an odd number,
//! and which one it is follows from the other piles. Least squares over all gradients that are short
//! with the factor, and its neighbours, give it to the last bit.
//!
//! Sums run in order, in `f64`: every machine finds the same scalars.

use super::{FOLD_ORDERS, Fold, Inverse, MANTISSA, shortest, significant_bits, solve};
use crate::{predict::float_state, simd::Level};

/// Words of the same places in the base's moment and in the new one, `f32` and of the same length.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "0 is the base, 1 is new")]
pub struct Stretch<'a> {
    pub m0: &'a [u8],
    pub m1: &'a [u8],
}

/// Words that scalars are tried on.
const TRIED: usize = 512;
/// Words that are tried first, and the bits above which no others are.
const TRIED_FIRST: usize = 64;
const HOPELESS: u64 = 20 * BIT;
/// Words that the factor of clipping is computed from.
const FITTED: usize = 4096;
/// Fewer words than this say nothing.
const LEAST: usize = 64;
/// Piles that are looked at, and those of them that stand for every odd number in turn.
const PILES: usize = 12;
const ANCHORS: usize = 2;
/// Odd numbers that a pile may stand for: what single gradients of up to 11 significant bits have.
const ODD: usize = 1024;
/// How precisely a pile says where it is.
const PRECISION: f64 = 1.0 / (1 << 20) as f64;
/// Factors that are looked at more closely.
const CLOSER: usize = 4;
/// Least words in a pile.
const LEAST_PILED: usize = 5;
/// One bit a word, as [`Search::cost`] counts.
const BIT: u64 = 1024;
/// Significant bits up to which scalars are right, and up to which there is nothing to search for.
const MOST: u64 = 17 * BIT;
const FEW: u64 = 12 * BIT;
/// Bits of a word without a G.
const RAW: u32 = 32;

/// The scalars with which gradients are shortest, if they are short. `betas` are decay rates that
/// are likely, best first; `tried` are scalars that did for other tensors. Of averages alone, or,
/// with `sums`, also of moments to which gradients are added as they are.
pub fn find(
    level: Level,
    stretch: Stretch,
    betas: &[f64],
    sums: bool,
    tried: &[Fold],
) -> Option<Fold> {
    float_state::with_default(|| {
        let mut search = Search::new(level, stretch, tried.first().copied(), betas)?;
        for s in tried {
            search.attempt(*s);
        }
        if search.least() > FEW {
            search.attempt_rates(betas, sums);
        }
        search.best.filter(|(cost, _)| *cost < MOST).map(|(_, s)| s)
    })
}

struct Search {
    level: Level,
    /// Words of a G that is not 0.
    m0: Vec<u8>,
    m1: Vec<u8>,
    solved: Vec<f64>,
    best: Option<(u64, Fold)>,
}

impl Search {
    /// Keeps the words that tell something; `None` where they are few.
    fn new(level: Level, stretch: Stretch, like: Option<Fold>, betas: &[f64]) -> Option<Search> {
        let like = like.or(betas.first().map(|&beta| Fold::new(0, beta, 1.0)))?;
        let inverse = Inverse::new(like);
        let (mut m0, mut m1) = (Vec::new(), Vec::new());
        let words = stretch.m0.as_chunks::<4>().0.iter().zip(stretch.m1.as_chunks::<4>().0);
        for (a, b) in words {
            let (x, y) = (f32::from_le_bytes(*a), f32::from_le_bytes(*b));
            let (center, radius) = inverse.interval(x, y);
            // Far from the base, rounding hides less of the gradient.
            if x.is_normal() && y.is_normal() && center.abs() > 64.0 * radius {
                m0.extend_from_slice(a);
                m1.extend_from_slice(b);
            }
        }
        (m0.len() >= 4 * LEAST).then(|| Search { level, m0, m1, solved: Vec::new(), best: None })
    }

    fn least(&self) -> u64 {
        self.best.map_or(u64::MAX, |(cost, _)| cost)
    }

    fn solve(&mut self, s: Fold, n: usize) {
        let n = n.min(self.m0.len() / 4);
        self.solved.resize(n, 0.0);
        solve(self.level, &s, &self.m0[..4 * n], &self.m1[..4 * n], &mut self.solved);
    }

    /// Significant bits of a word's gradient on average, times [`BIT`].
    fn cost(&mut self, s: Fold) -> u64 {
        self.solve(s, TRIED_FIRST);
        let first = self.mean();
        if first > HOPELESS {
            return first;
        }
        self.solve(s, TRIED);
        self.mean()
    }

    fn mean(&self) -> u64 {
        let bits = self.solved.iter().map(|&x| u64::from(length(x)));
        BIT * bits.sum::<u64>() / self.solved.len() as u64
    }

    fn attempt(&mut self, s: Fold) -> u64 {
        let cost = self.cost(s);
        if cost < self.least() {
            self.best = Some((cost, s));
        }
        cost
    }

    fn attempt_rates(&mut self, betas: &[f64], sums: bool) {
        for &beta in betas {
            // Rounded decay rates differ from one kind of order to the other, by as much as results
            // do.
            let mut kinds = [0, 4].map(|order| Fold::new(order, beta, 1.0)).to_vec();
            if sums {
                kinds.extend([5, 6].map(|order| Fold::sum(order, beta, 1.0)));
            }
            let least = kinds.iter().map(|s| self.attempt(*s)).min();
            if least.is_none_or(|cost| cost > FEW) {
                for clip in self.factors(kinds[0]) {
                    kinds[..2].iter().for_each(|s| self.refine(Fold { clip, ..*s }));
                }
                for clip in kinds.get(2).map_or(Vec::new(), |s| self.factors(*s)) {
                    kinds[2..].iter().for_each(|s| self.refine(Fold { clip, ..*s }));
                }
            }
            if self.least() < FEW {
                break;
            }
        }
        let Some((_, s)) = self.best.filter(|(cost, _)| *cost < MOST) else { return };
        if s.gain == 1.0 {
            return [5, 6].iter().for_each(|&order| _ = self.attempt(Fold { order, ..s }));
        }
        for &beta in betas {
            if [0, 4].iter().any(|&order| Fold::new(order, beta, s.clip) == s) {
                for order in 0..FOLD_ORDERS {
                    self.attempt(Fold::new(order, beta, s.clip));
                }
            }
        }
    }

    /// Factors that the mantissas of gradients suggest, between a half and 1.
    fn factors(&self, s: Fold) -> Vec<f32> {
        let inverse = Inverse::new(s);
        let words = self.m0.as_chunks::<4>().0.iter().zip(self.m1.as_chunks::<4>().0);
        let mut sharp: Vec<(f64, f64)> = Vec::new();
        for (a, b) in words {
            let (center, radius) = inverse.interval(f32::from_le_bytes(*a), f32::from_le_bytes(*b));
            let error = radius / center.abs();
            if error < 1.0 / f64::from(1 << 18) {
                let mantissa = f64::from_bits(center.to_bits() & MANTISSA | 1023 << 52);
                sharp.push((mantissa, error));
            }
        }
        sharp.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // Each as the number of those that follow closely.
        let mut piles: Vec<(usize, usize)> = Vec::new();
        let mut end = 0;
        for (i, &(x, _)) in sharp.iter().enumerate() {
            while end < sharp.len() && sharp[end].0 <= x * (1.0 + 1.0 / f64::from(1 << 17)) {
                end += 1;
            }
            if end - i >= LEAST_PILED {
                piles.push((end - i, i));
            }
        }
        piles.sort_by(|a, b| b.cmp(a));
        let mut found: Vec<f64> = Vec::new();
        for (n, i) in piles {
            let pile = &sharp[i..i + n];
            let (mut sum, mut weights) = (0.0, 0.0);
            for &(x, error) in pile {
                let weight = 1.0 / (error * error);
                sum += x * weight;
                weights += weight;
            }
            let mean: f64 = sum / weights;
            if found.iter().all(|f| (f / mean - 1.0).abs() > 1e-4) {
                found.push(mean);
            }
            if found.len() == PILES {
                break;
            }
        }
        suggested(&found)
    }

    /// Tries scalars, then those whose factor fits the gradients that are short with them, then
    /// neighbours of that factor.
    fn refine(&mut self, mut s: Fold) {
        // Where nothing else is rounded, gradients are short with the very factor alone.
        let near = (-6..=6).map(|ulps| {
            let clip = f32::from_bits(s.clip.to_bits().wrapping_add_signed(ulps));
            let near = Fold { clip, ..s };
            (self.attempt(near), near)
        });
        let Some(found) = near.min_by_key(|(cost, _)| *cost) else { return };
        if found.0 > HOPELESS {
            return;
        }
        s = found.1;
        for _ in 0..3 {
            let Some(clip) = self.fit(s).filter(|&clip| clip != s.clip) else { break };
            s.clip = clip;
            self.attempt(s);
        }
        let middle = s;
        for ulps in [-1, 1, -2, 2, -3, 3, -4, 4] {
            s.clip = f32::from_bits(middle.clip.to_bits().wrapping_add_signed(ulps));
            self.attempt(s);
        }
    }

    /// The factor by weighted least squares over short gradients.
    fn fit(&mut self, s: Fold) -> Option<f32> {
        self.solve(s, FITTED);
        let inverse = Inverse::new(s);
        let words = self.m0.as_chunks::<4>().0.iter().zip(self.m1.as_chunks::<4>().0);
        let (mut sum, mut weights) = (0.0, 0.0);
        for (&x, (a, b)) in self.solved.iter().zip(words) {
            if !x.is_normal() || length(x) > 12 {
                continue;
            }
            let (center, radius) = inverse.interval(f32::from_le_bytes(*a), f32::from_le_bytes(*b));
            let weight = (x / radius) * (x / radius);
            sum += weight * (center / x);
            weights += weight;
        }
        let clip = f64::from(s.clip) * sum / weights;
        clip.is_finite().then_some(clip as f32)
    }
}

/// The factors of which all piles together are the shortest multiples, the best first.
fn suggested(piles: &[f64]) -> Vec<f32> {
    let mut all: Vec<(u32, f64)> = Vec::new();
    for anchor in piles.iter().take(ANCHORS) {
        for i in 0..ODD {
            let factor = anchor / (2 * i + 1) as f64;
            let of_pile = |pile: &f64| {
                let multiple = pile / factor;
                length(shortest(multiple, multiple * PRECISION))
            };
            all.push((piles.iter().map(of_pile).sum(), factor));
        }
    }
    all.sort_by_key(|(bits, _)| *bits);
    let mut found: Vec<f32> = Vec::new();
    for (_, x) in all {
        let x = f64::from_bits(x.to_bits() & MANTISSA | 1022 << 52);
        if found.iter().all(|f| (f64::from(*f) / x - 1.0).abs() > 1e-5) {
            found.push(x as f32);
        }
        if found.len() == CLOSER {
            break;
        }
    }
    found
}

/// Significant bits of a solution.
fn length(x: f64) -> u32 {
    if x == 0.0 || x.is_infinite() {
        return 1;
    }
    if x.is_nan() {
        return RAW;
    }
    significant_bits(x)
}
