//! `lmc-gpu list`.

use super::{Outcome, args, args::Common, progress::Bar, report, report::Out};
use crate::{
    Result,
    archive::{Archive, Checkpoint, stored_bytes},
    container::EntryKind,
    json,
    text::shown,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// List the files of archives; nothing is decoded
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu list checkpoint.lmc
  lmc-gpu -l *.lmc
  lmc-gpu inspect checkpoint.lmc               lists the tensors")]
pub struct Args {
    /// The archives; - is standard input
    #[arg(required = true, value_name = "X.lmc")]
    archives: Vec<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let options = args.common.options(&Bar::new(true, "", || None));
    let mut out = Out::new();
    let mut told = Vec::new();
    for (i, path) in args.archives.iter().enumerate() {
        let archive = match args::is_pipe(path) {
            false => Archive::open(path, &options.restoring())?,
            true => match args::checkpoint(path, &options)? {
                Checkpoint::Archive(archive) => archive,
                Checkpoint::Raw(_) => {
                    return Err(crate::Error::Corrupt("standard input is no archive".into()));
                }
            },
        };
        let stored = stored_bytes(&archive)?;
        match args.json {
            true => told.push(object(path, &archive, &stored)),
            false => text(i > 0, path, &archive, &stored, &mut out)?,
        }
    }
    if args.json {
        let object = match told.len() {
            1 => told.swap_remove(0),
            _ => json!({ "archives": told }),
        };
        report::json(false, &object)?;
    }
    out.finish()?;
    Ok(Outcome::Done)
}

fn object(path: &Path, archive: &Archive<'_>, stored: &[u64]) -> Value {
    let file = |(entry, stored): (&crate::Entry, &u64)| {
        let mut object = json!({
            "directory": entry.kind == EntryKind::Directory,
            "bytes": entry.len,
            "stored_bytes": stored,
        });
        json::put_path(&mut object, "path", &entry.path);
        object
    };
    let entries = &archive.manifest.entries;
    json!({
        "archive": path.display().to_string(),
        "bytes": archive.total_len(),
        "stored_bytes": archive.stored_len(),
        "delta": archive.base_record.is_some(),
        "files": entries.iter().zip(stored).map(file).collect::<Vec<_>>(),
    })
}

fn text(
    more: bool,
    path: &Path,
    archive: &Archive<'_>,
    stored: &[u64],
    out: &mut Out,
) -> Result<()> {
    let entries = &archive.manifest.entries;
    let files = entries.iter().filter(|e| e.kind != EntryKind::Directory).count();
    out.text(&format!(
        "{}{}: {} in {} -> {}, ratio {}{}\n",
        if more { "\n" } else { "" },
        shown(&args::shown(path, "standard input")),
        report::bytes(archive.total_len()),
        report::count(files as u64, "file"),
        report::bytes(archive.stored_len()),
        report::ratio_text(archive.total_len(), archive.stored_len()),
        if archive.base_record.is_some() { ", a delta" } else { "" },
    ))?;
    let row = |bytes: String, stored: String, ratio: String, path: String| {
        vec![bytes, stored, ratio, path]
    };
    let rows = || {
        let head = row("bytes".into(), "stored".into(), "ratio".into(), "path".into());
        let of = |(e, stored): (&crate::Entry, &u64)| {
            let path = e.path.to_text().into_owned();
            match e.kind == EntryKind::Directory {
                true => row(String::new(), String::new(), String::new(), path + "/"),
                false => {
                    let ratio = report::ratio_text(e.len, *stored);
                    row(e.len.to_string(), stored.to_string(), ratio, path)
                }
            }
        };
        std::iter::once(head).chain(entries.iter().zip(stored).map(of))
    };
    report::put_table(rows, &[0, 1, 2], |row| out.text(row))
}
