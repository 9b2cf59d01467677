//! `lmc-gpu store`: a directory of checkpoints.

mod look;
mod print;
mod removal;

use super::{
    Outcome,
    args::{self, Common, Transform},
    progress::Bar,
    report,
};
use crate::{
    Error, Result,
    archive::Options,
    store::{AfterSave, Existing, Form, Locking, Policy, SaveOptions, Store},
};
use clap::{Subcommand, ValueEnum};
use std::path::PathBuf;

/// Keep a series of checkpoints as archives that are deltas to one another
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store init runs/7b --full-every 10 --keep-last 20 --keep-every 1000
  lmc-gpu store save runs/7b out/checkpoint-600 --step 600
  lmc-gpu store list runs/7b
  lmc-gpu store restore runs/7b 600 -o checkpoint-600
  lmc-gpu store gc runs/7b --dry-run

A save is all or nothing: after a kill at any instant every earlier step restores, and the
next save works. Steps are ordered by their number, never by time.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Init(Init),
    Repair(Repair),
    Save(Save),
    Restore(Restore),
    List(List),
    Inspect(look::Inspect),
    Extract(look::Extract),
    Verify(Verify),
    Rebase(removal::Rebase),
    Rm(removal::Rm),
    Gc(removal::Gc),
    Stats(StatsArgs),
}

