//! `lmc-gpu bench`.

use super::{Outcome, args, args::Common, progress::Bar, report, signal};
use crate::{
    Error, Result,
    bench::{
        self, Codec, Context, Tick, input, input::Input, measure::Effort, report::Report,
        study_fields, study_lmc, study_pareto,
    },
    dtype::Dtype,
};
use std::path::{Path, PathBuf};

/// Bytes of each tensor that is generated.
const GENERATED_LEN: usize = 32 << 20;
/// Methods where no others are asked for: those that are no study's.
const METHODS: [&str; 9] =
    ["auto", "fast", "max", "rans", "cascade", "huffman", "runs", "zstd", "raw"];
/// Values of each input of the Pareto study.
const PARETO_VALUES: usize = 4 << 20;

/// Measure methods: ratio, bits a weight, speed both ways
///
/// Every method is decoded and compared with its input in the same run. Without files, Gaussian
/// bf16, fp16 and fp32 tensors are generated from --seed. Speeds are of warm buffers, on one
/// thread unless --threads says otherwise, beside the speed of memcpy in the same run.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu bench
  lmc-gpu bench model.safetensors --methods auto,max --baselines zstd-3,bg-xz-6
  lmc-gpu bench --study lmc runs/ --report lmc.html       checkpoints of one run, by step
  lmc-gpu bench --list")]
pub struct Args {
    /// Files and directories to measure on
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Methods, with commas between (default: auto, fast, max and each coder)
    #[arg(long, value_name = "a,b", value_delimiter = ',')]
    methods: Vec<String>,
    /// Other compressors, with commas between
    #[arg(long, value_name = "a,b", value_delimiter = ',')]
    baselines: Vec<String>,
    /// Run a study: lmc (a directory of checkpoints), fields or pareto
    #[arg(long, value_name = "NAME", value_parser = ["lmc", "fields", "pareto"])]
    study: Option<String>,
    /// Read files as flat arrays of this type; generate only this type
    #[arg(long, value_name = "TYPE", value_parser = args::dtype)]
    dtype: Option<Dtype>,
    /// Seed of generated data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Name the methods and baselines, one a line
    #[arg(long)]
    list: bool,
    /// Write every figure as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    if args.list {
        return report::line(&bench::names().join("\n")).map(|()| Outcome::Done);
    }
    args.common.check_device()?;
    let threads = match args.common.threads {
        None => 1,
        Some(_) => args.common.n_threads(),
    };
    let mut codecs = codecs(&args, threads)?;
    let cancel = signal::cancel();
    let bar = Bar::steps(args.common.quiet);
    let mut progress = |tick: Tick<'_>| {
        bar.step(tick.done, tick.total, tick.what);
        !cancel.is_cancelled()
    };
    let mut context = Context::new(args.seed, threads, Effort::default(), &mut progress);
    let title = args.study.as_deref().map_or("Methods".into(), |s| format!("Study: {s}"));
    let mut found = Report::new(title, args.seed, threads);
    match args.study.as_deref() {
        Some("lmc") => {
            let [dir] = &args.paths[..] else {
                return Err(Error::InvalidArgument(
                    "the study lmc needs one directory that holds checkpoints by step".into(),
                ));
            };
            study_lmc::run(dir, &mut codecs, &mut context, &mut found)?;
        }
        Some("fields") => {
            let plan = study_fields::Plan::default();
            study_fields::run(&plan, &inputs(&args)?, &mut context, &mut found);
        }
        Some(_) if args.paths.is_empty() => {
            let inputs = study_pareto::synthetic_inputs(PARETO_VALUES, args.seed);
            study_pareto::run(&inputs, &mut codecs, &mut context, &mut found);
        }
        None if args.paths.is_empty() => {
            let mut inputs = study_pareto::gaussian_inputs(GENERATED_LEN, args.seed);
            inputs.retain(|i| args.dtype.is_none_or(|d| d == i.dtype()));
            study_pareto::run(&inputs, &mut codecs, &mut context, &mut found);
        }
        _ => study_pareto::run(&inputs(&args)?, &mut codecs, &mut context, &mut found),
    }
    drop(bar);
    if !args.common.quiet {
        report::line(found.to_text().trim_end())?;
    }
    if let Some(path) = &args.json {
        write(path, &found.to_json())?;
    }
    if let Some(path) = &args.report {
        write(path, &found.to_html())?;
    }
    if found.interrupted {
        return Err(Error::Io {
            context: "stopped".into(),
            source: std::io::ErrorKind::Interrupted.into(),
        });
    }
    Ok(if found.failures.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

fn codecs(args: &Args, threads: usize) -> Result<Vec<Box<dyn Codec>>> {
    let mut names: Vec<String> = args.methods.iter().chain(&args.baselines).cloned().collect();
    if args.methods.is_empty() {
        let defaults = match args.study.as_deref() {
            Some("lmc") if names.is_empty() => study_lmc::METHODS.map(String::from).to_vec(),
            Some("lmc") => Vec::new(),
            _ => METHODS.map(String::from).to_vec(),
        };
        names.splice(0..0, defaults);
    }
    names.iter().map(|name| bench::codec(name, threads)).collect()
}

fn inputs(args: &Args) -> Result<Vec<Input>> {
    let files = input::files(&args.paths)?;
    let inputs = files.iter().map(|path| Input::read(path, args.dtype));
    let inputs: Result<Vec<Input>> = inputs.collect();
    inputs.map(|all| all.into_iter().filter(|i| !i.is_empty()).collect())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|e| report::io("write", path, e))
}
