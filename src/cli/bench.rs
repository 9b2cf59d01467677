//! `lmc-gpu bench`.

use super::{Outcome, args::Common, report};
use crate::{Result, codec::Method};

/// Measure the methods on generated or given data
#[derive(clap::Args)]
pub struct Args {
    /// Name the methods, one a line
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let _ = args.common;
    if args.list {
        for method in Method::ALL {
            report::line(method.name())?;
        }
    }
    Ok(Outcome::Done)
}
