//! `lmc-gpu decompress`.

use super::{
    Outcome, args,
    args::{Bases, Common},
    pipe,
    progress::Bar,
    report,
};
use crate::{
    Archive, Error, RestoreOptions, Result,
    archive::{Restored, decompress_stream, decompress_to_writer, is_salvageable},
    json, remote,
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::Instant,
};

/// Restore the file or directory of an archive, byte for byte
///
/// Every byte is checked. Nothing is overwritten without --force, and a run that fails leaves
/// nothing. Modes and times of files are not kept.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu decompress model.safetensors.lmc
  lmc-gpu decompress checkpoint.lmc -o restored/
  lmc-gpu decompress step601.lmc --base step600/
  lmc-gpu decompress damaged.lmc -o saved/ --keep-going
  curl https://host/model.lmc | lmc-gpu decompress - -o model.safetensors")]
pub struct Args {
    /// The archive; - is standard input
    #[arg(value_name = "X.lmc")]
    archive: PathBuf,
    /// What to restore to (default: X beside X.lmc; - is standard output)
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Restore what is undamaged, fill the rest with zeros, list it and exit with 1
    #[arg(long)]
    keep_going: bool,
    /// Replace output that exists; of a directory only the files that the archive has
    #[arg(short, long)]
    force: bool,
    /// Replace a directory as a whole, with whatever else it holds
    #[arg(long)]
    force_replace_dir: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Remove X.lmc once all of it was restored
    #[arg(long, conflicts_with = "keep_going")]
    rm: bool,
    /// Keep X.lmc: the default
    #[arg(short, long, conflicts_with = "rm")]
    keep: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let output = output(&args)?;
    let to_pipe = args::is_pipe(&output);
    if args.rm {
        remote::refuse(&args.archive, "--rm removes what lies on disk")?;
    }
    if args.rm && (to_pipe || !is_kept(&args.archive)) {
        return Err(Error::InvalidArgument(
            "--rm needs an archive in a file, and a file or directory to restore to".into(),
        ));
    }
    let started = Instant::now();
    let restored = {
        let bar = Bar::new(args.common.quiet, "restoring", || total_len(&args.archive));
        let overwrite = args::overwrite(args.force, args.force_replace_dir);
        let options = args.bases.attach(args.common.options(&bar).with_overwrite(overwrite))?;
        let options = options
            .with_protected(vec![args::place(&args.archive)])
            .with_damage(args::on_damage(args.keep_going));
        restore(&args, &output, &options.restoring()).inspect_err(|e| {
            let is_damage = matches!(e, Error::Corrupt(_) | Error::Truncated(_));
            // What came through a pipe is gone, and cannot be looked at again.
            let may_go_on = !args.keep_going && !to_pipe && is_kept(&args.archive);
            if is_damage && may_go_on && is_salvageable(&args.archive, options.limits) {
                report::hint(args.common.quiet, "--keep-going restores what is undamaged");
            }
        })?
    };
    let seconds = started.elapsed().as_secs_f64();
    if args.rm && restored.damage.is_empty() {
        std::fs::remove_file(&args.archive).map_err(|e| report::io("remove", &args.archive, e))?;
    }
    report::damage(&restored.damage);
    if args.json {
        let mut told = json::restored_in(&restored, seconds);
        told["output"] = output.display().to_string().into();
        report::json(to_pipe, &told)?;
    } else if !args.common.quiet {
        report::line_beside(
            to_pipe,
            &format!(
                "{} -> {}: {}, {}, {:.2} s, {:.2} GB/s{}",
                args::shown(&args.archive, "standard input"),
                args::shown(&output, "standard output"),
                report::bytes(restored.bytes),
                report::count(restored.files, "file"),
                seconds,
                report::gb_per_s(restored.bytes, seconds),
                match restored.damage.iter().filter(|d| d.len > 0).count() {
                    0 if restored.damage.is_empty() => String::new(),
                    0 => "; the archive is damaged".into(),
                    1 => "; one stretch is damaged and reads as zeros".into(),
                    n => format!("; {n} stretches are damaged and read as zeros"),
                }
            ),
        )?;
    }
    Ok(if restored.damage.is_empty() { Outcome::Done } else { Outcome::Damaged })
}

fn restore(args: &Args, output: &Path, options: &RestoreOptions) -> Result<Restored> {
    let (x, keep_going) = (&args.archive, args.keep_going);
    let at = |e: Error| match e {
        Error::Io { .. } | Error::InvalidArgument(_) | Error::BaseMismatch(_) => e,
        e => e.at(x.display()),
    };
    let to_pipe = args::is_pipe(output);
    if args::is_pipe(x) || args::is_forward(x) {
        let mut input = match args::is_pipe(x) {
            true => pipe::Forward::stdin()?,
            false => pipe::Forward::new(File::open(x).map_err(|e| report::io("open", x, e))?),
        };
        return match to_pipe {
            true if keep_going => Err(Error::InvalidArgument(
                "--keep-going needs a file to restore to: name it with -o".into(),
            )),
            true => decompress_to_writer(&mut input, &mut *pipe::output()?, options).map_err(at),
            false => decompress_stream(&mut input, output, options).map_err(at),
        };
    }
    let archive = match Archive::open(x, options) {
        // Without an index, what can be read forward is still there.
        Err(e @ (Error::Corrupt(_) | Error::Truncated(_)))
            if keep_going && !to_pipe && !remote::is_url(x) =>
        {
            log::debug!("reading forward: {e}");
            let mut input = File::open(x).map_err(|e| report::io("open", x, e))?;
            return decompress_stream(&mut input, output, options).map_err(at);
        }
        Err(e @ (Error::Corrupt(_) | Error::Truncated(_))) if keep_going => {
            let why = format!("{e}: --keep-going then needs a file to restore to: name it with -o");
            return Err(Error::InvalidArgument(why.into()).at(x.display()));
        }
        opened => opened?,
    };
    match to_pipe {
        true => archive.restore_to_writer(&mut *pipe::output()?, options),
        false => archive.restore(output, options),
    }
    .map_err(at)
}

/// Whether an archive can be read again.
fn is_kept(x: &Path) -> bool {
    !args::is_pipe(x) && !args::is_forward(x)
}

fn total_len(x: &Path) -> Option<u64> {
    match !is_kept(x) || remote::is_url(x) {
        true => None,
        false => Archive::open(x, &RestoreOptions::default()).ok().map(|a| a.total_len()),
    }
}

fn output(args: &Args) -> Result<PathBuf> {
    let x = &args.archive;
    if let Some(output) = &args.output {
        return match args::ends_as_directory(output) {
            true => in_directory(x, output),
            false => Ok(args::output(output)),
        };
    }
    if args::is_pipe(x) {
        return Ok(x.clone());
    }
    match (x.file_stem(), x.extension()) {
        (Some(stem), Some(extension)) if extension == "lmc" => Ok(args::beside(x, stem)),
        _ => Err(Error::InvalidArgument(
            format!("{} does not end in .lmc: say with -o what to restore to", x.display()).into(),
        )),
    }
}

/// Where an archive goes whose output is named as a directory: what it is of becomes that
/// directory, or a file in it.
fn in_directory(x: &Path, output: &Path) -> Result<PathBuf> {
    let archive = match is_kept(x) {
        true => Archive::open(x, &RestoreOptions::default()).ok(),
        false => None,
    };
    match archive.as_ref().map(|a| (&a.manifest, &a.manifest.entries[..])) {
        Some((manifest, [file])) if !manifest.is_directory => {
            args::inside(output, file.path.to_path()?.as_os_str())
        }
        _ => Ok(output.to_owned()),
    }
}
