//! The reference, which every other level equals.

use std::hint::select_unpredictable;

use super::{
    LOW,
    decode::Source,
    encode::Input,
    table::{self, ABSENT, BIAS_AT, BIAS_MASK, DecodeTable, EncodeTable},
};
use crate::simd::Ahead;

/// Encodes `input` backward into `out[..end]`, from and to `states`. The first symbol belongs to
/// lane 0. Returns where the words start; `None` where a symbol is absent from its table.
///
/// `out` has room for two bytes a symbol below `end`. `N` is a power of two.
pub fn encode<const N: usize, const CTX: bool>(
    input: Input,
    states: &mut [u32; N],
    out: &mut [u8],
    end: usize,
    ahead: Ahead,
) -> Option<usize> {
    if input.any_inc() {
        encode_groups::<N, CTX, true>(input, states, out, end, ahead)
    } else {
        encode_groups::<N, CTX, false>(input, states, out, end, ahead)
    }
}

/// [`encode`]; unless `INC`, no entry has an increment.
fn encode_groups<const N: usize, const CTX: bool, const INC: bool>(
    input: Input,
    states: &mut [u32; N],
    out: &mut [u8],
    mut end: usize,
    mut ahead: Ahead,
) -> Option<usize> {
    let (groups, last) = input.symbols.as_chunks::<N>();
    let contexts = input.contexts.as_chunks::<N>().0;
    let mut all = 0;
    if !last.is_empty() {
        // Lanes that have no symbol here keep their states.
        let at = input.symbols.len() - last.len();
        let contexts = if CTX { &input.contexts[at..] } else { &[] };
        let mut room = [[0; 2]; N];
        let (tables, all) = (input.tables, &mut all);
        let used = encode_group::<N, CTX, INC>(tables, last, contexts, states, &mut room, all);
        end -= 2 * used;
        out[end..][..2 * used].copy_from_slice(room[N - used..].as_flattened());
    }
    for (i, group) in groups.iter().enumerate().rev() {
        ahead.fetch();
        let contexts: &[u8] = if CTX { &contexts[i] } else { &[] };
        let room = out[..end].as_rchunks_mut().1.last_chunk_mut()?;
        let (tables, all) = (input.tables, &mut all);
        end -= 2 * encode_group::<N, CTX, INC>(tables, group, contexts, states, room, all);
    }
    (all & ABSENT == 0).then_some(end)
}

/// Encodes a symbol a lane, the last first, to the end of `room`; returns how many words it took.
#[inline(always)]
fn encode_group<const N: usize, const CTX: bool, const INC: bool>(
    tables: &[EncodeTable],
    symbols: &[u8],
    contexts: &[u8],
    states: &mut [u32; N],
    room: &mut [[u8; 2]; N],
    all: &mut u32,
) -> usize {
    let mut table = &tables[0];
    let mut at = N - 1;
    for (j, (&symbol, state)) in symbols.iter().zip(states).enumerate().rev() {
        if CTX {
            table = &tables[usize::from(contexts[j])];
        }
        let entry = table.entries[usize::from(symbol)];
        let pack = (entry >> 32) as u32;
        *all |= pack;
        let freq = pack >> 20;
        let mut x = *state;
        // The word is written in any case: a branch would be mispredicted every other time.
        room[at % N] = (x as u16).to_le_bytes();
        let full = x >= pack & 0xfff0_0000;
        at = at.wrapping_sub(usize::from(full));
        x = select_unpredictable(full, x >> 16, x);
        let dividend = u64::from(x) + u64::from(INC && pack & table::INC != 0);
        let quotient = (dividend * (entry & 0xffff_ffff)) >> 32 >> (pack & 31);
        let step = (quotient as u32).wrapping_mul(4096 - freq);
        *state = x.wrapping_add(pack >> BIAS_AT & BIAS_MASK).wrapping_add(step);
    }
    (N - 1).wrapping_sub(at)
}

/// Decodes `out` from `words`, from and to `states`. The first symbol belongs to lane 0. Returns
/// false where the words run out. `N` is a power of two.
pub fn decode<const N: usize, const CTX: bool>(
    source: Source,
    states: &mut [u32; N],
    words: &mut &[u8],
    out: &mut [u8],
) -> bool {
    // Of whole groups, far from the end of the words, all lengths are known to the compiler.
    let (groups, _) = out.as_chunks_mut::<N>();
    let n_groups = groups.len();
    let mut done = 0;
    while done < n_groups {
        let Some((near, _)) = words.split_at_checked(2 * N) else { break };
        let Some(near) = near.as_chunks().0.first_chunk::<N>() else { break };
        let none = [0; N];
        let contexts = if CTX { source.contexts[done * N..].first_chunk() } else { Some(&none) };
        let Some(contexts) = contexts else { break };
        let out = &mut groups[done];
        let used = decode_group::<N, CTX>(source.tables, contexts, near, states, out);
        *words = &words[2 * used..];
        done += 1;
    }
    for (group, out) in out.chunks_mut(N).enumerate().skip(done) {
        let contexts = if CTX { &source.contexts[group * N..] } else { &[] };
        // Each lane looks at the next word whether it takes it or not: a branch would be
        // mispredicted every other time. Behind the last word stand words that do not exist.
        let mut padded = [[0; 2]; N];
        let near = words.as_chunks().0.first_chunk().unwrap_or_else(|| {
            padded.as_flattened_mut()[..words.len()].copy_from_slice(words);
            &padded
        });
        let used = 2 * decode_group::<N, CTX>(source.tables, contexts, near, states, out);
        if used > words.len() {
            return false;
        }
        *words = &words[used..];
    }
    true
}

/// Decodes a symbol a lane; returns how many words it took.
#[inline(always)]
fn decode_group<const N: usize, const CTX: bool>(
    tables: &[DecodeTable],
    contexts: &[u8],
    near: &[[u8; 2]; N],
    states: &mut [u32; N],
    out: &mut [u8],
) -> usize {
    let mut table = &tables[0];
    let mut used = 0;
    for (j, (symbol, state)) in out.iter_mut().zip(states).enumerate() {
        if CTX {
            table = &tables[usize::from(contexts[j])];
        }
        let entry = table.entries[(*state & 4095) as usize];
        *symbol = entry as u8;
        let x = (entry >> 20) * (*state >> 12) + (entry >> 8 & 4095);
        let short = x < LOW;
        let word = u32::from(u16::from_le_bytes(near[used % N]));
        *state = select_unpredictable(short, x << 16 | word, x);
        used += usize::from(short);
    }
    used
}
