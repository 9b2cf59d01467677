//! All methods on all inputs: size against speed.

use super::{
    Codec, Context,
    input::Input,
    measure::{self, Effort, Floor, Record},
    plot::{Axis, Curve, Mark, Plot, Point, front},
    report::{Report, Section},
    synthetic::{self, Family, Spec},
    table::{Table, speed},
};
use crate::dtype::Dtype;

/// What is measured where no files are given: weights of the usual size in three types, and what
/// is harder: values with outliers, and integers. `n` values each.
pub fn synthetic_inputs(n: usize, seed: u64) -> Vec<Input> {
    let gaussian = [Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::I8].map(|d| (d, Family::Gaussian));
    gaussian
        .into_iter()
        .chain([(Dtype::BF16, Family::Outliers)])
        .map(|(dtype, family)| {
            let spec = Spec { dtype, family, scale: 0.02, correlation: 0.0, n };
            Input::flat(spec.name(), dtype, synthetic::generate(&spec, seed))
        })
        .collect()
}

/// Measures every codec on every input and adds a section for each input to `report`. A codec
/// that fails on an input is reported, and the rest goes on.
pub fn run(
    inputs: &[Input],
    codecs: &mut [Box<dyn Codec>],
    context: &mut Context<'_>,
    report: &mut Report,
) {
    context.plan(inputs.len() * codecs.len());
    for input in inputs {
        let records = measure_all(input, codecs, context.effort, context, report);
        if !records.is_empty() {
            report.sections.push(section(input, &records, report.memcpy_gb_s));
        }
        report.results.extend(records);
    }
    report.interrupted |= context.stopped;
}

/// Measures every codec on `input` until the context says to stop.
pub(super) fn measure_all(
    input: &Input,
    codecs: &mut [Box<dyn Codec>],
    effort: Effort,
    context: &mut Context<'_>,
    report: &mut Report,
) -> Vec<Record> {
    let mut records = Vec::new();
    let floor = Floor::of(input);
    for codec in codecs {
        if !context.next(&format!("{} on {}", codec.name(), input.name)) {
            break;
        }
        match measure::record(codec.as_mut(), input, floor, effort) {
            Ok(record) => records.push(record),
            Err(e) => report.failures.push(format!("{} on {}: {e}", codec.name(), input.name)),
        }
    }
    records
}

fn section(input: &Input, records: &[Record], memcpy_gb_s: f64) -> Section {
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let columns = [
        "method",
        "ratio",
        "bits/weight",
        "encode GB/s",
        "decode GB/s",
        "enc/memcpy",
        "dec/memcpy",
    ];
    let title = format!("{}, {}, {} bytes", input.name, input.dtype(), input.len());
    let mut table = Table::new(title, &columns);
    for r in &sorted {
        table.push(vec![
            r.method.clone(),
            format!("{:.4}", r.ratio),
            format!("{:.3}", r.bits_per_weight),
            speed(r.encode_gb_s),
            speed(r.decode_gb_s),
            speed(r.encode_gb_s / memcpy_gb_s),
            speed(r.decode_gb_s / memcpy_gb_s),
        ]);
    }
    let floor = records.first().map_or(0.0, |r| r.entropy_bits_per_weight);
    let mut answers = vec![format!(
        "The entropy of byte groups in 64 KiB blocks, codebooks counted, is {floor:.3} bits a weight."
    )];
    let fastest = front(&points(&sorted, |r| r.encode_gb_s));
    let names: Vec<&str> = fastest.iter().map(|p| p.label.as_str()).collect();
    answers.push(format!(
        "Nothing measured here is both smaller and faster to encode than: {}.",
        names.join(", ")
    ));
    let plots = vec![
        pareto("encode", &sorted, |r| r.encode_gb_s),
        pareto("decode", &sorted, |r| r.decode_gb_s),
    ];
    Section { heading: input.name.clone(), answers, tables: vec![table], plots }
}

