//! The kernels, as one text for every width of registers: a register of words a step when splitting,
//! half of one when joining; the scalar code ends it.
//!
//! Registers are narrowed by saturating packs, which work within 128-bit lanes, so that one
//! permutation of each plane at the end puts all words in order. What takes other instructions at
//! another width stands with its level: that permutation (`pack`, `order`, and their inverses
//! `interleave` and `store_narrowed`), rotations, and what compares.

macro_rules! kernels {
    ($features:literal) => {
        /// In place of a word's width: heads, 16 bits each and already rotated.
        const HEADS: usize = 0;

        const fn len_of(word_bits: usize) -> usize {
            if word_bits == HEADS { 2 } else { word_bits / 8 }
        }

        /// The fields in registers.
        struct Registers {
            rest_bits: __m128i,
            /// 1 if the sign is dropped.
            dropped: __m128i,
            rest_mask: Vector,
            base: Vector,
            sign: Vector,
        }

        crate::simd::with_features! { $features:
        fn registers(f: &Split) -> Registers {
            Registers {
                rest_bits: _mm_cvtsi32_si128(f.rest_bits.into()),
                dropped: _mm_cvtsi32_si128(f.sign.is_some().into()),
                rest_mask: all((1 << f.rest_bits) - 1),
                base: all(f.base as i16),
                sign: all((f.sign == Some(true)).into()),
            }
        }

        pub(super) fn split(f: &Split, bytes: &[u8], planes: PlanesMut<'_>) -> usize {
            match (f.word_bits, f.is_windowed()) {
                (8, _) => split_words::<8, false>(f, bytes, None, planes),
                (16, false) => split_words::<16, false>(f, bytes, None, planes),
                (16, true) => split_words::<16, true>(f, bytes, None, planes),
                (32, false) => split_words::<32, false>(f, bytes, None, planes),
                (32, true) => split_words::<32, true>(f, bytes, None, planes),
                _ => scalar::split(f, 0, bytes, planes),
            }
        }

        pub(super) fn split_heads(
            f: &Split,
            heads: &[u16],
            shifts: Option<&[u8]>,
            planes: PlanesMut<'_>,
        ) -> usize {
            let bytes = bytemuck::cast_slice(heads);
            if shifts.is_some() || f.is_windowed() {
                split_words::<HEADS, true>(f, bytes, shifts, planes)
            } else {
                split_words::<HEADS, false>(f, bytes, None, planes)
            }
        }

        fn split_words<const WORD: usize, const WINDOW: bool>(
            f: &Split,
            bytes: &[u8],
            shifts: Option<&[u8]>,
            planes: PlanesMut<'_>,
        ) -> usize {
            let len = len_of(WORD);
            let steps = bytes.len() / len / LEN;
            let r = registers(f);
            let stored = f.stored_rest_bits();
            let byte = all(0xFF);
            let order = order::<WORD>();
            let mut n_escapes = 0;
            for step in 0..steps {
                let at = step * LEN;
                let words = &bytes[at * len..][..LEN * len];
                let (a, b) = match WORD {
                    8 => {
                        let v = load(words);
                        let rotate = |x| {
                            let up = and(up::<1>(x), byte);
                            or(up, down::<7>(x))
                        };
                        let [a, b] = unpack_8(v, zero());
                        (rotate(a), rotate(b))
                    }
                    16 => (rotate_left(load(words)), rotate_left(load(&words[LEN..]))),
                    32 => {
                        let v = [0, 1, 2, 3].map(|i| load(&words[i * LEN..]));
                        let high = |x, y| {
                            pack_to_16(upper_half_32(x), upper_half_32(y))
                        };
                        let half = all_32(0xFFFF);
                        let low = |x, y| {
                            pack_to_16(and(x, half), and(y, half))
                        };
                        let (x, y) = (low(v[0], v[1]), low(v[2], v[3]));
                        let t0 = pack(and(x, byte), and(y, byte), order);
                        let t1 = pack(down::<8>(x), down::<8>(y), order);
                        store(&mut planes.tails[0][at..], t0);
                        store(&mut planes.tails[1][at..], t1);
                        (rotate_left(high(v[0], v[1])), rotate_left(high(v[2], v[3])))
                    }
                    _ => (load(words), load(&words[LEN..])),
                };

                let (mut sa, mut sb) = (down_by(a, r.rest_bits), down_by(b, r.rest_bits));
                if let Some(shifts) = shifts {
                    let shift = |s, shifts: &[u8]| {
                        let up = sub(byte, widen(shifts));
                        add_unless_zero(s, s, up)
                    };
                    (sa, sb) = (shift(sa, &shifts[at..]), shift(sb, &shifts[at + LEN / 2..]));
                }
                if WINDOW {
                    let window = |s| {
                        let t = min(sub(s, r.base), all(254));
                        add_unless_zero(s, t, all(1))
                    };
                    (sa, sb) = (window(sa), window(sb));
                }
                let symbols = pack(sa, sb, order);
                store(&mut planes.symbols[at..], symbols);
                if WINDOW {
                    n_escapes += n_escaped(symbols);
                }

                let rest = |x| down_by(and(x, r.rest_mask), r.dropped);
                let (ra, rb) = (rest(a), rest(b));
                if stored > 8 {
                    let hi = pack(down::<8>(ra), down::<8>(rb), order);
                    store(&mut planes.rest_hi[at..], hi);
                }
                if stored > 0 {
                    let lo = pack(and(ra, byte), and(rb, byte), order);
                    store(&mut planes.rest_lo[at..], lo);
                }
            }
            n_escapes
                + match WORD {
                    HEADS => {
                        scalar::split_heads(f, steps * LEN, bytemuck::cast_slice(bytes), shifts, planes)
                    }
                    _ => scalar::split(f, steps * LEN, bytes, planes),
                }
        }

        pub(super) fn join(f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
            match (f.word_bits, f.is_windowed()) {
                (8, _) => join_words::<8, false>(f, planes, None, bytes),
                (16, false) => join_words::<16, false>(f, planes, None, bytes),
                (16, true) => join_words::<16, true>(f, planes, None, bytes),
                (32, false) => join_words::<32, false>(f, planes, None, bytes),
                (32, true) => join_words::<32, true>(f, planes, None, bytes),
                _ => scalar::join(f, 0, planes, bytes),
            }
        }

        pub(super) fn join_heads(
            f: &Split,
            planes: Planes<'_>,
            shifts: Option<&[u8]>,
            heads: &mut [u16],
        ) -> bool {
            let bytes = bytemuck::cast_slice_mut(heads);
            if shifts.is_some() || f.is_windowed() {
                join_words::<HEADS, true>(f, planes, shifts, bytes)
            } else {
                join_words::<HEADS, false>(f, planes, None, bytes)
            }
        }

        fn join_words<const WORD: usize, const WINDOW: bool>(
            f: &Split,
            planes: Planes<'_>,
            shifts: Option<&[u8]>,
            bytes: &mut [u8],
        ) -> bool {
            let len = len_of(WORD);
            let steps = bytes.len() / len / (LEN / 2);
            let r = registers(f);
            let stored = f.stored_rest_bits();
            let one_less = sub(r.base, all(1));
            let byte = all(0xFF);
                let mut escaped = none_escaped();
            for step in 0..steps {
                let at = step * (LEN / 2);
                let mut s = widen(&planes.symbols[at..]);
                if WINDOW {
                    escaped = or_escaped(escaped, s);
                    let mut up = one_less;
                    if let Some(shifts) = shifts {
                        up = sub(up, sub(byte, widen(&shifts[at..])));
                    }
                    s = add_unless_zero(s, s, up);
                }
                let mut rest = zero();
                if stored > 0 {
                    rest = widen(&planes.rest_lo[at..]);
                }
                if stored > 8 {
                    rest = or(rest, up::<8>(widen(&planes.rest_hi[at..])));
                }
                let head = or_of_three(up_by(s, r.rest_bits), up_by(rest, r.dropped), r.sign);

                let words = &mut bytes[at * len..][..LEN / 2 * len];
                match WORD {
                    8 => {
                        let down = down::<1>(and(head, byte));
                        let word = or(down, up::<7>(head));
                        store_narrowed(words, word);
                    }
                    16 => store(words, rotate_right(head)),
                    32 => {
                        let high = rotate_right(head);
                        let t1 = up::<8>(widen(&planes.tails[1][at..]));
                        let low = or(widen(&planes.tails[0][at..]), t1);
                        let [first, second] = interleave(low, high);
                        store(words, first);
                        store(&mut words[LEN..], second);
                    }
                    _ => store(words, head),
                }
            }
            let rest_escaped = match WORD {
                HEADS => scalar::join_heads(f, steps * (LEN / 2), planes, shifts, bytemuck::cast_slice_mut(bytes)),
                _ => scalar::join(f, steps * (LEN / 2), planes, bytes),
            };
            any_escaped(escaped) || rest_escaped
        }
        }
    };
}
pub(super) use kernels;
