//! Code lengths of a block, the canonical code they stand for, and their stored form.
//!
//! Stored are the first and the last symbol that occur, then the lengths of the symbols between
//! them as nibbles, low nibble first, the last byte filled up with zero:
//!
//! ```text
//! 0..=11   length of the next symbol, 0 where it does not occur
//! 12 r     3 + r symbols that do not occur               (r one nibble)
//! 13 r s   19 + r + 16 s symbols that do not occur
//! 14 r     3 + r more symbols of the length before
//! 15       never
//! ```
//!
//! Lengths form a complete code: `Σ 2^(11 - length) = 2^11`. Code words are numbered by length,
//! then by symbol, and written from their most significant bit on, which is bit 0 of a stream.

use super::MAX_BITS;

pub(super) struct Codebook {
    /// Length of each symbol's code word, 0 for symbols that do not occur.
    pub lens: [u8; 256],
    /// Code words with their first bit in bit 0.
    pub codes: [u16; 256],
    pub first: u8,
    pub last: u8,
}

impl Codebook {
    /// The code for a block in which at least two symbols occur.
    pub fn from_counts(counts: &[u32; 256]) -> Self {
        Self::from_lens(lengths(counts))
    }

    fn from_lens(lens: [u8; 256]) -> Self {
        let first = lens.iter().position(|&l| l > 0).unwrap_or(0) as u8;
        let last = lens.iter().rposition(|&l| l > 0).unwrap_or(0) as u8;
        // The first code word of each length.
        let mut next = [0u32; MAX_BITS + 2];
        for &len in &lens {
            if len > 0 {
                next[usize::from(len) + 1] += 1;
            }
        }
        for len in 1..=MAX_BITS {
            next[len + 1] = (next[len + 1] + next[len]) << 1;
        }
        let mut codes = [0u16; 256];
        for symbol in usize::from(first)..=usize::from(last) {
            let len = lens[symbol];
            if len > 0 {
                let code = &mut next[usize::from(len)];
                codes[symbol] = (code.reverse_bits() >> (32 - u32::from(len))) as u16;
                *code += 1;
            }
        }
        Codebook { lens, codes, first, last }
    }

    /// Bytes of the code words of a block with these counts.
    pub fn coded_len(&self, counts: &[u32; 256]) -> u64 {
        let bits: u64 =
            self.lens.iter().zip(counts).map(|(&l, &c)| u64::from(l) * u64::from(c)).sum();
        bits.div_ceil(8)
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.first, self.last]);
        let lens = &self.lens[usize::from(self.first)..=usize::from(self.last)];
        let mut nibbles = Nibbles { out, half: None };
        let mut at = 0;
        while at < lens.len() {
            let len = lens[at];
            let run = lens[at..].iter().take_while(|&&l| l == len).count();
            let repeats = at > 0 && lens[at - 1] == len;
            if len == 0 && run >= 19 {
                let more = run - 19;
                nibbles.push(13);
                nibbles.push(more as u8 & 15);
                nibbles.push((more >> 4) as u8);
                at += run;
            } else if run >= 3 && (len == 0 || repeats) {
                let taken = run.min(18);
                nibbles.push(if len == 0 { 12 } else { 14 });
                nibbles.push(taken as u8 - 3);
                at += taken;
            } else {
                nibbles.push(len);
                at += 1;
            }
        }
        nibbles.finish();
    }

    /// Reads a codebook; what follows it comes back. `None` where it is not a complete code.
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&[first, last], bytes) = bytes.split_first_chunk::<2>()?;
        let mut lens = [0u8; 256];
        let mut kraft = 0u32;
        let mut position = 0;
        let mut nibble = || {
            let byte = *bytes.get(position / 2)?;
            let value = if position % 2 == 0 { byte & 15 } else { byte >> 4 };
            position += 1;
            Some(value)
        };
        let (mut at, end) = (usize::from(first), usize::from(last) + 1);
        while at < end {
            let (len, run) = match nibble()? {
                12 => (0, 3 + usize::from(nibble()?)),
                13 => (0, 19 + usize::from(nibble()?) + 16 * usize::from(nibble()?)),
                14 if at > usize::from(first) => (lens[at - 1], 3 + usize::from(nibble()?)),
                len if usize::from(len) <= MAX_BITS => (len, 1),
                _ => return None,
            };
            if at + run > end {
                return None;
            }
            if len > 0 {
                lens[at..at + run].fill(len);
                kraft += (run as u32) << (MAX_BITS - usize::from(len));
            }
            at += run;
        }
        if position % 2 == 1 && bytes.get(position / 2).is_none_or(|b| b >> 4 != 0) {
            return None;
        }
        let rest = bytes.get(position.div_ceil(2)..)?;
        (kraft == 1 << MAX_BITS).then(|| (Self::from_lens(lens), rest))
    }
}

