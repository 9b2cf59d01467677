use super::*;
use crate::transform::change;

/// Words of two bytes and how they became what they are, with the masks of those that differ.
fn changed(n: usize, at: impl Fn(usize) -> bool) -> (Vec<u8>, Vec<u8>, Vec<u64>, u64) {
    let predicted: Vec<u8> =
        (0..n).flat_map(|i| (0x3c00 + (i * i % 97) as u16).to_le_bytes()).collect();
    let mut words = predicted.clone();
    for i in (0..n).filter(|&i| at(i)) {
        words[2 * i] ^= 1 + (i % 3) as u8;
    }
    let mut masks = vec![0; n.div_ceil(64)];
    let count = change::masks(Level::SCALAR, 2, &words, &predicted, &mut masks);
    (words, predicted, masks, count)
}

fn body(level: Level, n: usize, contexts: &[u8], at: impl Fn(usize) -> bool) -> Vec<u8> {
    let (words, predicted, masks, count) = changed(n, at);
    let changes = Changes { word: 2, words: &words, predicted: &predicted, masks: &masks, count };
    let mut out = Vec::new();
    encode(level, &changes, contexts, &mut Buffers::default(), &mut Masked::default(), &mut out);
    out
}

fn back(level: Level, predicted: &[u8], contexts: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let mut out = vec![0xa5; predicted.len()];
    let (mut buffers, mut masked) = (Buffers::default(), Masked::default());
    decode(level, 2, body, Known { predicted, contexts }, &mut buffers, &mut masked, &mut out)
        .map(|()| out)
}

#[test]
fn every_level_writes_the_same_body_and_reads_it_on_every_length() {
    for n in (1..70).chain([127, 128, 129, 1000, 4096, 13_001, 40_000]) {
        for one_in in [1, 3, 11, 60, 700] {
            // Four rates, and words of each of many contexts.
            let contexts: Vec<u8> = (0..n).map(|i| (i * 7 % 200) as u8).collect();
            let at = |i: usize| {
                i == n / 2 || i.is_multiple_of(one_in << (usize::from(contexts[i]) / 50))
            };
            let (words, predicted, ..) = changed(n, at);
            let want = body(Level::SCALAR, n, &contexts, at);
            for level in Level::available() {
                assert!(body(level, n, &contexts, at) == want, "{level:?} {n} {one_in}");
                let got = back(level, &predicted, &contexts, &want);
                assert!(got.as_ref() == Some(&words), "{level:?} {n} {one_in}");
            }
        }
    }
}

#[test]
fn the_body_is_what_its_page_shows_and_reserved_bytes_are_refused() {
    let (contexts, at) = ([120; 40], |i: usize| [3, 4, 33].contains(&i));
    let (words, predicted, ..) = changed(40, at);
    for level in Level::available() {
        let body = body(level, 40, &contexts, at);
        let states = |low: [u8; 4]| low.map(|x| [x, 0, 1, 0]).concat();
        let first = states([0x11, 0, 0, 0]);
        let second = states([0x18, 0x02, 0, 0]);
        let shown = [&[1, 0x0f, 16][..], &first, &[16], &second].concat();
        assert_eq!(body[..shown.len()], shown);
        assert_eq!(back(level, &predicted, &contexts, &body), Some(words.clone()));
        // A byte that is told to be not 0, a bit behind the last word, a bit behind the last byte.
        for (at, byte) in [(3 + 16 + 1, 0), (3 + 16 + 5, 0x00), (3, 0x31)] {
            let mut bad = body.clone();
            assert!(bad[at] != byte);
            bad[at] = byte;
            assert_eq!(back(level, &predicted, &contexts, &bad), None, "{at}");
        }
        // No word differs.
        let none = [&[1, 0x0f, 16][..], &states([0; 4]), &body[shown.len()..]].concat();
        assert_eq!(back(level, &predicted, &contexts, &none), None);
    }
}

#[test]
fn a_word_that_differs_and_is_as_predicted_is_refused() {
    let (words, predicted, mut masks, count) = changed(1000, |i| i.is_multiple_of(7));
    masks[2] |= 1 << 1;
    let changes =
        Changes { word: 2, words: &words, predicted: &predicted, masks: &masks, count: count + 1 };
    for level in Level::available() {
        let mut body = Vec::new();
        let (mut buffers, mut masked) = (Buffers::default(), Masked::default());
        encode(level, &changes, &[120; 1000], &mut buffers, &mut masked, &mut body);
        assert_eq!(back(level, &predicted, &[120; 1000], &body), None);
    }
}
