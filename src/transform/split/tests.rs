use super::*;

const N: usize = (1 << 18) + 1;

fn lengths() -> impl Iterator<Item = usize> {
    let near = |m: usize| m - 1..=m + 1;
    (0..130).chain(near(192)).chain(near(256)).chain(near(4096)).chain(near(N - 1))
}

/// Words of every kind: noise, runs, zeros of both signs, subnormals, infinities, NaNs.
fn words(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x = x.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        let y = x >> 8 ^ x << 40;
        let exponent = 0x3C00_0000_0000_0000 + ((u64::from(y.leading_zeros()) * 11) << 55);
        let word = match x >> 60 {
            0 => 0,
            1 => 1 << 63,
            2 => y >> 13,
            3 => 0x7F80_7F80_7F80_7F80 | y & 0x8000_8000_8001_0001,
            4 | 5 => y,
            _ => exponent | y & 0x807F_807F_FFFF_FFFF,
        };
        bytes.extend(word.to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Every valid combination of width, rest and sign.
fn fields() -> impl Iterator<Item = Split> {
    let bases = [1, 17, 100, 258, 2500, 65_000];
    [8, 16, 32, 64].into_iter().flat_map(move |word_bits| {
        (0..=11).flat_map(move |rest_bits| {
            [None, Some(false), Some(true)].into_iter().flat_map(move |sign| {
                bases.into_iter().map(move |base| Split { word_bits, rest_bits, base, sign })
            })
        })
    })
}

struct Buffers {
    symbols: Vec<u8>,
    lo: Vec<u8>,
    hi: Vec<u8>,
    tails: Vec<Vec<u8>>,
    escapes: Vec<u16>,
}

impl PartialEq for Buffers {
    fn eq(&self, o: &Self) -> bool {
        (&self.symbols, &self.lo, &self.hi, &self.tails, &self.escapes)
            == (&o.symbols, &o.lo, &o.hi, &o.tails, &o.escapes)
    }
}

impl Buffers {
    fn split(level: Level, f: &Split, bytes: &[u8]) -> Self {
        Self::split_by(f, bytes, |planes| split(level, f, bytes, planes))
    }

    /// Word by word.
    fn reference(f: &Split, bytes: &[u8]) -> Self {
        Self::split_by(f, bytes, |planes| scalar::split(f, 0, bytes, planes))
    }

    fn split_by(f: &Split, bytes: &[u8], split: impl FnOnce(PlanesMut<'_>) -> usize) -> Self {
        let n = bytes.len() / f.word_len();
        let mut b = Self::new(n, f.n_tails());
        let mut tails: Vec<&mut [u8]> = b.tails.iter_mut().map(|t| &mut t[..]).collect();
        let planes = PlanesMut {
            symbols: &mut b.symbols,
            rest_lo: &mut b.lo,
            rest_hi: &mut b.hi,
            tails: &mut tails,
        };
        let k = split(planes);
        b.escapes = vec![0; k];
        if f.is_windowed() {
            escapes(f, bytes, &b.symbols, &mut b.escapes);
        }
        b
    }

    /// Word by word without a level.
    fn split_heads(level: Option<Level>, f: &Split, heads: &[u16], shifts: Option<&[u8]>) -> Self {
        let mut b = Self::new(heads.len(), 0);
        let planes = PlanesMut {
            symbols: &mut b.symbols,
            rest_lo: &mut b.lo,
            rest_hi: &mut b.hi,
            tails: &mut [],
        };
        let k = match level {
            Some(level) => split_heads(level, f, heads, shifts, planes),
            None => scalar::split_heads(f, 0, heads, shifts, planes),
        };
        b.escapes = vec![0; k];
        if shifts.is_some() || f.is_windowed() {
            escapes_of_heads(f, heads, &b.symbols, &mut b.escapes);
        }
        b
    }

    fn new(n: usize, n_tails: usize) -> Self {
        Buffers {
            symbols: vec![0; n],
            lo: vec![0; n],
            hi: vec![0; n],
            tails: vec![vec![0; n]; n_tails],
            escapes: vec![],
        }
    }

    fn join(&self, level: Level, f: &Split) -> (bool, Vec<u8>) {
        let tails: Vec<&[u8]> = self.tails.iter().map(|t| &t[..]).collect();
        let mut bytes = vec![0xAA; self.symbols.len() * f.word_len()];
        let mut escapes = &self.escapes[..];
        let ok = join(level, f, self.planes(&tails), &mut escapes, &mut bytes);
        (ok && escapes.is_empty(), bytes)
    }

    fn join_heads(&self, level: Level, f: &Split, shifts: Option<&[u8]>) -> (bool, Vec<u16>) {
        let mut heads = vec![0xAAAA; self.symbols.len()];
        let mut escapes = &self.escapes[..];
        let ok = join_heads(level, f, self.planes(&[]), &mut escapes, shifts, &mut heads);
        (ok && escapes.is_empty(), heads)
    }

    fn planes<'a>(&'a self, tails: &'a [&'a [u8]]) -> Planes<'a> {
        Planes { symbols: &self.symbols, rest_lo: &self.lo, rest_hi: &self.hi, tails }
    }
}

