//! Timing a codec with warm buffers, and comparing what it decodes.

use serde::Serialize;

use super::{
    Codec,
    clock::Clock,
    entropy,
    input::{Input, Part},
};
use crate::{
    dtype::Dtype,
    error::{Error, Result},
};

/// How often a measurement is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seconds after which it is not repeated any more. The first run always counts.
    pub seconds: f64,
    /// Runs at most.
    pub max_runs: usize,
    /// Whether to repeat nothing any more: somebody waits for the end.
    pub stopped: fn() -> bool,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { seconds: 0.5, max_runs: 9, stopped: || false }
    }
}

/// Seconds of several runs of the same thing.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    seconds: Vec<f64>,
    /// Least time of processors.
    cpu: Option<f64>,
}

impl Timing {
    fn push(&mut self, start: Clock) {
        let elapsed = start.elapsed();
        let at = self.seconds.partition_point(|&s| s < elapsed.wall);
        self.seconds.insert(at, elapsed.wall);
        self.cpu = elapsed.cpu.map(|cpu| cpu.min(self.cpu.unwrap_or(cpu)));
    }

    /// The least time of processors, all threads together, where the system tells.
    pub fn cpu(&self) -> Option<f64> {
        self.cpu
    }

    /// The fastest run.
    pub fn best(&self) -> f64 {
        self.seconds.first().copied().unwrap_or(f64::INFINITY)
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.seconds.get(self.seconds.len() / 2).copied().unwrap_or(f64::INFINITY)
    }

    /// How many.
    pub fn runs(&self) -> usize {
        self.seconds.len()
    }
}

/// What was measured of one codec on one input. Only made after decoding gave the input back.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes of the coded form.
    pub coded_bytes: u64,
    /// Encoding.
    pub encode: Timing,
    /// Decoding.
    pub decode: Timing,
}

/// Measures `codec` on `parts`, all of them in turn each run. An error where it fails or where
/// decoding gives anything but the input.
pub fn measure(codec: &mut dyn Codec, parts: &[Part], effort: Effort) -> Result<Measured> {
    // Both are written once before the clock runs: no method pays for fresh pages of the caller.
    let mut coded: Vec<Vec<u8>> = parts.iter().map(|p| vec![1; p.bytes.len()]).collect();
    let mut decoded: Vec<Vec<u8>> =
        parts.iter().map(|p| p.bytes.iter().map(|b| !b).collect()).collect();
    let (mut encode, mut decode) = (Timing::default(), Timing::default());
    let begin = Clock::start();
    loop {
        let start = Clock::start();
        for (part, coded) in parts.iter().zip(&mut coded) {
            coded.clear();
            codec.encode(part.dtype, &part.bytes, coded)?;
        }
        encode.push(start);
        let start = Clock::start();
        for ((part, coded), decoded) in parts.iter().zip(&coded).zip(&mut decoded) {
            codec.decode(part.dtype, coded, decoded)?;
        }
        decode.push(start);
        let same = parts.iter().zip(&decoded).all(|(part, decoded)| part.bytes == *decoded);
        if !same {
            return Err(Error::Corrupt("decoding does not give the input back".into()));
        }
        let seconds = begin.elapsed().wall;
        // The first run pays for fresh pages: two more, where that does not take long.
        let enough = encode.runs() > 2 || seconds >= 4.0 * effort.seconds;
        let enough = enough && seconds >= effort.seconds || (effort.stopped)();
        if encode.runs() >= effort.max_runs || enough {
            break;
        }
    }
    Ok(Measured {
        bytes: parts.iter().map(|p| p.bytes.len() as u64).sum(),
        coded_bytes: coded.iter().map(|c| c.len() as u64).sum(),
        encode,
        decode,
    })
}

