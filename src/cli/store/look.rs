//! `lmc-gpu store inspect` and `extract`: into a step without restoring it.

use super::{Output, step_of};
use crate::{
    Result,
    archive::{Checkpoint, Options, inspect_open},
    cli::{
        Outcome, args,
        args::Common,
        extract::{Done, write},
        inspect::print,
        progress::Bar,
    },
    store::Store,
};
use std::{path::PathBuf, time::Instant};

/// Show what a step consists of, tensor by tensor
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  lmc-gpu store inspect runs/7b last --json")]
pub struct Inspect {
    /// The store
    dir: PathBuf,
    /// The step, or last for the highest
    step: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// Write single tensors of a step to a safetensors file
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  lmc-gpu store extract runs/7b 600 model.safetensors:lm_head.weight -o head.safetensors")]
pub struct Extract {
    /// The store
    dir: PathBuf,
    /// The step, or last for the highest
    step: String,
    /// Names of tensors, with FILE: in front where several files have one of that name
    #[arg(required = true, value_name = "[FILE:]TENSOR")]
    tensors: Vec<String>,
    /// The output; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Replace output that exists
    #[arg(short, long)]
    force: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

fn open(dir: &PathBuf, step: &str, options: &Options) -> Result<(u64, Checkpoint)> {
    let store = Store::open(dir)?.with_options(options.clone());
    let step = step_of(&store, step)?;
    Ok((step, Checkpoint::Archive(store.open_step(step)?)))
}

pub fn inspect(a: &Inspect) -> Result<Outcome> {
    let options = a.common.options(&Bar::new(true, "", || None));
    let (step, checkpoint) = open(&a.dir, &a.step, &options)?;
    let found =
        inspect_open(&checkpoint, &options).map_err(|e| e.at(format_args!("step {step}")))?;
    print(&format!("step {step}"), &found, a.json, a.common.quiet)?;
    Ok(Outcome::Done)
}

pub fn extract(a: &Extract) -> Result<Outcome> {
    let started = Instant::now();
    let options = a.common.options(&Bar::new(true, "", || None));
    let options =
        options.with_overwrite(args::overwrite(a.force, false)).with_protected(vec![a.dir.clone()]);
    let (step, checkpoint) = open(&a.dir, &a.step, &options)?;
    let output = args::output(&a.output);
    let to_pipe = args::is_pipe(&output);
    let extracted = write(&checkpoint, &a.tensors, &output, &options)
        .map_err(|e| e.at(format_args!("step {step}")))?;
    let seconds = started.elapsed().as_secs_f64();
    let done = Done { from: format!("step {step}"), output: &output, extracted, seconds };
    let Output { json, quiet } = Output::of(a.json, &a.common);
    done.print(to_pipe, json, quiet)?;
    Ok(Outcome::Done)
}
