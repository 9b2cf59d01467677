//! The study of bit fields: does LZMA do better on bit planes than on the whole buffer, and what
//! of the claims about sorted mantissas holds?
//!
//! The preregistered test: for every element type, family, scale, correlation and size, five
//! seeds; each gives the gain of `bitplane-xz` over `xz` in percent of the latter's size. A cell
//! is found to differ if its paired t-test stays below 0.05 after Holm's adjustment over all
//! cells. Every buffer that was coded is decoded and compared. Gains are exact and the same on
//! every machine, so cells are spread over all threads and nothing is timed.

mod contexts;

use rayon::prelude::*;

use super::{
    Context,
    input::{Input, Part},
    plot::{Axis, Curve, Mark, Plot, Point},
    report::{Report, Section},
    statistics::{Paired, Summary, holm},
    synthetic::{self, Family, Spec},
    table::Table,
};
use crate::{
    codec::study::Method,
    dtype::Dtype,
    error::{Error, Result},
    simd::Level,
    study::codec,
};

/// How much is drawn.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seeds of each cell.
    pub seeds: u64,
    /// Values of a tensor.
    pub sizes: Vec<usize>,
    /// Standard deviations; all but the first only at the first size and without correlation.
    pub scales: Vec<f64>,
    /// Correlations within 64 neighbours.
    pub correlations: Vec<f64>,
}

impl Default for Plan {
    /// A tenth of [`Plan::full`]: minutes of a core.
    fn default() -> Self {
        Plan { sizes: vec![100_000, 200_000], ..Plan::full() }
    }
}

const DTYPES: [Dtype; 3] = [Dtype::F16, Dtype::BF16, Dtype::F32];

impl Plan {
    /// What was preregistered: half an hour of a core.
    pub fn full() -> Self {
        Plan {
            seeds: 5,
            sizes: vec![1_000_000, 2_000_000],
            scales: vec![0.02, 0.01, 0.1],
            correlations: vec![0.0, 0.5, 0.9],
        }
    }

