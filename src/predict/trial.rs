//! How well scalars that are tried predict words.

/// One bit a word, as [`cost`] counts.
pub const BIT: u64 = 1024;

/// Bits in the residuals of a prediction, a word on average, times [`BIT`].
pub fn cost(actual: &[u8], predicted: &[u8]) -> u64 {
    let order = |b: &[u8; 4]| {
        let x = i32::from_le_bytes(*b);
        x ^ (x >> 31 & i32::MAX)
    };
    let pairs = actual.as_chunks().0.iter().zip(predicted.as_chunks().0);
    let bits: u64 = pairs
        .map(|(a, p)| order(a).wrapping_sub(order(p)).unsigned_abs())
        .map(|d| u64::from(u32::BITS - d.leading_zeros()))
        .sum();
    BIT * bits / (actual.len() as u64 / 4).max(1)
}
