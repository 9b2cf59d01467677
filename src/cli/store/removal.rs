//! `lmc-gpu store gc`, `rm` and `rebase`: steps that go, and what needs them.

use super::{LockArg, Output, print};
use crate::{
    Result,
    cli::{Outcome, args::Common, progress::Bar},
    store::{Collecting, GcOptions, Needed, Onto, Store},
};
use std::path::PathBuf;

/// Remove the steps that the policy does not keep and that no kept step needs
///
/// With --rebase, bases of kept steps go as well: those steps are stored anew first, as deltas to a
/// step that stays, or in full. A kill at any instant loses no step that is kept.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store gc runs/7b --dry-run
  lmc-gpu store gc runs/7b --keep-last 3          instead of what the store's policy keeps
  lmc-gpu store gc runs/7b --keep-last 3 --rebase and nothing besides
  lmc-gpu store gc runs/7b --drop-after 600       training went back to step 600")]
pub struct Gc {
    /// The store
    dir: PathBuf,
    /// Keep the N highest steps, instead of what the store's policy keeps
    #[arg(long, value_name = "N")]
    keep_last: Option<u64>,
    /// Keep the multiples of N, instead of what the store's policy keeps
    #[arg(long, value_name = "N")]
    keep_every: Option<u64>,
    /// Remove every step above this one, whatever the policy keeps
    #[arg(long, value_name = "STEP")]
    drop_after: Option<u64>,
    /// Remove bases of kept steps too, which are stored anew
    #[arg(long)]
    rebase: bool,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// While another process writes to the store
    #[arg(long, value_name = "HOW", default_value = "wait")]
    lock: LockArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// Remove steps
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store rm runs/7b 600 650
  lmc-gpu store rm runs/7b 600 --rebase           though later steps are deltas to it")]
pub struct Rm {
    /// The store
    dir: PathBuf,
    /// The steps
    #[arg(required = true, value_name = "STEP")]
    steps: Vec<u64>,
    /// Store anew what needs them, as deltas to a step that stays or in full
    #[arg(long)]
    rebase: bool,
    /// While another process writes to the store
    #[arg(long, value_name = "HOW", default_value = "wait")]
    lock: LockArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

/// Store a step anew, in full or as a delta to another step
///
/// It restores to the same bytes, and steps that are deltas to it stay so.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu store rebase runs/7b 600 --full
  lmc-gpu store rebase runs/7b 600 --onto 500")]
pub struct Rebase {
    /// The store
    dir: PathBuf,
    /// The step
    step: u64,
    /// The step that it becomes a delta to
    #[arg(long, value_name = "STEP", required_unless_present = "full")]
    onto: Option<u64>,
    /// Store it in full
    #[arg(long, conflicts_with = "onto")]
    full: bool,
    /// While another process writes to the store
    #[arg(long, value_name = "HOW", default_value = "wait")]
    lock: LockArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

fn needed(rebase: bool) -> Needed {
    if rebase { Needed::Go } else { Needed::Stay }
}

pub fn gc(a: &Gc) -> Result<Outcome> {
    let bar = Bar::new(a.common.quiet, "collecting", || None);
    let store = Store::open(&a.dir)?.with_options(a.common.options(&bar));
    let policy = (a.keep_last.is_some() || a.keep_every.is_some())
        .then(|| store.policy().clone().with_keep_last(a.keep_last).with_keep_every(a.keep_every));
    let options = GcOptions::default()
        .with_policy(policy)
        .with_drop_after(a.drop_after)
        .with_needed(needed(a.rebase))
        .with_collecting(if a.dry_run { Collecting::DryRun } else { Collecting::Remove })
        .with_locking(a.lock.locking());
    let removed = store.gc(&options)?;
    drop(bar);
    print::removed(&removed, a.dry_run, &Output::of(a.json, &a.common))?;
    Ok(Outcome::Done)
}

pub fn rm(a: &Rm) -> Result<Outcome> {
    let bar = Bar::new(a.common.quiet, "storing anew", || None);
    let store = Store::open(&a.dir)?.with_options(a.common.options(&bar));
    let removed = store.remove(&a.steps, needed(a.rebase), a.lock.locking())?;
    drop(bar);
    print::removed(&removed, false, &Output::of(a.json, &a.common))?;
    Ok(Outcome::Done)
}

pub fn rebase(a: &Rebase) -> Result<Outcome> {
    let bar = Bar::new(a.common.quiet, "storing anew", || None);
    let store = Store::open(&a.dir)?.with_options(a.common.options(&bar));
    let onto = a.onto.map_or(Onto::Full, Onto::Step);
    let rebased = store.rebase(a.step, onto, a.lock.locking())?;
    drop(bar);
    print::rebased(&rebased, &Output::of(a.json, &a.common))?;
    Ok(Outcome::Done)
}
