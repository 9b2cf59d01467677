//! The kernels, as one text for every width of registers: a register of words a step for each byte
//! of a word; the scalar code ends it.
//!
//! Pairs of registers are halved into their lower and upper bytes until bytes are left. All of
//! that works within 128-bit lanes; one permutation a plane puts the words in order. A level has
//! that permutation and its inverse, `in_order` and `out_of_order`, and what they take.

macro_rules! kernels {
    ($features:literal) => { crate::simd::with_features! { $features:
        pub(super) fn split<const W: usize>(bytes: &[u8], planes: &mut [&mut [u8]]) {
            let steps = bytes.len() / (LEN * W);
            let order = load(&order::<W>());
            for step in 0..steps {
                let words = &bytes[step * LEN * W..][..LEN * W];
                let v: [Vector; W] = std::array::from_fn(|i| load(&words[LEN * i..]));
                let parts: [Vector; W] = match *v.as_slice() {
                    [a, b] => to_array(&halve_16(a, b)),
                    [a, b, c, d] => to_array(&quarter(a, b, c, d)),
                    [a, b, c, d, e, f, g, h] => {
                        let [ab, cd, ef, gh] =
                            [halve_64(a, b), halve_64(c, d), halve_64(e, f), halve_64(g, h)];
                        let low = quarter(ab[0], cd[0], ef[0], gh[0]);
                        let high = quarter(ab[1], cd[1], ef[1], gh[1]);
                        to_array([low, high].as_flattened())
                    }
                    _ => v,
                };
                for (plane, part) in planes.iter_mut().zip(parts) {
                    store(&mut plane[step * LEN..], in_order(order, part));
                }
            }
            super::split_scalar::<W>(steps * LEN, bytes, planes);
        }

        pub(super) fn join<const W: usize>(planes: &[&[u8]], bytes: &mut [u8]) {
            let steps = bytes.len() / (LEN * W);
            let order = load(&inverse(order::<W>()));
            for step in 0..steps {
                let words = &mut bytes[step * LEN * W..][..LEN * W];
                let parts: [Vector; W] =
                    std::array::from_fn(|j| out_of_order(order, load(&planes[j][step * LEN..])));
                let v: [Vector; W] = match *parts.as_slice() {
                    [a, b] => to_array(&unpack_8(a, b)),
                    [a, b, c, d] => to_array(&double_twice(a, b, c, d)),
                    [a, b, c, d, e, f, g, h] => {
                        let (low, high) = (double_twice(a, b, c, d), double_twice(e, f, g, h));
                        let [a, b, c, d] = [0, 1, 2, 3].map(|i| unpack_32(low[i], high[i]));
                        to_array([a, b, c, d].as_flattened())
                    }
                    _ => parts,
                };
                for (i, v) in v.into_iter().enumerate() {
                    store(&mut words[LEN * i..], v);
                }
            }
            super::join_scalar::<W>(steps * LEN, planes, bytes);
        }

        /// Lower and upper bytes of 16-bit words.
        fn halve_16(a: Vector, b: Vector) -> [Vector; 2] {
            let low = all(0xFF);
            [pack_to_8(and(a, low), and(b, low)), pack_to_8(down::<8>(a), down::<8>(b))]
        }

        fn halve_32(a: Vector, b: Vector) -> [Vector; 2] {
            let low = all_32(0xFFFF);
            [
                pack_to_16(and(a, low), and(b, low)),
                pack_to_16(upper_half_32(a), upper_half_32(b)),
            ]
        }

        /// The four bytes of 32-bit words.
        fn quarter(a: Vector, b: Vector, c: Vector, d: Vector) -> [Vector; 4] {
            let ([l0, h0], [l1, h1]) = (halve_32(a, b), halve_32(c, d));
            let ([p0, p1], [p2, p3]) = (halve_16(l0, l1), halve_16(h0, h1));
            [p0, p1, p2, p3]
        }

        /// Inverse of [`quarter`].
        fn double_twice(a: Vector, b: Vector, c: Vector, d: Vector) -> [Vector; 4] {
            let ([l0, l1], [h0, h1]) = (unpack_8(a, b), unpack_8(c, d));
            let ([w0, w1], [w2, w3]) = (unpack_16(l0, h0), unpack_16(l1, h1));
            [w0, w1, w2, w3]
        }

        fn to_array<const W: usize>(v: &[Vector]) -> [Vector; W] {
            std::array::from_fn(|i| v[i])
        }
    } };
}
pub(super) use kernels;
