//! Throughput of the kernels beside the device's own copy, of encoding a tensor that lies on the
//! device, and how long saving it stalls. Prints tables; checks nothing that `tests/gpu.rs` does not.
//!
//! ```text
//! cargo bench --bench gpu -- [ADAPTER [MIB [TENSOR_MIB]]]
//!     by default the best hardware, 64 MiB for kernels (at most 128), 256 MiB to encode and save;
//!     a quarter of that where the adapter is software
//! ```
//!
//! A kernel's bytes are those it reads and writes; its share is of the bytes a second that a copy
//! on the device reads and writes in the same run. A table takes less than two minutes: rows that
//! would take longer, going by the one before, are left out.
//!
//! ```text
//! encode   hidden   (alone + coding − both) / alone: the share of the time that the device takes
//!                   for transforms and transfers alone which went by while the sink coded
//! save     hidden   share of the time with a request under way in which a coder did not wait
//! ```

use lmc_gpu::{
    Accelerator, Method,
    dtype::Dtype,
    gpu::{
        Buffer, Chunk, Device, Encoder, Plan, Planes, Recorder, Region, Resident, Selector,
        Symbols, Transform, Transformer, wgpu,
    },
    internals::{archive::Options, shader::*, transform::split::Split},
    store::{Checkpointer, CheckpointerOptions, DeviceTensor, LastSaved, Policy, Snapshot, Store},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Repetitions of a measurement, of which the best counts, and the time after which one has to do.
const TIMES: usize = 5;
const ENOUGH: Duration = Duration::from_secs(1);

/// Time for the rows of a table.
const TABLE: Duration = Duration::from_secs(100);

/// The rows of a table, as far as there is time for them.
struct Rows {
    begun: Instant,
    last: Instant,
}

impl Rows {
    fn new() -> Rows {
        let now = Instant::now();
        Rows { begun: now, last: now }
    }

    /// Whether there is time for a row that takes as long as the one before.
    fn next(&mut self, name: &str) -> bool {
        let now = Instant::now();
        let fits = now - self.begun + (now - self.last) <= TABLE;
        if fits {
            self.last = now;
        } else {
            println!("{name:<22} left out: it would take too long");
        }
        fits
    }
}

struct Bench {
    device: Device,
    uniforms: Buffer,
    /// Bytes of every buffer, and the buffers.
    len: u64,
    buffers: Vec<Buffer>,
    /// Bytes a second that a copy reads and writes.
    copy: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let selector = args.first().map_or(Selector::Auto, |a| a.parse().expect("never fails"));
    let device = match Device::request(&selector) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    let info = device.info();
    println!("{} ({:?}, {} {})", info.name, info.backend, info.driver, info.driver_info);
    let slow = if info.device_type == wgpu::DeviceType::Cpu { 4 } else { 1 };
    let number = |a: &String| a.parse::<u64>().expect("a number of MiB");
    let mib = args.get(1).map_or(64 / slow, number);
    let tensor_mib = args.get(2).map_or(256 / slow, number);
    println!("{mib} MiB for kernels, {tensor_mib} MiB to encode and save");
    let len = mib << 20;
    let buffers = (0..4).map(|_| device.storage("bench", len).expect("device memory")).collect();
    let uniforms = Recorder::uniforms(&device).expect("device memory");
    let mut bench = Bench { device, uniforms, len, buffers, copy: 0.0 };
    bench.device.write_at(&bench.buffers[0], 0, &gaussian_bf16(len as usize / 2)).expect("write");
    bench.kernels();
    bench.encode(tensor_mib << 20);
    bench.save(tensor_mib << 20);
}

/// Gaussian bfloat16 with a spread of 0.02: the sum of twelve uniform bytes each.
fn gaussian_bf16(n: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let [a, b] = [x, x.rotate_left(29) ^ 0x5555];
        let sum = |v: u64| v.to_le_bytes().iter().map(|b| f32::from(*b) - 127.5).sum::<f32>();
        let value = (sum(a) + sum(b)) / 295.0 * 0.02;
        ((value.to_bits() >> 16) as u16).to_le_bytes()
    };
    (0..n).flat_map(|_| next()).collect()
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}

