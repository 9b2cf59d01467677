//! The study of LMC: on a series of checkpoints, every shard of every step by BG-LMC and what it
//! was compared with, under every definition of a delta.
//!
//! Methods are timed on the deltas as they are; forming a delta costs the same for all. Speeds are
//! by the time of processors, where the system tells it, so that a busy machine changes them
//! little. Figures are over the steps that have a step before, so that every definition sees the
//! same steps.

mod look;

use std::path::Path;

use super::{
    Codec, Context,
    input::{Input, Series},
    measure::{Effort, Record},
    report::{Report, Section},
    statistics::Summary,
    study_pareto::{measure_all, pareto},
    table::{Table, speed},
};
use crate::{error::Result, study::codec::Delta};

/// Compared where no others are asked for. `lmc` groups bytes, so it is the papers' BG-LMC.
pub const METHODS: [&str; 10] = [
    "lmc",
    "lmc-plain",
    "bg-bzip2",
    "bzip2",
    "bg-gzip",
    "gzip",
    "bg-zstd-3",
    "zstd-3",
    "bg-lz4",
    "lz4",
];

/// Runs the study on the series in `dir` with `codecs`, which should hold those of [`METHODS`].
/// Files that cannot be read and steps of other shapes are reported, and the rest goes on.
pub fn run(
    dir: &Path,
    codecs: &mut [Box<dyn Codec>],
    context: &mut Context<'_>,
    report: &mut Report,
) -> Result<()> {
    let series = Series::find(dir)?;
    let n_deltas = (series.steps.len().saturating_sub(1)) * Delta::ALL.len();
    context.plan(series.shards.len() * n_deltas * codecs.len());
    // Many small inputs: their number steadies the mean, so each is timed briefly.
    let effort = Effort { seconds: context.effort.seconds.min(0.1), ..context.effort };
    let mut records: Vec<Record> = Vec::new();
    let mut look = look::Look::default();
    let mut left_out = Vec::new();
    for shard in &series.shards {
        let mut base: Option<(u64, Input)> = None;
        for (step, dir) in &series.steps {
            if context.stopped {
                break;
            }
            let path = dir.join(shard);
            if !path.exists() {
                continue;
            }
            let input = match Input::read(&path, None) {
                Ok(input) => input,
                Err(e) => {
                    report.failures.push(e.to_string());
                    continue;
                }
            };
            if !input.has_tensors() {
                // Texts beside the weights are no part of the study; weights that broke are told.
                let note = format!("{shard} holds no tensors and was left out.");
                match &base {
                    None if left_out.contains(&note) => {}
                    None => left_out.push(note),
                    Some((base_step, _)) => report.failures.push(format!(
                        "{}: holds no tensors, which it does in step {base_step}",
                        path.display()
                    )),
                }
                continue;
            }
            if let Some((base_step, base)) = &base {
                look.add(shard, *base_step, *step, &input, base);
                // All or none: every definition sees the same steps.
                let deltas = match input.check_base(base) {
                    Ok(()) => &Delta::ALL[..],
                    Err(e) => {
                        report.failures.push(format!("{e} (step {base_step} to {step})"));
                        context.steps.0 += Delta::ALL.len() * codecs.len();
                        &[]
                    }
                };
                for &delta in deltas {
                    let mut input = input.delta(base, delta)?;
                    input.name = format!("{shard} at {step}, {}", delta.name());
                    for mut record in measure_all(&input, codecs, effort, context, report) {
                        record.delta = delta.name().into();
                        record.step = Some(*step);
                        record.input = shard.clone();
                        records.push(record);
                    }
                }
            }
            base = Some((*step, input));
        }
    }
    let mut section = overall(&records, &series.steps.iter().map(|s| s.0).collect::<Vec<_>>());
    section.answers.extend(series.notes.into_iter().chain(left_out));
    report.sections.push(section);
    report.sections.push(look.section(&records));
    report.results.extend(records);
    report.interrupted |= context.stopped;
    Ok(())
}

