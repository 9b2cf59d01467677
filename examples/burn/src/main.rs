//! A training loop on burn that saves from device memory while it goes on.
//!
//! ```text
//! lmc-gpu-burn DIR [--steps N] [--every N] [--kill-at STEP]
//!     trains a small network with AdamW, saves every N steps into the store DIR, and resumes from
//!     the last step there; --every 0 saves nothing; --kill-at aborts the process after that step
//! ```
//!
//! Weights, first and second moments stay in the buffers that burn keeps them in. `save` copies
//! them on the device and returns; reading them back, coding and writing go on beside training.

mod model;
mod share;

use lmc_gpu::{
    dtype::Dtype,
    store::{Checkpointer, CheckpointerOptions, DeviceTensor, Policy, Snapshot, Store, Ticket},
};
use model::{Model, STREAMS};
use share::Shared;
use std::{error::Error, path::PathBuf, time::Instant};

struct Args {
    dir: PathBuf,
    steps: u64,
    every: u64,
    kill_at: Option<u64>,
}

fn args() -> Result<Args, Box<dyn Error>> {
    let mut found = Args { dir: "checkpoints".into(), steps: 30, every: 5, kill_at: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> {
            let text = args.next().ok_or(format!("{arg} needs a number"))?;
            Ok(text.parse()?)
        };
        match arg.as_str() {
            "--steps" => found.steps = number()?,
            "--every" => found.every = number()?,
            "--kill-at" => found.kill_at = Some(number()?),
            _ => found.dir = arg.into(),
        }
    }
    Ok(found)
}

/// The tensors of a model where they lie, by the names and files they are saved under.
fn snapshot(shared: &Shared, model: &Model) -> Result<Snapshot, Box<dyn Error>> {
    let mut snapshot = Snapshot::new();
    for (stream, tensors) in STREAMS.iter().zip(model.streams()) {
        let mut saved = Vec::new();
        for (i, tensor) in tensors.iter().enumerate() {
            let shape = tensor.dims().map(|n| n as u64);
            let place = shared.place(tensor)?;
            saved.push(DeviceTensor::new(format!("layer{i}.weight"), Dtype::F32, &shape, place)?);
        }
        snapshot = snapshot.with_device_tensors(format!("{stream}.safetensors"), saved);
    }
    shared.flush(&model.weights[0])?;
    Ok(snapshot)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = args()?;
    let shared = Shared::new()?;
    println!("device: {}", shared.gpu.info().name);
    let store = match Store::open(&args.dir) {
        Ok(store) => store,
        Err(_) => Store::init(&args.dir, Policy::default())?,
    };
    let last = store.list()?.steps.last().map(|r| r.step);
    let checkpointer = Checkpointer::new(store, CheckpointerOptions::default())?;

    let mut model = Model::new(&shared.burn);
    if let Some(step) = last {
        checkpointer.restore_to(step, &snapshot(&shared, &model)?)?;
        model.step = step;
        println!("resumed from step {step}");
    }

    let mut tickets: Vec<Ticket> = Vec::new();
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let first = model.step;
    while model.step < args.steps {
        let saving = tickets.last().is_some_and(|ticket| !ticket.is_done());
        let begun = Instant::now();
        let loss = model.train(&shared.burn);
        let seconds = begun.elapsed().as_secs_f64();
        // The first step compiles kernels.
        if model.step > first + 1 {
            if saving { &mut beside } else { &mut alone }.push(seconds);
        }
        let mut note = String::new();
        if args.every > 0 && model.step.is_multiple_of(args.every) {
            let ticket = checkpointer.save(model.step, snapshot(&shared, &model)?)?;
            note = format!(", saving: stalled {:.2} ms", 1e3 * ticket.stalled().as_secs_f64());
            tickets.push(ticket);
        }
        println!("step {}: loss {loss:.6}, {:.1} ms{note}", model.step, 1e3 * seconds);
        if args.kill_at == Some(model.step) {
            println!("killed after step {}", model.step);
            std::process::abort();
        }
    }
    for ticket in tickets {
        let (step, stalled) = (ticket.step(), ticket.stalled().as_secs_f64());
        let saved = ticket.wait()?;
        println!(
            "saved step {step}: {} -> {} bytes in {:.1} ms, of which training stalled {:.2} ms",
            saved.record.input_bytes,
            saved.record.archive_bytes,
            1e3 * saved.seconds,
            1e3 * stalled,
        );
    }
    let report = checkpointer.finish()?;
    let (alone, beside) = (median(alone), median(beside));
    println!("a step alone takes {:.1} ms, the middle one", 1e3 * alone);
    if report.saved > 0 && beside.is_finite() {
        println!(
            "a step beside a save takes {:.1} ms: {:+.1} %",
            1e3 * beside,
            100.0 * (beside / alone - 1.0)
        );
    }
    println!("stalled for {:.2} ms in {} saves", 1e3 * report.stalled.as_secs_f64(), report.saved);
    println!("checksum of all tensors after step {}: {:016x}", model.step, model.checksum());
    Ok(())
}
