//! `lmc-gpu bench` in a build without the studies.

use super::Outcome;
use crate::{Error, Result};
use std::ffi::OsString;

/// Not in this build, which lacks the feature study
#[derive(clap::Args)]
pub struct Args {
    /// What the verb would take
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

pub fn run(args: Args) -> Result<Outcome> {
    drop(args.rest);
    Err(Error::Unsupported(
        "this build of lmc-gpu cannot measure: build it with the feature study for bench".into(),
    ))
}
