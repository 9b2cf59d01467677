//! Finds the scalars of an optimizer step from a sample of its words.
//!
//! Learning rates are rarely known to the last bit, and a slightly wrong one costs most of what
//! the prediction gains. But the update is linear in them: with `u = m/(√v/bias + eps)`,
//! `w₁ − w₀ = (decay − 1)·w₀ + step·u` but for rounding, so least squares over the sample gives
//! both within a few units in the last place, and counting exact hits finds the rest of the way.
//! Sums run over the sample in order, in `f64`: every machine finds the same scalars.

use super::{Second, SecondInputs, WEIGHT_ORDERS, WeightInputs, Weights, second, weights};
use crate::{
    predict::{
        float_state,
        trial::{BIT, cost},
    },
    simd::Level,
};

/// What is known of an optimizer beforehand; every list may be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hints {
    /// Learning rates.
    pub lr: Vec<f64>,
    /// Decay rates of first and second moment.
    pub betas: Vec<[f64; 2]>,
    /// Terms added to the denominator.
    pub eps: Vec<f64>,
    /// Weight decays.
    pub weight_decay: Vec<f64>,
    /// Steps taken.
    pub steps: Vec<u64>,
}

impl Hints {
    /// Likely decay rates of the first moment, best first; with `alone`, of moments that have no
    /// second one.
    pub fn first_betas(&self, alone: bool) -> Vec<f64> {
        let mut found: Vec<f64> = Vec::new();
        // Lion folds gradients in at the second of its rates.
        let others = self.betas.iter().map(|b| b[1]).chain(MOMENTA).filter(|_| alone);
        for beta in others.chain(self.betas.iter().chain(&BETAS).map(|b| b[0])) {
            if !found.contains(&beta) {
                found.push(beta);
            }
        }
        found
    }
}

/// Words of the same places in several tensors, all `f32` and of the same length.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "0 is the base, 1 is new; w weights, m and v moments")]
pub struct Sample<'a> {
    pub w0: &'a [u8],
    pub w1: &'a [u8],
    pub m0: &'a [u8],
    pub m1: &'a [u8],
    pub v0: &'a [u8],
    pub v1: &'a [u8],
}

/// Decay rates that are common.
const BETAS: [[f64; 2]; 9] = [
    [0.9, 0.95],
    [0.9, 0.999],
    [0.9, 0.98],
    [0.9, 0.99],
    [0.95, 0.95],
    [0.95, 0.99],
    [0.95, 0.999],
    [0.8, 0.99],
    [0.5, 0.999],
];
/// Decay rates of momentum, of Lion and of Muon.
const MOMENTA: [f64; 4] = [0.9, 0.95, 0.99, 0.98];
/// Words that a set of scalars is tried on.
const TRIED: usize = 2048;

fn head(words: &[u8]) -> &[u8] {
    &words[..words.len().min(4 * TRIED)]
}

/// The scalars that predict the second moment best, if they leave fewer than six bits a word, and
/// the decay rates they come from.
pub fn find_second(level: Level, sample: &Sample, hints: &Hints) -> Option<(Second, [f64; 2])> {
    let v1 = head(sample.v1);
    let known = SecondInputs { v0: head(sample.v0), m0: head(sample.m0), m1: head(sample.m1) };
    let mut predicted = vec![0; v1.len()];
    let mut contexts = vec![0; v1.len() / 4];
    let mut best: Option<(u64, (Second, [f64; 2]))> = None;
    for &[beta1, beta2] in hints.betas.iter().chain(&BETAS) {
        for order in 0..super::SECOND_ORDERS {
            let s = Second::new(order, beta1, beta2);
            second(level, &s, known, &mut predicted, &mut contexts);
            let cost = cost(v1, &predicted);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, (s, [beta1, beta2])));
            }
            if cost > 8 * BIT {
                break;
            }
        }
        if best.is_some_and(|(cost, _)| cost < BIT) {
            break;
        }
    }
    best.filter(|(cost, _)| *cost < 6 * BIT).map(|(_, s)| s)
}

/// The scalars that predict the weights best, if they leave fewer than six bits a word. `beta2`
/// is that of the second moment; `tried` are scalars that did for other tensors.
pub fn find_weights(
    level: Level,
    sample: &Sample,
    hints: &Hints,
    betas: [f64; 2],
    tried: &[Weights],
) -> Option<Weights> {
    float_state::with_default(|| {
        let mut search = Search::new(level, sample);
        for s in tried {
            search.attempt(*s);
        }
        for bias in biases(hints, betas[1]) {
            if search.is_done() {
                break;
            }
            for &eps in hints.eps.iter().chain(&[1e-8]) {
                search.around(sample, bias, eps as f32, &stated(hints, betas[0]));
            }
        }
        search.best.filter(|(cost, _)| *cost < 6 * BIT).map(|(_, s)| s)
    })
}

