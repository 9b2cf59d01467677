use super::*;

#[test]
fn every_level_forms_every_residual_alike() {
    let mut words: Vec<u8> = (0..40_000u32)
        .flat_map(|i| (i.wrapping_mul(0x9E37_79B1) >> (i % 29)).to_le_bytes())
        .collect();
    words.extend((0..=u16::MAX).flat_map(u16::to_le_bytes));
    let mut predicted = words.clone();
    predicted.rotate_left(4 * 777);
    let zeros = vec![0; words.len()];
    for word in [1, 2, 4, 8] {
        for base in [&predicted, &zeros] {
            for n in (0..130).chain([2047, 2048, 2049, 4500, words.len() / word]) {
                let (words, base) = (&words[words.len() - n * word..], &base[..n * word]);
                let mut want = (vec![1; n * word], vec![1; n]);
                delta::diff(Level::SCALAR, word, words, base, &mut want.0);
                symbols(Level::SCALAR, word, &want.0, &mut want.1);
                for level in Level::available() {
                    let mut got = (vec![2; n * word], vec![2; n]);
                    residuals(level, word, words, base, &mut got.0, &mut got.1);
                    assert_eq!(got, want, "{level:?} {word} {n}");
                }
            }
        }
    }
}

#[test]
fn contexts_fall_into_the_cluster_that_starts_last() {
    let contexts: Vec<u8> = (0..3000).map(|i| i as u8).collect();
    for level in Level::available() {
        let mut out = Vec::new();
        clusters(level, &[3, 100, 255], &contexts, &mut out);
        assert_eq!((out[0], out[2], out[3], out[99], out[100]), (0, 0, 1, 1, 2));
        assert_eq!((out[254], out[255], out[256 + 3]), (2, 3, 1));
    }
}

#[test]
fn every_level_looks_up_what_the_table_has_for_a_context() {
    let table: [u8; 256] = std::array::from_fn(|i| (i * i % 251) as u8 ^ 0x55);
    for n in [0, 1, 63, 64, 65, 128, 1000] {
        let contexts: Vec<u8> = (0..n).map(|i| (i * 7 + i / 256) as u8).collect();
        let want: Vec<u8> = contexts.iter().map(|&c| table[usize::from(c)]).collect();
        for level in Level::available() {
            let mut out = vec![9; 3];
            look_up(level, &table, &contexts, &mut out);
            assert_eq!(out, want, "{level:?} {n}");
        }
    }
}
