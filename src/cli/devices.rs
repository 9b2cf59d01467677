//! `lmc-gpu devices`.

use super::{Outcome, args::Common, report};
use crate::{Result, simd::Level};

/// Show which devices can code, and which one would
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    common: Common,
}

pub fn run(args: Args) -> Result<Outcome> {
    let levels: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    let best = Level::best().name();
    let threads = args.common.n_threads();
    if args.json {
        let adapters: [(); 0] = [];
        report::json(
            false,
            &serde_json::json!({
                "simd": best, "simd_levels": levels, "threads": threads,
                "adapters": adapters, "device": "cpu",
            }),
        )?;
    } else {
        report::line(&format!(
            "cpu: {threads} threads, SIMD {best} (of {}); LMC_SIMD caps it",
            levels.join(", ")
        ))?;
        report::line("gpu: no GPU support in this build")?;
        report::line("--device auto uses the cpu")?;
    }
    Ok(Outcome::Done)
}