    fn cells(&self) -> Vec<Spec> {
        let mut cells = Vec::new();
        let first = self.sizes.first().copied().unwrap_or(0);
        for (i, &scale) in self.scales.iter().enumerate() {
            for &n in &self.sizes {
                for &correlation in &self.correlations {
                    if i > 0 && (n != first || correlation > 0.0) {
                        continue;
                    }
                    for family in Family::TESTED {
                        for dtype in DTYPES {
                            cells.push(Spec { dtype, family, scale, correlation, n });
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Runs the study: synthetic data by `plan`, and `inputs` for what is said of real files.
pub fn run(plan: &Plan, inputs: &[Input], context: &mut Context<'_>, report: &mut Report) {
    let cells = plan.cells();
    context.plan(cells.len() + 2 * DTYPES.len() * Family::TESTED.len() + inputs.len());
    // What is quick comes first, so that an interrupted run has it.
    let contexts = contexts::section(plan, inputs, context);
    let sorted = sorted_mantissas(plan, inputs, context, report);
    let tested = preregistered(plan, &cells, context, report);
    report.sections.extend([tested, sorted, contexts]);
    report.interrupted |= context.stopped;
}

/// Coded bytes of `parts`, decoded and compared.
fn coded_len(method: Method, parts: &[Part]) -> Result<u64> {
    let mut sum = 0;
    for part in parts {
        let (mut coded, mut back) = (Vec::new(), vec![0xA5; part.bytes.len()]);
        codec::encode(Level::best(), method, part.dtype, &part.bytes, &mut coded)?;
        codec::decode(Level::best(), method, part.dtype, &coded, &mut back)?;
        if back != part.bytes {
            return Err(Error::Corrupt(
                format!("{} does not give its input back", method.name()).into(),
            ));
        }
        sum += coded.len() as u64;
    }
    Ok(sum)
}

/// For each seed of `spec`, by how many percent of `from` each of `methods` is smaller than it.
fn gains(
    plan: &Plan,
    spec: &Spec,
    seed: u64,
    from: Method,
    methods: &[Method],
) -> Result<Vec<Vec<f64>>> {
    let inputs: Vec<[Part; 1]> = (0..plan.seeds)
        .map(|i| synthetic::generate(spec, seed.wrapping_add(i)))
        .map(|bytes| [Part { dtype: spec.dtype, bytes }])
        .collect();
    // Every coding is a job of its own: more of them than threads keep all threads busy.
    let lens = |method: Method| -> Result<Vec<f64>> {
        let len = |parts: &[Part; 1]| coded_len(method, parts).map(|len| len as f64);
        inputs.par_iter().map(len).collect()
    };
    let all = std::iter::once(from).chain(methods.iter().copied()).collect::<Vec<_>>();
    let all: Vec<Vec<f64>> = all.into_par_iter().map(lens).collect::<Result<_>>()?;
    let gain = |(len, whole): (&f64, &f64)| 100.0 * (1.0 - len / whole);
    Ok(all[1..].iter().map(|lens| lens.iter().zip(&all[0]).map(gain).collect()).collect())
}

fn preregistered(
    plan: &Plan,
    cells: &[Spec],
    context: &mut Context<'_>,
    report: &mut Report,
) -> Section {
    let mut tested: Vec<(Spec, Paired)> = Vec::new();
    for spec in cells {
        if !context.next(&format!("bit planes of {}", spec.name())) {
            break;
        }
        match gains(plan, spec, context.seed, Method::Xz, &[Method::BitplaneXz]) {
            Ok(gains) => tested.push((*spec, Paired::test(&gains[0]))),
            Err(e) => report.failures.push(format!("{}: {e}", spec.name())),
        }
    }
    let adjusted = holm(&tested.iter().map(|(_, t)| t.p).collect::<Vec<_>>());
    let columns =
        ["data", "type", "scale", "corr.", "n", "gain %", "95 % interval", "t", "p (Holm)", "d"];
    let title = "Gain of bitplane-xz over xz in percent of the latter";
    let mut table = Table::new(title, &columns);
    for ((spec, test), p) in tested.iter().zip(&adjusted) {
        let (low, high) = test.difference.interval();
        table.push(vec![
            spec.family.name().into(),
            spec.dtype.name().into(),
            spec.scale.to_string(),
            spec.correlation.to_string(),
            spec.n.to_string(),
            format!("{:+.3}", test.difference.mean),
            format!("{low:+.3} … {high:+.3}"),
            format!("{:.1}", test.t),
            format!("{p:.2e}"),
            format!("{:.1}", test.d),
        ]);
    }
    let found = |better: bool| {
        let of = tested.iter().zip(&adjusted);
        of.filter(|((_, t), p)| **p < 0.05 && (t.difference.mean > 0.0) == better).count()
    };
    let mut answers = Vec::new();
    if !tested.is_empty() {
        answers.push(format!(
            "Of {} cells, each of {} seeds, bit planes are smaller in {} and larger in {} (Holm's p < \
             0.05); in {} no difference is found.",
            tested.len(),
            plan.seeds,
            found(true),
            found(false),
            tested.len() - found(true) - found(false)
        ));
    }
    for dtype in DTYPES {
        let of = |pick: &dyn Fn(&Spec) -> bool| -> Summary {
            let these = tested.iter().filter(|(s, _)| s.dtype == dtype && pick(s));
            Summary::of(&these.map(|(_, t)| t.difference.mean).collect::<Vec<_>>())
        };
        let all = of(&|_| true);
        if all.n > 0 {
            let largest = plan.sizes.iter().copied().max().unwrap_or(0);
            answers.push(format!(
                "{dtype}: mean gain {:+.2} % (cells from {:+.2} to {:+.2} %); at {largest} values {:+.2} %, \
                 of Student-t {:+.2} %.",
                all.mean,
                all.min,
                all.max,
                of(&|s| s.n == largest).mean,
                of(&|s| s.family == Family::StudentT).mean
            ));
        }
    }
    let curves = DTYPES.iter().map(|&dtype| {
        let of = tested.iter().enumerate().filter(|(_, (s, _))| s.dtype == dtype);
        let points = of.map(|(i, (spec, test))| {
            let y = test.difference.mean;
            Point { x: i as f64, y, label: format!("{}: {y:+.3} %", spec.name()) }
        });
        Curve { name: dtype.name().into(), mark: Mark::Line, points: points.collect() }
    });
    let plots = vec![Plot {
        title: "Gain of bit planes by cell".into(),
        x: Axis::linear("cell, as in the table"),
        y: Axis::linear("gain, % of xz"),
        curves: curves.collect(),
    }];
    let heading = "Bit planes against the whole buffer, both by LZMA".into();
    Section { heading, answers, tables: vec![table], plots }
}

/// The claims that mantissas sorted by class shrink by 19 and 27 percent, and that grouping by
/// exponent helps, against bit planes that stand as they are.
fn sorted_mantissas(
    plan: &Plan,
    inputs: &[Input],
    context: &mut Context<'_>,
    report: &mut Report,
) -> Section {
    const SORTED: [Method; 2] = [Method::ClassGroupXz, Method::ExponentGroupXz];
    let columns = ["data", "class-group %", "±", "exponent-group %", "±"];
    let title = "Gain over bitplane-xz in percent of it, everything round-tripped";
    let mut table = Table::new(title, &columns);
    let mut means: [Vec<f64>; 2] = Default::default();
    let n = plan.sizes.first().copied().unwrap_or(1 << 16);
    for family in Family::TESTED {
        for dtype in DTYPES {
            let spec = Spec { dtype, family, scale: plan.scales[0], correlation: 0.0, n };
            if !context.next(&format!("sorted mantissas of {}", spec.name())) {
                break;
            }
            match gains(plan, &spec, context.seed, Method::BitplaneXz, &SORTED) {
                Ok(gains) => {
                    let mut row = vec![spec.name()];
                    for (gains, means) in gains.iter().zip(&mut means) {
                        let gain = Summary::of(gains);
                        means.push(gain.mean);
                        row.push(format!("{:+.3}", gain.mean));
                        row.push(format!("{:.3}", gain.half_width));
                    }
                    table.push(row);
                }
                Err(e) => report.failures.push(format!("{}: {e}", spec.name())),
            }
        }
    }
    for input in inputs {
        if !context.next(&format!("sorted mantissas of {}", input.name)) {
            break;
        }
        let mut gains = || -> Result<Vec<String>> {
            let whole = coded_len(Method::BitplaneXz, &input.parts)? as f64;
            let mut row = vec![input.name.clone()];
            for (method, means) in SORTED.into_iter().zip(&mut means) {
                let gain = 100.0 * (1.0 - coded_len(method, &input.parts)? as f64 / whole);
                means.push(gain);
                row.extend([format!("{gain:+.3}"), "–".into()]);
            }
            Ok(row)
        };
        match gains() {
            Ok(row) => table.push(row),
            Err(e) => report.failures.push(format!("{}: {e}", input.name)),
        }
    }
    let answers = ["Mantissas sorted by sign and exponent", "Signs and mantissas sorted by exponent"]
        .iter()
        .zip(&means)
        .filter(|(_, means)| !means.is_empty())
        .map(|(what, means)| {
            let s = Summary::of(means);
            let verdict = if s.max < 1.0 { "nothing of that size is there" } else { "some of it is there" };
            format!(
                "{what} change the size by {:+.3} to {:+.3} % (mean {:+.3} %); the claim was 19 to 27 % of \
                 the mantissa: {verdict} once the sorted planes are really coded and decoded.",
                s.min, s.max, s.mean
            )
        });
    let answers = answers.collect();
    let heading = "Sorted mantissas, coded and decoded".into();
    Section { heading, answers, tables: vec![table], plots: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::bench::{Tick, measure::Effort};

    #[test]
    fn two_runs_of_one_seed_find_the_same_to_the_last_digit() {
        let plan =
            Plan { seeds: 3, sizes: vec![4096], scales: vec![0.02], correlations: vec![0.0] };
        let file = Input::flat("file", Dtype::BF16, synthetic::generate(&plan.cells()[1], 3));
        let once = || {
            let mut progress = |_: Tick<'_>| true;
            let mut context = Context::new(5, 1, Effort::default(), &mut progress);
            let mut report = Report::new("fields", 5, 1);
            report.memcpy_gb_s = 0.0;
            run(&plan, std::slice::from_ref(&file), &mut context, &mut report);
            assert!(report.failures.is_empty() && report.sections.len() == 3);
            assert_eq!(context.steps.0, context.steps.1);
            report.to_json()
        };
        assert_eq!(once(), once());
    }
}
