//! The kernels, as one text for every width of registers: a register of words a step for each byte
//! of a word; the scalar code ends it.
//!
//! The bytes of a step's words are first sorted by their place in the word, so that one register
//! holds byte `b` of all. A level reads the bits of one place of all its bytes (`bits_of`), and puts
//! them back (`with_bits`); it sorts the bytes of two registers by whether their places are even
//! (`sorted`), and undoes that (`merged`).

macro_rules! kernels {
    ($features:literal) => {
        crate::simd::with_features! { $features:
            pub(super) fn planes(word_len: usize, words: &[u8], planes: &mut [u8]) {
                match word_len {
                    1 => planes_of::<1>(words, planes),
                    2 => planes_of::<2>(words, planes),
                    4 => planes_of::<4>(words, planes),
                    _ => planes_of::<8>(words, planes),
                }
            }

            pub(super) fn words(word_len: usize, planes: &[u8], words: &mut [u8]) {
                match word_len {
                    1 => words_of::<1>(planes, words),
                    2 => words_of::<2>(planes, words),
                    4 => words_of::<4>(planes, words),
                    _ => words_of::<8>(planes, words),
                }
            }

            fn planes_of<const W: usize>(words: &[u8], planes: &mut [u8]) {
                const BYTES: usize = LEN / 8;
                let n = words.len() / W;
                let len = super::plane_len(n);
                for (i, step) in words.chunks_exact(LEN * W).enumerate() {
                    let v: [Vector; W] = std::array::from_fn(|k| load(&step[LEN * k..]));
                    for (b, v) in sort(v).into_iter().enumerate() {
                        for (p, bits) in bits_of(v).into_iter().enumerate() {
                            let at = (8 * b + p) * len + BYTES * i;
                            planes[at..at + BYTES].copy_from_slice(&bits.to_le_bytes());
                        }
                    }
                }
                super::planes_scalar(W, n / LEN * LEN..n, words, planes);
            }

            fn words_of<const W: usize>(planes: &[u8], words: &mut [u8]) {
                const BYTES: usize = LEN / 8;
                let n = words.len() / W;
                let len = super::plane_len(n);
                for (i, step) in words.chunks_exact_mut(LEN * W).enumerate() {
                    let mut v = [zero(); W];
                    for (b, v) in v.iter_mut().enumerate() {
                        for p in 0..8 {
                            let at = (8 * b + p) * len + BYTES * i;
                            let bits = planes[at..at + BYTES].first_chunk();
                            *v = with_bits(*v, bits.map_or(0, |c| Bits::from_le_bytes(*c)), p);
                        }
                    }
                    for (k, v) in unsort(v).into_iter().enumerate() {
                        store(&mut step[LEN * k..], v);
                    }
                }
                super::words_scalar(W, n / LEN * LEN..n, planes, words);
            }

            /// Sorts the bytes of words of `W` bytes by their place in the word: each stage puts the even
            /// bytes of neighbouring vectors into the lower half of the array, the odd ones into the
            /// upper.
            fn sort<const W: usize>(mut v: [Vector; W]) -> [Vector; W] {
                for _ in 0..W.ilog2() {
                    let from = v;
                    for j in 0..W / 2 {
                        [v[j], v[j + W / 2]] = sorted(from[2 * j], from[2 * j + 1]);
                    }
                }
                v
            }

            /// Inverse of [`sort`].
            fn unsort<const W: usize>(mut v: [Vector; W]) -> [Vector; W] {
                for _ in 0..W.ilog2() {
                    let from = v;
                    for j in 0..W / 2 {
                        [v[2 * j], v[2 * j + 1]] = merged(from[j], from[j + W / 2]);
                    }
                }
                v
            }
        }
    };
}
pub(super) use kernels;
