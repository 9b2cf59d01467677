//! `lmc-gpu man`.

use super::{Outcome, args, report};
use crate::{Error, Result, archive::AtomicFile};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

/// Write the man pages, one a verb, into a directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu man /usr/local/share/man/man1
  lmc-gpu man pages && man -l pages/lmc-gpu-store-save.1")]
pub struct Args {
    /// The directory; it is created where it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Replace pages that exist
    #[arg(short, long)]
    force: bool,
}

pub fn run(args: Args) -> Result<Outcome> {
    fs::create_dir_all(&args.dir).map_err(|e| report::io("create", &args.dir, e))?;
    let mut command = super::command();
    command.build();
    let mut pages = Vec::new();
    render(&command, "lmc-gpu", &mut pages)?;
    if !args.force {
        // None is written where one cannot be.
        for (name, _) in &pages {
            let path = args.dir.join(name);
            if path.exists() {
                return Err(Error::InvalidArgument(
                    format!("{} exists already: --force replaces it", path.display()).into(),
                ));
            }
        }
    }
    for (name, page) in &pages {
        write(&args.dir.join(name), page, args.force)?;
    }
    report::line(&format!(
        "{} in {}",
        report::count(pages.len() as u64, "page"),
        args.dir.display()
    ))?;
    Ok(Outcome::Done)
}

/// The page of a command, and those of its verbs.
fn render(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut page = Vec::new();
    // Building the command has given every verb the name that its page has.
    let made = clap_mangen::Man::new(command.clone()).render(&mut page);
    made.map_err(|source| Error::Io { context: format!("cannot make {name}.1").into(), source })?;
    pages.push((format!("{name}.1"), page));
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        render(verb, &format!("{name}-{}", verb.get_name()), pages)?;
    }
    Ok(())
}

fn write(path: &Path, page: &[u8], force: bool) -> Result<()> {
    let mut file = AtomicFile::create(path, args::overwrite(force, false))?;
    file.write_all(page).map_err(|e| report::io("write", path, e))?;
    file.commit()
}