fn points(records: &[&Record], speed: impl Fn(&Record) -> f64) -> Vec<Point> {
    records.iter().map(|r| Point { x: speed(r), y: r.ratio, label: r.method.clone() }).collect()
}

/// Ratio against a speed, with the front of what nothing beats in both.
pub(super) fn pareto(verb: &str, records: &[&Record], speed: impl Fn(&Record) -> f64) -> Plot {
    let points = points(records, speed);
    let front = front(&points);
    Plot {
        title: format!("Size against speed: {verb}"),
        x: Axis::log(format!("{verb}, GB/s")),
        y: Axis::linear("ratio (coded / input)"),
        curves: vec![
            Curve { name: String::new(), mark: Mark::Dot, points },
            Curve {
                name: "nothing is both smaller and faster".into(),
                mark: Mark::Dashed,
                points: front,
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Result, study::bench};

    /// Fails to encode, or does not give back what it was given.
    struct Broken(bool);

    impl Codec for Broken {
        fn name(&self) -> &str {
            "broken"
        }

        fn encode(&mut self, _: Dtype, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
            match self.0 {
                true => Err(crate::Error::Unsupported("nothing".into())),
                false => Ok(()),
            }
        }

        fn decode(&mut self, _: Dtype, _: &[u8], _: &mut [u8]) -> Result<()> {
            Ok(())
        }
    }

    fn codecs() -> Vec<Box<dyn Codec>> {
        vec![
            Box::new(Broken(true)),
            bench::codec("lmc", 1).unwrap(),
            Box::new(Broken(false)),
            bench::codec("bg-zstd-1", 1).unwrap(),
        ]
    }

    #[test]
    fn a_method_that_fails_or_lies_is_reported_and_the_rest_goes_on() {
        let mut progress = |_: bench::Tick<'_>| true;
        let effort = Effort { seconds: 0.0, max_runs: 1, ..Effort::default() };
        let mut context = Context::new(1, 1, effort, &mut progress);
        let mut report = Report::new("t", 1, 1);
        let inputs = synthetic_inputs(5000, 1);
        run(&inputs, &mut codecs(), &mut context, &mut report);
        assert_eq!(report.failures.len(), 2 * inputs.len());
        assert_eq!(report.results.len(), 2 * inputs.len());
        assert!(report.results.iter().all(|r| r.verified && r.ratio < 1.1));
        assert!(!report.interrupted);
    }

    #[test]
    fn two_runs_of_one_seed_give_the_same_ratios_to_the_last_digit() {
        let once = |seed| {
            let mut progress = |_: bench::Tick<'_>| true;
            let effort = Effort { seconds: 0.0, max_runs: 1, ..Effort::default() };
            let mut context = Context::new(seed, 1, effort, &mut progress);
            let mut report = Report::new("t", seed, 1);
            let mut codecs: Vec<_> = ["auto", "lmc", "sem", "bg-bzip2", "xz-6"]
                .map(|name| bench::codec(name, 1).unwrap())
                .into();
            run(&synthetic_inputs(5000, seed), &mut codecs, &mut context, &mut report);
            assert!(report.failures.is_empty());
            report.results.iter().map(|r| r.ratio.to_bits()).collect::<Vec<u64>>()
        };
        let first = once(7);
        assert_eq!(first, once(7));
        assert_ne!(first, once(8));
    }

    #[test]
    fn what_was_measured_before_an_interruption_is_kept() {
        let mut left = 6;
        let mut progress = |_: bench::Tick<'_>| {
            left -= 1;
            left > 0
        };
        let effort = Effort { seconds: 0.0, max_runs: 1, ..Effort::default() };
        let mut context = Context::new(1, 1, effort, &mut progress);
        let mut report = Report::new("t", 1, 1);
        run(&synthetic_inputs(5000, 1), &mut codecs(), &mut context, &mut report);
        assert!(report.interrupted);
        assert_eq!(report.results.len(), 2);
    }
}