/// Coded bytes over input bytes of all records that `pick` takes; `None` of none.
pub(super) fn ratio(records: &[Record], pick: impl Fn(&Record) -> bool) -> Option<f64> {
    let sum = |of: fn(&Record) -> u64| -> u64 { records.iter().filter(|r| pick(r)).map(of).sum() };
    let bytes = sum(|r| r.bytes);
    (bytes > 0).then(|| sum(|r| r.coded_bytes) as f64 / bytes as f64)
}

fn overall(records: &[Record], steps: &[u64]) -> Section {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.method.as_str()) {
            names.push(&record.method);
        }
    }
    let columns = [
        "method",
        "delta",
        "total",
        "mean",
        "sd",
        "min",
        "max",
        "over entropy",
        "after runs",
        "enc GB/s",
        "sd",
        "dec GB/s",
        "sd",
    ];
    let title = "Ratio over shards and steps: of all bytes together, and by input";
    let mut table = Table::new(title, &columns);
    for name in &names {
        for delta in Delta::ALL {
            let of = |f: fn(&Record) -> f64| -> Vec<f64> {
                let these = records.iter().filter(|r| r.method == *name && r.delta == delta.name());
                these.map(f).collect()
            };
            let ratios = Summary::of(&of(|r| r.ratio));
            let encode = Summary::of(&of(|r| r.cpu_speeds().0));
            let decode = Summary::of(&of(|r| r.cpu_speeds().1));
            let Some(total) = ratio(records, |r| r.method == *name && r.delta == delta.name())
            else {
                continue;
            };
            let excess = |floor| {
                let excess = over_entropy(records, name, delta, floor);
                excess.map_or("–".into(), |e| format!("{:+.2} %", 100.0 * e))
            };
            table.push(vec![
                (*name).into(),
                delta.name().into(),
                format!("{total:.4}"),
                format!("{:.4}", ratios.mean),
                format!("{:.4}", ratios.sd),
                format!("{:.4}", ratios.min),
                format!("{:.4}", ratios.max),
                excess(BLOCKS),
                // Only LMC codes what its run lengths leave.
                if *name == "lmc" { excess(RUNS) } else { "–".into() },
                speed(encode.mean),
                speed(encode.sd),
                speed(decode.mean),
                speed(decode.sd),
            ]);
        }
    }
    let plain: Vec<Record> = names
        .iter()
        .filter_map(|name| {
            let these = || records.iter().filter(|r| r.method == *name && r.delta == "none");
            let mut record = these().next()?.clone();
            let mean =
                |f: fn(&Record) -> f64| Summary::of(&these().map(f).collect::<Vec<_>>()).mean;
            record.ratio = ratio(records, |r| r.method == *name && r.delta == "none")?;
            record.encode_gb_s = mean(|r| r.cpu_speeds().0);
            record.decode_gb_s = mean(|r| r.cpu_speeds().1);
            Some(record)
        })
        .collect();
    let plain: Vec<&Record> = plain.iter().collect();
    let mut answers = answers(records);
    answers.extend(convergence(records, steps));
    Section {
        heading: "LMC and the field on a series".into(),
        answers,
        tables: vec![table],
        plots: vec![
            pareto("encode", &plain, |r| r.encode_gb_s),
            pareto("decode", &plain, |r| r.decode_gb_s),
        ],
    }
}

/// What a coded size is compared with, in bits a weight.
type Floor = fn(&Record) -> f64;
const BLOCKS: Floor = |r| r.entropy_bits_per_weight;
const RUNS: Floor = |r| r.run_entropy_bits_per_weight;

/// Coded size over the floor of the same inputs, less 1.
fn over_entropy(records: &[Record], name: &str, delta: Delta, floor: Floor) -> Option<f64> {
    let these = || records.iter().filter(|r| r.method == name && r.delta == delta.name());
    let coded: f64 = these().map(|r| r.coded_bytes as f64).sum();
    // A record's bits a weight stand for its coded bytes, so its floor does in proportion.
    let floor: f64 = these().map(|r| r.coded_bytes as f64 * floor(r) / r.bits_per_weight).sum();
    (floor > 0.0).then(|| coded / floor - 1.0)
}

