//! Streams that are read forward: what the first bytes of a pipe say about the rest.
//!
//! Of the known formats only safetensors puts everything one must know at the front.

use super::{
    Parsed,
    safetensors::{self, MAX_HEADER},
};

/// What the first bytes of a stream say.
#[derive(Clone, Debug)]
pub enum PrefixResult {
    /// Call again with at least this many bytes from the start, at most 8 + `MAX_HEADER`. A
    /// stream that ends before that is opaque.
    NeedMore(u64),
    /// The whole stream is known: its spans tile the length that its header promises. The caller
    /// checks that the stream keeps the promise; what comes after it, or short of it, is opaque.
    Parsed(Parsed),
    /// Not a format that can be read forward: an opaque stream.
    Opaque,
}

/// Says how a stream that begins with `prefix` is to be read. Content never makes this fail.
pub fn parse_prefix(prefix: &[u8]) -> PrefixResult {
    let Some((start, rest)) = prefix.split_first_chunk::<8>() else {
        return PrefixResult::NeedMore(8);
    };
    let n = u64::from_le_bytes(*start);
    if !(2..=MAX_HEADER).contains(&n) {
        return PrefixResult::Opaque;
    }
    match rest.iter().find(|b| !safetensors::is_space(**b)) {
        Some(b'{') | None => {}
        Some(_) => return PrefixResult::Opaque,
    }
    // `n` is at most MAX_HEADER, so it fits.
    let Some(json) = rest.get(..n as usize) else {
        return PrefixResult::NeedMore(8 + n);
    };
    match safetensors::from_header(json).and_then(|(f, end)| f.assemble(end)) {
        Ok(parsed) => PrefixResult::Parsed(parsed),
        Err(_) => PrefixResult::Opaque,
    }
}
