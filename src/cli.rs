//! The command line: it parses arguments, calls the public API and prints what came of it.
//!
//! One module a subcommand. Exit codes: 0 done, 1 the data is wrong or an operation failed,
//! 2 usage, 130 stopped by a signal.

mod absent;
mod args;
#[cfg(feature = "study")]
mod bench;
#[cfg(not(feature = "study"))]
#[path = "cli/no_bench.rs"]
mod bench;
mod cat;
mod completions;
mod compress;
mod decompress;
mod devices;
mod diff;
mod exclusion;
mod extract;
mod flat;
mod inspect;
mod list;
mod man;
mod pipe;
mod progress;
mod removal;
mod report;
mod signal;
mod store;
mod verify;

use crate::{Error, Result, text};
use clap::{CommandFactory, Parser, Subcommand};
use std::{ffi::OsString, io::Write, process::ExitCode};

/// Lossless compression of model checkpoints. Every byte comes back.
#[derive(Parser)]
#[command(name = "lmc-gpu", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  lmc-gpu compress model.safetensors                writes model.safetensors.lmc
  lmc-gpu compress checkpoint/ -o step600.lmc       a directory becomes one archive
  lmc-gpu verify step600.lmc
  lmc-gpu decompress step600.lmc -o restored/
  lmc-gpu inspect model.safetensors                 what would be saved, tensor by tensor
  cat model.bin | lmc-gpu compress - --dtype bf16 | ssh host 'cat > model.lmc'
  lmc-gpu inspect s3://bucket/step600.lmc           URLs, where built with the feature remote
  lmc-gpu -d model.lmc; lmc-gpu -t model.lmc; lmc-gpu -l model.lmc

Exit codes: 0 done; 1 the data is wrong or an operation failed; 2 usage; 130 stopped.
File modes and times are not kept. RUST_LOG=debug shows what happens inside.";

#[derive(Subcommand)]
enum Verb {
    Compress(compress::Args),
    #[command(short_flag = 'd')]
    Decompress(decompress::Args),
    #[command(short_flag = 't')]
    Verify(verify::Args),
    #[command(short_flag = 'l')]
    List(list::Args),
    Inspect(inspect::Args),
    Extract(extract::Args),
    Cat(cat::Args),
    Diff(diff::Args),
    Store(store::Args),
    Bench(bench::Args),
    Devices(devices::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// What a verb came to: done, done with damage that it has listed, or stopped.
enum Outcome {
    Done,
    Damaged,
    /// Two checkpoints are not the same.
    Different,
    /// Stopped by a signal, with what there was until then.
    Stopped,
}

/// The command as clap describes it.
fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command with these arguments, the first being the program's name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(args))
}

/// As [`run`], for a process that is not Rust's: the number that it ends with.
pub fn status(args: impl IntoIterator<Item = OsString>) -> u8 {
    log_to_stderr();
    let args: Result<Vec<OsString>> = args.into_iter().map(args::without_secrets).collect();
    let args = match args {
        Ok(args) => args,
        Err(e) => {
            report::error(&e.to_string());
            return 2;
        }
    };
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(e) if args.iter().any(|a| !text::is_shown_as_is(&a.to_string_lossy())) => {
            // Its colours are escapes as well, so they go where an argument may hold some.
            let _ = report::page(e.use_stderr(), e.render().to_string().trim_end());
            return if e.use_stderr() { 2 } else { 0 };
        }
        Err(e) => {
            // Nothing can be done where even this cannot be printed.
            let _ = e.print();
            return if e.use_stderr() { 2 } else { 0 };
        }
    };
    // Installs the handler, so that whatever a verb waits for can be stopped.
    signal::cancel();
    let result = match cli.verb {
        Verb::Compress(args) => compress::run(args),
        Verb::Decompress(args) => decompress::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Inspect(args) => inspect::run(args),
        Verb::Extract(args) => extract::run(args),
        Verb::List(args) => list::run(args),
        Verb::Cat(args) => cat::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Store(args) => store::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Devices(args) => devices::run(args),
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => man::run(args),
    };
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Damaged | Outcome::Different) => 1,
        Ok(Outcome::Stopped) => signal::STOPPED,
        Err(_) if signal::stopped() => {
            signal::say();
            signal::STOPPED
        }
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => 1,
        Err(e) => {
            report::error(&e.to_string());
            if e.is_usage() { 2 } else { 1 }
        }
    }
}

/// What `RUST_LOG` asks for, with the time, and with escapes for what cannot be seen. A second
/// call in one process keeps the first logger.
fn log_to_stderr() {
    let mut builder = env_logger::Builder::from_default_env();
    // These write down what they send, credentials with it.
    for module in ["ureq", "rustls"] {
        builder.filter_module(module, log::LevelFilter::Off);
    }
    builder.format(|out, record| {
        let (time, text) = (out.timestamp(), record.args().to_string());
        let (level, target) = (record.level(), record.target());
        progress::beside(|| writeln!(out, "[{time} {level:5} {target}] {}", text::shown(&text)))
    });
    let _ = builder.try_init();
}
