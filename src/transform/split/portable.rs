//! For every processor: blocks of words, in loops that the compiler vectorises.
use super::{
    Planes, PlanesMut, Split,
    head::{head_at, set_head},
    scalar,
};

const BLOCK: usize = 64;

pub(super) fn split(f: &Split, bytes: &[u8], mut planes: PlanesMut<'_>) -> usize {
    let n_escapes = match f.word_len() {
        1 => split_words::<1>(f, bytes, &mut planes),
        2 => split_words::<2>(f, bytes, &mut planes),
        _ => split_words::<4>(f, bytes, &mut planes),
    };
    let done = whole(bytes.len() / f.word_len());
    n_escapes + scalar::split(f, done, bytes, planes)
}

/// Says whether an escape was seen.
pub(super) fn join(f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    let escaped = match f.word_len() {
        1 => join_words::<1>(f, planes, bytes),
        2 => join_words::<2>(f, planes, bytes),
        _ => join_words::<4>(f, planes, bytes),
    };
    let done = whole(bytes.len() / f.word_len());
    escaped | scalar::join(f, done, planes, bytes)
}

pub(super) fn split_heads(
    f: &Split,
    heads: &[u16],
    shifts: Option<&[u8]>,
    mut planes: PlanesMut<'_>,
) -> usize {
    let mut n_escapes = 0;
    for (block, heads) in heads.as_chunks().0.iter().enumerate() {
        let at = block * BLOCK;
        n_escapes += split_block(f, at, heads, block_of(shifts, at), &mut planes);
    }
    n_escapes + scalar::split_heads(f, whole(heads.len()), heads, shifts, planes)
}

/// Says whether an escape was seen.
pub(super) fn join_heads(
    f: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    let mut escaped = false;
    for (block, heads) in heads.as_chunks_mut().0.iter_mut().enumerate() {
        let at = block * BLOCK;
        escaped |= join_block(f, at, planes, block_of(shifts, at), heads);
    }
    escaped | scalar::join_heads(f, whole(heads.len()), planes, shifts, heads)
}

/// As many of `n` words as blocks hold.
fn whole(n: usize) -> usize {
    n / BLOCK * BLOCK
}

fn block_of(plane: Option<&[u8]>, at: usize) -> Option<&[u8; BLOCK]> {
    plane?[at..].first_chunk()
}

fn split_words<const LEN: usize>(f: &Split, bytes: &[u8], planes: &mut PlanesMut<'_>) -> usize {
    let mut n_escapes = 0;
    for (block, words) in bytes.as_chunks::<LEN>().0.as_chunks::<BLOCK>().0.iter().enumerate() {
        let at = block * BLOCK;
        let mut heads = [0; BLOCK];
        for (head, word) in heads.iter_mut().zip(words) {
            *head = head_at(word);
        }
        n_escapes += split_block(f, at, &heads, None, planes);
        if let [t0, t1] = &mut *planes.tails {
            let tails = t0[at..][..BLOCK].iter_mut().zip(&mut t1[at..][..BLOCK]);
            for ((t0, t1), word) in tails.zip(words) {
                [*t0, *t1] = u16::from_le_bytes([word[0], word[1]]).to_le_bytes();
            }
        }
    }
    n_escapes
}

fn join_words<const LEN: usize>(f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    let mut escaped = false;
    let blocks = bytes.as_chunks_mut::<LEN>().0.as_chunks_mut::<BLOCK>().0;
    for (block, words) in blocks.iter_mut().enumerate() {
        let at = block * BLOCK;
        let mut heads = [0; BLOCK];
        escaped |= join_block(f, at, planes, None, &mut heads);
        match planes.tails {
            [t0, t1] => {
                let tails = t0[at..][..BLOCK].iter().zip(&t1[at..][..BLOCK]);
                for ((word, head), (t0, t1)) in words.iter_mut().zip(&heads).zip(tails) {
                    let top = u32::from(head.rotate_right(1)) << 16;
                    let low = u32::from(*t1) << 8 | u32::from(*t0);
                    word.copy_from_slice(&(top | low).to_le_bytes());
                }
            }
            _ => words.iter_mut().zip(&heads).for_each(|(word, head)| set_head(word, *head)),
        }
    }
    escaped
}

/// Symbols and rests of the words from `at` on; returns how many are escapes.
fn split_block(
    f: &Split,
    at: usize,
    heads: &[u16; BLOCK],
    shifts: Option<&[u8; BLOCK]>,
    planes: &mut PlanesMut<'_>,
) -> usize {
    let symbols = &mut planes.symbols[at..][..BLOCK];
    let mut n_escapes = 0;
    if shifts.is_none() && !f.is_windowed() {
        for (symbol, head) in symbols.iter_mut().zip(heads) {
            *symbol = (u32::from(*head) >> f.rest_bits) as u8;
        }
    } else {
        let mut values = [0; BLOCK];
        for (s, head) in values.iter_mut().zip(heads) {
            *s = *head >> f.rest_bits;
        }
        if let Some(shifts) = shifts {
            for (s, shift) in values.iter_mut().zip(shifts) {
                let t = s.wrapping_add(255 - u16::from(*shift));
                *s = if *s == 0 { 0 } else { t };
            }
        }
        for (symbol, s) in symbols.iter_mut().zip(values) {
            *symbol = f.window(s);
        }
        n_escapes = symbols.iter().map(|symbol| u8::from(*symbol == 255)).sum::<u8>().into();
    }
    let (stored, mask) = (f.stored_rest_bits(), (1 << f.rest_bits) - 1);
    let rest = |head: &u16| (head & mask) >> u8::from(f.sign.is_some());
    if stored > 0 {
        for (lo, head) in planes.rest_lo[at..][..BLOCK].iter_mut().zip(heads) {
            *lo = rest(head) as u8;
        }
    }
    if stored > 8 {
        for (hi, head) in planes.rest_hi[at..][..BLOCK].iter_mut().zip(heads) {
            *hi = (rest(head) >> 8) as u8;
        }
    }
    n_escapes
}

/// Heads of the words from `at` on; says whether there is an escape among them.
fn join_block(
    f: &Split,
    at: usize,
    planes: Planes<'_>,
    shifts: Option<&[u8; BLOCK]>,
    heads: &mut [u16; BLOCK],
) -> bool {
    let symbols = &planes.symbols[at..][..BLOCK];
    let windowed = shifts.is_some() || f.is_windowed();
    for (head, symbol) in heads.iter_mut().zip(symbols) {
        *head = if windowed { f.unwindow(*symbol) } else { u16::from(*symbol) };
    }
    if let Some(shifts) = shifts {
        for ((head, symbol), shift) in heads.iter_mut().zip(symbols).zip(shifts) {
            let s = head.wrapping_sub(255 - u16::from(*shift));
            *head = if *symbol == 0 { 0 } else { s };
        }
    }
    let stored = f.stored_rest_bits();
    let mut rests = [0; BLOCK];
    if stored > 0 {
        for (rest, lo) in rests.iter_mut().zip(&planes.rest_lo[at..][..BLOCK]) {
            *rest = u16::from(*lo);
        }
    }
    if stored > 8 {
        for (rest, hi) in rests.iter_mut().zip(&planes.rest_hi[at..][..BLOCK]) {
            *rest |= u16::from(*hi) << 8;
        }
    }
    let (up, sign) = (u8::from(f.sign.is_some()), u16::from(f.sign == Some(true)));
    for (head, rest) in heads.iter_mut().zip(rests) {
        *head = *head << f.rest_bits | rest << up | sign;
    }
    windowed && symbols.iter().fold(false, |any, symbol| any | (*symbol == 255))
}
