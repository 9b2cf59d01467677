//! The digit cascade: a plane of bytes as 2-bit digits in a few levels, then raw.
//!
//! Level 0 has a digit for each symbol: 0, 1 or 2 for the three commonest, 3 for an escape.
//! Escaped symbols go, in order, to level 1, which does the same with the next three symbols,
//! and so on; what the last level leaves over is raw. No step depends on the bits before it
//! other than by a count, so both ways run at memory speed in SIMD registers.
//!
//! ```text
//! 1 byte            L, the number of levels, 1 to 4
//! 3·L bytes         three symbols for each level, all different
//! 4·L bytes         n₁ … n_L, each a u32: symbols that level k − 1 left over, n ≥ n₁ ≥ n₂ …
//! ⌈n  / 4⌉ bytes    level 0: digit i in bits 2·(i mod 4) and up of byte i div 4
//! ⌈n₁ / 4⌉ bytes    level 1
//! …
//! n_L bytes         what is left over, raw
//! ```
//!
//! n is known from outside. Integers are little endian; unused bits of a level's last byte are
//! zero. Digit 3 occurs n₁ times in level 0, n₂ times in level 1, and so on; a decoder refuses
//! anything else.
//!
//! The forms for bf16 words code the same bytes as [`encode`] does for the symbols that
//! `transform::split` makes with a rest of 8 bits: it saves writing and reading those symbols.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod decode;
mod encode;
mod plan;
mod portable;
mod scalar;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub use decode::decode;
pub use decode::{Decoder, decode_bf16};
pub use encode::{encode, encode_bf16};
pub use plan::{Plan, plan, sample, sample_bf16};

/// Most levels there can be.
pub const MAX_LEVELS: usize = 4;

/// Room that kernels have behind the symbols in a scratch buffer, to load and store whole
/// registers.
const PAD: usize = 64;

/// Length of the scratch space for planes of `n` symbols: two buffers of n symbols and a
/// register.
pub const fn scratch_len(n: usize) -> usize {
    2 * (n + PAD)
}

/// Length of the header of a cascade of this many levels.
const fn header_len(levels: usize) -> usize {
    1 + 3 * levels + 4 * levels
}

/// Bytes that `n` digits take.
const fn digits_len(n: usize) -> usize {
    n.div_ceil(4)
}