/// Codes what came of a chunk on this thread alone, as a coder of an archive does.
fn code(chunk: &Chunk<'_>) -> lmc_gpu::Result<()> {
    let plain = Options::default().with_method(Method::Fast).with_threads(1);
    let coded = |bytes: &[u8], dtype| {
        lmc_gpu::compress(bytes, &plain.clone().with_dtype(Some(dtype)).compressing()).map(drop)
    };
    match &chunk.planes {
        Planes::Words(words) => coded(words, Dtype::BF16),
        Planes::Split { symbols, rest_lo, .. } => {
            match symbols {
                Symbols::Plain(symbols) => coded(symbols, Dtype::U8)?,
                Symbols::Cascade(parts) => coded(&parts.concat(), Dtype::U8)?,
            }
            coded(rest_lo, Dtype::U8)
        }
        _ => Ok(()),
    }
}

impl Bench {
    /// Best time of what `record` records, submitted and waited for.
    fn time(&self, mut record: impl FnMut(&mut Recorder<'_>)) -> Duration {
        let mut once = || {
            let mut recorder = Recorder::new(&self.device, &self.uniforms);
            record(&mut recorder);
            let begun = Instant::now();
            let submission = recorder.submit().expect("submit");
            self.device.wait(submission).expect("wait");
            begun.elapsed()
        };
        let (begun, first) = (Instant::now(), once());
        let more = (0..TIMES).map_while(|_| (begun.elapsed() < ENOUGH).then(&mut once));
        more.min().unwrap_or(first)
    }

    fn row(&self, name: &str, moved: u64, time: Duration) {
        let speed = moved as f64 / time.as_secs_f64();
        let share = if self.copy > 0.0 { 100.0 * speed / self.copy } else { 100.0 };
        println!("{name:<22} {:>9.2} {share:>7.0} %", speed / 1e9);
    }

    /// Measures one dispatch.
    fn kernel<P: Params>(
        &self,
        name: &str,
        entry: &str,
        params: &P,
        invocations: u64,
        buffers: &[&Buffer],
        moved: u64,
    ) {
        let time = self.time(|recorder| {
            recorder.pass(None).dispatch(entry, params, invocations, buffers).expect(name);
        });
        self.row(name, moved, time);
    }

    fn kernels(&mut self) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| self.buffers[i].clone());
        let (len, n) = (self.len, self.len / 2);
        println!("\n{:<22} {:>9} {:>9}", "kernel", "GB/s", "of copy");
        let time = self.time(|recorder| {
            recorder.encoder().copy_buffer_to_buffer(&a, 0, &b, 0, len);
        });
        self.copy = 2.0 * len as f64 / time.as_secs_f64();
        self.row("copy", 2 * len, time);

