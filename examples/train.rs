//! Trains a small network on the CPU, saves a checkpoint every few steps in the background, and
//! goes on from the last one after a kill as if nothing had happened.
//!
//! ```text
//! cargo run --release --example train -- /tmp/run --steps 60
//! cargo run --release --example train -- /tmp/run --steps 60 --stop-after 37    dies at step 37
//! cargo run --release --example train -- /tmp/run --steps 60                    same digest
//! ```
//!
//! Mixed precision as large models are trained: weights and Adam's moments in f32, a bf16 copy of
//! the weights that the network computes with. All four are saved, and the batches are a function
//! of the step, so a resumed run computes the same bits.

use lmc_gpu::{
    CompressOptions, Result,
    dtype::Dtype,
    store::{
        Bytes, Checkpointer, CheckpointerOptions, Existing, Policy, SaveOptions, Snapshot, Store,
        Tensor,
    },
};
use std::{
    hash::{DefaultHasher, Hasher},
    path::PathBuf,
};

const INPUTS: usize = 64;
const HIDDEN: usize = 256;
const CLASSES: usize = 16;
const BATCH: usize = 32;
const LEARNING_RATE: f32 = 2e-3;
const BETAS: (f32, f32) = (0.9, 0.95);
const EPS: f32 = 1e-8;
const WEIGHT_DECAY: f32 = 0.1;
/// The tensors: name and shape, [inputs, outputs].
const TENSORS: [(&str, [usize; 2]); 2] =
    [("up.weight", [INPUTS, HIDDEN]), ("down.weight", [HIDDEN, CLASSES])];

struct Arguments {
    dir: PathBuf,
    steps: u64,
    every: u64,
    stop_after: Option<u64>,
}

fn main() -> Result<()> {
    let arguments = arguments().unwrap_or_else(|| {
        eprintln!("usage: train DIR [--steps N] [--every N] [--stop-after N]");
        std::process::exit(2);
    });
    let store = match Store::open(&arguments.dir) {
        Ok(store) => store,
        Err(_) => Store::init(&arguments.dir, Policy::default())?,
    };
    let store = store.with_compress_options(CompressOptions::default().with_threads(1));
    let (mut step, mut trainer) = resume(&store)?;
    let save = SaveOptions::default().with_existing(Existing::Replace);
    let options = CheckpointerOptions::default().with_save(save);
    let checkpointer = Checkpointer::new(store, options)?;
    while step < arguments.steps {
        step += 1;
        let loss = trainer.step(step);
        if step % arguments.every == 0 || step == arguments.steps {
            let ticket = checkpointer.save(step, trainer.snapshot(step)?)?;
            println!("step {step}: loss {loss:.4}, stalled for {:?}", ticket.stalled());
        }
        if arguments.stop_after == Some(step) {
            println!("stopped after step {step} without a word to the checkpointer");
            std::process::abort();
        }
    }
    let report = checkpointer.finish()?;
    println!(
        "saved {} checkpoints, {} → {} bytes at {:.1} MB/s, stalled for {:?}",
        report.saved,
        report.input_bytes,
        report.archive_bytes,
        report.bytes_per_second() / 1e6,
        report.stalled
    );
    println!("digest {:016x}", trainer.digest());
    Ok(())
}

fn arguments() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let dir = words.next()?.into();
    let mut found = Arguments { dir, steps: 60, every: 5, stop_after: None };
    while let Some(word) = words.next() {
        let n = words.next()?.parse().ok()?;
        match word.as_str() {
            "--steps" => found.steps = n,
            "--every" if n > 0 => found.every = n,
            "--stop-after" => found.stop_after = Some(n),
            _ => return None,
        }
    }
    Some(found)
}

/// The last step that restores, or a fresh start.
fn resume(store: &Store) -> Result<(u64, Trainer)> {
    for record in store.list()?.steps.iter().rev() {
        match store.snapshot(record.step) {
            Ok(snapshot) => {
                println!("resumed from step {}", record.step);
                return Ok((record.step, Trainer::from_snapshot(&snapshot)));
            }
            Err(e) => eprintln!("skipped: {e}"),
        }
    }
    Ok((0, Trainer::new()))
}

/// A weight matrix and what AdamW keeps for it.
#[derive(Clone, Default)]
struct Parameter {
    master: Vec<f32>,
    exp_avg: Vec<f32>,
    exp_avg_sq: Vec<f32>,
    /// The copy that the network computes with.
    model: Vec<half::bf16>,
}

/// One kind of tensor of a parameter.
type Stream = fn(&Parameter) -> Bytes;

struct Trainer {
    parameters: Vec<Parameter>,
}

impl Trainer {
    fn new() -> Trainer {
        let mut random = Random(1);
        let parameters = TENSORS.iter().map(|(_, [inputs, outputs])| {
            let scale = 1.7 / (*inputs as f32).sqrt();
            let n = inputs * outputs;
            let mut p = Parameter {
                master: (0..n).map(|_| random.symmetric() * scale).collect(),
                exp_avg: vec![0.0; n],
                exp_avg_sq: vec![0.0; n],
                model: Vec::new(),
            };
            p.round();
            p
        });
        Trainer { parameters: parameters.collect() }
    }