/// `bytes` with the sign of every word set as the fields say.
fn signed(f: &Split, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(sign) = f.sign {
        let last = bytes.iter_mut().skip(f.word_len() - 1).step_by(f.word_len());
        last.for_each(|b| *b = *b & 0x7F | u8::from(sign) << 7);
    }
    bytes
}

#[test]
fn every_level_equals_scalar_on_every_length() {
    let noise = words(N * 8, 7);
    for f in fields().filter(|f| f.is_valid() && (f.is_windowed() || f.base == 1)) {
        let whole = matches!(f.rest_bits, 6 | 8) && f.sign.is_none() && f.base < 20;
        for n in lengths().filter(|n| if whole { true } else { *n < 300 }) {
            let bytes = signed(&f, &noise[noise.len() - n * f.word_len()..]);
            let want = Buffers::reference(&f, &bytes);
            for level in Level::available() {
                assert!(Buffers::split(level, &f, &bytes) == want, "{level:?} {f:?} n={n}");
                let (ok, back) = want.join(level, &f);
                assert!(ok && back == bytes, "{level:?} {f:?} n={n}");
            }
        }
    }
}

#[test]
fn every_level_equals_scalar_on_heads_with_shifts() {
    let bytes = words(N * 2, 9);
    let shifts: Vec<u8> = bytes.iter().map(|b| b.wrapping_mul(77) >> 1).take(N).collect();
    let mut all = vec![0; N];
    heads(Level::SCALAR, 16, &bytes, &mut all);
    for f in fields().filter(|f| f.word_bits == 16 && f.is_valid_shifted() && f.sign.is_none()) {
        for n in lengths().filter(|n| *n < 300 || f.rest_bits == 6 && f.base == 100) {
            for shifts in [None, Some(&shifts[N - n..])] {
                if shifts.is_none() && !f.is_valid() {
                    continue;
                }
                let heads = &all[N - n..];
                let want = Buffers::split_heads(None, &f, heads, shifts);
                for level in Level::available() {
                    let got = Buffers::split_heads(Some(level), &f, heads, shifts);
                    assert!(got == want, "{level:?} {f:?} n={n}");
                    let (ok, back) = want.join_heads(level, &f, shifts);
                    assert!(ok && back == heads, "{level:?} {f:?} n={n}");
                }
            }
        }
    }
}

#[test]
fn every_16_bit_word_survives() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for f in fields().filter(|f| f.word_bits == 16 && f.is_valid() && f.sign.is_none()) {
        for level in Level::available() {
            let (ok, back) = Buffers::split(level, &f, &bytes).join(level, &f);
            assert!(ok && back == bytes, "{level:?} {f:?}");
        }
    }
}

