//! Run lengths of the commonest byte, as numbers whose digits are two bytes.
//!
//! ```text
//! input   z x z z y z z z z z      coded   z x t y z t
//! ```
//!
//! A run of n bytes z becomes n in bijective base 2, the lowest digit first: digits are worth 1
//! (the byte z itself) or 2 (the byte t, which is rare), so that every n has one form and no
//! end mark: whatever else follows ends the number. t itself is written e 0, and e, another rare
//! byte, e 1.
//!
//! A Huffman code spends a whole bit on a byte however likely it is. Deltas are mostly zeros, and
//! this leaves so few of them that a bit is about right.

/// The bytes that stand for something else in coded form. All differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digits {
    /// z: its runs are shortened.
    pub zero: u8,
    /// t, the digit 2.
    pub two: u8,
    /// e, before t and e themselves.
    pub escape: u8,
}

/// Digits that a run may have at most; with more it would be longer than any chunk.
const MAX_DIGITS: usize = 32;

impl Digits {
    /// The commonest and the two rarest of 256 bytes with these counts, of equals the lowest.
    pub fn of(counts: &[u32; 256]) -> Digits {
        let commonest = |counts: &[u32; 256]| {
            let most = counts.iter().max();
            counts.iter().position(|c| Some(c) == most).unwrap_or(0) as u8
        };
        let rarest = |but: [u8; 2]| {
            let others = (0..=255u8).filter(|b| !but.contains(b));
            others.min_by_key(|&b| counts[usize::from(b)]).unwrap_or(0)
        };
        let zero = commonest(counts);
        let two = rarest([zero; 2]);
        Digits { zero, two, escape: rarest([zero, two]) }
    }

    /// Writes the coded form of `bytes` to `out` and returns its length. `out` has
    /// [`room`]`(bytes.len())` bytes.
    pub fn encode(self, bytes: &[u8], out: &mut [u8]) -> usize {
        let numbers = self.numbers();
        // `start` is where the run begins that a literal will end.
        let (mut start, mut to) = (0, 0);
        for (block, at) in bytes.chunks(64).zip((0..).step_by(64)) {
            let mut literals = !equal(block, self.zero) & low(block.len());
            while literals != 0 {
                let place = at + literals.trailing_zeros() as usize;
                literals &= literals - 1;
                to = self.put_run(place - start, &numbers, out, to);
                start = place + 1;
                let byte = bytes[place];
                if byte == self.two || byte == self.escape {
                    out[to] = self.escape;
                    to += 1;
                    out[to] = u8::from(byte == self.escape);
                } else {
                    out[to] = byte;
                }
                to += 1;
            }
        }
        self.put_run(bytes.len() - start, &numbers, out, to)
    }

    /// The digits of n at n + 1, the lowest in the lowest byte: the bits of n + 1 below its
    /// leading one are the digits less 1.
    fn numbers(self) -> [u64; 256] {
        let mut numbers = [0; 256];
        for n in 2..256 {
            let digit = if n % 2 == 1 { self.two } else { self.zero };
            numbers[n] = u64::from(digit) | numbers[n / 2] << 8;
        }
        numbers
    }

    #[inline(always)]
    fn put_run(self, run: usize, numbers: &[u64; 256], out: &mut [u8], to: usize) -> usize {
        let bits = run + 1;
        let n_digits = bits.ilog2() as usize;
        match numbers.get(bits) {
            Some(digits) => out[to..to + 8].copy_from_slice(&digits.to_le_bytes()),
            None => {
                for (k, place) in out[to..to + n_digits].iter_mut().enumerate() {
                    *place = if bits >> k & 1 == 1 { self.two } else { self.zero };
                }
            }
        }
        to + n_digits
    }

    /// Fills `out` from `coded`. False where they do not match.
    #[must_use]
    pub fn decode(self, coded: &[u8], out: &mut [u8]) -> bool {
        out.fill(self.zero);
        let mut number = Number::default();
        let (mut from, mut at) = (0, 0u64);
        while from < coded.len() {
            let block = &coded[from..coded.len().min(from + 64)];
            let twos = equal(block, self.two);
            let digits = twos | equal(block, self.zero);
            let mut literals = !digits & low(block.len());
            let mut next = from + block.len();
            // Digits before this place of the block are counted.
            let mut done = 0;
            while literals != 0 {
                let place = literals.trailing_zeros() as usize;
                literals &= literals - 1;
                let Some(run) = number.push(twos, done..place).then(|| number.take()) else {
                    return false;
                };
                at += run;
                done = place + 1;
                let mut byte = block[place];
                if byte == self.escape {
                    byte = match coded.get(from + done) {
                        Some(0) => self.two,
                        Some(1) => self.escape,
                        _ => return false,
                    };
                    // What follows is looked at anew.
                    (next, done, literals) = (from + done + 1, block.len(), 0);
                }
                match usize::try_from(at).ok().and_then(|at| out.get_mut(at)) {
                    Some(literal) => *literal = byte,
                    None => return false,
                }
                at += 1;
            }
            if !number.push(twos, done..block.len()) {
                return false;
            }
            from = next;
        }
        at + number.take() == out.len() as u64
    }
}

