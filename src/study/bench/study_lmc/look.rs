//! What of a series is to be looked at: ratio by step, bit stability by position, exponents.

use super::ratio;
use crate::{
    dtype::{Dtype, Fields},
    study::bench::{
        input::Input,
        measure::Record,
        plot::{Axis, Curve, Mark, Plot, Point},
        report::Section,
        table::Table,
    },
    study::codec::Delta,
};

/// Gathered while the series is read.
#[derive(Default)]
pub(super) struct Look {
    stability: Vec<Stability>,
    exponents: Vec<Exponents>,
}

/// How many words kept each bit from one step to the next, lowest bit first.
struct Stability {
    shard: String,
    from: u64,
    to: u64,
    kept: Vec<f64>,
}

/// How often each exponent occurs in a shard.
struct Exponents {
    shard: String,
    points: Vec<Point>,
    /// Percent of values that are 0 or subnormal.
    zeros: f64,
}

impl Look {
    pub fn add(&mut self, shard: &str, from: u64, to: u64, input: &Input, base: &Input) {
        let largest = (0..input.parts.len()).max_by_key(|&i| input.parts[i].bytes.len());
        let Some(part) = largest.map(|i| &input.parts[i]) else { return };
        let Some(base) = base.parts.iter().find(|p| p.dtype == part.dtype) else { return };
        if base.bytes.len() != part.bytes.len() || part.bytes.is_empty() {
            return;
        }
        let kept = stability(part.dtype, &part.bytes, &base.bytes);
        self.stability.push(Stability { shard: shard.into(), from, to, kept });
        // The last step that is added stays.
        self.exponents.retain(|e| e.shard != shard);
        self.exponents.extend(exponents(shard, part.dtype, &part.bytes));
    }

    /// The plots, with the ratios of BG-LMC by step.
    pub fn section(&self, records: &[Record]) -> Section {
        let mut shards: Vec<&str> = Vec::new();
        for stability in &self.stability {
            if !shards.contains(&stability.shard.as_str()) {
                shards.push(&stability.shard);
            }
        }
        let mut plots: Vec<Plot> = shards.iter().filter_map(|s| by_step(records, s)).collect();
        plots.extend(shards.iter().map(|s| self.stability_plot(s)));
        plots.extend(self.exponents.iter().map(|Exponents { shard, points, zeros }| Plot {
            title: format!("Exponents of {shard}, last step; {zeros:.2} % are 0 or subnormal"),
            x: Axis::linear("exponent, less the bias"),
            y: Axis::linear("share of values, %"),
            curves: vec![Curve { name: String::new(), mark: Mark::Bar, points: points.clone() }],
        }));
        Section {
            heading: "By step, by bit, by exponent".into(),
            answers: Vec::new(),
            tables: vec![step_table(records)],
            plots,
        }
    }

    fn stability_plot(&self, shard: &str) -> Plot {
        let curves = self.stability.iter().filter(|s| s.shard == shard).map(|s| {
            let points = s.kept.iter().rev().enumerate().map(|(i, &kept)| {
                let label =
                    format!("bit {} of {}: {kept:.1} %", s.kept.len() - 1 - i, s.kept.len());
                Point { x: i as f64, y: kept, label }
            });
            let name = format!("{} → {}", s.from, s.to);
            Curve { name, mark: Mark::Line, points: points.collect() }
        });
        Plot {
            title: format!("Bits that stay as they are from step to step: {shard}"),
            x: Axis::linear("position, the sign first, then exponent and mantissa"),
            y: Axis::linear("unchanged, %"),
            curves: curves.collect(),
        }
    }
}

/// Ratio by step; nothing where there is but one.
fn by_step(records: &[Record], shard: &str) -> Option<Plot> {
    let mut steps = steps(records);
    steps.retain(|&s| records.iter().any(|r| r.input == shard && r.step == Some(s)));
    if steps.len() < 2 {
        return None;
    }
    let curves = Delta::ALL.iter().map(|delta| {
        let points = steps.iter().enumerate().filter_map(|(i, &step)| {
            let y = ratio(records, |r| {
                r.method == "lmc"
                    && r.delta == delta.name()
                    && r.step == Some(step)
                    && r.input == shard
            })?;
            Some(Point { x: i as f64, y, label: format!("step {step}: {y:.4}") })
        });
        Curve { name: delta.name().into(), mark: Mark::Line, points: points.collect() }
    });
    Some(Plot {
        title: format!("Ratio of BG-LMC by step: {shard}"),
        x: Axis::named(
            "step, each against the one before",
            steps.iter().map(u64::to_string).collect(),
        ),
        y: Axis::linear("ratio (coded / input)"),
        curves: curves.collect(),
    })
}

fn steps(records: &[Record]) -> Vec<u64> {
    let mut steps: Vec<u64> = records.iter().filter_map(|r| r.step).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// Ratio of BG-LMC for each shard and delta, a column a step.
fn step_table(records: &[Record]) -> Table {
    let steps = steps(records);
    let names: Vec<String> = steps.iter().map(|s| format!("step {s}")).collect();
    let mut columns = vec!["shard", "delta"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("Ratio of BG-LMC by step", &columns);
    let mut shards: Vec<&str> = Vec::new();
    for record in records {
        if !shards.contains(&record.input.as_str()) {
            shards.push(&record.input);
        }
    }
    for shard in shards {
        for delta in Delta::ALL {
            let mut row = vec![shard.into(), delta.name().into()];
            row.extend(steps.iter().map(|&step| {
                let found = ratio(records, |r| {
                    r.method == "lmc"
                        && r.input == shard
                        && r.delta == delta.name()
                        && r.step == Some(step)
                });
                found.map_or("–".into(), |r| format!("{r:.4}"))
            }));
            table.push(row);
        }
    }
    table
}

/// Share of words, in percent, that keep each bit, lowest bit first.
fn stability(dtype: Dtype, words: &[u8], base: &[u8]) -> Vec<f64> {
    let width = dtype.word_len().clamp(1, 8);
    let mut changed = vec![0u64; 8 * width];
    for (word, base) in words.chunks_exact(width).zip(base.chunks_exact(width)) {
        for (k, (a, b)) in word.iter().zip(base).enumerate() {
            for bit in 0..8 {
                changed[8 * k + bit] += u64::from((a ^ b) >> bit & 1);
            }
        }
    }
    let n = (words.len() / width).max(1) as f64;
    changed.iter().map(|&c| 100.0 * (1.0 - c as f64 / n)).collect()
}

/// Share of values, in percent, by exponent less the bias; nothing for what has no exponent.
fn exponents(shard: &str, dtype: Dtype, words: &[u8]) -> Option<Exponents> {
    let Fields::Float { bits, exponent } = dtype.fields() else { return None };
    let width = usize::from(bits / 8);
    let mask = (1u64 << exponent) - 1;
    let mut counts = vec![0u64; mask as usize + 1];
    for word in words.chunks_exact(width) {
        let value = word.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        counts[(value >> (bits - 1 - exponent) & mask) as usize] += 1;
    }
    let n = (words.len() / width).max(1) as f64;
    let bias = (mask >> 1) as f64;
    // What is rarer than one in ten thousand would only push the rest together.
    let seen = counts.iter().enumerate().skip(1).filter(|(_, c)| **c as f64 > n / 1e4);
    let points = seen.map(|(e, &c)| {
        let (x, y) = (e as f64 - bias, 100.0 * c as f64 / n);
        Point { x, y, label: format!("2^{x}: {y:.2} %") }
    });
    let zeros = 100.0 * counts[0] as f64 / n;
    Some(Exponents { shard: shard.into(), points: points.collect(), zeros })
}
