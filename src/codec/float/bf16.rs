//! The `SPLIT` form of bf16 with cascades, straight from the words and back: the same bytes as
//! splitting first, without writing and reading a plane of symbols.

use super::super::{
    Form, Made,
    plane::{self, Coded, Coder, GUARD, PREFIX, Planes},
};
use crate::{
    entropy::cascade::{self, Plan},
    hash::Stream,
    simd::Level,
};

/// Bits of the rest beside an exponent of 8 bits.
const REST_BITS: u8 = 8;

/// Appends the payload of a chunk of bf16 words. `None` where it would not shrink; what was
/// appended is then of no use.
pub fn encode(level: Level, words: &[u8], planes: &mut Planes, out: &mut Vec<u8>) -> Option<Made> {
    if let Some(coded) = encode_on_device(words, planes, out) {
        return coded.map(Made::from);
    }
    let n = words.len() / 2;
    let counts = cascade::sample_bf16(words);
    let plan: Plan = cascade::plan(&counts);
    // A level that turns out larger than the sample says is tried again with all the room there is.
    let counted: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    let expected = plan.digits_and_raw_len(&counts) * n as u64 / counted.max(1);
    let expected = n + expected as usize + expected as usize / 64 + 1024;
    encode_within(level, &plan, expected.min(words.len()), words, planes, out)
        .or_else(|| encode_within(level, &plan, words.len(), words, planes, out))
}

/// As [`encode`]; `None` where there is no device, or it declined.
fn encode_on_device(words: &[u8], planes: &mut Planes, out: &mut Vec<u8>) -> Option<Option<Form>> {
    let mut device = planes.device.take()?;
    let mut declined = false;
    let coded = lay_out(words.len(), words.len() / 2, planes, out, |_, rest, symbols| {
        let len = device.cascade_bf16(words, rest, symbols);
        declined = len.is_none();
        len?
    });
    planes.device = Some(device);
    (!declined).then_some(coded)
}

/// As [`encode`], in at most `most` bytes; `out` is as before where that does not do.
fn encode_within(
    level: Level,
    plan: &Plan,
    most: usize,
    words: &[u8],
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> Option<Made> {
    let mut hash = Stream::new(level);
    let form = lay_out(most, words.len() / 2, planes, out, |room, rest, symbols| {
        let room = plane::cascade_room(room, rest.len());
        cascade::encode_bf16(level, plan, words, rest, room, symbols, Some(&mut hash))
    })?;
    let digest = level.hashes().then(|| hash.finish_of(words));
    Some(Made { form, digest })
}

/// Appends a payload of at most `most` bytes around what `code` makes of `n` words: the rest, and
/// a cascade whose length it returns. `out` is as before where it does not fit.
fn lay_out(
    most: usize,
    n: usize,
    planes: &mut Planes,
    out: &mut Vec<u8>,
    code: impl FnOnce(&mut Vec<u8>, &mut [u8], &mut [u8]) -> Option<usize>,
) -> Option<Form> {
    let head = [Coder::Cascade as u8, REST_BITS, 1, 0];
    let start = out.len();
    let rest_at = start + head.len() + PREFIX;
    let symbols_at = rest_at + n + PREFIX;
    let end = start + most;
    if symbols_at + GUARD >= end {
        return None;
    }
    if out.is_empty() {
        std::mem::swap(out, &mut planes.old);
    }
    out.resize(end, 0);
    out[start..start + head.len()].copy_from_slice(&head);
    plane::put_prefix(&mut out[rest_at - PREFIX..rest_at], Coder::Packed, n);
    let (front, symbols) = out.split_at_mut(symbols_at + GUARD);
    let rest = &mut front[rest_at..rest_at + n];
    let Some(len) = code(&mut planes.coder.cascade, rest, symbols) else {
        out.truncate(start);
        return None;
    };
    plane::put_prefix(&mut out[symbols_at - PREFIX..symbols_at], Coder::Cascade, GUARD + len);
    out.truncate(symbols_at + GUARD + len);
    plane::guard_cascade(&mut out[symbols_at..]);
    Some(Form::Split)
}

/// Decodes bf16 words from a cascade of their exponents and the plane of what is left; their digest.
pub fn decode(
    level: Level,
    symbols: Coded<'_>,
    rest: &[u8],
    planes: &mut Planes,
    out: &mut [u8],
) -> Option<u64> {
    let n = rest.len();
    let room = plane::cascade_room(&mut planes.coder.cascade, n);
    let cascade = plane::guarded_cascade(symbols.data)?;
    let mut hash = Stream::new(level);
    let mut decoder = cascade::Decoder::new(level, n, cascade, room)?;
    // What is hashed later must stay in the caches.
    let far = planes.far && level.hashes();
    decoder.decode_bf16(rest, out, far, Some(&mut hash)).then_some(())?;
    Some(hash.finish_of(out))
}