/// Bytes that the coded form of `n` bytes may take, and what a store may go beyond it.
pub(super) fn room(n: usize) -> usize {
    2 * n + 8
}

/// A number of which digits are still to come.
#[derive(Default)]
struct Number {
    bits: u64,
    n_digits: usize,
}

impl Number {
    /// Appends the digits at `places` of a block, where `twos` has a bit for each digit 2. False
    /// if there are too many.
    #[inline(always)]
    fn push(&mut self, twos: u64, places: std::ops::Range<usize>) -> bool {
        let n = places.len();
        if self.n_digits + n > MAX_DIGITS {
            return false;
        }
        if n > 0 {
            self.bits |= (twos >> places.start & low(n)) << self.n_digits;
            self.n_digits += n;
        }
        true
    }

    /// The number, and begins another.
    #[inline(always)]
    fn take(&mut self) -> u64 {
        let Number { bits, n_digits } = std::mem::take(self);
        (bits | 1 << n_digits) - 1
    }
}

/// The lowest `n` of 64 bits.
#[inline(always)]
fn low(n: usize) -> u64 {
    if n < 64 { (1 << n) - 1 } else { u64::MAX }
}

/// A bit for each of at most 64 bytes that is `value`; bits above them may be set.
#[inline(always)]
fn equal(block: &[u8], value: u8) -> u64 {
    let mut padded = [0; 64];
    let block = match block.first_chunk::<64>() {
        Some(block) => block,
        None => {
            padded[..block.len()].copy_from_slice(block);
            &padded
        }
    };
    let all = u64::from_ne_bytes([value; 8]);
    let mut equal = 0;
    for (eight, at) in block.as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
        let differ = u64::from_le_bytes(*eight) ^ all;
        // Bit 7 of each byte that is 0, moved together by a multiplication.
        let low_bits = 0x7f7f_7f7f_7f7f_7f7f;
        let zeros = !(((differ & low_bits) + low_bits) | differ | low_bits);
        equal |= ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << at;
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: Digits = Digits { zero: 0, two: 7, escape: 9 };

    #[test]
    fn runs_and_what_the_digits_are_come_back() {
        for run in (0..70).chain([127, 255, 256, 1000, 65_535, 65_536]) {
            for around in [&[][..], &[1], &[7], &[9], &[7, 9, 3, 9]] {
                let mut bytes = around.to_vec();
                bytes.resize(around.len() + run, 0);
                bytes.extend(around);
                let mut coded = vec![0; room(bytes.len())];
                let len = DIGITS.encode(&bytes, &mut coded);
                let mut back = vec![0xAA; bytes.len()];
                assert!(DIGITS.decode(&coded[..len], &mut back) && back == bytes, "{run}");
            }
        }
    }

    #[test]
    fn mixtures_come_back_whatever_their_length() {
        let mut x = 1u32;
        for rare in [2, 5, 40] {
            for n in (0..200).chain([1000, 5000]) {
                let mut next = || {
                    x = x.wrapping_mul(0x915F_77F5).wrapping_add(0x3C6E_F35F);
                    if (x >> 16).is_multiple_of(rare) { (x >> 24) as u8 % 16 } else { 0 }
                };
                let bytes: Vec<u8> = (0..n).map(|_| next()).collect();
                let mut coded = vec![0; room(n)];
                let len = DIGITS.encode(&bytes, &mut coded);
                let mut back = vec![0xAA; n];
                assert!(DIGITS.decode(&coded[..len], &mut back) && back == bytes, "n={n}");
            }
        }
    }

    #[test]
    fn what_does_not_fill_the_output_is_refused() {
        let decodes = |coded: &[u8], n: usize| DIGITS.decode(coded, &mut vec![1; n]);
        assert!(decodes(&[], 0) && decodes(&[0], 1) && decodes(&[7], 2) && decodes(&[0, 0], 3));
        assert!(!decodes(&[0], 0) && !decodes(&[0], 2) && !decodes(&[7, 5], 2));
        assert!(decodes(&[9, 0, 9, 1], 2) && !decodes(&[9], 1) && !decodes(&[9, 2], 1));
        assert!(!decodes(&[7; 33], 1000) && !decodes(&[7; 32], 1000));
    }

    #[test]
    fn digits_are_the_commonest_byte_and_the_rarest_ones() {
        let mut counts = [5; 256];
        counts[200] = 100;
        counts[31] = 0;
        counts[30] = 1;
        assert_eq!(Digits::of(&counts), Digits { zero: 200, two: 31, escape: 30 });
        assert_eq!(Digits::of(&[0; 256]), Digits { zero: 0, two: 1, escape: 2 });
    }
}
