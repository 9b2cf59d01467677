//! Quantisers, written as plainly as can be from what ggml and its Python package do.
#![allow(dead_code, reason = "every test program uses a part of it")]

use half::f16;
use lmc_gpu::dtype::Dtype;

/// Blocks of 32 values in a GGUF layout.
pub fn blocks(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    values.chunks_exact(32).flat_map(|block| one_block(dtype, block)).collect()
}

fn one_block(dtype: Dtype, x: &[f32]) -> Vec<u8> {
    let mut furthest = 0.0f32;
    for &v in x {
        if v.abs() > furthest.abs() {
            furthest = v;
        }
    }
    let least = x.iter().copied().fold(f32::INFINITY, f32::min);
    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = match dtype {
        Dtype::Q4_0 => furthest / -8.0,
        Dtype::Q5_0 => furthest / -16.0,
        Dtype::Q4_1 => (most - least) / 15.0,
        Dtype::Q5_1 => (most - least) / 31.0,
        _ => furthest.abs() / 127.0,
    };
    let id = if d == 0.0 { 0.0 } else { 1.0 / d };
    let code = |v: f32| match dtype {
        Dtype::Q4_0 => ((v * id + 8.5) as i32).clamp(0, 15) as u8,
        Dtype::Q5_0 => ((v * id + 16.5) as i32).clamp(0, 31) as u8,
        Dtype::Q4_1 => (((v - least) * id + 0.5) as i32).clamp(0, 15) as u8,
        Dtype::Q5_1 => (((v - least) * id + 0.5) as i32).clamp(0, 31) as u8,
        _ => (v * id).round() as i8 as u8,
    };
    let codes: Vec<u8> = x.iter().map(|&v| code(v)).collect();
    let mut out = f16::from_f32(d).to_le_bytes().to_vec();
    if matches!(dtype, Dtype::Q4_1 | Dtype::Q5_1) {
        out.extend_from_slice(&f16::from_f32(least).to_le_bytes());
    }
    if matches!(dtype, Dtype::Q5_0 | Dtype::Q5_1) {
        let high = (0..32).fold(0u32, |bits, i| bits | u32::from(codes[i] >> 4) << i);
        out.extend_from_slice(&high.to_le_bytes());
    }
    match dtype {
        Dtype::Q8_0 => out.extend_from_slice(&codes),
        _ => out.extend((0..16).map(|i| codes[i] & 15 | (codes[i + 16] & 15) << 4)),
    }
    out
}

/// Super-blocks of Q6_K, with scales that are good enough.
pub fn q6_k(values: &[f32]) -> Vec<u8> {
    values.chunks_exact(256).flat_map(one_q6_k).collect()
}

fn one_q6_k(x: &[f32]) -> Vec<u8> {
    let largest = |x: &[f32]| x.iter().fold(0.0f32, |a, v| a.max(v.abs()));
    let d = f16::from_f32(largest(x) / 31.0 / 127.0);
    let mut codes = [0u8; 256];
    let mut scales = [0u8; 16];
    for (j, sub) in x.chunks_exact(16).enumerate() {
        let wanted = largest(sub) / 31.0 / d.to_f32();
        let scale = if wanted.is_finite() { wanted.round() as i8 } else { 0 };
        scales[j] = scale as u8;
        let step = d.to_f32() * f32::from(scale);
        for (i, v) in sub.iter().enumerate() {
            if step != 0.0 {
                let code = (v / step).round_ties_even().clamp(-32.0, 31.0) + 32.0;
                codes[16 * j + i] = code as u8;
            }
        }
    }
    let mut out = vec![0; 208];
    for half in 0..2 {
        for i in 0..32 {
            let code = |k: usize| codes[128 * half + 32 * k + i];
            out[64 * half + i] = code(0) & 15 | (code(2) & 15) << 4;
            out[64 * half + 32 + i] = code(1) & 15 | (code(3) & 15) << 4;
            out[128 + 32 * half + i] =
                code(0) >> 4 | code(1) >> 4 << 2 | code(2) >> 4 << 4 | code(3) >> 4 << 6;
        }
    }
    out[192..].copy_from_slice(&scales);
    out.extend_from_slice(&d.to_le_bytes());
    out
}

/// The float of eight bits, 4 of them exponent, that is nearest; ties to the even code.
pub fn e4m3(x: f32) -> u8 {
    let value = |code: u8| {
        let (e, m) = (i32::from(code >> 3 & 15), f32::from(code & 7));
        if e == 0 { m / 512.0 } else { (1.0 + m / 8.0) * f32::powi(2.0, e - 7) }
    };
    let a = x.abs();
    let distance = |code: &u8| ((value(*code) - a).abs(), code & 1);
    let best = (0..=0x7eu8).min_by(|p, q| distance(p).partial_cmp(&distance(q)).unwrap());
    best.unwrap() | if x.is_sign_negative() { 0x80 } else { 0 }
}

/// How scales and words are computed: the usual lines of a script.
#[derive(Clone, Copy, Debug)]
pub enum Script {
    /// `s = amax / most; q = x / s`
    Divide,
    /// `r = most / amax; q = x * r`
    Multiply,
    /// `s = amax / most; q = x * (1 / s)`
    Reciprocal,
    /// The first in bf16 throughout.
    Narrow,
}

impl Script {
    pub const ALL: [Script; 4] =
        [Script::Divide, Script::Multiply, Script::Reciprocal, Script::Narrow];

    /// Values of a block with their scale applied.
    pub fn apply(self, most: f32, largest: f32, x: f32) -> f32 {
        let narrow = |x: f32| half::bf16::from_f32(x).to_f32();
        match self {
            Script::Divide => x / (largest / most),
            Script::Multiply => x * (most / largest),
            Script::Reciprocal => x * (1.0 / (largest / most)),
            Script::Narrow => narrow(x / narrow(largest / most)),
        }
    }
}

/// Words of eight bits of a matrix, with a scale for each block of so many rows and columns.
pub fn scaled(
    dtype: Dtype,
    script: Script,
    block: (usize, usize),
    columns: usize,
    values: &[f32],
) -> Vec<u8> {
    let rows = values.len() / columns;
    let mut out = vec![0; values.len()];
    for top in (0..rows).step_by(block.0) {
        for left in (0..columns).step_by(block.1) {
            let within = (top..rows.min(top + block.0))
                .flat_map(|r| (left..columns.min(left + block.1)).map(move |c| r * columns + c));
            let places: Vec<usize> = within.collect();
            let largest = places.iter().fold(0.0f32, |a, &i| a.max(values[i].abs()));
            for i in places {
                out[i] = match dtype {
                    Dtype::I8 => {
                        script.apply(127.0, largest, values[i]).round_ties_even() as i8 as u8
                    }
                    _ => e4m3(script.apply(448.0, largest, values[i])),
                };
            }
        }
    }
    out
}
