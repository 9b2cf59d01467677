//! What mantissas could gain from contexts: by counts as they are, which flatter, and by counts
//! with every table paid for.
//!
//! The mantissa is taken whole (as the claims did), then as bit planes with the exponent as
//! context, with the bit above, and with both.

use super::{
    super::entropy::{Conditional, conditional_bits},
    Plan,
};
use crate::{
    dtype::{Dtype, Fields},
    study::bench::{
        Context,
        input::{Input, Part},
        report::Section,
        statistics::Summary,
        synthetic::{self, Family, Spec},
        table::Table,
    },
};

/// Bits a value of one tensor, by context.
struct Found {
    name: String,
    mantissa_bits: f64,
    /// The whole mantissa given sign and exponent.
    whole: Conditional,
    /// Bit planes: given nothing, the exponent, the bit above, both; with tables.
    planes: [f64; 4],
}

pub(super) fn section(plan: &Plan, inputs: &[Input], context: &mut Context<'_>) -> Section {
    let mut found = Vec::new();
    let n = plan.sizes.first().copied().unwrap_or(1 << 16);
    for family in Family::TESTED {
        for dtype in super::DTYPES {
            let spec = Spec { dtype, family, scale: plan.scales[0], correlation: 0.0, n };
            if !context.next(&format!("contexts of {}", spec.name())) {
                break;
            }
            let bytes = synthetic::generate(&spec, context.seed);
            found.extend(measure(spec.name(), dtype, &bytes));
        }
    }
    for input in inputs {
        let largest = input.parts.iter().max_by_key(|p| p.bytes.len());
        let Some(Part { dtype, bytes }) = largest else { continue };
        if !context.stopped {
            found.extend(measure(input.name.clone(), *dtype, bytes));
        }
    }
    let columns = ["data", "bits", "by counts", "unbiased", "with tables", "'gain'", "real gain"];
    let title = "Mantissa given sign and exponent, bits a value";
    let mut whole = Table::new(title, &columns);
    let columns = ["data", "order 0", "exponent", "bit above", "both", "best gain, % of the file"];
    let title = "Mantissa as bit planes given contexts, bits a value, tables counted";
    let mut planes = Table::new(title, &columns);
    let (mut flattered, mut real, mut best) = (Vec::new(), Vec::new(), Vec::new());
    for f in &found {
        let gain = |bits: f64| 100.0 * (1.0 - bits / f.mantissa_bits);
        flattered.push(gain(f.whole.plug_in));
        real.push(gain(f.whole.with_tables));
        whole.push(vec![
            f.name.clone(),
            f.mantissa_bits.to_string(),
            format!("{:.3}", f.whole.plug_in),
            format!("{:.3}", f.whole.miller_madow),
            format!("{:.3}", f.whole.with_tables),
            format!("{:+.1} %", gain(f.whole.plug_in)),
            format!("{:+.2} %", gain(f.whole.with_tables)),
        ]);
        let mut row = vec![f.name.clone()];
        row.extend(f.planes.iter().map(|b| format!("{b:.4}")));
        let least = f.planes[1..].iter().copied().fold(f64::INFINITY, f64::min);
        let of_file = 100.0 * (f.planes[0] - least) / f.word_bits();
        best.push(of_file);
        row.push(format!("{of_file:+.3}"));
        planes.push(row);
    }
    let mut answers = Vec::new();
    if !found.is_empty() {
        let (flattered, real, best) =
            (Summary::of(&flattered), Summary::of(&real), Summary::of(&best));
        answers.push(format!(
            "By bare counts the mantissa given its class seems to shrink by {:.1} to {:.1} %; with the \
             tables that a decoder needs it shrinks by {:.2} to {:.2} %. Where the two differ, there \
             are too few values for each table, and the gain is one of counting.",
            flattered.min, flattered.max, real.min, real.max
        ));
        answers.push(format!(
            "Bit planes of the mantissa given the exponent, the bit above, or both save at most {:.3} % of \
             the file (mean {:.3} %), tables counted.",
            best.max, best.mean
        ));
    }
    let heading = "What contexts could save of the mantissa".into();
    Section { heading, answers, tables: vec![whole, planes], plots: vec![] }
}

impl Found {
    fn word_bits(&self) -> f64 {
        match self.mantissa_bits as u32 {
            0..=3 => 8.0,
            4..=10 => 16.0,
            11..=23 => 32.0,
            _ => 64.0,
        }
    }
}

fn measure(name: String, dtype: Dtype, bytes: &[u8]) -> Option<Found> {
    let Fields::Float { bits, exponent } = dtype.fields() else { return None };
    let mantissa_bits = u32::from(bits - 1 - exponent);
    let width = usize::from(bits / 8);
    let n = (bytes.len() / width) as f64;
    let words = || {
        bytes
            .chunks_exact(width)
            .map(|word| word.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b)))
    };
    if n == 0.0 {
        return None;
    }
    let class = |w: u64| (w >> mantissa_bits) as usize;
    let exponent_of = |w: u64| class(w) & ((1 << exponent) - 1);
    let mut planes = [0.0; 4];
    for bit in 0..mantissa_bits {
        let here = |w: u64| (w >> bit & 1) as usize;
        // Above the highest bit of the mantissa is the lowest of the exponent.
        let above = |w: u64| (w >> (bit + 1) & 1) as usize;
        planes[0] += conditional_bits(2, words().map(|w| (0, here(w)))).with_tables;
        planes[1] += conditional_bits(2, words().map(|w| (exponent_of(w), here(w)))).with_tables;
        planes[2] += conditional_bits(2, words().map(|w| (above(w), here(w)))).with_tables;
        let both = words().map(|w| (2 * exponent_of(w) + above(w), here(w)));
        planes[3] += conditional_bits(2, both).with_tables;
    }
    let whole = whole(mantissa_bits, words().collect());
    Some(Found {
        name,
        mantissa_bits: f64::from(mantissa_bits),
        whole: Conditional {
            plug_in: whole.plug_in / n,
            miller_madow: whole.miller_madow / n,
            with_tables: whole.with_tables / n,
        },
        planes: planes.map(|b| b / n),
    })
}

/// The mantissa as one symbol given sign and exponent. Symbols may be of 52 bits, so equal ones
/// are found by sorting; a table costs a position among what is possible and 12 bits of frequency
/// for each symbol in it, and a class that doesn't pay for its table is raw.
fn whole(mantissa_bits: u32, mut words: Vec<u64>) -> Conditional {
    words.sort_unstable();
    let mut sum = Conditional::default();
    for class in words.chunk_by(|a, b| a >> mantissa_bits == b >> mantissa_bits) {
        let n = class.len() as f64;
        let (mut bits, mut used) = (0.0, 0.0);
        for equal in class.chunk_by(|a, b| a == b) {
            let count = equal.len() as f64;
            bits += count * (n / count).log2();
            used += 1.0;
        }
        let possible = 2f64.powi(mantissa_bits as i32);
        let table = possible.min(used * f64::from(mantissa_bits)) + 12.0 * (used - 1.0);
        sum.plug_in += bits;
        sum.miller_madow += bits + (used - 1.0) / 2.0 * std::f64::consts::LOG2_E;
        sum.with_tables += 1.0 + (bits + table).min(n * f64::from(mantissa_bits));
    }
    sum
}
