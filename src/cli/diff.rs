//! `lmc-gpu diff`.

use super::{Outcome, args, args::Common, progress::Bar, report, report::Out};
use crate::{
    Error, Result,
    archive::{Changed, Difference, difference},
    dtype::{Dtype, Fields},
    json,
    text::shown,
};
use std::path::PathBuf;

/// Show which tensors differ, in how many words and which bits, and what a delta would take
///
/// A and B are archives, files or directories. Sizes are estimated from samples. As with diff, the
/// exit code is 0 where both are the same and 1 where they differ.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu diff step600.lmc step601/
  lmc-gpu diff a.safetensors b.safetensors --json")]
pub struct Args {
    /// A checkpoint or archive
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Read files as flat arrays of this type, without a header
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
    if args::is_pipe(&args.first) && args::is_pipe(&args.second) {
        return Err(Error::InvalidArgument("only one of A and B can be standard input".into()));
    }
    let found = {
        let bar = Bar::new(args.common.quiet, "comparing", || None);
        let options = args.common.options(&bar).with_dtype(args.dtype);
        let options = options.with_symlinks(args::symlinks(args.follow));
        let options = args.bases.attach(options)?;
        let [a, b] = [&args.first, &args.second].map(|path| args::checkpoint(path, &options));
        difference((&args.first, a?), (&args.second, b?), &options)?
    };
    report::notes(args.common.quiet, &found.notes);
    match args.json {
        true => report::json(false, &json::difference(&found))?,
        false if args.common.quiet => {}
        false => text(&args, &found)?,
    }
    Ok(if found.is_none() { Outcome::Done } else { Outcome::Different })
}

fn text(args: &Args, found: &Difference) -> Result<()> {
    let mut out = Out::new();
    if !found.changed.is_empty() {
        let head = ["tensor", "dtype", "shape", "words", "differ", "share", "in"];
        let rows = || {
            let head = head.map(String::from).to_vec();
            std::iter::once(head).chain(found.changed.iter().map(row))
        };
        report::put_table(rows, &[3, 4, 5], |row| out.text(row))?;
    }
    for (path, only) in [(&args.first, &found.only_first), (&args.second, &found.only_second)] {
        for name in only {
            let path = args::shown(path, "standard input");
            out.text(&format!("only in {}: {}\n", shown(&path), shown(name)))?;
        }
    }
    let sizes = format!(
        "as a delta to {} the second would take about {}, ratio {}, and about {}, ratio {}, by \
         itself",
        shown(&args::shown(&args.first, "standard input")),
        report::bytes(found.delta_bytes),
        report::ratio_text(found.second_bytes, found.delta_bytes),
        report::bytes(found.full_bytes),
        report::ratio_text(found.second_bytes, found.full_bytes),
    );
    let tensors = found.changed.iter().filter(|c| c.name.is_some()).count() as u64;
    out.text(&match found.is_none() {
        true => format!("both are the same, {}\n", report::bytes(found.second_bytes)),
        false => format!("{} of those that both have; {sizes}\n", differing(tensors)),
    })?;
    out.finish()
}

fn differing(n: u64) -> String {
    format!("{} differ{}", report::count(n, "tensor"), if n == 1 { "s" } else { "" })
}

fn row(c: &Changed) -> Vec<String> {
    let name = match &c.name {
        Some(name) => format!("{}:{name}", c.file),
        None => format!("{} (no tensor)", c.file),
    };
    let shape: Vec<String> = c.shape.iter().map(u64::to_string).collect();
    let shape = if shape.is_empty() { "scalar".into() } else { shape.join("x") };
    let (differ, share, place) = match &c.incomparable {
        Some(why) => ("all".into(), String::new(), why.clone()),
        None => (
            c.changed.to_string(),
            format!("{:.2} %", 100.0 * c.changed as f64 / c.words.max(1) as f64),
            bits(c),
        ),
    };
    vec![name, c.dtype.name().into(), shape, c.words.to_string(), differ, share, place]
}

/// The fields in which words differ, for floats, or the bits.
fn bits(c: &Changed) -> String {
    let width = c.bits.len();
    let (mantissa, exponent) = match c.dtype.fields() {
        Fields::Float { bits, exponent } => {
            (usize::from(bits - 1 - exponent), usize::from(exponent))
        }
        _ => (width, 0),
    };
    if width == 0 || width < mantissa + exponent {
        return String::new();
    }
    let low = |bits: &[u64]| bits.iter().rposition(|n| *n > 0).map_or(0, |at| at + 1);
    let is_float = exponent > 0;
    let mut parts = Vec::new();
    if is_float && c.bits[width - 1] > 0 {
        parts.push(format!("sign ({})", c.bits[width - 1]));
    }
    let found = if is_float { low(&c.bits[mantissa..mantissa + exponent]) } else { 0 };
    if found > 0 {
        parts.push(format!("low {found} of {exponent} exponent bits"));
    }
    let (found, what) = (low(&c.bits[..mantissa]), if is_float { " mantissa" } else { "" });
    if found > 0 {
        parts.push(format!("low {found} of {mantissa}{what} bits"));
    }
    parts.join(", ")
}
