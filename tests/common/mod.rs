//! Data for tests.
#![allow(dead_code, reason = "every test program uses a part of it")]

use lmc_gpu::dtype::{Dtype, Fields};

/// A small generator of its own, so that test data never changes with a dependency.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 32) as u8).collect()
    }

    /// About normally distributed.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
    }

    /// `n` words of a type: 0 weights, 1 any bits, 2 zeros and a few others, 3 extreme values,
    /// 4 weights in rows of very different scale.
    pub fn values(&mut self, dtype: Dtype, n: usize, kind: u32) -> Vec<u8> {
        let word = dtype.word_len();
        let mut out = Vec::with_capacity(n * word);
        for i in 0..n {
            let weight = self.normal() * 0.02;
            let weight = if kind == 4 { weight * f64::exp2((i / 64 % 40) as f64) } else { weight };
            let bits = match (kind, dtype.fields()) {
                (0 | 4, Fields::Float { bits: 16, exponent: 8 }) => {
                    u64::from((weight as f32).to_bits() >> 16)
                }
                (0 | 4, Fields::Float { bits: 16, .. }) => {
                    u64::from(half::f16::from_f64(weight).to_bits())
                }
                (0 | 4, Fields::Float { bits: 32, .. }) => u64::from((weight as f32).to_bits()),
                (0 | 4, Fields::Float { bits: 64, .. }) => weight.to_bits(),
                (0 | 4, _) => (weight * 1000.0) as i64 as u64,
                (2, _) if !self.next().is_multiple_of(50) => 0,
                (3, _) => [0, !0, 1 << (8 * word.min(8) - 1), 1, !0 >> 1, !0 << 7]
                    [(self.next() % 6) as usize],
                _ => self.next(),
            };
            for k in 0..word {
                out.push(if k < 8 { (bits >> (8 * k)) as u8 } else { self.next() as u8 });
            }
        }
        out
    }
}

/// Name, dtype, shape and data of a tensor.
pub type Tensor = (String, &'static str, Vec<u64>, Vec<u8>);

/// A safetensors file.
pub fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = String::from("{");
    let mut at = 0;
    for (i, (name, dtype, shape, data)) in tensors.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let end = at + data.len();
        header += &format!(
            "{comma}\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}}"
        );
        at = end;
    }
    header += "}";
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for (_, _, _, data) in tensors {
        file.extend_from_slice(data);
    }
    file
}

/// Name, type, shape with the outermost dimension first, data.
pub type TypedTensor = (String, Dtype, Vec<u64>, Vec<u8>);

/// A GGUF file.
pub fn gguf(tensors: &[TypedTensor]) -> Vec<u8> {
    let mut out = b"GGUF\x03\x00\x00\x00".to_vec();
    out.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    out.extend_from_slice(&0u64.to_le_bytes());
    let mut at = 0u64;
    for (name, dtype, shape, data) in tensors {
        let kind: u32 = match dtype {
            Dtype::F32 => 0,
            Dtype::F16 => 1,
            Dtype::Q4_0 => 2,
            Dtype::Q4_1 => 3,
            Dtype::Q5_0 => 6,
            Dtype::Q5_1 => 7,
            Dtype::Q8_0 => 8,
            Dtype::Q6_K => 14,
            _ => panic!("no number for {dtype}"),
        };
        out.extend_from_slice(&(name.len() as u64).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&(shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&at.to_le_bytes());
        at += (data.len() as u64).next_multiple_of(32);
    }
    for (_, _, _, data) in tensors {
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend_from_slice(data);
    }
    out
}

/// A file of a few tensors of several types, about 500 KB.
pub fn sample_file(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let v = |rng: &mut Rng, d, n, kind| rng.values(d, n, kind);
    safetensors(&[
        ("embed".into(), "BF16", vec![100, 384], v(&mut rng, Dtype::BF16, 100 * 384, 0)),
        ("norm".into(), "BF16", vec![384], v(&mut rng, Dtype::BF16, 384, 0)),
        ("up".into(), "F32", vec![128, 192], v(&mut rng, Dtype::F32, 128 * 192, 4)),
        ("half".into(), "F16", vec![128, 200], v(&mut rng, Dtype::F16, 128 * 200, 0)),
        ("wide".into(), "F64", vec![20_000], v(&mut rng, Dtype::F64, 20_000, 0)),
        ("small".into(), "F8_E4M3", vec![100, 200], v(&mut rng, Dtype::F8_E4M3, 20_000, 1)),
        ("ids".into(), "I32", vec![20_000], v(&mut rng, Dtype::I32, 20_000, 0)),
        ("mask".into(), "BOOL", vec![20_000], v(&mut rng, Dtype::BOOL, 20_000, 2)),
        ("zero".into(), "F32", vec![100, 200], vec![0; 80_000]),
        ("sparse".into(), "BF16", vec![150, 200], v(&mut rng, Dtype::BF16, 30_000, 2)),
    ])
}