        let params = AlignParams { n_bytes: len as u32 - 4, shift: 1 };
        self.kernel("align take", "take", &params, len / 4 - 1, &[&a, &b], 2 * len);
        let params = GroupParams { n_words: n as u32, word_len: 2, stride: n as u32 / 4 };
        self.kernel("group split 16", "split", &params, n / 4, &[&a, &b], 2 * len);
        self.kernel("group join 16", "join", &params, n / 4, &[&c, &b], 2 * len);
        let params = SplitParams {
            n_words: n as u32,
            word_bits: 16,
            rest_bits: 8,
            base: 1,
            sign: 0,
            stride: n as u32 / 4,
        };
        self.kernel("split bf16", "split", &params, n / 4, &[&a, &b, &d], 2 * len);
        self.kernel("join bf16", "join", &params, n / 4, &[&c, &b], 2 * len);
        let params = PackParams { n_values: n as u32, width: 6, at: n as u32 / 4 };
        self.kernel("pack 6", "pack", &params, n * 6 / 32, &[&b, &c], n + n * 6 / 8);
        let params = BitplaneParams { n_words: n as u32, word_bits: 16 };
        self.kernel("bit planes 16", "planes", &params, len / 4, &[&a, &c], 2 * len);
        self.kernel("bit planes 16 back", "words", &params, len / 4, &[&c, &d], 2 * len);
        let params = DeltaParams { n_bytes: len as u32, word_bits: 16 };
        self.kernel("xor", "xor", &params, len / 8, &[&a, &c, &d], 3 * len);
        self.kernel("diff 16", "diff", &params, len / 8, &[&a, &c, &d], 3 * len);
        self.kernel("undo 16", "undo", &params, len / 8, &[&d, &c, &a], 3 * len);
        let params = ChangeParams { n_words: n as u32, word_bits: 16 };
        self.kernel("change map 16", "bitmap", &params, n / 32, &[&d, &c, &b], len + n / 8);
        // The planes again, which have been written over.
        self.device.write_at(&a, 0, &gaussian_bf16(n as usize)).expect("write");
        let params = SplitParams {
            n_words: n as u32,
            word_bits: 16,
            rest_bits: 8,
            base: 1,
            sign: 0,
            stride: n as u32 / 4,
        };
        self.kernel("split bf16", "split", &params, n / 4, &[&a, &b, &d], 2 * len);
        let params = HistogramParams { n_symbols: n as u32, per_invocation: 8 };
        self.kernel("histogram", "count", &params, n / 32, &[&b, &c], n);
        self.cascade(&b, n);
    }

    /// All dispatches of the cascade of `n` symbols.
    fn cascade(&self, symbols: &Buffer, n: u64) {
        let n_tiles = n / 4096;
        let params = CascadeParams {
            n_symbols: n as u32,
            n_tiles: n_tiles as u32,
            stride: n as u32 / 16 + 1,
            ..Default::default()
        };
        let storage = |len| self.device.storage("bench", len).expect("device memory");
        let (counts, order, tiles, totals) =
            (storage(1024), storage(1028), storage(16 * n_tiles), storage(16));
        let (digits, levels, raw) = (storage(n / 4), storage(n), storage(n + 4));
        let time = self.time(|recorder| {
            recorder.encoder().clear_buffer(&counts, 0, None);
            let mut pass = recorder.pass(None);
            let mut run = |entry, invocations, buffers: &[&Buffer]| {
                pass.dispatch(entry, &params, invocations, buffers).expect(entry);
            };
            run("sample", n / 4, &[symbols, &counts]);
            run("plan", 256, &[&counts, &order]);
            run("count", 256 * n_tiles, &[symbols, &order, &tiles]);
            run("scan", 256, &[&tiles, &totals]);
            run("clear", n_tiles + 1, &[&order, &tiles, &totals, &levels, &raw]);
            run("emit", 256 * n_tiles, &[symbols, &order, &tiles, &digits, &levels, &raw]);
        });
        // Symbols twice, and about 0.34 of them in digits and raw.
        self.row("cascade, all steps", 2 * n + n / 3, time);
    }

    /// A tensor of `len` bytes on a device that has nothing else to do.
    fn tensor(&self, len: u64) -> Buffer {
        let buffer = self.device.storage("tensor", len).expect("device memory");
        self.device.write_at(&buffer, 0, &gaussian_bf16(len as usize / 2)).expect("write");
        self.device.read(&buffer, 4).expect("written");
        buffer
    }

    /// Checkpoints of a tensor of `len` bytes, which stays on the device: how long training would
    /// have stalled, and how long the whole save took.
    fn save(&self, len: u64) {
        let buffer = self.tensor(len);
        println!(
            "\n{:<22} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "save", "stall", "whole", "share", "GB/s", "hidden"
        );
        let mut rows = Rows::new();
        let transformer: Arc<dyn Accelerator> = Arc::new(Transformer::new(self.device.clone()));
        for (name, device) in
            [("fast, on the CPU", None), ("fast, on the device", Some(transformer))]
        {
            let dir = tempfile::tempdir().expect("a directory");
            let options = Options::default().with_method(Method::Fast).with_device(device.clone());
            let policy = Policy::default().with_full_every(1);
            let store = Store::init(dir.path().join("store"), policy).expect("a store");
            let chosen = CheckpointerOptions::default().with_last_saved(LastSaved::Forget);
            let checkpointer =
                Checkpointer::new(store.with_options(options), chosen).expect("a thread");
            for step in 0..3 {
                let name = format!("{name}, {step}");
                if !rows.next(&name) {
                    continue;
                }
                let before = device.as_ref().map(|d| d.usage());
                let place = Resident::new(&self.device, &buffer, 0, len).expect("in the buffer");
                let shape = [len / 2048, 1024];
                let tensor = DeviceTensor::new("w", Dtype::BF16, &shape, place).expect("a tensor");
                let model = Snapshot::new().with_device_tensors("model.safetensors", vec![tensor]);
                let begun = Instant::now();
                let ticket = checkpointer.save(step, model).expect("handed over");
                let stall = ticket.stalled();
                ticket.wait().expect("saved");
                let whole = begun.elapsed();
                let hidden = device.as_ref().zip(before).map(|(device, before)| {
                    let after = device.usage();
                    let exposed = (after.exposed - before.exposed).as_secs_f64();
                    1.0 - exposed / (after.busy - before.busy).as_secs_f64()
                });
                println!(
                    "{name:<22} {:>9} {:>9} {:>7.1} % {:>9.2} {:>9}",
                    format!("{:.2} ms", stall.as_secs_f64() * 1e3),
                    format!("{:.1} ms", whole.as_secs_f64() * 1e3),
                    100.0 * stall.as_secs_f64() / whole.as_secs_f64(),
                    len as f64 / whole.as_secs_f64() / 1e9,
                    percent(hidden),
                );
            }
        }
    }

    /// Snapshot and encoding of a tensor of `len` bytes: the planes are dropped twice, then coded.
    fn encode(&self, len: u64) {
        let buffer = self.tensor(len);
        let region = Region::new(&buffer, 0, len).expect("in the buffer");
        let fields = Split { word_bits: 16, rest_bits: 8, base: 1, sign: None };
        let cascade = Transform::Cascade { fields, sampled: true };
        println!(
            "\n{:<22} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "encode", "GB/s", "bus/raw", "stall", "kernels", "waited", "hidden"
        );
        let mut rows = Rows::new();
        for (name, transform) in [("raw words", Transform::None), ("bf16 cascade", cascade)] {
            let plan = Plan::new(2).with_transform(transform).with_chunk_words(1 << 20);
            let mut encoder = Encoder::new(&self.device, plan).expect("device memory");
            let mut alone: Option<f64> = None;
            // The first save also makes the buffers of the snapshot.
            for save in ["first", "next", "coded"] {
                let name = format!("{name}, {save}");
                if !rows.next(&name) {
                    continue;
                }
                let sink = |chunk: Chunk<'_>| if save == "coded" { code(&chunk) } else { Ok(()) };
                let begun = Instant::now();
                let snapshot = encoder.snapshot(&region).expect("snapshot");
                let stall = begun.elapsed();
                let stats = encoder.encode(&snapshot, None, sink).expect("encode");
                encoder.recycle(snapshot);
                let whole = begun.elapsed();
                let (total, coding) = (stats.total.as_secs_f64(), stats.sink.as_secs_f64());
                let hidden = alone
                    .filter(|_| save == "coded")
                    .map(|alone| ((alone + coding - total) / alone).clamp(0.0, 1.0));
                alone = Some(alone.map_or(total, |alone| alone.min(total)));
                let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
                println!(
                    "{name:<22} {:>9.2} {:>9.3} {:>9} {:>9} {:>9} {:>9}",
                    len as f64 / whole.as_secs_f64() / 1e9,
                    stats.transferred as f64 / stats.bytes as f64,
                    ms(stall),
                    stats.transform.map_or("–".into(), ms),
                    ms(stats.waited),
                    percent(hidden),
                );
            }
        }
    }
}
