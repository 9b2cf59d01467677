//! Where the time goes when a device makes the transforms.
//!
//! ```text
//! transform   on the device, by its own clock
//! transfer    the rest of the time from a request to its answer: both ways over the bus, waits
//! coding      of the CPU, summed over coders: choosing, entropy coding, checksums
//! writing     to a file, synced
//! hidden      share of the time with a request under way in which a coder did not wait for one
//! ```
//!
//! Every archive is compared with the one that the CPU makes alone, and decoded.

use super::{
    Context,
    input::Input,
    report::{Report, Section},
    table::Table,
};
use crate::{
    archive::{self, Options, compress_files},
    codec::{Accelerator, Method, Usage},
    dtype::Dtype,
    error::{Error, Result},
};
use serde::Serialize;
use std::{path::Path, sync::Arc, time::Instant};

/// Methods whose transforms are measured where none are named.
const USUAL: [Method; 2] = [Method::Fast, Method::Auto];
/// Runs, of which the fastest counts.
const RUNS: usize = 3;

/// What was measured of one method on one input; times are in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Stages {
    /// Name of the input.
    pub input: String,
    /// Name of the method.
    pub method: String,
    /// Name of the device.
    pub device: String,
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes that went to the device.
    pub sent_bytes: u64,
    /// Bytes that came back.
    pub received_bytes: u64,
    /// Transforms by the device's clock; absent where it has none.
    pub transform: Option<f64>,
    /// Requests, but for the transforms.
    pub transfer: f64,
    /// The CPU's own part.
    pub coding: f64,
    /// Writing the archive.
    pub writing: f64,
    /// All of it, as a clock on the wall has it.
    pub elapsed: f64,
    /// Share of the device's time that was hidden; absent where it was asked for nothing.
    pub hidden: Option<f64>,
    /// The same archive by the CPU alone.
    pub elapsed_cpu: f64,
}

/// Measures the methods that are named, or the usual ones, on every input.
pub fn run(
    device: &Arc<dyn Accelerator>,
    inputs: &[Input],
    methods: Option<&[String]>,
    context: &mut Context<'_>,
    report: &mut Report,
) {
    let named = |names: &[String]| names.iter().filter_map(|n| Method::parse(n)).collect();
    let methods: Vec<Method> = methods.map_or_else(|| USUAL.to_vec(), named);
    report.device = device.name();
    context.plan(inputs.len() * methods.len());
    for input in inputs {
        for &method in &methods {
            if !context.next(&format!("{method} on {} by the device", input.name)) {
                report.interrupted = true;
                break;
            }
            match measure(device, input, method, context.threads) {
                Ok(stages) => report.stages.push(stages),
                Err(e) => report.failures.push(format!("{method} on {}: {e}", input.name)),
            }
        }
    }
    if !report.stages.is_empty() {
        report.sections.push(section(&report.stages));
    }
}

fn section(stages: &[Stages]) -> Section {
    let columns = [
        "input",
        "method",
        "transform",
        "transfer",
        "coding",
        "writing",
        "elapsed",
        "hidden",
        "by the CPU alone",
    ];
    let mut table = Table::new("milliseconds", &columns);
    let ms = |seconds: f64| format!("{:.1}", 1e3 * seconds);
    for s in stages {
        table.push(vec![
            s.input.clone(),
            s.method.clone(),
            s.transform.map_or("–".into(), ms),
            ms(s.transfer),
            ms(s.coding),
            ms(s.writing),
            ms(s.elapsed),
            s.hidden.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share)),
            ms(s.elapsed_cpu),
        ]);
    }
    let answer = "Transform, transfer and coding are summed over coders, which work side by side. \
                  Every archive was compared with the one that the CPU makes alone.";
    Section {
        heading: format!("Stages on {}", stages[0].device),
        answers: vec![answer.into()],
        tables: vec![table],
        plots: Vec::new(),
    }
}

/// Several parts become files of one archive.
fn measure(
    device: &Arc<dyn Accelerator>,
    input: &Input,
    method: Method,
    threads: usize,
) -> Result<Stages> {
    let dir = tempfile::tempdir()?;
    let options = Options::default().with_method(method).with_threads(threads);
    let options = options.with_overwrite(archive::Overwrite::Files);
    let by_device = options.clone().with_device(Some(device.clone()));
    let (cpu, gpu) = (dir.path().join("cpu.lmc"), dir.path().join("gpu.lmc"));
    let mut best: Option<Stages> = None;
    let mut elapsed_cpu = f64::INFINITY;
    for _ in 0..RUNS {
        elapsed_cpu = elapsed_cpu.min(write(input, &cpu, &options)?.1);
        let before = device.usage();
        let (summary, elapsed) = write(input, &gpu, &by_device)?;
        let usage = since(&before, &device.usage());
        if best.as_ref().is_some_and(|best| best.elapsed <= elapsed) {
            continue;
        }
        let waited = usage.waited.as_secs_f64();
        let transform = usage.transform.map(|t| t.as_secs_f64());
        let busy = usage.busy.as_secs_f64();
        best = Some(Stages {
            input: input.name.clone(),
            method: method.name().into(),
            device: device.name(),
            bytes: summary.input_bytes,
            sent_bytes: usage.sent,
            received_bytes: usage.received,
            transform,
            transfer: (waited - transform.unwrap_or(0.0)).max(0.0),
            coding: (summary.coding.as_secs_f64() - waited).max(0.0),
            writing: summary.writing.as_secs_f64() + elapsed - summary.seconds,
            elapsed,
            hidden: (busy > 0.0).then(|| 1.0 - usage.exposed.as_secs_f64() / busy),
            elapsed_cpu,
        });
    }
    let read = |path: &Path| std::fs::read(path).map_err(|e| Error::io("read", path, e));
    if read(&cpu)? != read(&gpu)? {
        return Err(Error::Device("it made another archive than the CPU".into()));
    }
    let options = options.restoring();
    archive::Archive::open(&gpu, &options)?.verify(&options)?;
    let mut best = best.ok_or_else(|| Error::Device("nothing was measured".into()))?;
    best.elapsed_cpu = elapsed_cpu;
    Ok(best)
}

/// Compresses an input into a file and says how long that took.
fn write(input: &Input, path: &Path, options: &Options) -> Result<(archive::Summary, f64)> {
    let (mut total, begun) = (archive::Summary::default(), Instant::now());
    for part in &input.parts {
        let dtype = (part.dtype != Dtype::BYTES).then_some(part.dtype);
        let files = archive::Input::from_bytes("data", &part.bytes, dtype);
        let summary = compress_files(&files, path, &options.compressing())?;
        total.input_bytes += summary.input_bytes;
        total.seconds += summary.seconds;
        total.coding += summary.coding;
        total.writing += summary.writing;
    }
    Ok((total, begun.elapsed().as_secs_f64()))
}

fn since(before: &Usage, after: &Usage) -> Usage {
    let mut usage = *after;
    usage.sent -= before.sent;
    usage.received -= before.received;
    usage.waited -= before.waited;
    usage.busy -= before.busy;
    usage.exposed -= before.exposed;
    usage.transform = after.transform.zip(before.transform).map(|(after, before)| after - before);
    usage
}