#[test]
fn corrupt_planes_join_alike_at_every_level() {
    let noise = words(4 * 1000, 3);
    for f in fields().filter(|f| f.is_valid() && f.is_windowed()) {
        let planes = Buffers {
            symbols: noise[..300].to_vec(),
            lo: noise[300..600].to_vec(),
            hi: noise[600..900].to_vec(),
            tails: vec![noise[900..1200].to_vec(); f.n_tails()],
            escapes: vec![],
        };
        let tails: Vec<&[u8]> = planes.tails.iter().map(|t| &t[..]).collect();
        let mut words = vec![0xAA; 300 * f.word_len()];
        let escaped = scalar::join(&f, 0, planes.planes(&tails), &mut words);
        let want = (!escaped, words);
        for level in Level::available() {
            assert!(planes.join(level, &f) == want, "{level:?} {f:?}");
        }
    }
}

#[test]
fn a_wrong_list_of_escapes_is_reported() {
    let bytes = words(2 * 500, 5);
    let f = Split { word_bits: 16, rest_bits: 6, base: 300, sign: None };
    for level in Level::available() {
        let good = Buffers::split(level, &f, &bytes);
        assert!(good.escapes.len() > 10 && good.join(level, &f).0);
        for wrong in [0, f.base, f.base + 253, 1 << f.symbol_bits(), u16::MAX] {
            let mut bad = Buffers::split(level, &f, &bytes);
            bad.escapes[5] = wrong;
            assert!(!bad.join(level, &f).0, "{level:?} {wrong}");
        }
        let mut bad = Buffers::split(level, &f, &bytes);
        bad.escapes.pop();
        assert!(!bad.join(level, &f).0);
        bad.escapes.extend([1, 1]);
        assert!(!bad.join(level, &f).0);
    }
}

#[test]
fn heads_and_tails_make_the_words() {
    let noise = words(8 * 4097, 11);
    for level in Level::available() {
        for word_bits in [8, 16, 32, 64u8] {
            for n in lengths().filter(|n| *n < 4097) {
                let f = Split { word_bits, rest_bits: 8, base: 1, sign: None };
                let bytes = &noise[noise.len() - n * f.word_len()..];
                let mut got = vec![0; n];
                heads(level, word_bits, bytes, &mut got);
                for (head, word) in got.iter().zip(bytes.chunks(f.word_len())) {
                    assert_eq!(*head, head::head_at(word));
                }
                let b = Buffers::split(Level::SCALAR, &f, bytes);
                let tails: Vec<&[u8]> = b.tails.iter().map(|t| &t[..]).collect();
                let mut back = vec![0; bytes.len()];
                words_of_heads(level, word_bits, &got, &tails, &mut back);
                assert!(back == bytes, "{level:?} {word_bits} n={n}");
            }
        }
    }
}

#[test]
fn a_sign_is_that_of_all_words_or_none() {
    for word_bits in [8, 16, 32, 64u8] {
        let len = usize::from(word_bits / 8);
        for n in [0, 1, 2, 31, 64, 65, 1999] {
            for negative in [false, true] {
                let mut bytes = words(8 * 2000, 13)[..n * len].to_vec();
                let signs = || (0..n).map(|i| i * len + len - 1);
                for at in signs() {
                    bytes[at] = bytes[at] & 0x7f | u8::from(negative) << 7;
                }
                let shared = (n > 0).then_some(negative);
                let odd: Vec<usize> = [0, n / 2, n - n.min(1)].map(|i| (i + 1) * len - 1).into();
                for level in Level::available() {
                    assert_eq!(sign(level, word_bits, &bytes), shared, "{word_bits} {n}");
                    for &at in odd.iter().filter(|_| n > 1) {
                        let mut mixed = bytes.clone();
                        mixed[at] ^= 0x80;
                        assert_eq!(sign(level, word_bits, &mixed), None, "{word_bits} {n} {at}");
                    }
                }
            }
        }
    }
}
