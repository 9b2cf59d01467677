//! Chunk ↔ payload: which planes a chunk is split into and how each is coded.
//!
//! A chunk is coded in one of several [`Form`]s; `docs/FORMAT.md` names their bytes. What is
//! decided here is decided from the chunk's bytes alone, in integers, so that a chunk has the
//! same payload whatever the number of threads or the instruction set.

mod bytes;
mod float;
mod form;
pub(crate) mod frame;
mod integer;
mod method;
mod pieces;
mod plane;
mod prediction;
mod quantised;
pub mod study;
mod transforms;

pub use form::Form;
pub use method::Method;
pub use prediction::{Agreement, Offer, Predictor, Quantise, Recipe, Trial};
pub use transforms::{Accelerator, Delta, Transforms, Usage};

use crate::{
    Error, Result,
    dtype::{Dtype, Fields},
    hash,
    simd::{Ahead, Level},
};

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

/// A chunk to be coded.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// What its words are.
    pub spec: ChunkSpec,
    /// Whole words.
    pub bytes: &'a [u8],
    /// Byte strings that the decoder will know too.
    pub known: &'a [&'a [u8]],
    /// How the chunk may be predicted from them.
    pub offers: &'a [Offer],
}

impl<'a> Chunk<'a> {
    /// One of which nothing is known.
    pub fn alone(spec: ChunkSpec, bytes: &'a [u8]) -> Self {
        Chunk { spec, bytes, known: &[], offers: &[] }
    }
}

/// How a chunk came to be coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Form of the payload.
    pub form: Form,
    /// Digest of the chunk's bytes.
    pub digest: u64,
    /// The known byte strings that decoding needs, in order.
    pub inputs: Vec<Input>,
}

/// A known byte string that a chunk was coded against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its place among those that were known.
    pub index: u8,
    /// Its digest, where coding came by it.
    pub digest: Option<u64>,
}

/// A form, and the digest of the chunk's bytes where coding came by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    form: Form,
    digest: Option<u64>,
}

impl From<Form> for Made {
    fn from(form: Form) -> Made {
        Made { form, digest: None }
    }
}

/// Whether coding comes by the digest of a chunk of which nothing is known, as far as the method and
/// the type tell: a pass less over bytes that come from memory.
fn hashes(level: Level, method: Method, spec: &ChunkSpec) -> bool {
    match (method, spec.dtype.fields()) {
        (Method::Fast, Fields::Float { .. }) if spec.dtype == Dtype::BF16 => {
            level.hashes() && !spec.big_endian
        }
        (Method::Fast | Method::Auto | Method::Max, Fields::Float { .. }) => !spec.big_endian,
        _ => false,
    }
}