struct Nibbles<'a> {
    out: &'a mut Vec<u8>,
    half: Option<u8>,
}

impl Nibbles<'_> {
    fn push(&mut self, nibble: u8) {
        match self.half.take() {
            None => self.half = Some(nibble),
            Some(low) => self.out.push(low | nibble << 4),
        }
    }

    fn finish(self) {
        self.out.extend(self.half);
    }
}

/// Code lengths of at most `MAX_BITS`: Huffman's, with what lies deeper pulled up and the room
/// for it made by splitting the deepest leaves above, which costs least.
fn lengths(counts: &[u32; 256]) -> [u8; 256] {
    let mut sorted = [(0u32, 0u8); 256];
    let mut n = 0;
    for (symbol, &count) in counts.iter().enumerate() {
        if count > 0 {
            sorted[n] = (count, symbol as u8);
            n += 1;
        }
    }
    let sorted = &mut sorted[..n];
    sorted.sort_unstable();

    // Nodes in order of weight: leaves 0..n, then inner nodes as they are made, which is in
    // order of weight too. Each step joins the two lightest of both queues.
    let mut weight = [0u32; 511];
    let mut parent = [0u16; 511];
    for (w, s) in weight.iter_mut().zip(sorted.iter()) {
        *w = s.0;
    }
    let (mut leaf, mut inner) = (0, n);
    for made in n..2 * n - 1 {
        for _ in 0..2 {
            let child = if leaf < n && (inner >= made || weight[leaf] <= weight[inner]) {
                leaf += 1;
                leaf - 1
            } else {
                inner += 1;
                inner - 1
            };
            weight[made] += weight[child];
            parent[child] = made as u16;
        }
    }
    let mut depth = [0u8; 511];
    let mut n_of_len = [0u32; MAX_BITS + 1];
    for node in (0..2 * n - 2).rev() {
        depth[node] = depth[usize::from(parent[node])] + 1;
        if node < n {
            n_of_len[usize::from(depth[node]).min(MAX_BITS)] += 1;
        }
    }

    // Too many code words now? Take a deepest one away and hang it beside the deepest leaf
    // above, which moves one step down to make room.
    let mut kraft: u32 = (1..=MAX_BITS).map(|l| n_of_len[l] << (MAX_BITS - l)).sum();
    while kraft > 1 << MAX_BITS {
        let Some(above) = (1..MAX_BITS).rev().find(|&l| n_of_len[l] > 0) else { break };
        n_of_len[MAX_BITS] -= 1;
        n_of_len[above] -= 1;
        n_of_len[above + 1] += 2;
        kraft -= 1;
    }
    let mut lens = [0u8; 256];
    let mut rarest_first = sorted.iter();
    for len in (1..=MAX_BITS).rev() {
        for &(_, symbol) in rarest_first.by_ref().take(n_of_len[len] as usize) {
            lens[usize::from(symbol)] = len as u8;
        }
    }
    lens
}
