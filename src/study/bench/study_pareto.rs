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
    let mut measured = Vec::new();
    for input in inputs {
        let records = measure_all(input, codecs, context.effort, context, report);
        if !records.is_empty() {
            report.sections.push(section(input, &records, report.memcpy_gb_s));
        }
        measured.extend(records);
    }
    if inputs.len() > 1 && !measured.is_empty() {
        report.sections.push(total(&measured, inputs.len(), report.memcpy_gb_s));
    }
    report.results.extend(measured);
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

/// All inputs together, by every method that was measured on all of them.
fn total(records: &[Record], inputs: usize, memcpy_gb_s: f64) -> Section {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&&record.method[..]) {
            names.push(&record.method);
        }
    }
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for name in names {
        let own: Vec<&Record> = records.iter().filter(|r| r.method == name).collect();
        if own.len() < inputs {
            continue;
        }
        let sum = |of: fn(&Record) -> f64| own.iter().map(|r| of(r)).sum::<f64>();
        let bytes = sum(|r| r.bytes as f64);
        let ratio = sum(|r| r.coded_bytes as f64) / bytes.max(1.0);
        let encode = bytes / sum(|r| r.bytes as f64 / r.encode_gb_s.max(1e-9));
        let decode = bytes / sum(|r| r.bytes as f64 / r.decode_gb_s.max(1e-9));
        let speeds = [encode, decode, encode / memcpy_gb_s, decode / memcpy_gb_s].map(speed);
        let mut row = vec![name.to_owned(), format!("{ratio:.4}")];
        row.extend(speeds);
        rows.push((ratio, row));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let columns = ["method", "ratio", "encode GB/s", "decode GB/s", "enc/memcpy", "dec/memcpy"];
    let mut table = Table::new(format!("all {inputs} inputs together"), &columns);
    rows.into_iter().for_each(|(_, row)| table.push(row));
    Section { heading: "Total".into(), tables: vec![table], ..Section::default() }
}

/// Ratios beyond this are shown at the edge of a plot, so that those that matter have room: the
/// better half of the methods takes two fifths of the height.
fn limit(records: &[&Record]) -> f64 {
    let mut ratios: Vec<f64> = records.iter().map(|r| r.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(&least), Some(&most)) = (ratios.first(), ratios.last()) else {
        return f64::INFINITY;
    };
    let limit = least + 2.5 * (ratios[ratios.len() / 2] - least).max(0.004 * most);
    // What little would be gained is not worth a second scale.
    if least + 1.5 * (limit - least) < most { limit } else { f64::INFINITY }
}

fn points(records: &[&Record], speed: impl Fn(&Record) -> f64) -> Vec<Point> {
    records.iter().map(|r| Point { x: speed(r), y: r.ratio, label: r.method.clone() }).collect()
}

/// Ratio against a speed, with the front of what nothing beats in both.
pub(super) fn pareto(verb: &str, records: &[&Record], speed: impl Fn(&Record) -> f64) -> Plot {
    let limit = limit(records);
    let all = points(records, speed);
    let within = |mut point: Point| {
        if point.y > limit {
            point.label = format!("{} ↑{:.3}", point.label, point.y);
            point.y = limit;
        }
        point
    };
    let front = front(&all).into_iter().map(within).collect();
    let points = all.into_iter().map(within).collect();
    Plot {
        title: format!("Size against speed: {verb}"),
        x: Axis::log(format!("{verb}, GB/s")),
        y: Axis::linear(match limit.is_finite() {
            true => "ratio (coded / input); ↑ is beyond the scale",
            false => "ratio (coded / input)",
        }),
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
    fn ratios_far_off_leave_room_for_those_that_matter() {
        let record = |ratio| {
            let input = Input::flat("x", Dtype::BF16, vec![0; 64]);
            let effort = Effort { seconds: 0.0, max_runs: 1, ..Effort::default() };
            let mut codec = bench::codec("raw", 1).unwrap();
            let found = measure::record(codec.as_mut(), &input, Floor::default(), effort).unwrap();
            Record { ratio, ..found }
        };
        let records: Vec<Record> = [0.65, 0.655, 0.66, 0.67, 0.9, 1.0].map(record).into();
        let records: Vec<&Record> = records.iter().collect();
        let most = limit(&records);
        assert!(most > 0.67 && most < 0.75, "{most}");
        let svg = pareto("encode", &records, |r| r.encode_gb_s).to_svg();
        assert!(svg.contains("raw ↑1.000") && svg.contains("beyond the scale"));
        // Where all are near each other, all are shown where they are.
        assert_eq!(limit(&records[..4]), f64::INFINITY);
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