/// Appends the payload of a chunk to `out`. It is never longer than the chunk's bytes.
///
/// # Errors
/// `Io` where a general coder fails for lack of memory.
pub fn encode(
    level: Level,
    method: Method,
    chunk: &Chunk<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Encoded> {
    let on_the_way = !chunk.known.is_empty() || hashes(level, method, &chunk.spec);
    let before = (!on_the_way).then(|| hash::digest(level, chunk.bytes));
    let (made, inputs) = prediction::encode(level, method, chunk, scratch, out)?;
    let digest = before.or(made.digest).unwrap_or_else(|| hash::digest(level, chunk.bytes));
    Ok(Encoded { form: made.form, digest, inputs })
}

/// Appends the payload of a chunk of which nothing is known.
fn encode_alone(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Made> {
    let start = out.len();
    let word = spec.dtype.word_len();
    if method != Method::Raw && is_constant(bytes, word) {
        out.extend_from_slice(&bytes[..word]);
        return Ok(Form::Constant.into());
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
    let mut made = match (method, spec.dtype.fields()) {
        (Method::Raw, _) => Form::Stored.into(),
        (Method::Study(method), _) => {
            out.extend_from_slice(&[0; 4]);
            study::encode(level, method, spec.dtype, words, out)?;
            let guard = bytes::check(level, &out[start + 4..]);
            out[start..start + 4].copy_from_slice(&guard);
            method.form().into()
        }
        (Method::Zstd, _) | (_, Fields::Opaque) => bytes::encode(level, method, bytes, out)?.into(),
        // Where zstd may win, bytes are as they came: no format turns groups around.
        (_, Fields::Quantised { .. }) if spec.big_endian => {
            bytes::encode(level, method, bytes, out)?.into()
        }
        (_, Fields::Quantised { .. }) => {
            let (coder, quantised) = (&mut planes.coder, &mut scratch.quantised);
            quantised::encode(level, method, spec.dtype, words, quantised, coder, out)?.into()
        }
        (_, Fields::Float { bits, exponent }) => {
            let float = float::Float { bits, exponent, row: spec.rows(words.len() / word) };
            float::encode(level, method, &float, words, planes, out)
        }
        (_, Fields::Integer { .. }) => {
            let form = integer::encode(level, method, word, words, planes, out)?;
            if form == Form::Zstd && spec.big_endian && word > 1 {
                // zstd codes bytes in the order of the file.
                out.truncate(start);
                bytes::encode(level, method, bytes, out)?.into()
            } else {
                form.into()
            }
        }
    };
    if spec.big_endian && word > 1 {
        // What was hashed on the way were turned words.
        made.digest = None;
    }
    scratch.swapped = swapped;
    if made.form == Form::Stored || out.len() - start >= bytes.len() {
        out.truncate(start);
        out.extend_from_slice(bytes);
        made.form = Form::Stored;
    }
    Ok(made)
}

/// A payload, and what decoding it needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// What the words of its chunk are.
    pub spec: ChunkSpec,
    /// How it is coded.
    pub form: Form,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The byte strings that it was coded against, in order.
    pub known: &'a [&'a [u8]],
}

/// Decodes a payload into `out`, which has the chunk's length, and returns the digest of that.
///
/// # Errors
/// `Corrupt` where the payload is not one that [`encode`] makes. What `out` then holds is
/// unspecified. A payload that was damaged may also decode to other bytes without an error: the
/// caller checks the digest.
pub fn decode(
    level: Level,
    payload: &Payload<'_>,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<u64> {
    let digest = match (payload.form.is_predicted(), payload.known) {
        (true, _) => prediction::decode(level, payload, scratch, out)?,
        (false, []) => decode_alone(level, payload, scratch, out)?,
        (false, _) => return Err(damaged()),
    };
    Ok(digest.unwrap_or_else(|| hash::digest(level, out)))
}

fn damaged() -> Error {
    Error::Corrupt("the coded data is damaged".into())
}

/// Decodes a payload that was coded without anything known. Returns the digest of what it decoded,
/// where decoding came by it.
fn decode_alone(
    level: Level,
    payload: &Payload<'_>,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<Option<u64>> {
    let Payload { spec, form, bytes: payload, .. } = *payload;
    let word = spec.dtype.word_len();
    let planes = &mut scratch.planes;
    let mut digest = None;
    let done = match (form, spec.dtype.fields()) {
        (Form::Stored, _) if payload.len() == out.len() => {
            out.copy_from_slice(payload);
            return Ok(None);
        }
        (Form::Constant, _) if payload.len() == word => {
            fill(out, payload);
            return Ok(None);
        }
        (Form::Zstd, _) => return bytes::decode(level, payload, out).map(|()| None),
        (Form::Split, Fields::Float { bits, exponent }) => {
            let float = float::Float { bits, exponent, row: spec.rows(out.len() / word) };
            float::decode(level, &float, payload, planes, out).map(|found| digest = Some(found))
        }
        (Form::Quantised, Fields::Quantised { .. }) if !spec.big_endian => {
            let coder = &mut planes.coder;
            quantised::decode(level, spec.dtype, payload, &mut scratch.quantised, coder, out)
        }
        (Form::Group, Fields::Integer { .. }) => integer::decode(level, word, payload, planes, out),
        (form, _) => match (study::Method::of_form(form), bytes::checked(level, payload)) {
            (Some(method), Some(coded)) => {
                Some(study::decode(level, method, spec.dtype, coded, out)?)
            }
            _ => None,
        },
    };
    done.ok_or_else(damaged)?;
    if spec.big_endian && word > 1 {
        swap_words(out, word);
        digest = None;
    }
    Ok(digest)
}

/// How a payload is coded, for people: the coder of the symbols, or of everything.
pub fn describe(form: Form, payload_start: &[u8]) -> &'static str {
    match form {
        Form::Copy => "copy",
        Form::Stored => "raw",
        Form::Constant => "constant",
        Form::Zstd => "zstd",
        Form::Split => float::describe(payload_start),
        Form::Group => "group",
        Form::Quantised => "quantised",
        Form::Delta => prediction::describe(payload_start),
        Form::Xor => "xor",
        Form::Moment => "moment",
        Form::Gradient => "gradient",
        Form::Derived => "quantise",
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