/// How a verb reports
#[derive(clap::Args)]
struct Output {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LockArg {
    /// Wait for the other process
    #[default]
    Wait,
    /// Fail at once
    Fail,
    /// Take no lock, for file systems without: nobody else may write
    None,
}

/// Make a directory into a store, or give a store another policy (--force)
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store init runs/7b
  lmc-gpu store init runs/7b --full-every 1                every step stored in full
  lmc-gpu store init runs/7b --keep-last 5 --force         another policy for the steps there")]
struct Init {
    /// The directory; it is created where it does not exist
    dir: PathBuf,
    /// Store every Nth save in full, deltas between them; 0: only where --max-chain asks for it
    #[arg(long, value_name = "N")]
    full_every: Option<u64>,
    /// Store in full what would take more than this fraction of a full save as a delta
    #[arg(long, value_name = "FRACTION")]
    rebase_above: Option<f64>,
    /// Most deltas that a restore has to go through, 1 to 100
    #[arg(long, value_name = "N")]
    max_chain: Option<u64>,
    /// gc keeps the N highest steps
    #[arg(long, value_name = "N")]
    keep_last: Option<u64>,
    /// gc keeps the steps that are multiples of N
    #[arg(long, value_name = "N")]
    keep_every: Option<u64>,
    /// gc keeps the optimizer's state of the N highest steps, and the other files of all it keeps
    #[arg(long, value_name = "N")]
    state_last: Option<u64>,
    /// Give an existing store this policy; its steps stay as they are
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    output: Output,
}

/// Write a damaged or missing lmc-store.json anew; every step stays
///
/// Nothing but the policy is lost with that file. It becomes the default one, by which gc keeps
/// every step: `store init DIR --force` gives the store another.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  lmc-gpu store repair runs/7b")]
struct Repair {
    /// The store
    dir: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Store a file or directory as a step
///
/// When this returns, the step is on disk. A base that is damaged does not matter: the step is
/// then stored in full, and that is said.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store save runs/7b out/checkpoint-600 --step 600
  lmc-gpu store save runs/7b out/checkpoint-600 --step 600 --full --json")]
struct Save {
    /// The store
    dir: PathBuf,
    /// The checkpoint, a file or directory
    source: PathBuf,
    /// Its step
    #[arg(long, value_name = "N")]
    step: u64,
    /// Store it in full, whatever the policy says
    #[arg(long)]
    full: bool,
    /// Store it as a delta to this step, whatever that takes (default: to the one of the last steps
    /// that has most of the same files, as the policy says)
    #[arg(long, value_name = "STEP", conflicts_with = "full")]
    base: Option<u64>,
    /// Replace the step where it exists; deltas to what it was stay valid
    #[arg(short, long)]
    force: bool,
    /// Remove what the policy does not keep afterwards
    #[arg(long)]
    gc: bool,
    /// Follow symbolic links
    #[arg(long)]
    follow: bool,
    /// Store what was read of files that somebody writes to meanwhile, and name them; otherwise
    /// that is an error
    #[arg(long)]
    allow_changes: bool,
    /// While another process writes to the store
    #[arg(long, value_name = "HOW", default_value = "wait")]
    lock: LockArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transform: Transform,
    #[command(flatten)]
    common: Common,
}

/// Restore a step, byte for byte
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  lmc-gpu store restore runs/7b 600 -o checkpoint-600")]
struct Restore {
    /// The store
    dir: PathBuf,
    /// The step, or last for the highest
    step: String,
    /// The file or directory to restore to
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Restore what is undamaged, fill the rest with zeros, list it and exit with 1
    #[arg(long)]
    keep_going: bool,
    /// Replace existing output; of a directory only the files that the archive has
    #[arg(short, long)]
    force: bool,
    /// Replace a directory as a whole, with whatever else it holds
    #[arg(long)]
    force_replace_dir: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// List the steps
#[derive(clap::Args)]
struct List {
    /// The store
    dir: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// Decode every step and check every checksum; name what is damaged and what depends on it
#[derive(clap::Args)]
#[command(after_help = "Exits 1 where a step does not restore exactly.")]
struct Verify {
    /// The store
    dir: PathBuf,
    /// Only these steps
    steps: Vec<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// What the store takes, by step and stream
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store stats runs/7b
  lmc-gpu store stats runs/7b --plot sizes.html")]
struct StatsArgs {
    /// The store
    dir: PathBuf,
    /// Write a page with a plot of size by step and stream
    #[arg(long, value_name = "OUT.html")]
    plot: Option<PathBuf>,
    /// Replace an existing page
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    output: Output,
}

impl LockArg {
    fn locking(self) -> Locking {
        match self {
            LockArg::Wait => Locking::Wait,
            LockArg::Fail => Locking::Fail,
            LockArg::None => Locking::None,
        }
    }
}

impl Output {
    fn of(json: bool, common: &Common) -> Output {
        Output { json, quiet: common.quiet }
    }
}

pub fn run(args: Args) -> Result<Outcome> {
    match args.verb {
        Verb::Init(a) => init(&a),
        Verb::Repair(a) => {
            print::policy(&Store::repair(&a.dir, None)?, &a.output)?;
            Ok(Outcome::Done)
        }
        Verb::Save(a) => save(&a),
        Verb::Restore(a) => restore(&a),
        Verb::List(a) => {
            let store = Store::open(&a.dir)?;
            let listing = store.list()?;
            print::listing(&store, &listing, &a.output)?;
            Ok(outcome(listing.unreadable.is_empty()))
        }
        Verb::Verify(a) => {
            let bar = Bar::new(a.common.quiet, "verifying", || None);
            let store = Store::open(&a.dir)?.with_options(a.common.options(&bar));
            let verified = store.verify(&a.steps)?;
            drop(bar);
            print::verified(&verified, &Output::of(a.json, &a.common))?;
            Ok(outcome(verified.is_whole()))
        }
        Verb::Inspect(a) => look::inspect(&a),
        Verb::Extract(a) => look::extract(&a),
        Verb::Rebase(a) => removal::rebase(&a),
        Verb::Rm(a) => removal::rm(&a),
        Verb::Gc(a) => removal::gc(&a),
        Verb::Stats(a) => {
            let stats = Store::open(&a.dir)?.stats()?;
            if let Some(path) = &a.plot {
                let page = stats.to_html(&a.dir.display().to_string());
                let options = Options::default().with_overwrite(args::overwrite(a.force, false));
                let options = options.with_protected(vec![a.dir.clone()]);
                print::write_page(path, &page, &options)?;
            }
            print::stats(&stats, a.plot.as_deref(), &a.output)?;
            Ok(Outcome::Done)
        }
    }
}

fn outcome(good: bool) -> Outcome {
    if good { Outcome::Done } else { Outcome::Damaged }
}

fn init(a: &Init) -> Result<Outcome> {
    let mut policy = Policy::default();
    policy.full_every = a.full_every.unwrap_or(policy.full_every);
    policy.rebase_above = a.rebase_above.unwrap_or(policy.rebase_above);
    policy.max_chain = a.max_chain.unwrap_or(policy.max_chain);
    policy.keep_last = a.keep_last;
    policy.keep_every = a.keep_every;
    policy.state_last = a.state_last;
    let store = match Store::open(&a.dir) {
        Ok(mut store) if a.force => {
            store.set_policy(policy)?;
            store
        }
        Err(Error::Corrupt(_)) if a.force => Store::repair(&a.dir, Some(policy))?,
        Err(e @ (Error::Corrupt(_) | Error::Unsupported(_))) => return Err(e),
        _ => Store::init(&a.dir, policy)?,
    };
    print::policy(&store, &a.output)?;
    Ok(Outcome::Done)
}

fn save(a: &Save) -> Result<Outcome> {
    let bar = Bar::new(a.common.quiet, "saving", || None);
    let options = a
        .transform
        .attach(a.common.options(&bar))?
        .with_symlinks(args::symlinks(a.follow))
        .with_changes(args::changes(a.allow_changes));
    let store = Store::open(&a.dir)?.with_options(options);
    let options = SaveOptions::default()
        .with_existing(if a.force { Existing::Replace } else { Existing::Refuse })
        .with_base(a.base)
        .with_form(if a.full { Form::Full } else { Form::ByPolicy })
        .with_after(if a.gc { AfterSave::Collect } else { AfterSave::Nothing })
        .with_locking(a.lock.locking());
    let saved = store.save(&a.source, a.step, &options)?;
    drop(bar);
    print::saved(&saved, &Output::of(a.json, &a.common))?;
    Ok(Outcome::Done)
}

/// The number of a step that was asked for, which may be `last`.
fn step_of(store: &Store, text: &str) -> Result<u64> {
    let step = match text {
        "last" => store.list()?.steps.last().map(|r| r.step),
        number => number.parse().ok(),
    };
    let dir = store.root().display();
    step.ok_or_else(|| {
        Error::InvalidArgument(match text {
            "last" => format!("{dir} has no step yet").into(),
            _ => format!("{text} is not a step of {dir}: use a number, or last for the highest")
                .into(),
        })
    })
}

fn restore(a: &Restore) -> Result<Outcome> {
    let store = Store::open(&a.dir)?;
    let step = step_of(&store, &a.step)?;
    let total = || store.record(step).ok().flatten().map(|r| r.input_bytes);
    let bar = Bar::new(a.common.quiet, "restoring", total);
    let store = store.with_options(a.common.options(&bar));
    let started = std::time::Instant::now();
    let overwrite = args::overwrite(a.force, a.force_replace_dir);
    let restored = match a.keep_going {
        true => store.salvage(step, &a.output, overwrite)?,
        false => store.restore(step, &a.output, overwrite).inspect_err(|e| {
            let is_damage =
                matches!(e, Error::Corrupt(_) | Error::Truncated(_) | Error::BaseMismatch(_));
            if is_damage {
                report::hint(a.common.quiet, "--keep-going restores what is undamaged");
            }
        })?,
    };
    drop(bar);
    report::damage(&restored.damage);
    let seconds = started.elapsed().as_secs_f64();
    print::restored(step, &restored, seconds, &Output::of(a.json, &a.common))?;
    Ok(outcome(restored.damage.is_empty()))
}
