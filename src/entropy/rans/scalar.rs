//! The reference, which every other level equals.

use std::hint::select_unpredictable;

use super::{
    LOW,
    decode::Source,
    encode::Input,
    table::{ABSENT, BIAS_AT, BIAS_MASK, INC},
};

/// Encodes `input` backward into `out[..end]`, from and to `states`. The first symbol belongs to
/// lane 0. Returns where the words start; `None` where a symbol is absent from its table.
///
/// `out` has room for two bytes a symbol below `end`.
pub fn encode<const N: usize, const CTX: bool>(
    input: Input,
    states: &mut [u32; N],
    out: &mut [u8],
    mut end: usize,
) -> Option<usize> {
    let n = input.symbols.len();
    let mut all = 0;
    for group in (0..n).step_by(N).rev() {
        let symbols = &input.symbols[group..n.min(group + N)];
        for (j, &symbol) in symbols.iter().enumerate().rev() {
            let context = if CTX { usize::from(input.contexts[group + j]) } else { 0 };
            let entry = input.tables[context].entries[usize::from(symbol)];
            let pack = (entry >> 32) as u32;
            all |= pack;
            let freq = pack >> 20;
            let mut x = states[j];
            // The word is written in any case: a branch would be mispredicted every other time.
            out[end - 2..end].copy_from_slice(&(x as u16).to_le_bytes());
            let full = x >= freq << 20;
            end -= select_unpredictable(full, 2, 0);
            x = select_unpredictable(full, x >> 16, x);
            let dividend = u64::from(x) + u64::from(pack & INC != 0);
            let quotient = (dividend * (entry & 0xffff_ffff)) >> 32 >> (pack & 31);
            let step = (quotient as u32).wrapping_mul(4096 - freq);
            states[j] = x.wrapping_add(pack >> BIAS_AT & BIAS_MASK).wrapping_add(step);
        }
    }
    (all & ABSENT == 0).then_some(end)
}

/// Decodes `out` from `words`, from and to `states`. The first symbol belongs to lane 0. Returns
/// false where the words run out.
pub fn decode<const N: usize, const CTX: bool>(
    source: Source,
    states: &mut [u32; N],
    words: &mut &[u8],
    out: &mut [u8],
) -> bool {
    for (group, out) in out.chunks_mut(N).enumerate() {
        let contexts = if CTX { &source.contexts[group * N..] } else { &[] };
        // Each lane looks at the next word whether it takes it or not: a branch would be
        // mispredicted every other time. Behind the last word stand words that do not exist.
        let mut padded = [0; 128];
        let near = if words.len() >= 2 * N {
            &words[..2 * N]
        } else {
            padded[..words.len()].copy_from_slice(words);
            &padded[..2 * N]
        };
        let mut used = 0;
        for (j, symbol) in out.iter_mut().enumerate() {
            let context = if CTX { usize::from(contexts[j]) } else { 0 };
            let entry = source.tables[context].entries[(states[j] & 4095) as usize];
            *symbol = entry as u8;
            let x = (entry >> 20) * (states[j] >> 12) + (entry >> 8 & 4095);
            let short = x < LOW;
            let word = u32::from(near[used]) | u32::from(near[used + 1]) << 8;
            states[j] = select_unpredictable(short, x << 16 | word, x);
            used += select_unpredictable(short, 2, 0);
        }
        if used > words.len() {
            return false;
        }
        *words = &words[used..];
    }
    true
}
