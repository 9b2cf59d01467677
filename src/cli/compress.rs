//! `lmc-gpu compress`.

use super::{
    Outcome, args,
    args::{Bases, Common, Transform},
    exclusion::Exclusion,
    flat, pipe,
    progress::Bar,
    removal, report,
};
use crate::{
    Error, Result,
    archive::{
        AtomicFile, Input, Options, Summary, compress_files, compress_reader, compress_to_writer,
        is_archive,
    },
    codec::Method,
    dtype::Dtype,
    json, remote,
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
  lmc-gpu compress checkpoint/ --exclude '*.tmp' --exclude logs --rm
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
    #[arg(short, long)]
    force: bool,
    /// Store what was read of files that somebody writes to meanwhile, and name them; otherwise
    /// that is an error
    #[arg(long)]
    allow_changes: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Remove IN once its archive was written, decoded and checked
    #[arg(long, conflicts_with = "follow")]
    rm: bool,
    /// Keep IN: the default
    #[arg(short, long, conflicts_with = "rm")]
    keep: bool,
    #[command(flatten)]
    exclusion: Exclusion,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    transform: Transform,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let outputs = outputs(&args)?;
    let plain =
        Options::default().with_dtype(args.dtype).with_symlinks(args::symlinks(args.follow));
    let base = args.bases.attach(plain)?.base;
    let to_pipe = outputs.iter().any(|o| args::is_pipe(o));
    check_removal(&args, to_pipe)?;
    let mut total = Summary::default();
    for (path, output) in args.inputs.iter().zip(&outputs) {
        let input = open(path, &args)?;
        let mut summary = {
            let total = || input.as_ref().map(Input::len);
            let bar = Bar::new(args.common.quiet, "compressing", total);
            let options = args
                .transform
                .attach(args.common.options(&bar))?
                .with_method(args.method)
                .with_base(base.clone())
                .with_dtype(args.dtype)
                .with_overwrite(args::overwrite(args.force, false))
                .with_changes(args::changes(args.allow_changes))
                // No output may take the place of another one's input either.
                .with_protected(args.inputs.iter().map(|i| args::place(i)).collect());
            let summary = compress(path, input.as_ref(), output, &options)?;
            if let Some(input) = input.as_ref().filter(|_| args.rm) {
                removal::of_input(path, input, output, &options)?;
            }
            summary
        };
        summary.notes.splice(0..0, odd(path, input.as_ref(), args.dtype));
        report::notes(args.common.quiet, &summary.notes);
        if !args.common.quiet && !args.json {
            report::line_beside(to_pipe, &line(path, output, &summary))?;
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

/// The files to compress; nothing for standard input.
fn open(path: &Path, args: &Args) -> Result<Option<Input<'static>>> {
    if args::is_pipe(path) {
        return Ok(None);
    }
    let input = Input::open(path, args.dtype, args.follow)?;
    if !args.exclusion.is_empty() && !input.manifest.is_directory {
        let why = format!("{} is no directory, and --exclude is for those", path.display());
        return Err(Error::InvalidArgument(why.into()));
    }
    Ok(Some(args.exclusion.apply(input)))
}

fn compress(
    path: &Path,
    input: Option<&Input<'_>>,
    output: &Path,
    options: &Options,
) -> Result<Summary> {
    log::debug!("compressing {} into {}", path.display(), output.display());
    let chosen = &options.compressing();
    let at = |e: Error| match e {
        Error::Io { .. } | Error::InvalidArgument(_) => e,
        e => e.at(path.display()),
    };
    match (input, args::is_pipe(output)) {
        (Some(input), false) => compress_files(input, output, chosen).map_err(at),
        (Some(input), true) => compress_to_writer(input, &mut *pipe::output()?, chosen),
        (None, true) => {
            let mut out = pipe::output()?;
            compress_reader(&mut pipe::Forward::stdin()?, "stdin", &mut *out, chosen)
        }
        (None, false) => {
            let mut file = AtomicFile::with_options(output, options)?;
            let mut input = pipe::Forward::stdin()?;
            let summary = compress_reader(&mut input, "stdin", &mut file, chosen)?;
            file.commit()?;
            Ok(summary)
        }
    }
}

/// Refuses to remove what no archive of this run, or what an archive that needs it, restores.
fn check_removal(args: &Args, to_pipe: bool) -> Result<()> {
    let invalid = |text: String| Err(Error::InvalidArgument(text.into()));
    if !args.rm {
        return Ok(());
    }
    if to_pipe || args.inputs.iter().any(|i| args::is_pipe(i)) {
        return invalid("--rm needs an archive in a file, which it checks: name it with -o".into());
    }
    for input in &args.inputs {
        remote::refuse(input, "--rm removes what lies on disk")?;
    }
    let real = |path: &Path| path.canonicalize().ok();
    for base in args.bases.paths() {
        let below = |input: &PathBuf| {
            real(base).zip(real(input)).is_some_and(|(base, input)| base.starts_with(input))
        };
        if args.inputs.iter().any(below) {
            return invalid(format!("{} is the base, which --rm would remove", base.display()));
        }
    }
    Ok(())
}

/// What is odd about compressing this, a sentence each.
fn odd(path: &Path, input: Option<&Input<'_>>, dtype: Option<Dtype>) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(input) = input else { return notes };
    if is_archive(path).unwrap_or(false) {
        notes.push(format!(
            "{} is an archive of lmc-gpu already, and compressed again it hardly gets smaller",
            path.display()
        ));
    }
    if let Some(dtype) = dtype {
        notes.extend(flat::notes(input, dtype));
    }
    notes
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
        Some(out) if remote::is_url(out) => match several || args::ends_as_directory(out) {
            false => return Ok(vec![out.clone()]),
            true if args::is_pipe(&args.inputs[0]) => {
                return invalid(format!("{}: name the archive of standard input", out.display()));
            }
            true => Some(out),
        },
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
        Some(out) if args::is_pipe(&args.inputs[0]) && args::ends_as_directory(out) => {
            return invalid(format!(
                "{} is a directory: name the archive of standard input with -o",
                out.display()
            ));
        }
        Some(out) if args::ends_as_directory(out) && !out.exists() => {
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
    Ok(args::beside(&path, &name))
}
