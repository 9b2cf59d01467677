//! Tensors drawn from known distributions, the same for a seed on every run, whatever the number
//! of threads.
//!
//! ```text
//! value  = normal × mixing × scale
//! normal = √ρ · (one draw per 64 neighbours) + √(1-ρ) · (one draw per value)
//! mixing = 1 (Gaussian), √Exp(1) (Laplace), √(2/χ²₄) (Student-t of 4 degrees of freedom)
//! ```
//!
//! All three have standard deviation `scale`: Laplace and Student-t are what a normal of random
//! width is, and correlation acts on the normal within it. Piece `i` of 2^18 values takes stream
//! `i` of a ChaCha generator keyed by the seed.

use half::{bf16, f16};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{ChiSquared, Distribution as _, Exp1, StandardNormal};
use rayon::prelude::*;

use crate::dtype::Dtype;

/// Family that values are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Family {
    Gaussian,
    Laplace,
    StudentT,
    /// Gaussian, one value in a thousand 20 to 100 times as large.
    Outliers,
}

impl Family {
    /// The three of the preregistered test.
    pub const TESTED: [Family; 3] = [Family::Gaussian, Family::Laplace, Family::StudentT];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::Gaussian => "gaussian",
            Family::Laplace => "laplace",
            Family::StudentT => "student-t",
            Family::Outliers => "outliers",
        }
    }
}

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// F16, BF16, F32, or I8: rounded to 1/32 of the scale, within ±127.
    pub dtype: Dtype,
    /// The family.
    pub family: Family,
    /// Standard deviation.
    pub scale: f64,
    /// Correlation of neighbours within 64 values, 0 to 1.
    pub correlation: f64,
    /// How many values.
    pub n: usize,
}

impl Spec {
    /// A name that says all of it.
    pub fn name(&self) -> String {
        let Spec { dtype, family, scale, correlation, n } = self;
        format!("{}-{}-s{scale}-r{correlation}-{n}", family.name(), dtype.name().to_lowercase())
    }
}

const PIECE: usize = 1 << 18;
const BLOCK: usize = 64;

/// The bytes of a tensor.
pub fn generate(spec: &Spec, seed: u64) -> Vec<u8> {
    let width = spec.dtype.word_len();
    let mut bytes = vec![0; spec.n * width];
    bytes.par_chunks_mut(PIECE * width).enumerate().for_each(|(i, piece)| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(i as u64);
        fill(spec, &mut rng, piece);
    });
    bytes
}

fn fill(spec: &Spec, rng: &mut ChaCha8Rng, bytes: &mut [u8]) {
    let width = spec.dtype.word_len();
    let shared_part = spec.correlation.sqrt() as f32;
    let own_part = (1.0 - spec.correlation).sqrt() as f32;
    let scale = spec.scale as f32;
    // 4 degrees of freedom: the variance of t is 2, so that of the normal is halved.
    let chi = ChiSquared::new(4.0f32).ok();
    for block in bytes.chunks_mut(BLOCK * width) {
        let shared: f32 = match spec.correlation > 0.0 {
            true => StandardNormal.sample(rng),
            false => 0.0,
        };
        for word in block.chunks_exact_mut(width) {
            let own: f32 = StandardNormal.sample(rng);
            let normal = shared_part * shared + own_part * own;
            let mixing = match (spec.family, &chi) {
                (Family::Laplace, _) => Exponential::sample(rng).sqrt(),
                (Family::StudentT, Some(chi)) => (2.0 / chi.sample(rng)).sqrt(),
                (Family::Outliers, _) if rng.random_range(0..1000) == 0 => {
                    rng.random_range(20.0..100.0)
                }
                _ => 1.0,
            };
            put(spec.dtype, normal * mixing, scale, word);
        }
    }
}

/// The exponential of mean 1, whose root times a normal is Laplace's of variance 1.
struct Exponential;

impl Exponential {
    fn sample(rng: &mut ChaCha8Rng) -> f32 {
        Exp1.sample(rng)
    }
}

fn put(dtype: Dtype, unit: f32, scale: f32, word: &mut [u8]) {
    let value = unit * scale;
    match dtype {
        Dtype::F16 => word.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
        Dtype::BF16 => word.copy_from_slice(&bf16::from_f32(value).to_le_bytes()),
        Dtype::F32 => word.copy_from_slice(&value.to_le_bytes()),
        // The scale of an integer tensor stands beside it.
        _ => word.fill((unit * 32.0).round().clamp(-127.0, 127.0) as i8 as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(spec: &Spec) -> Vec<f64> {
        let bytes = generate(spec, 5);
        bytes.as_chunks::<4>().0.iter().map(|w| f64::from(f32::from_le_bytes(*w))).collect()
    }

    #[test]
    fn every_family_has_its_scale_and_correlation() {
        for family in Family::TESTED {
            for correlation in [0.0, 0.5, 0.9] {
                let spec = Spec { dtype: Dtype::F32, family, scale: 0.05, correlation, n: 1 << 19 };
                let values = values(&spec);
                let n = values.len() as f64;
                let variance = values.iter().map(|v| v * v).sum::<f64>() / n;
                let sd = variance.sqrt();
                assert!((sd / 0.05 - 1.0).abs() < 0.05, "{spec:?} {sd}");
                let pairs = values.chunks(2).map(|p| p[0] * p[1]).sum::<f64>();
                let found = pairs / (n / 2.0) / variance;
                // What varies by value takes its part of the correlation.
                let kept = if family == Family::Gaussian { 1.0 } else { 0.5 };
                assert!(found > kept * correlation - 0.03, "{spec:?} {found}");
                assert!(found < correlation + 0.03, "{spec:?} {found}");
            }
        }
    }

    #[test]
    #[ignore = "prints speeds"]
    fn speeds() {
        for family in [Family::Gaussian, Family::Laplace, Family::StudentT, Family::Outliers] {
            let spec =
                Spec { dtype: Dtype::BF16, family, scale: 0.02, correlation: 0.0, n: 32 << 20 };
            let start = std::time::Instant::now();
            std::hint::black_box(generate(&spec, 1));
            println!("{}: {:.2} s for 64 MiB", family.name(), start.elapsed().as_secs_f64());
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_whatever_the_threads() {
        let spec = Spec {
            dtype: Dtype::BF16,
            family: Family::StudentT,
            scale: 0.02,
            correlation: 0.5,
            n: PIECE * 2 + 100,
        };
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = one.install(|| generate(&spec, 1));
        assert!(alone == generate(&spec, 1));
        assert!(alone != generate(&spec, 2));
        // No two pieces are alike.
        assert!(alone[..1000] != alone[2 * PIECE..][..1000]);
    }
}