    fn from_snapshot(snapshot: &Snapshot) -> Trainer {
        let read = |stream: &str, name: &str| -> Vec<f32> {
            let tensor = snapshot.tensor(&format!("{stream}.safetensors"), name);
            let bytes = &tensor.expect("the checkpoint is of this program").bytes;
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        let parameters = TENSORS.iter().map(|(name, _)| {
            let mut p = Parameter {
                master: read("master", name),
                exp_avg: read("exp_avg", name),
                exp_avg_sq: read("exp_avg_sq", name),
                model: Vec::new(),
            };
            p.round();
            p
        });
        Trainer { parameters: parameters.collect() }
    }

    fn snapshot(&self, step: u64) -> Result<Snapshot> {
        let mut snapshot = Snapshot::new();
        let streams: [(&str, Dtype, Stream); 4] = [
            ("exp_avg", Dtype::F32, |p| Bytes::from_words(p.exp_avg.clone())),
            ("exp_avg_sq", Dtype::F32, |p| Bytes::from_words(p.exp_avg_sq.clone())),
            ("master", Dtype::F32, |p| Bytes::from_words(p.master.clone())),
            ("model", Dtype::BF16, |p| {
                Bytes::from_words(p.model.iter().map(|w| w.to_bits()).collect::<Vec<_>>())
            }),
        ];
        for (stream, dtype, bytes) in streams {
            let tensors = TENSORS.iter().zip(&self.parameters).map(|((name, shape), p)| {
                Tensor::new(*name, dtype, &shape.map(|n| n as u64), bytes(p))
            });
            let tensors = tensors.collect::<Result<Vec<_>>>()?;
            snapshot = snapshot.with_tensors(format!("{stream}.safetensors"), tensors);
        }
        let meta = format!("{{\"step\": {step}, \"lr\": {LEARNING_RATE:?}}}");
        Ok(snapshot.with_bytes("meta.json", meta.into_bytes()))
    }

    fn digest(&self) -> u64 {
        let mut bytes = Vec::new();
        for p in &self.parameters {
            for stream in [&p.master, &p.exp_avg, &p.exp_avg_sq] {
                bytes.extend(stream.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        hasher.finish()
    }

    /// Forward, backward and update on the batch of this step. Returns the loss.
    fn step(&mut self, step: u64) -> f32 {
        let (inputs, labels) = batch(step);
        let weights: Vec<Vec<f32>> =
            self.parameters.iter().map(|p| p.model.iter().map(|w| w.to_f32()).collect()).collect();
        let mut up_gradient = vec![0.0; INPUTS * HIDDEN];
        let mut down_gradient = vec![0.0; HIDDEN * CLASSES];
        let mut loss = 0.0;
        for (input, label) in inputs.chunks(INPUTS).zip(labels) {
            let mut hidden = product(input, &weights[0], HIDDEN);
            hidden.iter_mut().for_each(|h| *h = h.max(0.0));
            let mut output = product(&hidden, &weights[1], CLASSES);
            let most = output.iter().copied().fold(f32::MIN, f32::max);
            output.iter_mut().for_each(|o| *o = (*o - most).exp());
            let sum: f32 = output.iter().sum();
            output.iter_mut().for_each(|o| *o /= sum);
            loss -= output[label].ln() / BATCH as f32;
            output[label] -= 1.0;
            output.iter_mut().for_each(|o| *o /= BATCH as f32);
            let mut back = vec![0.0; HIDDEN];
            for (h, row) in weights[1].chunks(CLASSES).enumerate() {
                if hidden[h] > 0.0 {
                    back[h] = row.iter().zip(&output).map(|(w, o)| w * o).sum();
                }
            }
            add_outer(&mut down_gradient, &hidden, &output);
            add_outer(&mut up_gradient, input, &back);
        }
        for (p, gradient) in self.parameters.iter_mut().zip([up_gradient, down_gradient]) {
            p.update(&gradient, step);
        }
        loss
    }
}

impl Parameter {
    fn round(&mut self) {
        self.model = self.master.iter().map(|&w| half::bf16::from_f32(w)).collect();
    }

    /// AdamW.
    fn update(&mut self, gradient: &[f32], step: u64) {
        let (b1, b2) = BETAS;
        let correct1 = 1.0 - b1.powi(step as i32);
        let correct2 = (1.0 - b2.powi(step as i32)).sqrt();
        for (i, &g) in gradient.iter().enumerate() {
            let (m, v) = (&mut self.exp_avg[i], &mut self.exp_avg_sq[i]);
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * (g * g);
            let w = self.master[i] * (1.0 - LEARNING_RATE * WEIGHT_DECAY);
            self.master[i] = w - LEARNING_RATE / correct1 * *m / (v.sqrt() / correct2 + EPS);
        }
        self.round();
    }
}

/// `input` times a matrix of one row an input.
fn product(input: &[f32], matrix: &[f32], outputs: usize) -> Vec<f32> {
    let mut out = vec![0.0; outputs];
    for (x, row) in input.iter().zip(matrix.chunks(outputs)) {
        out.iter_mut().zip(row).for_each(|(o, w)| *o += x * w);
    }
    out
}

fn add_outer(gradient: &mut [f32], rows: &[f32], columns: &[f32]) {
    for (x, row) in rows.iter().zip(gradient.chunks_mut(columns.len())) {
        row.iter_mut().zip(columns).for_each(|(g, y)| *g += x * y);
    }
}

/// Inputs scattered round the centre of their class.
fn batch(step: u64) -> (Vec<f32>, Vec<usize>) {
    let mut random = Random(step + 1000);
    let labels: Vec<usize> = (0..BATCH).map(|_| random.next() as usize % CLASSES).collect();
    let mut inputs = Vec::with_capacity(BATCH * INPUTS);
    for &label in &labels {
        let mut centre = Random(label as u64 + 10);
        inputs.extend((0..INPUTS).map(|_| centre.symmetric() + 0.8 * random.symmetric()));
    }
    (inputs, labels)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> 11
    }

    /// Uniform in -1..1.
    fn symmetric(&mut self) -> f32 {
        (self.next() % (1 << 24)) as f32 / (1 << 23) as f32 - 1.0
    }
}
