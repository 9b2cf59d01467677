//! Chunk ↔ payload: which planes a chunk is split into and how each is coded.
//!
//! A chunk is coded in one of several [`form`]s; `docs/FORMAT.md` names their bytes. What is
//! decided here is decided from the chunk's bytes alone, in integers, so that a chunk has the
//! same payload whatever the number of threads or the instruction set.

mod bytes;
mod float;
mod integer;
mod method;
mod pieces;
mod plane;
mod prediction;
mod quantised;
pub mod study;
mod transforms;

pub use method::Method;
pub use prediction::{
    Agreement, Coded as KnownCoded, Offer, Predictor, Quantise, Recipe, Trial,
    decode as decode_known, encode as encode_known,
};
pub use transforms::{Accelerator, Delta, Transforms, Usage};

use crate::{
    Error, Result,
    dtype::{Dtype, Fields},
    simd::{Ahead, Level},
};

/// How a payload is coded: the numbers that chunk metadata holds.
pub mod form {
    /// The bytes as they are.
    pub const STORED: u8 = 1;
    /// One word, repeated.
    pub const CONSTANT: u8 = 2;
    /// A zstd frame.
    pub const ZSTD: u8 = 3;
    /// Floats split into symbols, rest and tails.
    pub const SPLIT: u8 = 4;
    /// One plane a byte of the word.
    pub const GROUP: u8 = 5;
    /// Quantised groups as a plane for each kind of field.
    pub const QUANTISED: u8 = 6;
    /// Residuals of a prediction.
    pub const DELTA: u8 = 7;
    /// The XOR with the base, a plane a byte.
    pub const XOR: u8 = 8;
    /// A first moment, in the contexts of the second one.
    pub const MOMENT: u8 = 9;
    /// A first moment, as the gradient that made it of the base's.
    pub const GRADIENT: u8 = 10;
    /// Quantised words, as what the floats they were made of give.
    pub const DERIVED: u8 = 11;
}

/// What decoding a chunk needs to know beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSpec {
    /// Type of the words.
    pub dtype: Dtype,
    /// Whether words are stored most significant byte first.
    pub big_endian: bool,
    /// Words in a row, 0 where rows are not known.
    pub row_words: u64,
}

impl ChunkSpec {
    /// Words in a row, where a chunk of `n` words has two rows or more of at least 16 words.
    fn rows(&self, n: usize) -> Option<usize> {
        let row = usize::try_from(self.row_words).ok()?;
        (row >= 16 && n / 2 >= row).then_some(row)
    }
}

/// Memory that coding reuses from chunk to chunk.
#[derive(Default)]
pub struct Scratch {
    swapped: Vec<u8>,
    planes: plane::Planes,
    quantised: quantised::Scratch,
    known: Option<Box<prediction::KnownScratch>>,
    known_digest: Option<(u8, u64)>,
}

impl Scratch {
    /// Tells the device that the coder begins or ends a chunk.
    pub fn at_work(&mut self, at_work: bool) {
        if let Some(device) = &mut self.planes.device {
            device.at_work(at_work);
        }
    }

    /// For a coder that leaves transforms to a device, where there is one.
    pub fn new(transforms: Option<Box<dyn Transforms>>) -> Scratch {
        let mut scratch = Scratch::default();
        scratch.planes.device = transforms;
        scratch
    }

    /// Whether [`encode`] finds the hash of a chunk on its way, as far as the method and the type
    /// tell: a pass less over bytes that come from memory.
    pub fn hashes(level: Level, method: Method, spec: &ChunkSpec) -> bool {
        match (method, spec.dtype.fields()) {
            (Method::Fast, Fields::Float { .. }) if spec.dtype == Dtype::BF16 => {
                level.hashes() && !spec.big_endian
            }
            (Method::Auto | Method::Max, Fields::Float { .. }) => !spec.big_endian,
            _ => false,
        }
    }

    /// The digest of the last chunk's bytes, where coding found it.
    pub fn take_digest(&mut self) -> Option<u64> {
        self.planes.digest.take()
    }

    /// The digest of a byte string that was known, where coding found it.
    pub fn take_known_digest(&mut self, input: u8) -> Option<u64> {
        self.known_digest.take_if(|(i, _)| *i == input).map(|(_, digest)| digest)
    }

    /// Says what is encoded after the next chunk, and what is known of it: both are fetched
    /// meanwhile.
    pub fn fetch(&mut self, next: &[u8], known: &[u8]) {
        self.planes.coder.ahead = Ahead::of([next, known]);
    }

    /// Says that decoded chunks are not read soon, and that all of them are larger than caches.
    pub fn write_far(&mut self, far: bool) {
        self.planes.far = far;
    }

    /// Clears what a payload held before. For methods with kernels that write a payload in place
    /// its bytes are kept: filling a buffer of this length with anything that is overwritten costs
    /// a quarter of the fastest method's time. The others append to the pages at hand.
    pub fn reuse(&mut self, method: Method, payload: &mut Vec<u8>) {
        let old = &mut self.planes.old;
        let in_place = !matches!(method, Method::Study(_));
        if in_place && payload.len() > old.len() {
            std::mem::swap(payload, old);
        }
        payload.clear();
    }
}

