//! Transforms of a chunk made by something other than this CPU.
//!
//! Choosing how a chunk is coded and coding its planes stay here; what lies between, the way from
//! words to planes, may be left to a device. What a device makes is what the CPU would have made,
//! bit for bit, so an archive does not tell who made it. A device may decline any request: one
//! that is too small to be worth the way, one that came when it was lost or out of memory. The
//! CPU then does that one itself.

use crate::{
    simd::Level,
    transform::{
        delta,
        split::{PlanesMut, Split},
    },
};
use std::time::Duration;

/// A device that makes transforms for any number of coders at a time.
pub trait Accelerator: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Transforms for one coder.
    fn transforms(&self) -> Box<dyn Transforms>;

    /// What it did since it was made, by all coders together.
    fn usage(&self) -> Usage;

    /// What went wrong first, if anything did and was not taken yet. Nothing is lost by that: it
    /// says why the CPU did more than was asked of it.
    fn take_fault(&self) -> Option<String>;
}

/// What a device did.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Requests that it met.
    pub done: u64,
    /// Requests that it had to decline because something went wrong.
    pub failed: u64,
    /// Bytes that went to the device.
    pub sent: u64,
    /// Bytes that came back.
    pub received: u64,
    /// Time of the transforms by the device's own clock; `None` where it has none.
    pub transform: Option<Duration>,
    /// Time from handing a request over to having its answer, summed over coders.
    pub waited: Duration,
    /// Time in which at least one request was under way.
    pub busy: Duration,
    /// That part of it in which every coder with a chunk waited, so that nothing hid it.
    pub exposed: Duration,
}

/// Difference of words and base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// `transform::delta::xor`.
    Xor,
    /// `transform::delta::diff`.
    Diff,
}

/// The transforms of one coder. Where a function declines, by `None` or `false`, its outputs
/// hold anything.
pub trait Transforms: Send {
    /// The coder begins or ends a chunk: whether it hides what others wait for.
    fn at_work(&mut self, at_work: bool);

    /// `transform::split::split`: how many symbols are escapes.
    fn split(&mut self, fields: &Split, words: &[u8], planes: PlanesMut<'_>) -> Option<usize>;

    /// `transform::group::split`: a plane for each byte of a word.
    fn group(&mut self, words: &[u8], planes: &mut [&mut [u8]]) -> bool;

    /// `transform::delta` of words of `word_len` bytes.
    fn delta(
        &mut self,
        kind: Delta,
        word_len: usize,
        words: &[u8],
        base: &[u8],
        out: &mut [u8],
    ) -> bool;

    /// bf16 words as the digit cascade of their exponents, planned from
    /// `entropy::cascade::sample`, and the plane of what is left: bytes of the cascade, or
    /// `Some(None)` where it does not fit.
    fn cascade_bf16(
        &mut self,
        words: &[u8],
        rest: &mut [u8],
        cascade: &mut [u8],
    ) -> Option<Option<usize>>;
}

/// Who makes the transforms of a coder, if it is not this CPU.
pub(super) type Device = Option<Box<dyn Transforms>>;

/// A difference, by the device where there is one that does it.
pub(super) fn delta(
    device: &mut Device,
    level: Level,
    (kind, word): (Delta, usize),
    words: &[u8],
    base: &[u8],
    out: &mut [u8],
) {
    if device.as_mut().is_some_and(|d| d.delta(kind, word, words, base, out)) {
        return;
    }
    match kind {
        Delta::Xor => delta::xor(level, words, base, out),
        Delta::Diff => delta::diff(level, word, words, base, out),
    }
}
