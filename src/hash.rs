//! xxh3 with 64 bits, which guards headers and tables, and the digests of decoded bytes that are
//! made of it ([`digest_of`]).
//!
//! The algorithm is that of Yann Collet's XXH3 with its default secret and seed 0. Inputs of up to
//! 1024 bytes go to the `twox-hash` crate, and so does the 128-bit hash; larger ones are hashed here,
//! for two reasons. What is hashed first has to come from memory, where hashing waits longer than
//! it computes, so lines are fetched ahead. And kernels that have whole stripes in registers add them
//! on their way ([`Stream`]).
//!
//! ```text
//! block     1024 bytes = 16 stripes of 8 words of 64 bits, little endian
//! stripe i  of a block:  key = 8 words of the secret from byte 8·i on, v = word xor key
//!           lane[j] += word[j xor 1] + low32(v[j]) · high32(v[j])
//! after a block          lane = (lane xor lane >> 47 xor secret from byte 128 on) · 0x9e3779b1
//! ```
//!
//! The last block is the one that holds the last byte. It may be short: its whole stripes are added
//! without the scrambling after a block, then the last 64 bytes of the input with the secret from
//! byte 121 on. Where it is whole, its last stripe is those 64 bytes, and the only one whose key
//! differs.

use crate::simd::{self, Level, dispatch};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod digest;

pub use digest::{Stream, digest, digest_of};

/// Bytes of a block.
pub(crate) const BLOCK: usize = 1024;
const STRIPE: usize = 64;

/// XXH3's default secret.
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The secret's words from `at` on.
const fn key(at: usize) -> [u64; 8] {
    let mut words = [0; 8];
    let mut i = 0;
    while i < STRIPE {
        words[i / 8] |= (SECRET[at + i] as u64) << (8 * (i % 8));
        i += 1;
    }
    words
}

const KEYS: [[u64; 8]; 16] = {
    let mut keys = [[0; 8]; 16];
    let mut i = 0;
    while i < 16 {
        keys[i] = key(8 * i);
        i += 1;
    }
    keys
};
/// Those of a whole last block.
const LAST_KEYS: [[u64; 8]; 16] = {
    let mut keys = KEYS;
    keys[15] = LAST_KEY;
    keys
};
const SCRAMBLE_KEY: [u64; 8] = key(128);
const LAST_KEY: [u64; 8] = key(121);
const MERGE_KEY: [u64; 8] = key(11);

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const START: [u64; 8] = [
    0xc2b2_ae3d,
    PRIME64_1,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x85eb_ca77,
    0x27d4_eb2f_1656_67c5,
    PRIME32_1,
];

/// 64-bit xxh3 of what is small beside the data: headers and tables.
pub fn hash64(bytes: &[u8]) -> u64 {
    hash64_at(Level::SCALAR, bytes)
}

/// [`hash64`] at a level.
pub fn hash64_at(level: Level, bytes: &[u8]) -> u64 {
    if bytes.len() <= BLOCK {
        return twox_hash::XxHash3_64::oneshot(bytes);
    }
    let blocks = (bytes.len() - 1) / BLOCK;
    let mut lanes = START;
    add_blocks(level, &mut lanes, Blocks { bytes, n: blocks, ahead: AHEAD, last: false });
    finish(lanes, &bytes[blocks * BLOCK..], bytes)
}

/// 128-bit xxh3.
pub fn hash128(bytes: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(bytes)
}

/// Bytes that are fetched ahead of what is hashed.
const AHEAD: usize = 16 << 10;

/// Whole blocks to be added to the lanes.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    /// They are the beginning of these bytes.
    bytes: &'a [u8],
    n: usize,
    /// How many bytes further on is fetched meanwhile; 0 for nothing.
    ahead: usize,
    /// Whether the last of them is the last one of what is hashed.
    last: bool,
}

/// Adds whole blocks.
fn add_blocks(level: Level, lanes: &mut [u64; 8], blocks: Blocks<'_>) {
    dispatch!(level,
        Avx512 => avx512::add_blocks(lanes, blocks),
        Avx2 => avx2::add_blocks(lanes, blocks),
        _ => {
            for (i, block) in blocks.bytes.as_chunks().0[..blocks.n].iter().enumerate() {
            if blocks.ahead > 0 {
            simd::prefetch(blocks.bytes, i * BLOCK + blocks.ahead, BLOCK);
            }
            add_block(lanes, block, blocks.last && i + 1 == blocks.n);
            }
            },
    )
}

fn add_block(lanes: &mut [u64; 8], block: &[u8; BLOCK], last: bool) {
    let keys = if last { &LAST_KEYS } else { &KEYS };
    for (stripe, key) in block.as_chunks::<STRIPE>().0.iter().zip(keys) {
        add_stripe(lanes, stripe, key);
    }
    if !last {
        for (lane, key) in lanes.iter_mut().zip(&SCRAMBLE_KEY) {
            *lane = (*lane ^ *lane >> 47 ^ key).wrapping_mul(PRIME32_1);
        }
    }
}

#[inline(always)]
fn add_stripe(lanes: &mut [u64; 8], stripe: &[u8; STRIPE], key: &[u64; 8]) {
    let words: [u64; 8] = std::array::from_fn(|j| word(stripe, j));
    for j in 0..8 {
        let v = words[j] ^ key[j];
        let product = (v & 0xffff_ffff) * (v >> 32);
        lanes[j] = lanes[j].wrapping_add(words[j ^ 1].wrapping_add(product));
    }
}

#[inline(always)]
fn word(stripe: &[u8; STRIPE], j: usize) -> u64 {
    u64::from_le_bytes(stripe.as_chunks::<8>().0[j])
}

/// The hash of `all`, more than a block, of which `last` is the last one.
fn finish(mut lanes: [u64; 8], last: &[u8], all: &[u8]) -> u64 {
    let whole = &last[..last.len().saturating_sub(1) / STRIPE * STRIPE];
    for (stripe, key) in whole.as_chunks::<STRIPE>().0.iter().zip(&KEYS) {
        add_stripe(&mut lanes, stripe, key);
    }
    if let Some(stripe) = all.last_chunk() {
        add_stripe(&mut lanes, stripe, &LAST_KEY);
    }
    merge(&lanes, all.len())
}

/// The hash of so many bytes, all of which were added to the lanes.
fn merge(lanes: &[u64; 8], len: usize) -> u64 {
    let mut hash = (len as u64).wrapping_mul(PRIME64_1);
    for j in [0, 2, 4, 6] {
        let [a, b] = [lanes[j] ^ MERGE_KEY[j], lanes[j + 1] ^ MERGE_KEY[j + 1]];
        let product = u128::from(a) * u128::from(b);
        hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
    }
    hash = (hash ^ hash >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_equals_the_reference() {
        let bytes = some_bytes(70_000);
        for len in (0..5000).chain([8191, 8192, 8193, 65_535, 65_536, 65_537, 70_000]) {
            let bytes = &bytes[..len];
            for level in Level::available() {
                let reference = twox_hash::XxHash3_64::oneshot(bytes);
                assert_eq!(hash64_at(level, bytes), reference, "{len} {level:?}");
            }
        }
    }

    pub(super) fn some_bytes(n: u32) -> Vec<u8> {
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }
}
