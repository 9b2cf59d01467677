//! Words are hashed and split piece by piece while they are in the nearest cache. Where a sample
//! says that no plane below the symbols would shrink, each is packed right into the payload.

use super::{
    super::{
        pieces::PIECE,
        plane::{self, Coder, PREFIX, Planes, Policy},
    },
    encode_low as encode_planes,
};
use crate::{
    bits::{pack, packed_len},
    hash::Stream,
    simd::{self, Level},
    transform::split::{self, PlanesMut, Split},
};
use std::ops::Range;

/// Bytes that are fetched ahead.
const AHEAD: usize = 16 << 10;

/// Splits words, and appends the `head` of a payload and the planes below the symbols. Leaves the
/// symbols and the escapes in `planes`. Returns how many escapes there are, and the digest.
pub fn encode_low(
    level: Level,
    policy: Policy,
    fields: &Split,
    words: &[u8],
    head: [u8; 4],
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> (usize, u64) {
    let n = words.len() / fields.word_len();
    let flat = policy == Policy::Sampled && is_flat(level, fields, words, planes);
    if !flat {
        out.extend_from_slice(&head);
        let done = cut(level, fields, words, planes, None);
        encode_planes(level, policy, fields, n, planes, out);
        return done;
    }
    let widths = widths(fields);
    let start = out.len();
    let len: usize = widths.iter().map(|w| PREFIX + packed_len(*w, n)).sum();
    if out.is_empty() {
        std::mem::swap(out, &mut planes.old);
    }
    out.resize(start + head.len() + len, 0);
    out[start..start + head.len()].copy_from_slice(&head);
    let mut places = Vec::with_capacity(widths.len());
    let mut rest = &mut out[start + head.len()..];
    for &width in &widths {
        let (prefix, place);
        (prefix, rest) = rest.split_at_mut(PREFIX);
        (place, rest) = rest.split_at_mut(packed_len(width, n));
        plane::put_prefix(prefix, Coder::Packed, place.len());
        places.push((width, place));
    }
    cut(level, fields, words, planes, Some(places))
}

/// Widths of the planes below the symbols in the order of the payload.
fn widths(fields: &Split) -> Vec<u8> {
    let rest = fields.stored_rest_bits();
    let high = (rest > 8).then(|| rest - 8);
    let low = (rest > 0).then(|| rest.min(8));
    std::iter::repeat_n(8, fields.n_tails()).chain(high).chain(low).collect()
}

/// Whether a sample says of every plane below the symbols that it would not shrink.
fn is_flat(level: Level, fields: &Split, words: &[u8], planes: &mut Planes) -> bool {
    let word = fields.word_len();
    let Some(groups) = plane::sample_groups(words.len() / word) else { return false };
    let mut sample = [0; 8 * plane::SAMPLE];
    let sample = &mut sample[..word * plane::SAMPLE];
    for (to, at) in sample.chunks_exact_mut(word * plane::GROUP).zip(groups) {
        to.copy_from_slice(&words[word * at..][..to.len()]);
    }
    let n = plane::SAMPLE;
    planes.with(fields, n, |planes| split::split(level, fields, sample, planes));
    let rest = fields.stored_rest_bits();
    let flat = |plane: &[u8], bits| plane::is_flat(level, &plane[..n], bits);
    planes.tails[..fields.n_tails()].iter().all(|tail| flat(tail, 8))
        && (rest <= 8 || flat(&planes.rest_hi, rest - 8))
        && (rest == 0 || flat(&planes.rest_lo, rest.min(8)))
}

/// Splits words into the planes, or, below the symbols, into the `places` of packed planes.
fn cut(
    level: Level,
    fields: &Split,
    words: &[u8],
    planes: &mut Planes,
    mut places: Option<Vec<(u8, &mut [u8])>>,
) -> (usize, u64) {
    let (word, n) = (fields.word_len(), words.len() / fields.word_len());
    let (n_tails, rest) = (fields.n_tails(), fields.stored_rest_bits());
    let mut hash = Stream::new(level);
    let mut room = [[0; PIECE]; 2];
    planes.escapes.clear();
    match places {
        None => planes.grow(fields, n),
        Some(_) => planes.symbols.resize(planes.symbols.len().max(n), 0),
    }
    for at in (0..n).step_by(PIECE) {
        let len = PIECE.min(n - at);
        let bytes = &words[word * at..word * (at + len)];
        simd::prefetch(words, word * at + AHEAD, bytes.len());
        hash.add_piece(bytes, at + len == n);
        let piece = at..at + len;
        let symbols = &mut planes.symbols[piece.clone()];
        let escapes = match &mut places {
            None => {
                let mut tails = planes.tails.each_mut().map(|tail| part(tail, &piece));
                let rest_lo = part(&mut planes.rest_lo, &piece);
                let rest_hi = part(&mut planes.rest_hi, &piece);
                let tails = &mut tails[..n_tails];
                let parts = PlanesMut { symbols, rest_lo, rest_hi, tails };
                split::split(level, fields, bytes, parts)
            }
            Some(places) => {
                let (tail_places, rest_places) = places.split_at_mut(n_tails);
                let mut tails: [&mut [u8]; 8] = Default::default();
                for (tail, (_, place)) in tails.iter_mut().zip(tail_places.iter_mut().rev()) {
                    *tail = &mut place[piece.clone()];
                }
                let [lo, hi] = &mut room;
                // A rest of eight bits is packed as it is.
                let rest_lo = match rest_places {
                    [(8, place)] => &mut place[piece.clone()],
                    _ => &mut lo[..len],
                };
                let parts = PlanesMut {
                    symbols,
                    rest_lo,
                    rest_hi: &mut hi[..len],
                    tails: &mut tails[..n_tails],
                };
                let escapes = split::split(level, fields, bytes, parts);
                for ((width, place), values) in rest_places.iter_mut().rev().zip([&*lo, &*hi]) {
                    if rest != 8 {
                        let place = &mut place[at / 8 * usize::from(*width)..];
                        let place = &mut place[..packed_len(*width, len)];
                        pack(level, *width, &values[..len], place);
                    }
                }
                escapes
            }
        };
        if escapes > 0 {
            let from = planes.escapes.len();
            planes.escapes.resize(from + escapes, 0);
            let list = &mut planes.escapes[from..];
            split::escapes(fields, bytes, &planes.symbols[piece], list);
        }
    }
    (planes.escapes.len(), hash.finish_of(words))
}

/// A piece of a plane; nothing of one that is not in use.
fn part<'a>(plane: &'a mut [u8], piece: &Range<usize>) -> &'a mut [u8] {
    plane.get_mut(piece.clone()).unwrap_or_default()
}