/// One line of results, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Name of the input.
    pub input: String,
    /// Name of the method.
    pub method: String,
    /// Name of the element type that most of the input consists of.
    pub dtype: String,
    /// What was put in front of the method: `none`, `xor`, `subtract`, `ordered`.
    pub delta: String,
    /// Step of the training run, where the input is part of a series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Bytes of the input.
    pub bytes: u64,
    /// Bytes of the coded form, everything counted.
    pub coded_bytes: u64,
    /// Coded bytes / input bytes.
    pub ratio: f64,
    /// Coded bits per element.
    pub bits_per_weight: f64,
    /// Entropy of the byte groups in 64 KiB blocks, codebooks included, in bits per element.
    pub entropy_bits_per_weight: f64,
    /// The same of what LMC Huffman codes: byte groups after their runs were shortened.
    pub run_entropy_bits_per_weight: f64,
    /// Fastest run, 1e9 input bytes a second.
    pub encode_gb_s: f64,
    /// Fastest run, 1e9 input bytes a second.
    pub decode_gb_s: f64,
    /// Middle run.
    pub encode_median_gb_s: f64,
    /// Middle run.
    pub decode_median_gb_s: f64,
    /// By the time of processors, all threads together, where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encode_cpu_gb_s: Option<f64>,
    /// By the time of processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_cpu_gb_s: Option<f64>,
    /// Runs of each.
    pub runs: usize,
    /// Threads the method used.
    pub threads: usize,
    /// Whether decoding gave the input back; there are no records of methods where it did not.
    pub verified: bool,
}

impl Record {
    /// Speeds of encoding and decoding by the time of processors, or by the wall where that is
    /// not known.
    pub fn cpu_speeds(&self) -> (f64, f64) {
        let encode = self.encode_cpu_gb_s.unwrap_or(self.encode_gb_s);
        (encode, self.decode_cpu_gb_s.unwrap_or(self.decode_gb_s))
    }
}

/// What an input could be coded in at best by a code for bytes, in bits, codebooks counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    /// Byte groups in 64 KiB blocks.
    pub block: f64,
    /// The same after LMC's run lengths.
    pub runs: f64,
}

impl Floor {
    /// The floor of `input`.
    pub fn of(input: &Input) -> Floor {
        let sum = |bits: fn(Dtype, &[u8]) -> f64| {
            input.parts.iter().map(|p| bits(p.dtype, &p.bytes)).sum()
        };
        Floor { block: sum(entropy::block_bits), runs: sum(entropy::run_bits) }
    }
}

/// Measures `codec` on `input`, of which the floor is known.
pub fn record(
    codec: &mut dyn Codec,
    input: &Input,
    floor: Floor,
    effort: Effort,
) -> Result<Record> {
    let parts = match &input.file {
        Some(file) if codec.takes_files() => std::slice::from_ref(file),
        _ => &input.parts,
    };
    let measured = measure(codec, parts, effort)?;
    let elements = input.elements().max(1) as f64;
    let bytes = measured.bytes as f64;
    Ok(Record {
        input: input.name.clone(),
        method: codec.name().into(),
        dtype: input.dtype().name().into(),
        delta: "none".into(),
        step: None,
        bytes: measured.bytes,
        coded_bytes: measured.coded_bytes,
        ratio: if bytes > 0.0 { measured.coded_bytes as f64 / bytes } else { 1.0 },
        bits_per_weight: 8.0 * measured.coded_bytes as f64 / elements,
        entropy_bits_per_weight: floor.block / elements,
        run_entropy_bits_per_weight: floor.runs / elements,
        encode_gb_s: bytes / measured.encode.best() / 1e9,
        decode_gb_s: bytes / measured.decode.best() / 1e9,
        encode_median_gb_s: bytes / measured.encode.median() / 1e9,
        decode_median_gb_s: bytes / measured.decode.median() / 1e9,
        encode_cpu_gb_s: measured.encode.cpu().map(|s| bytes / s / 1e9),
        decode_cpu_gb_s: measured.decode.cpu().map(|s| bytes / s / 1e9),
        runs: measured.encode.runs(),
        threads: codec.threads(),
        verified: true,
    })
}

/// Speed of a warm copy of `len` bytes: what the speeds of the same run are compared with.
pub fn memcpy_gb_s(len: usize) -> f64 {
    let from = vec![1u8; len];
    let mut to = vec![2u8; len];
    let mut timing = Timing::default();
    for _ in 0..5 {
        let start = Clock::start();
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        timing.push(start);
    }
    len as f64 / timing.best() / 1e9
}
