//! Means with their spread, and tests of paired differences.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// What a list of figures comes to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Summary {
    /// How many.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Half the width of the 95 % interval of the mean, by Student's t.
    pub half_width: f64,
}

impl Summary {
    /// Of no figures, all is 0.
    pub fn of(values: &[f64]) -> Summary {
        let n = values.len();
        if n == 0 {
            return Summary::default();
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let half_width = match student(n) {
            Some(t) => t.inverse_cdf(0.975) * sd / (n as f64).sqrt(),
            None => f64::NAN,
        };
        let (min, max) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
        Summary { n, mean, sd, min, max, half_width }
    }

    /// The 95 % interval of the mean.
    pub fn interval(&self) -> (f64, f64) {
        (self.mean - self.half_width, self.mean + self.half_width)
    }
}

/// Student's distribution for the mean of `n` figures.
fn student(n: usize) -> Option<StudentsT> {
    (n > 1).then(|| StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()).flatten()
}

/// A paired t-test: whether the mean of differences is other than 0.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Paired {
    /// The differences.
    pub difference: Summary,
    /// Student's t.
    pub t: f64,
    /// Probability of a t so far from 0 if there is no difference, both sides.
    pub p: f64,
    /// Cohen's d of paired differences: mean / standard deviation.
    pub d: f64,
}

impl Paired {
    /// Tests `differences`, one for each pair. Where all are equal, `p` is 0 or 1.
    pub fn test(differences: &[f64]) -> Paired {
        let difference = Summary::of(differences);
        let Summary { n, mean, sd, .. } = difference;
        let certain = if mean == 0.0 { 0.0 } else { mean.signum() * f64::INFINITY };
        let d = if sd > 0.0 { mean / sd } else { certain };
        let t = d * (n as f64).sqrt();
        let p = match student(n) {
            Some(student) if t.is_finite() => 2.0 * student.cdf(-t.abs()),
            Some(_) if mean != 0.0 => 0.0,
            _ => 1.0,
        };
        Paired { difference, t, p, d }
    }
}

/// Holm's adjustment: with these instead of `p`, the chance of even one false finding among all
/// tests stays below the level they are compared with.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0f64;
    for (rank, &i) in order.iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[i]).min(1.0));
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample_gives_known_figures() {
        let s = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((s.n, s.mean, s.min, s.max), (8, 5.0, 2.0, 9.0));
        assert!((s.sd - 2.138_089_9).abs() < 1e-6);
        // t of 7 degrees of freedom at 97.5 % is 2.364624.
        assert!((s.half_width - 2.364_624 * 2.138_09 / 8f64.sqrt()).abs() < 1e-4);
        let test = Paired::test(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((test.t - 4.242_640_7).abs() < 1e-6);
        assert!((test.p - 0.013_235).abs() < 1e-4);
        assert!((test.d - 1.897_366_6).abs() < 1e-6);
    }

    #[test]
    fn holm_multiplies_by_the_tests_that_are_left_and_never_falls() {
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn nothing_and_single_figures_do_not_fail() {
        assert_eq!(Summary::of(&[]).n, 0);
        assert_eq!(Paired::test(&[3.0]).p, 1.0);
        assert_eq!(Paired::test(&[2.0, 2.0]).p, 0.0);
        assert_eq!(Paired::test(&[0.0, 0.0]).p, 1.0);
    }
}