/// Divisors of the root that steps so far suggest, and none.
fn biases(hints: &Hints, beta2: f64) -> Vec<f32> {
    let mut found = Vec::new();
    let mut add = |bias: f32| {
        if !found.contains(&bias) {
            found.push(bias);
        }
    };
    for &t in &hints.steps {
        for t in [t, t.saturating_add(1), t.saturating_sub(1)] {
            if t > 0 {
                add((1.0 - power(beta2, t)).sqrt() as f32);
            }
        }
    }
    add(1.0);
    found
}

/// Pairs of decay and step that stated learning rates give.
fn stated(hints: &Hints, beta1: f64) -> Vec<(f32, f32)> {
    let mut found = Vec::new();
    let decays = hints.weight_decay.iter().chain(&[0.1, 0.0, 0.01, 0.05]);
    for &lr in &hints.lr {
        for wd in decays.clone() {
            let decay = (1.0 - lr * wd) as f32;
            found.push((decay, (-lr) as f32));
            for &t in &hints.steps {
                for t in [t, t.saturating_add(1), t.saturating_sub(1)] {
                    if t > 0 {
                        found.push((decay, (-lr / (1.0 - power(beta1, t))) as f32));
                    }
                }
            }
        }
    }
    found.dedup();
    found
}

/// `x` to the power `n` by squaring: the same on every machine, unlike `powi`.
fn power(x: f64, mut n: u64) -> f64 {
    let (mut square, mut result) = (x, 1.0);
    while n > 0 {
        if n & 1 == 1 {
            result *= square;
        }
        square *= square;
        n >>= 1;
    }
    result
}

struct Search<'a> {
    level: Level,
    known: WeightInputs<'a>,
    w1: &'a [u8],
    predicted: Vec<u8>,
    contexts: Vec<u8>,
    best: Option<(u64, Weights)>,
}

impl<'a> Search<'a> {
    fn new(level: Level, sample: &Sample<'a>) -> Self {
        let w1 = head(sample.w1);
        Search {
            level,
            known: WeightInputs { w0: head(sample.w0), m1: head(sample.m1), v1: head(sample.v1) },
            w1,
            predicted: vec![0; w1.len()],
            contexts: vec![0; w1.len() / 4],
            best: None,
        }
    }

    /// A quarter of a bit is what no neighbour of the right scalars reaches.
    fn is_done(&self) -> bool {
        self.best.is_some_and(|(cost, _)| cost < BIT / 4)
    }

    fn attempt(&mut self, s: Weights) -> u64 {
        weights(self.level, &s, self.known, &mut self.predicted, &mut self.contexts);
        let cost = cost(self.w1, &self.predicted);
        if self.best.is_none_or(|(least, _)| cost < least) {
            self.best = Some((cost, s));
        }
        cost
    }

    /// Tries stated scalars, then those that least squares finds, with this denominator.
    fn around(&mut self, sample: &Sample, bias: f32, eps: f32, stated: &[(f32, f32)]) {
        for &(decay, step) in stated {
            self.attempt(Weights { order: 0, decay, step, bias, eps });
            if self.is_done() {
                return self.try_orders();
            }
        }
        let free = fit(sample, bias, eps);
        let undecayed = fit_step(sample, bias, eps).map(|step| (1.0, step));
        for (decay, step) in [free, undecayed].into_iter().flatten() {
            self.climb(Weights { order: 0, decay, step, bias, eps });
            if self.is_done() {
                break;
            }
        }
        self.try_orders();
    }

    /// Walks over the neighbouring values of `step`, then of `decay`, then of `step`.
    fn climb(&mut self, mut s: Weights) {
        let mut least = self.attempt(s);
        for (is_step, reach) in [(true, 24), (false, 4), (true, 24)] {
            let middle = s;
            for ulps in -reach..=reach {
                let mut t = middle;
                let x = if is_step { &mut t.step } else { &mut t.decay };
                *x = f32::from_bits(x.to_bits().wrapping_add_signed(ulps));
                let cost = self.attempt(t);
                if cost < least {
                    (least, s) = (cost, t);
                }
            }
        }
    }

    fn try_orders(&mut self) {
        if let Some((_, s)) = self.best {
            for order in 0..WEIGHT_ORDERS {
                self.attempt(Weights { order, ..s });
            }
        }
    }
}

/// `(w₀, w₁, u)` of every word whose values are all usable, with its weight: the inverse of the
/// square of the rounding error to expect.
fn terms<'s>(
    sample: &Sample<'s>,
    bias: f32,
    eps: f32,
) -> impl Iterator<Item = (f64, f64, f64, f64)> + use<'s> {
    let floats = |b: &'s [u8]| b.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
    let new = floats(sample.m1).zip(floats(sample.v1));
    floats(sample.w0).zip(floats(sample.w1)).zip(new).filter_map(move |((w0, w1), (m, v))| {
        let u = f64::from(m) / f64::from(v.sqrt() / bias + eps);
        let (w0, w1) = (f64::from(w0), f64::from(w1));
        let size = w0 * w0 + w1 * w1;
        (u.is_finite() && size.is_finite() && size > 0.0).then(|| (w0, w1 - w0, u, 1.0 / size))
    })
}

