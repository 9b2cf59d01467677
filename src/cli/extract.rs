//! `lmc-gpu extract`.

use super::{
    Outcome, args,
    args::{Bases, Common},
    pipe,
    progress::Bar,
    report,
};
use crate::{
    Error, Result,
    archive::{Checkpoint, Extracted, Options, extract, extract_to},
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Instant,
};

/// Write single tensors of a checkpoint to a safetensors file
///
/// X is an archive, of which only the chunks needed are read, or a raw file or directory in any
/// format that is known. Strided tensors become contiguous, big-endian ones little-endian.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu extract model.lmc model.norm.weight -o norm.safetensors
  lmc-gpu extract checkpoint.lmc master.safetensors:lm_head.weight -o head.safetensors
  lmc-gpu inspect model.lmc                    lists the names")]
pub struct Args {
    /// An archive, a file or a directory; - is standard input
    #[arg(value_name = "X")]
    path: PathBuf,
    /// Names of tensors, with FILE: in front where several files have one of that name
    #[arg(required = true, value_name = "[FILE:]TENSOR")]
    tensors: Vec<String>,
    /// The output (default: X.tensors.safetensors beside X; - is standard output)
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Look at what symbolic links point to
    #[arg(long)]
    follow: bool,
    /// Replace output that exists
    #[arg(short, long)]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    let output = match &args.output {
        Some(output) if args::ends_as_directory(output) || output.is_dir() => {
            let beside = beside(&args)?;
            args::inside(output, beside.file_name().unwrap_or_default())?
        }
        Some(output) => args::output(output),
        None => beside(&args)?,
    };
    let to_pipe = args::is_pipe(&output);
    let bar = Bar::new(true, "", || None);
    let options = args.common.options(&bar);
    let options = options
        .with_symlinks(args::symlinks(args.follow))
        .with_overwrite(args::overwrite(args.force, false));
    let options = args.bases.attach(options)?.with_protected(vec![args::place(&args.path)]);
    let checkpoint = args::checkpoint(&args.path, &options)?;
    let at = |e: Error| match e {
        Error::Io { .. } | Error::BaseMismatch(_) => e,
        e => e.at(args.path.display()),
    };
    let extracted = write(&checkpoint, &args.tensors, &output, &options).map_err(at)?;
    let seconds = started.elapsed().as_secs_f64();
    let from = args::shown(&args.path, "standard input");
    let done = Done { from, output: &output, extracted, seconds };
    done.print(to_pipe, args.json, args.common.quiet)?;
    Ok(Outcome::Done)
}

/// Writes tensors to a file or to standard output.
pub fn write(
    checkpoint: &Checkpoint,
    tensors: &[String],
    output: &Path,
    options: &Options,
) -> Result<Extracted> {
    match args::is_pipe(output) {
        true => extract_to(checkpoint, tensors, &mut *pipe::output()?, options),
        false => extract(checkpoint, tensors, output, options),
    }
}

/// Tensors that were written.
pub struct Done<'d> {
    pub from: String,
    pub output: &'d Path,
    pub extracted: Extracted,
    pub seconds: f64,
}

impl Done<'_> {
    pub fn print(&self, to_pipe: bool, json: bool, quiet: bool) -> Result<()> {
        let Done { from, output, extracted, seconds } = self;
        if json {
            let told = serde_json::json!({
                "output": output.display().to_string(),
                "tensors": extracted.tensors,
                "bytes": extracted.bytes,
                "output_bytes": extracted.output_bytes,
                "seconds": seconds,
            });
            return report::json(to_pipe, &told);
        }
        if quiet {
            return Ok(());
        }
        let text = format!(
            "{from} -> {}: {}, {}, {seconds:.2} s",
            args::shown(output, "standard output"),
            report::count(extracted.tensors.len() as u64, "tensor"),
            report::bytes(extracted.bytes),
        );
        report::line_beside(to_pipe, &text)
    }
}

fn beside(args: &Args) -> Result<PathBuf> {
    if args::is_pipe(&args.path) {
        let why = "say with -o where the tensors of standard input go (- is standard output)";
        return Err(Error::InvalidArgument(why.into()));
    }
    let name = match args.path.extension() {
        Some(e) if e == "lmc" => args.path.file_stem(),
        _ => args.path.file_name(),
    };
    let Some(name) = name else {
        return Err(Error::InvalidArgument("name the output with -o".into()));
    };
    let mut name = OsString::from(name);
    name.push(".tensors.safetensors");
    Ok(args::beside(&args.path, &name))
}
