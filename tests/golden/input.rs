//! The inputs of golden archives: functions of nothing, so that they need no storage.
//!
//! Only additions, multiplications, divisions and square roots make floats here, which are the
//! same on every machine.

#[path = "../derived/quantiser.rs"]
mod quantiser;

use crate::common::{Rng, gguf, safetensors};
use lmc_gpu::dtype::Dtype;
use quantiser::Script;

/// Paths and bytes.
pub type Files = Vec<(String, Vec<u8>)>;

fn one(bytes: Vec<u8>) -> Files {
    vec![("data".into(), bytes)]
}

/// A file of small tensors of many types.
pub fn mixed() -> Files {
    let mut rng = Rng::new(71);
    let mut v = |dtype, n, kind| rng.values(dtype, n, kind);
    let half = v(Dtype::F16, 16 * 32, 0);
    one(safetensors(&[
        ("bf16".into(), "BF16", vec![24, 40], v(Dtype::BF16, 24 * 40, 0)),
        ("f16".into(), "F16", vec![16, 32], half),
        ("f32".into(), "F32", vec![12, 20], v(Dtype::F32, 12 * 20, 0)),
        ("f64".into(), "F64", vec![60], v(Dtype::F64, 60, 0)),
        ("f8".into(), "F8_E4M3", vec![400], v(Dtype::F8_E4M3, 400, 2)),
        ("i32".into(), "I32", vec![200], v(Dtype::I32, 200, 0)),
        ("mask".into(), "BOOL", vec![600], v(Dtype::BOOL, 600, 2)),
        ("zero".into(), "F32", vec![4, 200], vec![0; 3200]),
        ("sparse".into(), "BF16", vec![600], v(Dtype::BF16, 600, 2)),
    ]))
}

/// Planes long enough for 64 lanes and for several Huffman codebooks, of values that shrink well; a
/// tensor of zeros; and one twice.
pub fn long() -> Files {
    let mut rng = Rng::new(72);
    let bf16 = rng.values(Dtype::BF16, 66_000, 2);
    let ids = rng.values(Dtype::I16, 33_000, 2);
    let twice = rng.values(Dtype::U8, 17_000, 2);
    one(safetensors(&[
        ("bf16".into(), "BF16", vec![660, 100], bf16),
        ("zero".into(), "F32", vec![N as u64], vec![0; 4 * N]),
        ("ids".into(), "I16", vec![33_000], ids),
        ("a".into(), "U8", vec![17_000], twice.clone()),
        ("b".into(), "U8", vec![17_000], twice),
    ]))
}

/// A `.npy` file of big-endian floats.
pub fn big_endian() -> Files {
    let mut data = Rng::new(73).values(Dtype::F32, 64 * 32, 0);
    data.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    one(npy(">f4", "(64, 32)", &data))
}

/// A `.npy` file of big-endian integers that repeat at a distance.
pub fn big_endian_integers() -> Files {
    one(npy(">i4", "(16400,)", &Rng::new(79).bytes(4 * 410).repeat(40)))
}

fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// A matrix of few bits whose rows and columns have very different scales.
pub fn scales() -> Files {
    let mut rng = Rng::new(74);
    let mut data = Vec::new();
    for row in 0..148u32 {
        for column in 0..112u32 {
            let scale = (1u32 << (row * 7 % 13)) as f64 * (1u32 << (column * 5 % 7)) as f64;
            let x = (rng.normal() * scale) as f32;
            data.extend_from_slice(&((x.to_bits() >> 20 << 4) as u16).to_le_bytes());
        }
    }
    one(safetensors(&[("w".into(), "BF16", vec![148, 112], data)]))
}

/// Two tensors whose rows have scales that differ by more than two octaves.
pub fn rows() -> Files {
    let mut rng = Rng::new(76);
    let (mut half, mut single) = (Vec::new(), Vec::new());
    for row in 0..24u32 {
        for _ in 0..256 {
            let x = (rng.normal() * (1u32 << (row * 7 % 13)) as f64) as f32;
            single.extend_from_slice(&x.to_le_bytes());
            half.push((x.to_bits() >> 24) as u8 & 0x7f | (x.to_bits() >> 31 << 7) as u8);
        }
    }
    one(safetensors(&[
        ("single".into(), "F32", vec![24, 256], single),
        ("short".into(), "F8_E5M2", vec![24, 256], half),
    ]))
}

