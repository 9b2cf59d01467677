//! The `lmc-gpu` command; everything is in [`lmc_gpu::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    lmc_gpu::cli::run(std::env::args_os())
}
