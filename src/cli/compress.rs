//! `lmc-gpu compress`.

use super::{
    Outcome, args,
    args::{Bases, Common},
    pipe,
    progress::Bar,
    report,
};
use crate::{
    Error, Result,
    archive::{
        AtomicFile, Input, Options, Summary, compress_path, compress_reader, compress_stream,
    },
    codec::Method,
    dtype::Dtype,
    json,
    simd::Level,
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Compress files and directories, one archive each
///
/// A directory (a sharded model, a checkpoint) becomes one archive. Modes and times of files are
/// not kept. Symbolic links are refused unless --follow. Nothing is overwritten without --force,
/// and a run that fails leaves nothing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu compress model.safetensors
  lmc-gpu compress checkpoint/ -o checkpoint.lmc --method max
  lmc-gpu compress a.safetensors b.pt -o archives/
  lmc-gpu compress weights.bin --dtype bf16
  lmc-gpu compress step601/ --base step600.lmc
  cat model.safetensors | lmc-gpu compress - -o - > model.lmc")]
pub struct Args {
    /// Files and directories; - is standard input
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,
    /// The archive (default: IN.lmc beside IN; - is standard output), or a directory for several
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[doc = "How to code"]
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = args::method,
          help = format!("How to code: {}", args::methods()))]
    method: Method,
    /// Read IN as a flat array of this type, without a header: bf16, f16, f32, …
    #[arg(long, value_name = "TYPE", value_parser = args::dtype)]
    dtype: Option<Dtype>,
    /// Store what symbolic links point to
    #[arg(long)]
    follow: bool,
    /// Replace output that exists
    #[arg(long)]
    force: bool,
    /// Store what was read of files that somebody writes to meanwhile, and name them; otherwise
    /// that is an error
    #[arg(long)]
    allow_changes: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let outputs = outputs(&args)?;
    let plain =
        Options::default().with_dtype(args.dtype).with_symlinks(args::symlinks(args.follow));
    let base = args.bases.attach(plain)?.base;
    let to_pipe = outputs.iter().any(|o| args::is_pipe(o));
    let mut total = Summary::default();
    for (input, output) in args.inputs.iter().zip(&outputs) {
        let summary = {
            let bar = Bar::new(args.common.quiet, "compressing", || total_len(input, &args));
            let options = args
                .common
                .options(&bar)?
                .with_method(args.method)
                .with_base(base.clone())
                .with_dtype(args.dtype)
                .with_symlinks(args::symlinks(args.follow))
                .with_overwrite(args::overwrite(args.force, false))
                .with_changes(args::changes(args.allow_changes))
                // No output may take the place of another one's input either.
                .with_protected(args.inputs.iter().map(|i| args::place(i)).collect());
            compress(input, output, &options)?
        };
        report::notes(args.common.quiet, &summary.notes);
        if !args.common.quiet && !args.json {
            report::line_beside(to_pipe, &line(input, output, &summary))?;
        }
        total.input_bytes += summary.input_bytes;
        total.output_bytes += summary.output_bytes;
        total.files += summary.files;
        total.spans += summary.spans;
        total.seconds += summary.seconds;
        total.device = summary.device;
        total.notes.extend(summary.notes);
    }
    if args.json {
        let outputs: Vec<_> = outputs.iter().map(|o| o.display().to_string()).collect();
        let mut told = json::summary(&total);
        told["method"] = args.method.name().into();
        told["simd"] = Level::best().name().into();
        told["threads"] = args.common.n_threads().into();
        told["outputs"] = outputs.into();
        report::json(to_pipe, &told)?;
    }
    Ok(Outcome::Done)
}

fn compress(input: &Path, output: &Path, options: &Options) -> Result<Summary> {
    log::debug!("compressing {} into {}", input.display(), output.display());
    let chosen = &options.compressing();
    match (args::is_pipe(input), args::is_pipe(output)) {
        (false, false) => compress_path(input, output, chosen),
        (false, true) => compress_stream(input, &mut *pipe::output()?, chosen),
        (true, true) => {
            let mut out = pipe::output()?;
            compress_reader(&mut pipe::Forward::stdin()?, "stdin", &mut *out, chosen)
        }
        (true, false) => {
            let mut file = AtomicFile::with_options(output, options)?;
            let mut input = pipe::Forward::stdin()?;
            let summary = compress_reader(&mut input, "stdin", &mut file, chosen)?;
            file.commit()?;
            Ok(summary)
        }
    }
}

fn line(input: &Path, output: &Path, summary: &Summary) -> String {
    format!(
        "{} -> {}: {} -> {}, ratio {}, {:.2} s, {:.2} GB/s",
        args::shown(input, "standard input"),
        args::shown(output, "standard output"),
        report::bytes(summary.input_bytes),
        report::bytes(summary.output_bytes),
        report::ratio_text(summary.input_bytes, summary.output_bytes),
        summary.seconds,
        report::gb_per_s(summary.input_bytes, summary.seconds)
    )
}

fn total_len(input: &Path, args: &Args) -> Option<u64> {
    match args::is_pipe(input) {
        true => None,
        false => Input::open(input, args.dtype, args.follow).ok().map(|i| i.len()),
    }
}

/// One output for every input.
fn outputs(args: &Args) -> Result<Vec<PathBuf>> {
    let invalid = |text: String| Err(Error::InvalidArgument(text.into()));
    let several = args.inputs.len() > 1;
    if !args.bases.is_empty() && args.inputs.iter().any(|i| args::is_pipe(i)) {
        return invalid("standard input cannot become a delta: leave out --base".into());
    }
    if several && args.inputs.iter().any(|i| args::is_pipe(i)) {
        return invalid("standard input cannot be one of several inputs".into());
    }
    let directory = match &args.output {
        Some(out) if several && (args::is_pipe(out) || out.is_file()) => {
            return invalid(format!(
                "{} cannot take several archives: name a directory with -o",
                out.display()
            ));
        }
        Some(out) if several => {
            std::fs::create_dir_all(out).map_err(|e| report::io("create", out, e))?;
            Some(out)
        }
        Some(out) if out.is_dir() && !args::is_pipe(&args.inputs[0]) => Some(out),
        Some(out) => return Ok(vec![args::output(out)]),
        None => None,
    };
    let mut outputs = Vec::new();
    let mut taken = HashSet::new();
    for input in &args.inputs {
        if args::is_pipe(input) {
            return Ok(vec![input.clone()]);
        }
        let beside = beside(input)?;
        let output = match (directory, beside.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => beside,
        };
        if !taken.insert(output.clone()) {
            return invalid(format!(
                "two inputs would be written to {}: compress them one by one",
                output.display()
            ));
        }
        outputs.push(output);
    }
    Ok(outputs)
}

/// `IN.lmc` beside `IN`.
fn beside(input: &Path) -> Result<PathBuf> {
    let mut path = input.to_owned();
    if path.file_name().is_none() {
        path = path.canonicalize().map_err(|e| report::io("open", input, e))?;
    }
    let Some(name) = path.file_name() else {
        return Err(Error::InvalidArgument("name the archive with -o".into()));
    };
    let mut name = name.to_owned();
    name.push(".lmc");
    Ok(path.with_file_name(name))
}
