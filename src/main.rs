//! The command line tool.

mod cli {
    pub mod store;
}

use clap::Parser;

#[derive(Parser)]
enum Command {
    Store(cli::store::StoreArgs),
}

fn main() -> std::process::ExitCode {
    let Command::Store(args) = Command::parse();
    match cli::store::run(args) {
        Ok(true) => 0.into(),
        Ok(false) => 1.into(),
        Err(e) => {
            eprintln!("error: {e}");
            if e.is_usage() { 2.into() } else { 1.into() }
        }
    }
}
