//! `lmc-gpu cat`.

use super::{Outcome, args, args::Common, pipe, progress::Bar, report, signal};
use crate::{
    Error, Result,
    archive::{Checkpoint, Options},
    container::EntryKind,
    remote,
};
use std::{
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Bytes decoded at a time, on several threads.
const STEP: u64 = 32 << 20;

/// Write single files of archives to standard output
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lmc-gpu cat checkpoint.lmc:config.json
  lmc-gpu cat model.safetensors.lmc | sha256sum
  … | lmc-gpu cat -- -:config.json             an archive on standard input
  lmc-gpu list checkpoint.lmc                  lists the files")]
pub struct Args {
    /// An archive and a file in it; the file may be left out where there is but one
    #[arg(required = true, value_name = "X.lmc:FILE")]
    files: Vec<String>,
    #[command(flatten)]
    bases: args::Bases,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let options = args.common.options(&Bar::new(true, "", || None));
    let options = args.bases.attach(options)?;
    // All are looked up before anything is written.
    let mut found = Vec::new();
    for text in &args.files {
        let (path, file) = target(text)?;
        let checkpoint = args::checkpoint(&path, &options)?;
        let entry = entry(&checkpoint, &path, file.as_deref())?;
        found.push((path, checkpoint, entry));
    }
    let mut out = Output::new()?;
    for (path, checkpoint, entry) in &found {
        put(checkpoint, *entry, &mut out, &options).map_err(|e| match e {
            Error::Io { .. } | Error::BaseMismatch(_) => e,
            e => e.in_file(&checkpoint.manifest().entries[*entry].path).at(path.display()),
        })?;
    }
    out.finish()?;
    Ok(Outcome::Done)
}

/// Standard output: small text may go to a terminal, with escapes; other bytes may not.
struct Output {
    held: Option<Vec<u8>>,
    to: Option<Box<dyn Write + Send>>,
}

impl Output {
    fn new() -> Result<Output> {
        use std::io::IsTerminal;
        if std::io::stdout().is_terminal() {
            return Ok(Output { held: Some(Vec::new()), to: None });
        }
        Ok(Output { held: None, to: Some(pipe::output()?) })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match (&mut self.to, &mut self.held) {
            (Some(to), _) => to.write_all(bytes).map_err(|source| Error::Io {
                context: "cannot write to standard output".into(),
                source,
            }),
            (None, Some(held)) if held.len() + bytes.len() <= 1 << 20 => {
                held.extend_from_slice(bytes);
                Ok(())
            }
            // Says that it is a terminal.
            (None, _) => pipe::output().map(|_| ()),
        }
    }

    fn finish(self) -> Result<()> {
        match self.held.map(String::from_utf8) {
            None => Ok(()),
            Some(Ok(text)) if text.is_empty() => Ok(()),
            Some(Ok(text)) => report::page(false, text.trim_end_matches('\n')),
            Some(Err(_)) => pipe::output().map(|_| ()),
        }
    }
}

/// `X:FILE` where there is an `X`, wherever the colon stands, or `X`.
fn target(text: &str) -> Result<(PathBuf, Option<String>)> {
    if Path::new(text).exists() || text == "-" {
        return Ok((text.into(), None));
    }
    if remote::is_url(Path::new(text)) {
        // Of a URL, the last one in what follows its host.
        let host = text.find("://").map_or(0, |at| at + 3);
        let below = text[host..].find('/').map_or(text.len(), |at| host + at);
        return Ok(match text[below..].rsplit_once(':') {
            Some((x, file)) => (format!("{}{x}", &text[..below]).into(), Some(file.into())),
            None => (text.into(), None),
        });
    }
    for (at, _) in text.match_indices(':') {
        let (x, file) = (&text[..at], &text[at + 1..]);
        if !x.is_empty() && (x == "-" || Path::new(x).exists()) {
            return Ok((x.into(), Some(file.into())));
        }
    }
    let x = text.split(':').next().unwrap_or(text);
    Err(report::io("open", Path::new(x), ErrorKind::NotFound.into()))
}

/// The number of a file in the manifest.
fn entry(checkpoint: &Checkpoint, path: &Path, file: Option<&str>) -> Result<usize> {
    let entries = &checkpoint.manifest().entries;
    let files = || entries.iter().enumerate().filter(|(_, e)| e.kind != EntryKind::Directory);
    let found = match file {
        Some(file) => files().find(|(_, e)| e.path == *file || e.path.to_text() == file),
        None => files().next().filter(|_| files().count() == 1),
    };
    found.map(|(i, _)| i).ok_or_else(|| {
        let list: Vec<String> = files().take(8).map(|(_, e)| e.path.to_string()).collect();
        let more = if files().count() > 8 { ", …" } else { "" };
        let what = match file {
            Some(file) => format!("there is no file \"{file}\" in {}", path.display()),
            None => format!("say which file of {} (X.lmc:FILE)", path.display()),
        };
        Error::InvalidArgument(format!("{what}: it has {}{more}", list.join(", ")).into())
    })
}

fn put(checkpoint: &Checkpoint, entry: usize, out: &mut Output, options: &Options) -> Result<()> {
    let len = checkpoint.manifest().entries[entry].len;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        if signal::stopped() {
            return Err(std::io::Error::from(ErrorKind::Interrupted).into());
        }
        buffer.resize(STEP.min(len - at) as usize, 0);
        checkpoint.read_range(entry, at, &mut buffer, options)?;
        out.put(&buffer)?;
        at += buffer.len() as u64;
    }
    Ok(())
}
