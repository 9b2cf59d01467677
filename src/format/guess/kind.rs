//! What a window holds: the type of its words, and where they begin.
//!
//! For each kind that is possible, the cost of a word is that of its symbol, of what of its upper 16
//! bits is not in it, and of the bytes below, by the entropy of each (bytes below are zero in floats
//! that were widened, and all may be in what stands between tensors). The kind with the least cost wins, if it takes less than bytes of no structure would.
//!
//! A symbol is the exponent, with the upper mantissa of the types that have short ones: else two
//! 16-bit floats would seem to cost less as one of 32 bits, whose exponent takes in a part of their
//! mantissa.

use super::probe::Profile;
use crate::{
    bits::log2_q16,
    dtype::{Dtype, Fields},
};

/// Bytes of the window that decides.
pub(super) const WINDOW: usize = 8 << 10;

/// How words lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Their type.
    pub(super) dtype: Dtype,
    /// Whether they are stored most significant byte first.
    pub(super) big_endian: bool,
    /// Offset of their first byte, modulo their length.
    pub(super) phase: usize,
}

impl Kind {
    pub(super) fn word_len(self) -> usize {
        self.dtype.word_len()
    }

    /// The first offset from `at` on where a word begins.
    pub(super) fn align_up(self, at: u64) -> u64 {
        let word = self.word_len() as u64;
        at + (self.phase as u64 + word - at % word) % word
    }

    /// The upper 16 bits of each word in `bytes`, the first of which begins a word.
    pub(super) fn heads(self, bytes: &[u8]) -> impl Iterator<Item = u16> {
        let word = self.word_len();
        bytes.chunks_exact(word).map(move |w| match self.big_endian {
            true => u16::from_be_bytes([w[0], w[1]]),
            false => u16::from_le_bytes([w[word - 2], w[word - 1]]),
        })
    }

    /// Bits of the exponent, which follow the sign of a head.
    pub(super) fn exponent_bits(self) -> u32 {
        match self.dtype.fields() {
            Fields::Float { exponent, .. } => exponent.into(),
            _ => 0,
        }
    }
}

/// The kind of words in a window that begins at a multiple of 8, if they are floats.
pub(super) fn classify(window: &[u8]) -> Option<Kind> {
    let places = Places::of(window);
    let profile = Profile::of(window);
    let mut best: Option<(Kind, u64)> = None;
    // Longer words must gain something over shorter ones, of which they may be pairs.
    for (index, dtype) in [Dtype::BF16, Dtype::F32, Dtype::F64].into_iter().enumerate() {
        let Some(top) = profile.top(index) else { continue };
        let word = dtype.word_len();
        let little = Kind { dtype, big_endian: false, phase: (top + 1) % word };
        let big = Kind { dtype, big_endian: true, phase: top };
        let (mut kind, mut cost) = (little, places.cost(little, window));
        let big_cost = places.cost(big, window);
        if big_cost + big_cost / 256 < cost {
            (kind, cost) = (big, big_cost);
        }
        if best.is_none_or(|(_, least)| cost + cost / 64 < least) {
            best = Some((kind, cost));
        }
    }
    let (mut kind, cost) = best?;
    if cost + cost / 32 >= places.cost_of_bytes() {
        return None;
    }
    if kind.dtype == Dtype::BF16 && !tells_more_than_mantissa(kind, window) {
        kind.dtype = Dtype::F16;
    }
    Some(kind)
}

/// Whether the lower three bits of the exponents of bfloat16 tell more than the upper three of the
/// mantissas of half floats would, which are nearly equally likely whatever the exponent.
fn tells_more_than_mantissa(kind: Kind, window: &[u8]) -> bool {
    let (mut short, mut long) = ([0; 1 << 5], [0; 1 << 8]);
    let mut words = 0u64;
    for head in kind.heads(&window[kind.phase.min(window.len())..]) {
        short[usize::from(head << 1 >> 11)] += 1;
        long[usize::from(head << 1 >> 8)] += 1;
        words += 1;
    }
    let told = (entropy(&short) + ((words * 3) << 16)).saturating_sub(entropy(&long));
    told > (words * 3) << 13
}

/// How often each byte occurs at each offset modulo 8.
struct Places {
    counts: Vec<[u32; 256]>,
    len: u64,
}

impl Places {
    fn of(window: &[u8]) -> Places {
        let mut counts = vec![[0; 256]; 8];
        for eight in window.chunks(8) {
            for (place, byte) in counts.iter_mut().zip(eight) {
                place[usize::from(*byte)] += 1;
            }
        }
        Places { counts, len: window.len() as u64 }
    }

    /// Bits of the window, in units of 2^-16, if all its bytes are coded alike.
    fn cost_of_bytes(&self) -> u64 {
        let sum = |i: usize| self.counts.iter().map(|place| place[i]).sum();
        entropy(&std::array::from_fn::<u32, 256, _>(sum)).min((self.len * 8) << 16)
    }

    /// Bits of the window, in units of 2^-16, as words of a kind.
    fn cost(&self, kind: Kind, window: &[u8]) -> u64 {
        let word = kind.word_len();
        let bits = if word == 2 { 8u32 } else { 11 };
        let (mut symbols, mut rests) = ([0; 1 << 11], [0; 1 << 8]);
        let mut words = 0u64;
        for head in kind.heads(&window[kind.phase.min(window.len())..]) {
            symbols[usize::from(head << 1 >> (16 - bits))] += 1;
            // The sign goes where the symbol was.
            let mantissa = head & ((1 << (15 - bits)) - 1);
            rests[usize::from(mantissa | head >> 15 << (15 - bits))] += 1;
            words += 1;
        }
        let raw = (words * u64::from(16 - bits)) << 16;
        let mut cost =
            entropy(&symbols[..1 << bits]) + entropy(&rests[..1 << (16 - bits)]).min(raw);
        for below in 0..word - 2 {
            let byte = if kind.big_endian { word - 1 - below } else { below };
            let mut counts = [0; 256];
            for place in self.counts.iter().skip((kind.phase + byte) % word).step_by(word) {
                counts.iter_mut().zip(place).for_each(|(sum, n)| *sum += n);
            }
            cost += entropy(&counts).min((words * 8) << 16);
        }
        cost
    }
}

/// Bits that so many symbols take, in units of 2^-16: their entropy, corrected for what a small
/// sample hides (Miller and Madow).
fn entropy(counts: &[u32]) -> u64 {
    let total: u32 = counts.iter().sum();
    let log = u64::from(log2_q16(total));
    let present = counts.iter().filter(|n| **n > 0);
    let bits = present.clone().map(|n| u64::from(*n) * log.saturating_sub(log2_q16(*n).into()));
    bits.sum::<u64>() + 47_274 * (present.count() as u64).saturating_sub(1)
}
