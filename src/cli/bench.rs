//! `lmc-gpu bench`.

use super::{
    Outcome,
    args::{self, Device, Transform},
    progress, report, signal,
};
use crate::{
    Error, Result,
    archive::AtomicFile,
    codec::Method,
    dtype::Dtype,
    pipeline,
    study::bench::{
        Context, Tick,
        measure::Effort,
        request::{self, Request, Study},
    },
};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Measure methods, ours and others', on your files or on synthetic data
///
/// Everything that is reported was decoded and compared with its input in the same run. Without
/// files, synthetic tensors are measured. Studies: lmc (a directory that holds one directory a
/// step, like step00100), fields (bit planes and sorted mantissas, with statistics), pareto (all
/// methods and baselines). A method that fails on an input is reported, the rest goes on, and
/// the exit code is 1.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu bench                                     our methods on synthetic weights
  lmc-gpu bench model.safetensors --baselines       with zstd, lz4, gzip, bzip2, xz beside them
  lmc-gpu bench model.safetensors --methods fast,auto --baselines zstd-3,bg-zstd-3
  lmc-gpu bench --study lmc checkpoints/ --report lmc.html
  lmc-gpu bench --study fields --json fields.json")]
pub struct Args {
    /// Files and directories to measure on
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Methods, separated by commas (see --list)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Option<Vec<String>>,
    /// Baselines, separated by commas; without names the usual ones. zstd-1, zstd-3, zstd-19,
    /// zstd-long, lz4, gzip, deflate, bzip2, xz-6, and each with bg- in front: bytes grouped
    #[arg(long, value_name = "NAMES", value_delimiter = ',', num_args = 0..=1,
          default_missing_value = "usual")]
    baselines: Option<Vec<String>>,
    /// A study: lmc, fields or pareto
    #[arg(long, value_name = "NAME", value_parser = study)]
    study: Option<Study>,
    /// Study fields at its full size, 1 and 2 million values: half an hour of a core
    #[arg(long, requires = "study")]
    full: bool,
    /// Read files as flat arrays of this type, without a header: bf16, f16, f32, …
    #[arg(long, value_name = "TYPE", value_parser = args::dtype)]
    dtype: Option<Dtype>,
    /// Threads for methods that use several; 0 is one a core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Measure a device's stages too: gpu, or the number or name of an adapter (see `lmc-gpu
    /// devices`); its archives are compared with the CPU's
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Device,
    /// Seed of synthetic data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Name the methods, one a line
    #[arg(long)]
    list: bool,
    /// Write all figures to a file (- is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Replace files that --json and --report name
    #[arg(short, long)]
    force: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

fn study(name: &str) -> std::result::Result<Study, String> {
    Study::parse(name).ok_or_else(|| "use lmc, fields or pareto".into())
}

pub fn run(args: Args) -> Result<Outcome> {
    if args.list {
        for method in Method::ALL {
            report::line(method.name())?;
        }
        return Ok(Outcome::Done);
    }
    // A device that cannot be had is not measured.
    let device = Transform::on(args.device).accelerator()?;
    for path in args.json.iter().chain(&args.report).filter(|p| !args::is_pipe(p)) {
        check_place(path, args.force)?;
    }
    let request = Request {
        paths: args.paths,
        methods: args.methods,
        baselines: args.baselines,
        study: args.study,
        full: args.full,
        dtype: args.dtype,
    };
    let bar = bar(args.quiet);
    let mut progress = |tick: Tick<'_>| {
        if let Some(bar) = &bar {
            bar.set_length(tick.total as u64);
            bar.set_position(tick.done as u64);
            bar.set_message(tick.what.to_string());
        }
        !signal::stopped()
    };
    let effort = Effort { stopped: signal::stopped, ..Effort::default() };
    let mut context =
        Context::new(args.seed, pipeline::worker_count(args.threads), effort, &mut progress);
    context.device = device;
    let found = request::run(&request, &mut context);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let found = found?;
    let on_stdout = args.json.as_deref().is_some_and(args::is_pipe);
    if !args.quiet {
        report::page(on_stdout, &found.to_text())?;
    }
    // Where one of them fails, the other is still written.
    let json = match &args.json {
        Some(_) if on_stdout => report::json_text(&found.to_json()),
        Some(path) => write(path, &found.to_json(), args.force),
        None => Ok(()),
    };
    let page =
        args.report.as_ref().map_or(Ok(()), |path| write(path, &found.to_html(), args.force));
    json.and(page)?;
    Ok(match (found.interrupted, found.failures.is_empty()) {
        (true, _) => Outcome::Stopped,
        (false, true) => Outcome::Done,
        (false, false) => Outcome::Damaged,
    })
}

/// Refuses, before a long run rather than after it, a place that no file can be written to.
fn check_place(path: &Path, force: bool) -> Result<()> {
    if !force && path.is_file() {
        let why = format!("{} exists already: --force replaces it", path.display());
        return Err(Error::InvalidArgument(why.into()));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let wrong = match dir.unwrap_or(Path::new(".")).is_dir() {
        false => ErrorKind::NotFound,
        true if path.is_dir() => ErrorKind::IsADirectory,
        true => return Ok(()),
    };
    Err(Error::io("write", path, wrong.into()))
}

fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut file = AtomicFile::create(path, args::overwrite(force, false))?;
    file.write_all(text.as_bytes()).map_err(|e| Error::io("write", path, e))?;
    file.commit()
}

fn bar(quiet: bool) -> Option<ProgressBar> {
    if quiet || !progress::has_place() {
        return None;
    }
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {eta} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    Some(bar)
}
