//! Which offer pays most, from a sample at fixed places.
//!
//! ```text
//! sample    all words of a chunk of up to 8192, else 64 words of every 1024,
//!           or of every 4096 where there is one offer: what is close is coded both ways
//! ```

use super::{
    Offer, Predictor, Words,
    classes::{self, Classes},
    cluster::{Clusters, Joint},
    gradient::Gradients,
    words,
};
use crate::{
    codec::{
        ChunkSpec, Method,
        float::{Float, choose_split, sample_heads},
        plane::Planes,
    },
    dtype::Fields,
    simd::Level,
};

const GROUP: usize = 64;
const STEP: usize = 16;
const STEP_FOR_ONE: usize = 64;
const SMALL: usize = 8 << 10;

/// Buffers for samples.
#[derive(Default)]
pub struct Buffers {
    words: Vec<u8>,
    inputs: Vec<Vec<u8>>,
    predicted: Vec<u8>,
    contexts: Vec<u8>,
    delta: Vec<u8>,
    symbols: Vec<u8>,
    joint: Joint,
    gradients: Gradients,
}

/// The offer that promises most, the bits it promises, and the bits to expect without any;
/// `None` where none promises to be worth it.
pub(super) fn best<'o>(
    level: Level,
    method: Method,
    words: Words<'_>,
    known: &[&[u8]],
    offers: &[&'o Offer],
    buffers: &mut Buffers,
    planes: &mut Planes,
) -> Option<(&'o Offer, u64, u64)> {
    let (word, n) = (words.len(), words.count());
    let Words { spec, bytes: words } = words;
    let Buffers {
        words: sample,
        inputs,
        predicted,
        contexts,
        delta: deltas,
        symbols,
        joint,
        gradients,
    } = buffers;
    let step = if offers.len() == 1 { STEP_FOR_ONE } else { STEP };
    gather(word, words, n, step, sample);
    let sampled = (sample.len() / word) as u64;
    let solo = alone(method, spec, words, sample, planes);
    let scale = |bits: u64| (u128::from(bits) * n as u128 / u128::from(sampled.max(1))) as u64;
    let classes = Classes::of_word(word);
    let mut best: Option<(&Offer, u64)> = None;
    for offer in offers {
        inputs.resize_with(offer.inputs.len().max(inputs.len()), Vec::new);
        for (&i, gathered) in offer.inputs.iter().zip(inputs.iter_mut()) {
            let input = known[usize::from(i)];
            gather(input.len() / n, input, n, step, gathered);
        }
        let gathered: Vec<&[u8]> = inputs[..offer.inputs.len()].iter().map(|i| &i[..]).collect();
        let p = &offer.predictor;
        let mut coded = |contexts: &[u8], symbols: &[u8], follow: u64| {
            joint.count(level, contexts, symbols, GROUP, 1);
            let clusters = Clusters::of(joint);
            scale(clusters.bits + follow) + clusters.table_bits
        };
        if let Predictor::Gradient(s) = p {
            let known = [gathered[0], gathered[1]];
            let sample = gradients.sample(level, s, sample, known);
            let bits = coded(sample.contexts, sample.kinds, sample.follow)
                + coded(sample.kinds, sample.lengths, 0);
            if best.is_none_or(|(_, least)| bits < least) {
                best = Some((offer, bits));
            }
            continue;
        }
        let words_of = p.predict(level, spec, &gathered, sample.len(), predicted, contexts);
        p.contexts(level, spec, &gathered, words_of, contexts);
        symbols.resize(contexts.len(), 0);
        let follow = if *p == Predictor::Moment {
            super::moment::sample_symbols(sample, symbols);
            super::moment::REST_BITS * sampled
        } else {
            deltas.resize(sample.len(), 0);
            words::residuals(level, word, sample, words_of, deltas, symbols);
            symbols.iter().map(|&s| u64::from(classes.bits(classes::class_of(s)))).sum()
        };
        let bits = coded(contexts, symbols, follow);
        if best.is_none_or(|(_, least)| bits < least) {
            best = Some((offer, bits));
        }
    }
    // Close calls are decided by coding both ways.
    best.filter(|(_, bits)| *bits < solo + solo / 32 || method == Method::Diff)
        .map(|(offer, bits)| (offer, bits, solo))
}

/// Collects the sampled words of `n` words of `word` bytes.
fn gather(word: usize, words: &[u8], n: usize, step: usize, out: &mut Vec<u8>) {
    out.clear();
    if n <= SMALL {
        return out.extend_from_slice(words);
    }
    for group in words.chunks(GROUP * word).step_by(step) {
        out.extend_from_slice(group);
    }
}

/// About how many bits the words take without anything known.
fn alone(
    method: Method,
    spec: &ChunkSpec,
    words: &[u8],
    sample: &[u8],
    planes: &mut Planes,
) -> u64 {
    let Fields::Float { bits, exponent } = spec.dtype.fields() else {
        // Cannot be told: a sixteenth is rarely reached.
        return words.len() as u64 / 2;
    };
    let float = Float { bits, exponent, row: None };
    let n = words.len() / usize::from(bits / 8);
    let mut heads = std::mem::take(&mut planes.heads);
    sample_heads(crate::simd::Level::SCALAR, &float, words, false, &mut heads);
    let negative = heads.iter().fold(0, |n, h| n + usize::from(h & 1));
    let sign = (negative == 0 || negative == heads.len()).then_some(negative != 0);
    let most = if method == Method::Fast { 0 } else { 2 };
    let (_, cost) = choose_split(&float, &heads, n, sign, 0..=most, &mut planes.counts);
    planes.heads = heads;
    let tails = usize::from(bits / 8).saturating_sub(2);
    let zero = |i: &usize| sample.iter().skip(*i).step_by(usize::from(bits / 8)).all(|&b| b == 0);
    cost + 8 * n as u64 * (0..tails).filter(|i| !zero(i)).count() as u64
}
