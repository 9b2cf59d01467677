use rand::{RngExt, SeedableRng, rngs::StdRng};

pub fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..n).map(|_| rng.random()).collect()
}

/// bf16 words with few exponents.
pub fn weights(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(2 * n, seed);
    bytes.chunks_exact_mut(2).for_each(|w| w[1] = w[1] & 0x80 | 0x3c | w[1] >> 5 & 3);
    bytes
}

/// A safetensors file of tensors: name, dtype, shape, bytes.
pub fn safetensors(tensors: &[(&str, &str, Vec<u64>, Vec<u8>)]) -> Vec<u8> {
    let mut map = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend_from_slice(bytes);
        let offsets = [begin, data.len()];
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        map.insert((*name).into(), entry);
    }
    let json = serde_json::to_string(&map).unwrap();
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &data].concat()
}

/// A small model: 1.2 MB of `big`, and some small tensors.
pub fn model() -> Vec<u8> {
    safetensors(&[
        ("big.weight", "BF16", vec![600, 1000], weights(600_000, 1)),
        ("norm.weight", "BF16", vec![100], weights(100, 2)),
        ("scale", "F32", vec![10], noise(40, 3)),
        ("count", "I64", vec![], noise(8, 5)),
    ])
}