fn answers(records: &[Record]) -> Vec<String> {
    let mut answers = Vec::new();
    let total =
        |name: &str, delta: Delta| ratio(records, |r| r.method == name && r.delta == delta.name());
    let mut holds = true;
    let mut parts = Vec::new();
    let mut moves: Vec<f64> = Vec::new();
    let mut speedups = Vec::new();
    for delta in Delta::ALL {
        let (Some(lmc), Some(bz2)) = (total("lmc", delta), total("bg-bzip2", delta)) else {
            continue;
        };
        holds &= lmc < bz2;
        moves.push(lmc);
        let of = |name: &'static str| {
            records.iter().filter(move |r| r.method == name && r.delta == delta.name())
        };
        let pairs: Vec<(&Record, &Record)> = of("lmc")
            .filter_map(|a| {
                Some((a, of("bg-bzip2").find(|b| (&b.input, b.step) == (&a.input, a.step))?))
            })
            .collect();
        let smaller = pairs.iter().filter(|(a, b)| a.coded_bytes < b.coded_bytes).count();
        speedups.extend(pairs.iter().map(|(a, b)| a.cpu_speeds().0 / b.cpu_speeds().0));
        parts.push(format!(
            "{}: {lmc:.4} against {bz2:.4}, smaller on {smaller} of {} inputs",
            delta.name(),
            pairs.len()
        ));
    }
    if !parts.is_empty() {
        let verdict = if holds { "holds" } else { "does not hold" };
        answers.push(format!(
            "That BG-LMC is smaller than BG-BZ2 {verdict} under every definition of the delta ({}).",
            parts.join("; ")
        ));
        let range = Summary::of(&moves);
        answers.push(format!(
            "The ratio of BG-LMC moves between {:.4} and {:.4} with the definition.",
            range.min, range.max
        ));
        let speedup = Summary::of(&speedups);
        let verdict = if speedup.min >= 5.0 { "holds" } else { "does not hold everywhere" };
        answers.push(format!(
            "That BG-LMC encodes at least 5 × as fast as BG-BZ2 {verdict}: mean {:.1} ×, sd {:.1}, \
             from {:.1} to {:.1} ×.",
            speedup.mean, speedup.sd, speedup.min, speedup.max
        ));
    }
    let near = |name: &str, floor: Floor| -> Option<String> {
        let of = |&d: &Delta| {
            let excess = over_entropy(records, name, d, floor)?;
            Some(format!("{:+.2} % ({})", 100.0 * excess, d.name()))
        };
        let parts: Vec<String> = Delta::ALL.iter().filter_map(of).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    for name in ["lmc", "bg-bzip2", "bg-gzip", "bg-zstd-3"] {
        let Some(parts) = near(name, BLOCKS) else { continue };
        answers.push(format!("{name} is over the block entropy with codebooks by {parts}."));
    }
    if let Some(parts) = near("lmc", RUNS) {
        answers.push(format!(
            "lmc is over the same of what it Huffman codes, groups with their runs shortened, by {parts}."
        ));
    }
    answers
}

/// How size falls between the first and the last pair of steps that are equally far apart.
fn convergence(records: &[Record], steps: &[u64]) -> Vec<String> {
    let pairs: Vec<(u64, u64)> = steps.windows(2).map(|w| (w[0], w[1])).collect();
    let Some(gap) = pairs.iter().map(|(a, b)| b - a).min() else { return Vec::new() };
    let near: Vec<&(u64, u64)> = pairs.iter().filter(|(a, b)| b - a == gap).collect();
    let (Some(first), Some(last)) = (near.first(), near.last()) else { return Vec::new() };
    if first == last {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for delta in Delta::ALL {
        let at = |step: u64| {
            ratio(records, |r| r.method == "lmc" && r.delta == delta.name() && r.step == Some(step))
        };
        if let (Some(from), Some(to)) = (at(first.1), at(last.1)) {
            parts.push(format!("{} from {from:.4} to {to:.4}", delta.name()));
        }
    }
    if parts.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "As training converges, from step {} to step {} (each {gap} after the one before), BG-LMC's \
         ratio goes: {}.",
        first.1,
        last.1,
        parts.join("; ")
    )]
}
