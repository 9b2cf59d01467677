//! Digests of decoded bytes: hashes of the hashes of their leaves.
//!
//! ```text
//! bytes     | leaf 0: 16 KiB | leaf 1 | …  | last leaf: what is left |
//! digest    hash64(hash64(leaf 0) · hash64(leaf 1) · …)        8 bytes each, little endian
//! ```
//!
//! Leaves are hashed apart, so that many can be at the same time, as on a device. They are whole
//! blocks of the hash, so whoever adds bytes block by block ends leaves where they end, however long
//! the pieces are in which bytes come.

use super::{AHEAD, BLOCK, Blocks, START, add_blocks, finish, hash64, hash64_at, merge};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::simd::Level;

/// Bytes of a leaf but the last one.
pub const LEAF: usize = 16 << 10;

/// The digest of decoded bytes.
pub fn digest(level: Level, bytes: &[u8]) -> u64 {
    if (1..=LEAF).contains(&bytes.len()) {
        return hash64(&hash64_at(level, bytes).to_le_bytes());
    }
    Stream::new(level).finish_of(bytes)
}

/// [`digest`] at the best level, for callers without options.
pub fn digest_of(bytes: &[u8]) -> u64 {
    digest(Level::best(), bytes)
}

/// [`digest_of`] of bytes that kernels add block by block.
#[derive(Clone, Debug)]
pub struct Stream {
    level: Level,
    /// Those of the leaf at hand.
    pub(super) lanes: [u64; 8],
    /// Bytes that were added.
    len: usize,
    /// Hashes of the leaves before.
    leaves: Vec<u8>,
}

/// Hashes of leaves that there is room for at first: those of a chunk of usual size.
const USUAL: usize = (1 << 20) / LEAF;

impl Stream {
    /// No bytes yet.
    pub fn new(level: Level) -> Self {
        let leaves = Vec::with_capacity(8 * USUAL);
        Stream { level, lanes: START, len: 0, leaves }
    }

    /// Adds whole blocks, the last one of all bytes not among them.
    pub(crate) fn add(&mut self, blocks: &[u8]) {
        debug_assert!(blocks.len().is_multiple_of(BLOCK), "whole blocks");
        self.add_first(blocks, blocks.len(), 0);
    }

    /// Adds the first `len` of some bytes, which are whole blocks, and fetches what is `ahead`
    /// bytes further on, where that is not 0.
    fn add_first(&mut self, bytes: &[u8], len: usize, ahead: usize) {
        let mut at = 0;
        while at < len {
            let to_end = LEAF - self.len % LEAF;
            let n = to_end.min(len - at);
            let (bytes, last) = (&bytes[at..], n == to_end);
            let blocks = Blocks { bytes, n: n / BLOCK, ahead, last };
            add_blocks(self.level, &mut self.lanes, blocks);
            self.len += n;
            at += n;
            if last {
                self.end_leaf();
            }
        }
    }

    /// Notes the hash of a whole leaf, and begins the next one.
    fn end_leaf(&mut self) {
        self.leaves.extend_from_slice(&merge(&self.lanes, LEAF).to_le_bytes());
        self.lanes = START;
    }

    /// Adds a piece of whole blocks, or the `last` piece, whatever its length: its last block is
    /// left to [`Stream::finish_of`].
    #[inline]
    pub(crate) fn add_piece(&mut self, piece: &[u8], last: bool) {
        let len = piece.len();
        self.add(&piece[..if last { len.saturating_sub(1) / BLOCK * BLOCK } else { len }]);
    }

    /// Lanes in a register, to which the caller adds whole blocks.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn avx512(&mut self) -> avx512::Lanes<'_> {
        avx512::Lanes::new(self)
    }

    /// [`Stream::avx512`] in two registers.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn avx2<const CROSSED: bool>(&mut self) -> avx2::Lanes<'_, CROSSED> {
        avx2::Lanes::new(self)
    }

    /// Whether the next block is the last one of a leaf.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn at_last_block(&self) -> bool {
        self.len % LEAF == LEAF - BLOCK
    }

    /// Notes that a block was added which does not end a leaf.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn count_block(&mut self) {
        self.len += BLOCK;
    }

    /// Notes that a block was added which ends a leaf, with these lanes.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn count_last_block(&mut self, lanes: [u64; 8]) {
        self.len += BLOCK;
        self.lanes = lanes;
        self.end_leaf();
    }

    /// The digest of `all`, of which what was added is the beginning, but less than all.
    pub fn finish_of(mut self, all: &[u8]) -> u64 {
        let left = &all[self.len..];
        // What was added before is near.
        let ahead = if self.len == 0 { AHEAD } else { 0 };
        self.add_first(left, left.len().saturating_sub(1) / BLOCK * BLOCK, ahead);
        let (leaf, last) = (&all[self.len / LEAF * LEAF..], &all[self.len..]);
        if !leaf.is_empty() {
            let hash =
                if leaf.len() <= BLOCK { hash64(leaf) } else { finish(self.lanes, last, leaf) };
            self.leaves.extend_from_slice(&hash.to_le_bytes());
        }
        hash64_at(self.level, &self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::some_bytes, *};

    /// What the format says.
    fn defined(bytes: &[u8]) -> u64 {
        let leaves = bytes.chunks(LEAF).map(twox_hash::XxHash3_64::oneshot);
        let leaves: Vec<u8> = leaves.flat_map(u64::to_le_bytes).collect();
        twox_hash::XxHash3_64::oneshot(&leaves)
    }

    #[test]
    fn a_digest_is_the_hash_of_the_hashes_of_leaves_at_every_length_and_level() {
        let bytes = some_bytes(130 * LEAF as u32);
        let near = |n: usize| n - 2..n + 3;
        let lens = (0..2100).chain(near(LEAF)).chain(near(2 * LEAF)).chain(near(4 * LEAF + BLOCK));
        // As many leaves as their hashes fill more than a block of.
        for len in lens.chain([129 * LEAF + 70]) {
            let bytes = &bytes[..len];
            let reference = defined(bytes);
            for level in Level::available() {
                assert_eq!(digest(level, bytes), reference, "{len}");
                for piece in [1024, 3072, 4096, 5120, 16_384, 65_536] {
                    let mut stream = Stream::new(level);
                    let n = bytes.chunks(piece).count();
                    for (i, piece) in bytes.chunks(piece).enumerate() {
                        stream.add_piece(piece, i + 1 == n);
                    }
                    assert_eq!(stream.finish_of(bytes), reference, "{len} {piece} {level:?}");
                }
            }
        }
    }
}
