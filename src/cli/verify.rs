//! `lmc-gpu verify`.

use super::{
    Outcome, args,
    args::{Bases, Common},
    pipe,
    progress::Bar,
    report,
};
use crate::{
    Archive, Error, RestoreOptions, Result,
    archive::{Options, verify_stream},
    json,
};
use std::{path::PathBuf, time::Instant};

/// Decode an archive and check every checksum, writing nothing
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu verify checkpoint.lmc
  lmc-gpu verify damaged.lmc --keep-going      lists all damage, not only the first")]
pub struct Args {
    /// The archive; - is standard input
    #[arg(value_name = "X.lmc")]
    archive: PathBuf,
    /// List all damage instead of stopping at the first
    #[arg(long)]
    keep_going: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let x = &args.archive;
    let started = Instant::now();
    let at = |e: Error| match e {
        Error::Io { .. } | Error::BaseMismatch(_) => e,
        e => e.at(x.display()),
    };
    let damage = args::on_damage(args.keep_going);
    let chosen = |options: Options| options.with_damage(damage).restoring();
    let restored = if args::is_pipe(x) {
        let bar = Bar::new(args.common.quiet, "verifying", || None);
        let options = args.bases.attach(args.common.options(&bar)?)?;
        verify_stream(&mut pipe::Forward::stdin()?, &chosen(options)).map_err(at)?
    } else {
        let archive =
            Archive::open(x, &RestoreOptions::default().with_limits(args.common.limits()))?;
        let bar = Bar::new(args.common.quiet, "verifying", || Some(archive.total_len()));
        let options = args.bases.attach(args.common.options(&bar)?)?;
        archive.verify(&chosen(options)).map_err(at)?
    };
    let seconds = started.elapsed().as_secs_f64();
    report::damage(&restored.damage);
    let sound = restored.damage.is_empty();
    if args.json {
        report::json(false, &json::restored_in(&restored, seconds))?;
    } else if !args.common.quiet {
        report::line(&format!(
            "{}: {}, {} files, {:.2} s, {:.2} GB/s: {}",
            x.display(),
            report::bytes(restored.bytes),
            restored.files,
            seconds,
            report::gb_per_s(restored.bytes, seconds),
            match restored.damage.len() {
                0 => "every checksum matches".into(),
                n => format!("{n} stretches are damaged"),
            }
        ))?;
    }
    Ok(if sound { Outcome::Done } else { Outcome::Damaged })
}
