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
    archive::{Options, Restored, verify_stream},
    json,
    store::Store,
};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

/// Decode archives and check every checksum, writing nothing
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu verify checkpoint.lmc
  lmc-gpu verify archives/*.lmc
  lmc-gpu verify damaged.lmc --keep-going      lists all damage, not only the first")]
pub struct Args {
    /// The archives; - is standard input
    #[arg(required = true, value_name = "X.lmc")]
    archives: Vec<PathBuf>,
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
    let mut told = Vec::new();
    let mut sound = true;
    for x in &args.archives {
        let started = Instant::now();
        let restored = match verify(&args, x) {
            // The others are looked at all the same.
            Err(e) if args.archives.len() > 1 && !super::signal::stopped() => {
                report::error(&e.to_string());
                told.push(json!({ "path": x.display().to_string(), "ok": false,
                                  "error": e.to_string() }));
                sound = false;
                continue;
            }
            verified => verified?,
        };
        let seconds = started.elapsed().as_secs_f64();
        report::damage(&restored.damage);
        sound &= restored.damage.is_empty();
        if args.json {
            let mut object = json::restored_in(&restored, seconds);
            if args.archives.len() > 1 {
                object["path"] = x.display().to_string().into();
            }
            told.push(object);
        } else if !args.common.quiet {
            report::line(&line(x, &restored, seconds))?;
        }
    }
    if args.json {
        let object = match &told[..] {
            [only] if args.archives.len() == 1 => only.clone(),
            all => json!({ "ok": sound, "archives": all }),
        };
        report::json(false, &object)?;
    }
    Ok(if sound { Outcome::Done } else { Outcome::Damaged })
}

fn verify(args: &Args, x: &Path) -> Result<Restored> {
    let at = |e: Error| match e {
        Error::Io { .. } | Error::BaseMismatch(_) => e,
        e => e.at(x.display()),
    };
    let damage = args::on_damage(args.keep_going);
    let chosen = |options: Options| options.with_damage(damage).restoring();
    if args::is_pipe(x) {
        let bar = Bar::new(args.common.quiet, "verifying", || None);
        let options = args.bases.attach(args.common.options(&bar))?;
        return verify_stream(&mut pipe::Forward::stdin()?, &chosen(options)).map_err(at);
    }
    if x.is_dir() {
        let shown = x.display();
        let what = match Store::open(x) {
            Ok(_) => format!("{shown} is a store: lmc-gpu store verify {shown}"),
            Err(_) => format!(
                "{shown} is a directory, and no archive: name the archives in it \
                 ({shown}/*.lmc), or compress it first"
            ),
        };
        return Err(Error::InvalidArgument(what.into()));
    }
    let archive = Archive::open(x, &RestoreOptions::default().with_limits(args.common.limits()))?;
    let bar = Bar::new(args.common.quiet, "verifying", || Some(archive.total_len()));
    let options = args.bases.attach(args.common.options(&bar))?;
    archive.verify(&chosen(options)).map_err(at)
}

fn line(x: &Path, restored: &Restored, seconds: f64) -> String {
    format!(
        "{}: {}, {}, {:.2} s, {:.2} GB/s: {}",
        args::shown(x, "standard input"),
        report::bytes(restored.bytes),
        report::count(restored.files, "file"),
        seconds,
        report::gb_per_s(restored.bytes, seconds),
        match restored.damage.len() {
            0 => "every checksum matches".into(),
            1 => "one stretch is damaged".into(),
            n => format!("{n} stretches are damaged"),
        }
    )
}