/// Decay and step by weighted least squares.
fn fit(sample: &Sample, bias: f32, eps: f32) -> Option<(f32, f32)> {
    let (mut ww, mut wu, mut uu, mut wd, mut ud) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (w, d, u, q) in terms(sample, bias, eps) {
        ww += q * w * w;
        wu += q * w * u;
        uu += q * u * u;
        wd += q * w * d;
        ud += q * u * d;
    }
    let det: f64 = ww * uu - wu * wu;
    let decay = 1.0 + (wd * uu - ud * wu) / det;
    let step = (ud * ww - wd * wu) / det;
    (decay.is_finite() && step.is_finite()).then_some((decay as f32, step as f32))
}

/// Step alone, for parameters without weight decay.
fn fit_step(sample: &Sample, bias: f32, eps: f32) -> Option<f32> {
    let (mut uu, mut ud) = (0.0, 0.0);
    for (_, d, u, q) in terms(sample, bias, eps) {
        uu += q * u * u;
        ud += q * u * d;
    }
    let step: f64 = ud / uu;
    step.is_finite().then_some(step as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One step of AdamW, in this order of operations, on pseudo-random words.
    fn step(order: u8, lr: f64, wd: f64, t: u64, n: u32) -> [Vec<u8>; 6] {
        let random = |i: u32, k: u32| {
            let x = (i.wrapping_mul(0x9E37_79B1) ^ k).wrapping_mul(0x85EB_CA6B);
            let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
            ((x ^ x >> 16) as f32 / 4294967296.0 - 0.5) * (1.0 + (i % 7) as f32)
        };
        let bytes = |f: &dyn Fn(u32) -> f32| -> Vec<u8> {
            (0..n).flat_map(|i| f(i).to_le_bytes()).collect()
        };
        let w0 = bytes(&|i| random(i, 1) * 0.1);
        let m0 = bytes(&|i| random(i, 2) * 1e-3);
        let v0 = bytes(&|i| (random(i, 3) * random(i, 4)).abs() * 1e-6);
        let m1 = bytes(&|i| (random(i, 2) * 1e-3) * 0.9f32 + random(i, 5) * 1e-3 * 0.1f32);
        let (mut v1, mut w1) = (vec![0; v0.len()], vec![0; v0.len()]);
        let mut contexts = vec![0; n as usize];
        let s = Second::new(order, 0.9, 0.95);
        let known = SecondInputs { v0: &v0, m0: &m0, m1: &m1 };
        second(Level::SCALAR, &s, known, &mut v1, &mut contexts);
        let s = Weights {
            order,
            decay: (1.0 - lr * wd) as f32,
            step: (-lr / (1.0 - power(0.9, t))) as f32,
            bias: (1.0 - power(0.95, t)).sqrt() as f32,
            eps: 1e-8,
        };
        let known = WeightInputs { w0: &w0, m1: &m1, v1: &v1 };
        weights(Level::SCALAR, &s, known, &mut w1, &mut contexts);
        [w0, w1, m0, m1, v0, v1]
    }

    fn sample(words: &[Vec<u8>; 6]) -> Sample<'_> {
        let [w0, w1, m0, m1, v0, v1] = words;
        Sample { w0, w1, m0, m1, v0, v1 }
    }

    #[test]
    fn an_unknown_learning_rate_is_found_to_the_last_bit() {
        for (order, lr, wd, t) in
            [(0, 6.1234e-4, 0.1, 5000), (1, 3.3e-5, 0.0, 777), (2, 1e-3, 0.01, 40)]
        {
            let words = step(order, lr, wd, t, 16384);
            let hints = Hints { steps: vec![t], ..Hints::default() };
            let (_, betas) = find_second(Level::best(), &sample(&words), &hints).unwrap();
            assert_eq!(betas, [0.9, 0.95]);
            let found =
                find_weights(Level::best(), &sample(&words), &hints, [0.9, 0.95], &[]).unwrap();
            assert_eq!(found.decay, (1.0 - lr * wd) as f32, "{found:?}");
            assert_eq!(found.step, (-lr / (1.0 - power(0.9, t))) as f32, "{found:?}");
        }
    }

    #[test]
    fn what_no_optimizer_did_is_not_found() {
        let mut words = step(0, 1e-3, 0.1, 100, 4096);
        words.swap(0, 2);
        words.swap(3, 5);
        let hints = Hints::default();
        assert_eq!(find_second(Level::best(), &sample(&words), &hints), None);
        assert_eq!(find_weights(Level::best(), &sample(&words), &hints, [0.9, 0.95], &[]), None);
    }

    #[test]
    fn nothing_usable_is_no_fault() {
        for word in [f32::NAN, f32::INFINITY, 0.0] {
            let words: [Vec<u8>; 6] =
                std::array::from_fn(|_| (0..100).flat_map(|_| word.to_le_bytes()).collect());
            let _ = find_second(Level::best(), &sample(&words), &Hints::default());
            let _ =
                find_weights(Level::best(), &sample(&words), &Hints::default(), [0.9, 0.95], &[]);
        }
    }
}
