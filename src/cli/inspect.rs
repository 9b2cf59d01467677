//! `lmc-gpu inspect`.

use super::{Outcome, args, args::Common, flat, progress::Bar, report, report::Out};
use crate::{
    Result,
    archive::{BaseInfo, Checkpoint, Inspection, SpanInfo, inspect_open},
    dtype::Dtype,
    json,
    text::shown,
};
use std::path::PathBuf;

/// Show what a checkpoint or archive consists of
///
/// Of an archive: the method and the stored bytes of every tensor. Of a raw file or directory:
/// the entropy of its exponents and what compressing would save, from samples. Where small
/// tensors share chunks, they share their cost.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu inspect model.safetensors
  lmc-gpu inspect checkpoint.lmc --json")]
pub struct Args {
    /// An archive, a file or a directory; - is standard input
    #[arg(value_name = "X")]
    path: PathBuf,
    /// Read X as a flat array of this type
    #[arg(long, value_name = "TYPE", value_parser = args::dtype)]
    dtype: Option<Dtype>,
    /// Look at what symbolic links point to
    #[arg(long)]
    follow: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    bases: args::Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let bar = Bar::new(args.common.quiet, "sampling", || None);
    let options = args.common.options(&bar);
    let options = options.with_dtype(args.dtype).with_symlinks(args::symlinks(args.follow));
    let options = args.bases.attach(options)?;
    let checkpoint = args::checkpoint(&args.path, &options)?;
    let mut found = inspect_open(&checkpoint, &options)?;
    drop(bar);
    if let (Checkpoint::Raw(input), Some(dtype)) = (&checkpoint, args.dtype) {
        found.notes.splice(0..0, flat::notes(input, dtype));
    }
    let name = args::shown(&args.path, "standard input");
    print(&name, &found, args.json, args.common.quiet)?;
    Ok(Outcome::Done)
}

/// Prints what a checkpoint consists of.
pub fn print(name: &str, found: &Inspection, json: bool, quiet: bool) -> Result<()> {
    report::notes(quiet, &found.notes);
    let mut out = report::Out::new();
    match json {
        true => json::inspection(found, |part| out.json(part))?,
        false => text(name, found, &mut out)?,
    }
    out.finish()
}

/// For people. Rows are made as they are printed.
fn text(name: &str, found: &Inspection, out: &mut Out) -> Result<()> {
    let about = if found.is_archive { "" } else { "about " };
    out.text(&format!(
        "{}: {}, {} in {} -> {about}{}, ratio {about}{}\n",
        shown(name),
        match (&found.base, found.is_archive) {
            (Some(_), _) => "an archive, a delta",
            (None, true) => "an archive",
            (None, false) => "raw",
        },
        report::bytes(found.bytes),
        report::count(found.files.iter().filter(|f| !f.is_directory).count() as u64, "file"),
        report::bytes(found.stored_bytes),
        report::ratio_text(found.bytes, found.stored_bytes),
    ))?;
    if let Some(base) = &found.base {
        out.text(&base_text(base))?;
    }
    for (i, file) in found.files.iter().enumerate().filter(|(_, f)| !f.is_directory) {
        out.text(&format!(
            "\n{}: {}, {}, ratio {}\n",
            shown(&file.path.to_text()),
            file.format,
            report::bytes(file.bytes),
            report::ratio_text(file.bytes, file.stored_bytes),
        ))?;
        let first = found.spans.partition_point(|s| s.file < i);
        let last = found.spans.partition_point(|s| s.file <= i);
        file_table(&found.spans[first..last], found.is_archive, out)?;
    }
    Ok(())
}

/// What an archive is a delta to, and each of its files.
fn base_text(base: &BaseInfo) -> String {
    let mut text = format!(
        "base: {}, {} bytes in {}, {}{}\n",
        shown(&base.name.to_text()),
        base.bytes(),
        report::count(base.files.len() as u64, "file"),
        match &base.path {
            Some(path) if base.is_archive => format!("an archive at {}", shown(path)),
            Some(path) => format!("raw, at {}", shown(path)),
            None if base.is_needed => "not found: --base says where it is".into(),
            None => "not looked for".into(),
        },
        if base.is_needed { "" } else { "; nothing of it is needed" },
    );
    for file in &base.files {
        let digest = file.digest.map_or_else(String::new, |d| format!(", digest {d:032x}"));
        let path = file.path.to_text();
        text += &format!("  {}: {} bytes{digest}\n", shown(&path), file.bytes);
    }
    text
}

/// One row a tensor, or a stretch that is taken for one; everything else is one row.
fn file_table(spans: &[SpanInfo], is_archive: bool, out: &mut Out) -> Result<()> {
    let row = |name: &str, dtype: &str, shape: String, bytes, stored, method: &str, entropy| {
        let mut row: Vec<String> = vec![
            format!("  {name}"),
            dtype.into(),
            shape,
            report::bytes(bytes),
            report::ratio_text(bytes, stored),
            method.into(),
        ];
        if !is_archive {
            row.insert(4, Option::map_or(entropy, "-".into(), |e: f64| format!("{e:.2}")));
        }
        row
    };
    let of_tensor = |s: &SpanInfo| {
        let name = s.name.clone().or_else(|| s.guess.as_ref().map(|why| format!("({why})")))?;
        let shape: Vec<String> = s.shape.iter().map(u64::to_string).collect();
        let shape = if shape.is_empty() { "scalar".into() } else { shape.join("x") };
        let (dtype, entropy) = (s.dtype.name(), s.exponent_entropy);
        let method = match &s.source {
            Some(source) => format!("{}, of {source}", s.method),
            None => s.method.to_string(),
        };
        Some(row(&name, dtype, shape, s.bytes, s.stored_bytes, &method, entropy))
    };
    let others = spans.iter().filter(|s| s.name.is_none() && s.guess.is_none());
    let (bytes, stored) = others.fold((0, 0), |sum, s| (sum.0 + s.bytes, sum.1 + s.stored_bytes));
    let rest = || row("(no tensor)", "", String::new(), bytes, stored, "", None);
    let mut head: Vec<String> =
        ["  tensor", "dtype", "shape", "bytes", "ratio", "method"].map(Into::into).into();
    let mut right = vec![3, 4];
    if !is_archive {
        head.insert(4, "exponent bits".into());
        right.push(5);
    }
    let rows = || {
        let tensors = spans.iter().filter_map(of_tensor);
        std::iter::once(head.clone()).chain(tensors).chain((bytes > 0).then(rest))
    };
    report::put_table(rows, &right, |row| out.text(row))
}