/// Files of no known format, empty ones, and a tensor file.
pub fn directory() -> Files {
    let mut rng = Rng::new(75);
    let data = rng.values(Dtype::BF16, 1000, 0);
    vec![
        ("config.json".into(), br#"{"hidden_size": 64, "layers": [1, 2, 3]}"#.repeat(20)),
        ("empty".into(), Vec::new()),
        ("nested/deeper/random.bin".into(), rng.bytes(777)),
        ("nested/model.safetensors".into(), {
            safetensors(&[("w".into(), "BF16", vec![1000], data)])
        }),
    ]
}

/// Quantised groups of bell-shaped nibbles, with scales that differ.
pub fn quantised(dtype: Dtype) -> Files {
    let mut rng = Rng::new(80 + dtype as u64);
    let len = dtype.word_len();
    let halves: &[usize] = match dtype {
        Dtype::Q5_1 | Dtype::Q5_K => &[0, 2],
        Dtype::Q2_K => &[80, 82],
        Dtype::Q3_K => &[108],
        Dtype::Q6_K => &[208],
        Dtype::Q8_K => &[2],
        _ => &[0],
    };
    let mut data = Vec::new();
    for _ in 0..4096 / dtype.group_elements() {
        // Where d is large, elements are close to the middle.
        let wide = rng.next() >> 63 == 1;
        let size = (rng.next() >> 32) as u16 % 400 + if wide { 0x0800 } else { 0 };
        let mut nibble = || match wide {
            true => 7 + (rng.next() >> 63) as u8,
            false => (0..3).map(|_| ((rng.next() >> 40) % 6) as u8).sum::<u8>(),
        };
        let mut group: Vec<u8> = (0..len).map(|_| nibble() | nibble() << 4).collect();
        for (k, &at) in halves.iter().enumerate() {
            let half = 0x2000 + size + 0x0c00 * k as u16 + (rng.next() >> 40) as u16 % 64;
            let sign = if k > 0 && dtype == Dtype::Q5_1 { 0x8000 } else { 0 };
            group[at..at + 2].copy_from_slice(&(half | sign).to_le_bytes());
        }
        data.extend_from_slice(&group);
    }
    one(data)
}

/// Words of a tensor that has chunks of its own.
const N: usize = 1 << 14;

/// Weights of many sizes before (0) and after (1) a small step: the smaller a word is, the sooner it
/// changes.
pub fn stepped(step: u32) -> Files {
    let mut rng = Rng::new(81);
    let mut out = Vec::new();
    for _ in 0..2 * N {
        let (x, by) = (rng.normal() as f32 * 0.02, rng.normal() as f32 * 1e-6);
        let bits = (x + step as f32 * by).to_bits();
        out.extend_from_slice(&((bits + 0x8000) >> 16).to_le_bytes()[..2]);
    }
    one(safetensors(&[("w".into(), "BF16", vec![256, 128], out)]))
}

/// Matrices before (0) and after (1) they were trained a little: one that is the same, one in
/// which few words differ, one in which most do.
pub fn tuned(step: u32) -> Files {
    let mut rng = Rng::new(76);
    let mut part = |one_in: u64| {
        let mut out = Vec::new();
        for _ in 0..N {
            let x = (rng.normal() * 0.02) as f32;
            let moves = one_in > 0 && rng.next().is_multiple_of(one_in.max(1));
            let by = (rng.normal() * 3.0) as i32;
            let bits = x.to_bits() >> 16;
            let bits = if moves && step > 0 { bits.wrapping_add_signed(by) } else { bits };
            out.extend_from_slice(&(bits as u16).to_le_bytes());
        }
        out
    };
    let shape = || vec![N as u64 / 64, 64];
    one(safetensors(&[
        ("same".into(), "BF16", shape(), part(0)),
        ("few".into(), "BF16", shape(), part(100)),
        ("most".into(), "BF16", shape(), part(1)),
    ]))
}

/// A matrix in bf16 (0), and widened to f32 (1).
pub fn widened(step: u32) -> Files {
    let narrow = Rng::new(78).values(Dtype::BF16, N, 0);
    let (dtype, data) = match step {
        0 => ("BF16", narrow),
        _ => ("F32", narrow.chunks_exact(2).flat_map(|w| [0, 0, w[0], w[1]]).collect()),
    };
    one(safetensors(&[("w".into(), dtype, vec![N as u64 / 64, 64], data)]))
}

/// A matrix in bf16, what casts and quantisers made of it, and what one made of a similar matrix.
pub fn derived() -> Files {
    const SHAPE: [u64; 2] = [64, 256];
    let mut rng = Rng::new(82);
    let words = rng.values(Dtype::BF16, N, 0);
    let value = |w: &[u8; 2]| half::bf16::from_le_bytes(*w).to_f32();
    let x: Vec<f32> = words.as_chunks().0.iter().map(value).collect();
    let similar: Vec<f32> = x.iter().map(|x| x + (rng.normal() * 1e-4) as f32).collect();
    let ggml = |name: &str, dtype, data| {
        (format!("{name}.gguf"), gguf(&[("blk.0.ffn_up.weight".into(), dtype, SHAPE.into(), data)]))
    };
    let usual = |file: &str, dtype, data| {
        let name = "layers.0.mlp.up_proj.weight".into();
        (format!("{file}.safetensors"), safetensors(&[(name, dtype, SHAPE.into(), data)]))
    };
    let f16 = x.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    let scaled = |dtype, script, rows| quantiser::scaled(dtype, script, (rows, 256), 256, &x);
    vec![
        ggml("q4_0", Dtype::Q4_0, quantiser::blocks(Dtype::Q4_0, &x)),
        ggml("q4_1", Dtype::Q4_1, quantiser::blocks(Dtype::Q4_1, &similar)),
        ggml("q6_k", Dtype::Q6_K, quantiser::q6_k(&x)),
        usual("f16", "F16", f16),
        usual("f8", "F8_E4M3", scaled(Dtype::F8_E4M3, Script::Divide, 1)),
        usual("i8", "I8", scaled(Dtype::I8, Script::Narrow, 64)),
        usual("model", "BF16", words),
    ]
}

/// Words of 64 bits (0), and after each moved a little (1).
pub fn wide(step: u32) -> Files {
    let mut rng = Rng::new(79);
    let mut data = Vec::new();
    for _ in 0..2000 {
        let (x, by) = (rng.normal() * 0.02, (rng.normal() * 1e6) as i64);
        let by = if step > 0 { by } else { 0 };
        data.extend_from_slice(&x.to_bits().wrapping_add_signed(by).to_le_bytes());
    }
    one(safetensors(&[("w".into(), "F64", vec![20, 100], data)]))
}

/// Words of every length (0), many and few, and after each moved by some (1).
pub fn sizes(step: u32) -> Files {
    const KINDS: [(&str, Dtype, usize); 10] = [
        ("F8_E4M3", Dtype::F8_E4M3, 5000),
        ("U8", Dtype::U8, 700),
        ("F16", Dtype::F16, 5000),
        ("BF16", Dtype::BF16, 700),
        ("I16", Dtype::I16, 4097),
        ("F32", Dtype::F32, 5000),
        ("I32", Dtype::I32, 700),
        ("U32", Dtype::U32, 4096),
        ("F64", Dtype::F64, 4500),
        ("I64", Dtype::I64, 700),
    ];
    let mut rng = Rng::new(81);
    let mut tensors = Vec::new();
    for (name, dtype, n) in KINDS {
        let mut data = rng.values(dtype, n, 0);
        for word in data.chunks_exact_mut(dtype.word_len()) {
            let spread = if rng.next().is_multiple_of(8) { 40.0 } else { 1.5 };
            let by = (rng.normal() * spread) as i64;
            let mut wide = [0; 8];
            wide[..word.len()].copy_from_slice(word);
            let moved = u64::from_le_bytes(wide).wrapping_add_signed(if step > 0 { by } else { 0 });
            word.copy_from_slice(&moved.to_le_bytes()[..word.len()]);
        }
        tensors.push((name.to_lowercase(), name, vec![n as u64], data));
    }
    one(safetensors(&tensors))
}

/// A training checkpoint before (0) and after (1) a step of AdamW: step 401, rates 0.9 and 0.95.
/// Seven of eight rows are zero. `files` names those to take; none stands for all.
pub fn training(step: u32, files: &[&str]) -> Files {
    let mut rng = Rng::new(77);
    let (lr, decay) = (3.7e-4f64, 0.1f64);
    // 1 − 0.9^401 and √(1 − 0.95^401), as numbers.
    let (bias1, bias2) = (1.0f64, 0.999_999_999_4f32);
    let [mut w, mut m, mut v] = [(); 3].map(|()| Vec::with_capacity(N));
    for i in 0..N {
        let size = if i / 64 % 8 == 0 { 1.0 + (i % 5) as f64 } else { 0.0 };
        let mut w_i = (rng.normal() * size) as f32 * 0.02;
        let mut m_i = (rng.normal() * size) as f32 * 1e-3;
        let root = (rng.normal() * size) as f32 * 1e-3;
        let mut v_i = root * root;
        let g = (rng.normal() * size) as f32 * 1e-3;
        if step > 0 {
            m_i += (g - m_i) * (1.0 - 0.9f32);
            let gain = (1.0 - 0.95f64) as f32;
            v_i = (f64::from(gain * g) * f64::from(g) + f64::from(v_i * 0.95)) as f32;
            let kept = w_i * (1.0 - lr * decay) as f32;
            w_i = kept + ((-lr / bias1) as f32 * m_i) / (v_i.sqrt() / bias2 + 1e-8);
        }
        w.push(w_i);
        m.push(m_i);
        v.push(v_i);
    }
    let wide =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let narrow = w.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    let shape = vec![N as u64 / 64, 64];
    let file = |dtype, data| safetensors(&[("up.weight".into(), dtype, shape.clone(), data)]);
    let meta = format!("{{\"step\": {}, \"lr\": {lr}}}", 400 + step);
    let all = [
        ("exp_avg.safetensors", file("F32", wide(&m))),
        ("exp_avg_sq.safetensors", file("F32", wide(&v))),
        ("master.safetensors", file("F32", wide(&w))),
        ("meta.json", meta.into_bytes()),
        ("model.safetensors", file("BF16", narrow)),
    ];
    let wanted = |name: &str| files.is_empty() || files.contains(&name.split('.').next().unwrap());
    all.into_iter().filter(|f| wanted(f.0)).map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Moments before (0) and after (1) a step of Adam with rates 0.9 and 0.95, whose gradients are
/// sums of two of bf16, times a factor of clipping. A few words are what no gradient makes.
pub fn clipped(step: u32) -> Files {
    let gain = (1.0 - 0.95f64) as f32;
    moments(step, |v, g| (f64::from(gain * g) * f64::from(g) + f64::from(v * 0.95)) as f32)
}

/// The same, but what is left of second moments is added without rounding it before.
pub fn fused(step: u32) -> Files {
    let gain = (1.0 - 0.95f64) as f32;
    moments(step, |v, g| (f64::from(v) * f64::from(0.95f32) + f64::from(gain * g * g)) as f32)
}

fn moments(step: u32, second: impl Fn(f32, f32) -> f32) -> Files {
    let mut rng = Rng::new(80);
    let [mut m, mut v] = [(); 2].map(|()| Vec::with_capacity(4 * N));
    for i in 0..N {
        let mut m_i = (rng.normal() * 3e-4) as f32;
        let root = (rng.normal() * 1e-3) as f32;
        let mut v_i = root * root;
        let mut part = || half::bf16::from_f32((rng.normal() * 1e-3) as f32).to_f32();
        let (a, b) = (part(), part());
        if step > 0 {
            let g = 0.639_577f32 * if i % 50 == 0 { 0.0 } else { a + b };
            let gain = (1.0 - 0.9f64) as f32;
            m_i = match i % 1000 {
                1 => m_i,
                2 => f32::NAN,
                _ => (f64::from(gain) * f64::from(g - m_i) + f64::from(m_i)) as f32,
            };
            v_i = second(v_i, g);
        }
        m.extend_from_slice(&m_i.to_le_bytes());
        v.extend_from_slice(&v_i.to_le_bytes());
    }
    let file = |data| {
        let shape = vec![N as u64 / 64, 64];
        safetensors(&[("up.weight".into(), "F32", shape, data)])
    };
    [("exp_avg.safetensors", m), ("exp_avg_sq.safetensors", v)]
        .map(|(name, data)| (name.to_owned(), file(data)))
        .into()
}

/// Weights and their averaged copy before (0) and after (1) a step.
pub fn averaged(step: u32) -> Files {
    let mut rng = Rng::new(82);
    let [mut w, mut a] = [(); 2].map(|()| Vec::with_capacity(4 * N));
    for i in 0..N {
        let (w_i, by, off) = (rng.normal() * 0.02, rng.normal() * 1e-3, rng.normal() * 1e-3);
        let (mut w_i, mut a_i) = (w_i as f32, (w_i + off) as f32);
        if step > 0 {
            w_i += by as f32;
            a_i =
                if i % 1000 == 1 { f32::NAN } else { a_i - (1.0 - 0.995f64) as f32 * (a_i - w_i) };
        }
        w.extend_from_slice(&w_i.to_le_bytes());
        a.extend_from_slice(&a_i.to_le_bytes());
    }
    let file = |data| {
        let shape = vec![N as u64 / 64, 64];
        safetensors(&[("up.weight".into(), "F32", shape, data)])
    };
    [("ema.safetensors", a), ("model.safetensors", w)]
        .map(|(name, data)| (name.to_owned(), file(data)))
        .into()
}