/// Appends the payload of a chunk to `out` and returns its form.
///
/// `bytes` is whole words of `spec.dtype`. The payload is never longer than `bytes`.
///
/// # Errors
/// `Io` where a general coder fails for lack of memory.
pub fn encode(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<u8> {
    let start = out.len();
    let word = spec.dtype.word_len();
    scratch.planes.digest = None;
    if method != Method::Raw && is_constant(bytes, word) {
        out.extend_from_slice(&bytes[..word]);
        return Ok(form::CONSTANT);
    }
    let mut swapped = std::mem::take(&mut scratch.swapped);
    let words = if spec.big_endian && word > 1 {
        swapped.clear();
        swapped.extend_from_slice(bytes);
        swap_words(&mut swapped, word);
        &swapped[..]
    } else {
        bytes
    };
    let planes = &mut scratch.planes;
    let form = match (method, spec.dtype.fields()) {
        (Method::Raw, _) => form::STORED,
        (Method::Study(method), _) => {
            out.extend_from_slice(&[0; 4]);
            study::encode(method, spec.dtype, words, out)?;
            let guard = bytes::check(&out[start + 4..]);
            out[start..start + 4].copy_from_slice(&guard);
            method.form()
        }
        (Method::Zstd, _) | (_, Fields::Opaque) => bytes::encode(method, bytes, out)?,
        // Where zstd may win, bytes are as they came: no format turns groups around.
        (_, Fields::Quantised { .. }) if spec.big_endian => bytes::encode(method, bytes, out)?,
        (_, Fields::Quantised { .. }) => {
            let coder = &mut planes.coder;
            quantised::encode(level, method, spec.dtype, words, &mut scratch.quantised, coder, out)?
        }
        (_, Fields::Float { bits, exponent }) => {
            let float = float::Float { bits, exponent, row: spec.rows(words.len() / word) };
            float::encode(level, method, &float, words, planes, out)
        }
        (_, Fields::Integer { .. }) => {
            let form = integer::encode(level, method, word, words, planes, out)?;
            if form == form::ZSTD && spec.big_endian && word > 1 {
                // zstd codes bytes in the order of the file.
                out.truncate(start);
                bytes::encode(method, bytes, out)?
            } else {
                form
            }
        }
    };
    if spec.big_endian && word > 1 {
        // What was hashed on the way were turned words.
        planes.digest = None;
    }
    scratch.swapped = swapped;
    if form == form::STORED || out.len() - start >= bytes.len() {
        out.truncate(start);
        out.extend_from_slice(bytes);
        return Ok(form::STORED);
    }
    Ok(form)
}

/// Decodes a payload into `out`, which has the chunk's length.
///
/// # Errors
/// `Corrupt` where the payload is not one that [`encode`] makes. What `out` then holds is
/// unspecified. A payload that was damaged may also decode to other bytes without an error: the
/// caller checks the digest.
pub fn decode(
    level: Level,
    spec: &ChunkSpec,
    form: u8,
    payload: &[u8],
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<()> {
    let word = spec.dtype.word_len();
    scratch.planes.digest = None;
    let planes = &mut scratch.planes;
    let done = match (form, spec.dtype.fields()) {
        (form::STORED, _) if payload.len() == out.len() => {
            out.copy_from_slice(payload);
            return Ok(());
        }
        (form::CONSTANT, _) if payload.len() == word => {
            fill(out, payload);
            return Ok(());
        }
        (form::ZSTD, _) => return bytes::decode(payload, out),
        (form::SPLIT, Fields::Float { bits, exponent }) => {
            let float = float::Float { bits, exponent, row: spec.rows(out.len() / word) };
            float::decode(level, &float, payload, planes, out)
        }
        (form::QUANTISED, Fields::Quantised { .. }) if !spec.big_endian => {
            let coder = &mut planes.coder;
            quantised::decode(level, spec.dtype, payload, &mut scratch.quantised, coder, out)
        }
        (form::GROUP, Fields::Integer { .. }) => integer::decode(level, word, payload, planes, out),
        (form, _) => match study::Method::of_form(form) {
            Some(method) => match bytes::checked(payload) {
                Some(coded) => Some(study::decode(method, spec.dtype, coded, out)?),
                None => None,
            },
            None => None,
        },
    };
    done.ok_or_else(|| Error::Corrupt("the coded data is damaged".into()))?;
    if spec.big_endian && word > 1 {
        swap_words(out, word);
        planes.digest = None;
    }
    Ok(())
}

/// How a payload is coded, for people: the coder of the symbols, or of everything.
pub fn describe(form: u8, payload_start: &[u8]) -> &'static str {
    match form {
        0 => "copy",
        form::STORED => "raw",
        form::CONSTANT => "constant",
        form::ZSTD => "zstd",
        form::SPLIT => float::describe(payload_start),
        form::GROUP => "group",
        form::QUANTISED => "quantised",
        form::DELTA => prediction::describe(payload_start),
        form::XOR => "xor",
        form::MOMENT => "moment",
        form::GRADIENT => "gradient",
        form::DERIVED => "quantise",
        _ => study::Method::of_form(form).map_or("unknown", |m| m.name()),
    }
}

fn is_constant(bytes: &[u8], word: usize) -> bool {
    bytes.len() > word && bytes[word..] == bytes[..bytes.len() - word]
}

fn fill(out: &mut [u8], word: &[u8]) {
    if let [byte] = word {
        out.fill(*byte);
        return;
    }
    if word.iter().all(|b| *b == word[0]) {
        out.fill(word[0]);
        return;
    }
    for chunk in out.chunks_exact_mut(word.len()) {
        chunk.copy_from_slice(word);
    }
}

fn swap_words(bytes: &mut [u8], word: usize) {
    for w in bytes.chunks_exact_mut(word) {
        w.reverse();
    }
}
