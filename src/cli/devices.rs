//! `lmc-gpu devices`.

use super::{Outcome, report};
use crate::{Result, pipeline, simd::Level};

/// Show which devices can code, and which one would
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<Outcome> {
    let levels: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    let best = Level::best().name();
    let threads = pipeline::worker_count(0);
    let adapters = adapters();
    if args.json {
        report::json(
            false,
            &serde_json::json!({
                "simd": best, "simd_levels": levels, "threads": threads,
                "gpu_support": cfg!(feature = "gpu"), "adapters": adapters, "device": "cpu",
            }),
        )?;
        return Ok(Outcome::Done);
    }
    report::line(&format!(
        "cpu: {threads} threads, SIMD {best} (of {}); LMC_SIMD caps it",
        levels.join(", ")
    ))?;
    if !cfg!(feature = "gpu") {
        report::line("gpu: no GPU support in this build")?;
    } else if adapters.is_empty() {
        report::line("gpu: no adapter found")?;
    }
    for adapter in &adapters {
        let text = |key: &str| adapter[key].as_str().unwrap_or_default().to_owned();
        let largest = adapter["max_buffer_bytes"].as_u64().unwrap_or_default();
        report::line(&format!(
            "{}: {}, {}, {}, driver {}, buffers up to {}{}",
            adapter["index"],
            text("name"),
            text("kind"),
            text("backend"),
            text("driver"),
            report::bytes(largest),
            if adapter["software"] == true { ", software: never chosen by itself" } else { "" },
        ))?;
    }
    let chosen = adapters.iter().find(|a| a["chosen"] == true);
    let chosen = chosen.map_or("there is none".into(), |a| format!("adapter {}", a["index"]));
    report::line(&format!("--device auto leaves files to the cpu; --device gpu: {chosen}"))?;
    Ok(Outcome::Done)
}

/// The adapters, as JSON objects.
#[cfg(feature = "gpu")]
fn adapters() -> Vec<serde_json::Value> {
    let adapters = crate::gpu::adapters().into_iter();
    let describe = |a: crate::gpu::Adapter| {
        serde_json::json!({
            "index": a.index,
            "name": a.info.name,
            "driver": format!("{} {}", a.info.driver, a.info.driver_info).trim(),
            "backend": a.info.backend.to_string(),
            "kind": format!("{:?}", a.info.device_type),
            "software": a.software,
            "chosen": a.chosen,
            "max_buffer_bytes": a.limits.max_buffer_size,
            "max_binding_bytes": a.limits.max_storage_buffer_binding_size,
            "features": a.features.to_string(),
        })
    };
    adapters.map(describe).collect()
}

#[cfg(not(feature = "gpu"))]
fn adapters() -> Vec<serde_json::Value> {
    Vec::new()
}
