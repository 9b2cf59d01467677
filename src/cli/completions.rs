//! `lmc-gpu completions`.

use super::{Outcome, report};
use crate::Result;
use clap_complete::Shell;

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu completions bash > /etc/bash_completion.d/lmc-gpu
  lmc-gpu completions zsh > ~/.zfunc/_lmc-gpu
  lmc-gpu completions fish > ~/.config/fish/completions/lmc-gpu.fish")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(args: Args) -> Result<Outcome> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "lmc-gpu", &mut text);
    report::raw(&text)?;
    Ok(Outcome::Done)
}
