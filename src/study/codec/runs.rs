//! Run lengths: after four equal bytes stands how many more follow.
//!
//! ```text
//! input   a a a a a a b b c        coded   a a a a [2] b b c
//! ```
//!
//! The number is written seven bits a byte, the lowest first, bit 7 set on all but the last.

/// Equal bytes after which a number stands.
const RUN: usize = 4;

/// About how many bytes lie in runs of more than 70, looking at one place in 64.
pub(super) fn long_len(bytes: &[u8]) -> usize {
    const STEP: usize = 64;
    let equal = |places: &&[u8]| match places.first_chunk::<8>() {
        Some(eight) => *eight == [eight[0]; 8],
        None => false,
    };
    STEP * bytes.chunks_exact(STEP).filter(equal).count()
}

/// About how many bytes [`encode`] saves, found out faster than by doing it; 0 if none.
pub(super) fn saved_len(bytes: &[u8]) -> usize {
    // A run of n > 3 has n - 3 places where four equal bytes begin, and one where no such place
    // is before it; shortened, it is 5 bytes long.
    let (mut fours, mut runs) = (0usize, 0usize);
    let places = bytes.len().saturating_sub(4);
    for start in (0..places).step_by(128) {
        let end = (start + 128).min(places);
        let windows = [0, 1, 2, 3, 4].map(|k| &bytes[start + k..end + k]);
        let (mut some_fours, mut some_runs) = (0u8, 0u8);
        for i in 0..end - start {
            let [before, a, b, c, d] = windows.map(|w| w[i]);
            let four = u8::from(a == b) & u8::from(b == c) & u8::from(c == d);
            some_fours += four;
            some_runs += four & u8::from(before != a);
        }
        fours += usize::from(some_fours);
        runs += usize::from(some_runs);
    }
    fours.saturating_sub(2 * runs)
}

/// Appends the coded form of `bytes` to `out`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    // Stretches without runs are copied whole.
    let mut start = 0;
    while at + RUN <= bytes.len() {
        let value = bytes[at];
        // The last byte of the four says how far to skip if they are not equal.
        if bytes[at + 3] != value || bytes[at + 2] != value || bytes[at + 1] != value {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[start..at + RUN]);
        at += RUN;
        let mut more = bytes[at..].iter().take_while(|&&b| b == value).count();
        at += more;
        while more >= 0x80 {
            out.push(more as u8 | 0x80);
            more >>= 7;
        }
        out.push(more as u8);
        start = at;
    }
    out.extend_from_slice(&bytes[start..]);
}

/// Fills `out` from `coded`. False where they do not match.
#[must_use]
pub(super) fn decode(coded: &[u8], out: &mut [u8]) -> bool {
    let mut coded = coded.iter();
    let (mut at, mut equal) = (0, 0);
    while let Some(&byte) = coded.next() {
        if at >= out.len() {
            return false;
        }
        equal = if equal > 0 && out[at - 1] == byte { equal + 1 } else { 1 };
        out[at] = byte;
        at += 1;
        if equal == RUN {
            let (mut more, mut shift) = (0usize, 0);
            loop {
                let Some(&next) = coded.next() else { return false };
                if shift > 28 {
                    return false;
                }
                more |= usize::from(next & 0x7f) << shift;
                shift += 7;
                if next & 0x80 == 0 {
                    break;
                }
            }
            let Some(run) = out.get_mut(at..at.saturating_add(more)) else { return false };
            run.fill(byte);
            at += more;
            equal = 0;
        }
    }
    at == out.len()
}
