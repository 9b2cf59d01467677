//! `--exclude`: what of a directory is left out.

use crate::{archive::Input, container::Name};
use glob::{MatchOptions, Pattern};

/// What of a directory to leave out.
#[derive(clap::Args)]
pub struct Exclusion {
    /// Leave out what matches of a directory, with all that is below it: a pattern with * ? [],
    /// matched with names, or with whole paths where it has a slash (** is any number of
    /// directories)
    #[arg(long = "exclude", value_name = "GLOB", value_parser = pattern)]
    patterns: Vec<Pattern>,
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text.trim_end_matches('/')).map_err(|e| e.to_string())
}

impl Exclusion {
    /// Whether anything may be left out.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The input without what is left out.
    pub fn apply<'a>(&self, input: Input<'a>) -> Input<'a> {
        match self.is_empty() {
            true => input,
            false => input.without(|path| self.matches(path)),
        }
    }

    fn matches(&self, path: &Name) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let path = path.to_text();
        let name = path.rsplit('/').next().unwrap_or(&path);
        self.patterns.iter().any(|pattern| match pattern.as_str().contains('/') {
            true => pattern.matches_with(&path, options),
            false => pattern.matches_with(name, options),
        })
    }
}
