//! The words that masks name, side by side.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use crate::simd::{Level, dispatch};

/// Sets `out` to the words (of `word` bytes) that masks name; there are `n` of them.
pub fn pick(level: Level, word: usize, words: &[u8], masks: &[u64], n: usize, out: &mut Vec<u8>) {
    out.resize(n * word + 64, 0);
    match word {
        1 => pick_each::<1>(level, words, masks, out),
        2 => pick_each::<2>(level, words, masks, out),
        4 => pick_each::<4>(level, words, masks, out),
        _ => pick_each::<8>(level, words, masks, out),
    }
    out.truncate(n * word);
}

fn pick_each<const N: usize>(level: Level, words: &[u8], masks: &[u64], out: &mut [u8]) {
    let (done, at) = if N < 8 {
        dispatch!(level,
            Avx512 => avx512::pick::<N>(words, masks, out),
            _ => (0, 0),
        )
    } else {
        (0, 0)
    };
    let mut out = out[at..].as_chunks_mut::<N>().0.iter_mut();
    each(masks, done, |i| {
        if let (Some(out), Some(word)) = (out.next(), words.as_chunks::<N>().0.get(i)) {
            *out = *word;
        }
    });
}

/// Inverse of [`pick`]: replaces the words that masks name. What `picked` holds behind them is lost.
pub fn place(level: Level, word: usize, picked: &mut Vec<u8>, masks: &[u64], out: &mut [u8]) {
    picked.resize(picked.len() + 64, 0);
    match word {
        1 => place_each::<1>(level, picked, masks, out),
        2 => place_each::<2>(level, picked, masks, out),
        4 => place_each::<4>(level, picked, masks, out),
        _ => place_each::<8>(level, picked, masks, out),
    }
}

fn place_each<const N: usize>(level: Level, picked: &[u8], masks: &[u64], out: &mut [u8]) {
    let (done, at) = if N < 8 {
        dispatch!(level,
            Avx512 => avx512::place::<N>(picked, masks, out),
            _ => (0, 0),
        )
    } else {
        (0, 0)
    };
    let mut picked = picked[at..].as_chunks::<N>().0.iter();
    let words = out.as_chunks_mut::<N>().0;
    each(masks, done, |i| {
        if let (Some(word), Some(picked)) = (words.get_mut(i), picked.next()) {
            *word = *picked;
        }
    });
}

/// Calls `f` with the index of every bit that is set, from group `from` on.
fn each(masks: &[u64], from: usize, mut f: impl FnMut(usize)) {
    for (g, &mask) in masks.iter().enumerate().skip(from) {
        let mut mask = mask;
        while mask != 0 {
            f(64 * g + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_picks_the_words_that_masks_name_and_puts_them_back() {
        for word in [1, 2, 4, 8] {
            for n in [1usize, 63, 64, 65, 200, 1024] {
                for one_in in [1, 3, 40] {
                    let words: Vec<u8> = (0..n * word).map(|i| (i * 7 % 251) as u8).collect();
                    let named: Vec<usize> = (0..n).filter(|i| i * i % one_in == 0).collect();
                    let mut masks = vec![0; n.div_ceil(64)];
                    named.iter().for_each(|i| masks[i / 64] |= 1u64 << (i % 64));
                    let want: Vec<u8> =
                        named.iter().flat_map(|i| words[i * word..][..word].to_vec()).collect();
                    for level in Level::available() {
                        let mut got = Vec::new();
                        pick(level, word, &words, &masks, named.len(), &mut got);
                        assert!(got == want, "{level:?} {word} {n}");
                        let mut back = words.clone();
                        named.iter().for_each(|i| back[i * word..][..word].fill(0xee));
                        place(level, word, &mut got, &masks, &mut back);
                        assert!(back == words, "{level:?} {word} {n}");
                    }
                }
            }
        }
    }
}
