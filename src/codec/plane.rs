//! Planes of a chunk: one byte a word, each coded by itself.
//!
//! ```text
//! coded plane    coder (1 byte), length (4 bytes), data
//! ```

mod shifted;
#[cfg(test)]
pub(super) mod tests;

pub use shifted::Decoder as CascadeDecoder;

use super::{bytes::check, transforms::Device};
use crate::{
    bits::{pack, unpack},
    entropy::{
        cascade,
        frequency::{self, Table},
        histogram, rans,
    },
    simd::{Ahead, Level},
};

/// How a plane is coded, by the number in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Coder {
    /// One value for all words.
    Constant = 0,
    /// The values' low bits, one after another.
    Packed = 1,
    /// Interleaved rANS under one table.
    Rans = 2,
    /// The digit cascade.
    Cascade = 3,
    /// Interleaved rANS with a table for every context.
    Contexts = 4,
    /// The digit cascade of values less a base for each block.
    Shifted = 5,
}

impl Coder {
    /// The coder with this number.
    pub fn from_code(code: u8) -> Option<Coder> {
        use Coder::{Cascade, Constant, Contexts, Packed, Rans, Shifted};
        [Constant, Packed, Rans, Cascade, Contexts, Shifted].into_iter().find(|c| *c as u8 == code)
    }
}

/// Bytes in front of a coded plane.
pub const PREFIX: usize = 5;

/// Which coders a plane may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The smallest of constant, packed and rANS; packed without a full count where a sample
    /// promises less than a hundredth.
    Sampled,
    /// The same, but always counted.
    Quick,
    /// The same, counted to a quarter at least.
    Quarter,
    /// The smallest of constant, packed and rANS, counted in full.
    Smallest,
    /// This coder, or packed where it would be larger.
    Coder(Coder),
    /// `Shifted` by blocks of two to the power of this, `Cascade` or packed where it would be larger.
    Shifted(u8),
}

/// Buffers for the planes of one chunk.
#[derive(Default)]
pub struct Planes {
    pub symbols: Vec<u8>,
    pub rest_lo: Vec<u8>,
    pub rest_hi: Vec<u8>,
    pub tails: [Vec<u8>; 8],
    pub heads: Vec<u16>,
    pub escapes: Vec<u16>,
    pub shifts: Vec<u8>,
    pub contexts: Vec<u8>,
    pub rows: Vec<u8>,
    pub columns: Vec<u8>,
    pub counts: Vec<u32>,
    /// Whether decoded chunks are not read soon, and all of them are larger than the caches.
    pub far: bool,
    /// Bytes of any value, for payloads that will be overwritten.
    pub old: Vec<u8>,
    pub coder: CoderScratch,
    /// Who makes transforms instead of this CPU.
    pub device: Device,
}

/// Buffers for the coder of one plane.
#[derive(Default)]
pub struct CoderScratch {
    pub stream: Vec<u8>,
    /// What is read next, for the first coder that can fetch it meanwhile.
    pub ahead: Ahead,
    pub cascade: Vec<u8>,
    pub shifted: Vec<u8>,
}

/// Lanes for a plane of `n` values: 64 lanes cost 128 bytes more than 4.
pub fn lanes_for(n: usize) -> rans::Lanes {
    if n >= 24 << 10 { rans::Lanes::SixtyFour } else { rans::Lanes::Four }
}

/// Appends a coded plane of values below 2^`bits`.
pub fn encode(
    level: Level,
    policy: Policy,
    values: &[u8],
    bits: u8,
    scratch: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    let packed_len = (values.len() * usize::from(bits)).div_ceil(8);
    let coder = match policy {
        Policy::Sampled if looks_flat(level, values, bits) => None,
        _ => code(level, policy, values, packed_len, scratch, out),
    };
    let coder = coder.unwrap_or_else(|| {
        out.truncate(start + PREFIX);
        out.resize(start + PREFIX + packed_len, 0);
        pack(level, bits, values, &mut out[start + PREFIX..]);
        Coder::Packed
    });
    let len = out.len() - start - PREFIX;
    put_prefix(&mut out[start..start + PREFIX], coder, len);
}

/// Fills in the prefix of a coded plane.
pub fn put_prefix(prefix: &mut [u8], coder: Coder, len: usize) {
    prefix[0] = coder as u8;
    prefix[1..PREFIX].copy_from_slice(&(len as u32).to_le_bytes());
}

/// Appends the data of a plane in fewer than `limit` bytes and returns its coder, or `None`.
fn code(
    level: Level,
    policy: Policy,
    values: &[u8],
    limit: usize,
    scratch: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Option<Coder> {
    let first = *values.first()?;
    if policy == Policy::Coder(Coder::Packed) {
        return None;
    }
    if let Policy::Shifted(log2) = policy {
        if values.iter().all(|&v| v == first) {
            out.push(first);
            return Some(Coder::Constant);
        }
        return shifted::encode(level, log2, values, limit, scratch, out);
    }
    let mut counts = [0u32; 256];
    match policy {
        // A part of the symbols, and whether the others occur: as good for a table.
        Policy::Sampled | Policy::Quick => histogram::sample(level, values, &mut counts),
        Policy::Quarter => histogram::sample_quarter(level, values, &mut counts),
        _ => histogram::count(level, values, &mut counts),
    }
    let counted: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    if u64::from(counts[usize::from(first)]) == counted {
        out.push(first);
        return Some(Coder::Constant);
    }
    let start = out.len();
    if let Policy::Coder(Coder::Cascade) = policy {
        let plan = cascade::plan(&counts);
        shifted::cascade_within(level, &plan, values, limit, scratch, out)?;
        return Some(Coder::Cascade);
    }
    let table = frequency::normalise(&counts)?;
    let lanes = lanes_for(values.len());
    let sampled = u128::from(frequency::cost(&counts, &table)) * values.len() as u128;
    let stream_len = (sampled / u128::from(counted) / (8 * 256)) as usize;
    out.push(lanes.log2());
    frequency::write(&table, out);
    if out.len() - start + stream_len + 2 * lanes.count() >= limit {
        return None;
    }
    let encode_table = rans::EncodeTable::new(&table);
    let room = rans::bound(values.len(), lanes);
    if scratch.stream.len() < room {
        scratch.stream.resize(room, 0);
    }
    let stream = &mut scratch.stream[..room];
    let ahead = std::mem::take(&mut scratch.ahead);
    let mut encoder = rans::Encoder::new(lanes, values.len(), stream).fetching(ahead);
    if !encoder.encode(level, &encode_table, values) {
        return None;
    }
    let at = encoder.finish();
    out.extend_from_slice(&stream[at..]);
    (out.len() - start < limit).then_some(Coder::Rans)
}

/// Bytes in front of a cascade that guard its header: symbols of a level that do not occur
/// could change unnoticed.
pub const GUARD: usize = 4;

/// The guard of a cascade's header, which has 1 + 7 bytes a level.
fn cascade_guard(cascade: &[u8]) -> [u8; GUARD] {
    let levels = usize::from(cascade.first().copied().unwrap_or(0));
    check(Level::SCALAR, &cascade[..cascade.len().min(1 + 7 * levels)])
}

/// Fills in the guard of the cascade that stands behind it.
pub fn guard_cascade(data: &mut [u8]) {
    let guard = cascade_guard(&data[GUARD..]);
    data[..GUARD].copy_from_slice(&guard);
}

/// The cascade behind a guard, if it is its own.
pub fn guarded_cascade(data: &[u8]) -> Option<&[u8]> {
    let (guard, cascade) = data.split_first_chunk::<GUARD>()?;
    (*guard == cascade_guard(cascade)).then_some(cascade)
}

/// Scratch for cascades of `n` symbols.
pub fn cascade_room(scratch: &mut Vec<u8>, n: usize) -> &mut [u8] {
    let len = cascade::scratch_len(n);
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    &mut scratch[..len]
}

/// Values of a sampled group, and of all 64 of them.
pub const GROUP: usize = 64;
pub const SAMPLE: usize = 64 * GROUP;

/// Where the groups of a sample of `n` values start; none of fewer than eight times as many.
pub fn sample_groups(n: usize) -> Option<impl Iterator<Item = usize>> {
    let groups = n / GROUP;
    (n >= 8 * SAMPLE).then(|| (0..SAMPLE / GROUP).map(move |k| k * groups / 64 * GROUP))
}

/// Whether a sample of the values promises a gain of less than a hundredth.
fn looks_flat(level: Level, values: &[u8], bits: u8) -> bool {
    let Some(groups) = sample_groups(values.len()) else { return false };
    let mut sample = [0; SAMPLE];
    for (to, at) in sample.as_chunks_mut::<GROUP>().0.iter_mut().zip(groups) {
        to.copy_from_slice(&values[at..at + GROUP]);
    }
    is_flat(level, &sample, bits)
}

/// Whether a sample promises a gain of less than a hundredth for all it is of.
pub fn is_flat(level: Level, sample: &[u8], bits: u8) -> bool {
    let mut counts = [0u32; 256];
    histogram::count(level, sample, &mut counts);
    let n = sample.len() as u64;
    let present = counts.iter().filter(|&&c| c > 0).count() as u64;
    // Miller and Madow: a sample of n hides (present − 1) / (2 n ln 2) bits of entropy.
    let hidden = present.saturating_sub(1) * 185;
    let full = n * u64::from(bits) * 256;
    frequency::entropy(&counts) + hidden > full - full / 100
}

/// A coded plane, not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct Coded<'a> {
    pub coder: Coder,
    pub data: &'a [u8],
}

/// Takes a coded plane off the front of a payload.
pub fn take<'a>(payload: &mut &'a [u8]) -> Option<Coded<'a>> {
    let (prefix, rest) = payload.split_first_chunk::<PREFIX>()?;
    let len = u32::from_le_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    let (data, rest) = rest.split_at_checked(len as usize)?;
    *payload = rest;
    Some(Coded { coder: Coder::from_code(prefix[0])?, data })
}

impl Coded<'_> {
    /// Decodes a plane of `out.len()` values below 2^`bits`. `None` where it is damaged.
    pub fn decode(
        &self,
        level: Level,
        bits: u8,
        scratch: &mut CoderScratch,
        out: &mut [u8],
    ) -> Option<()> {
        let good = match self.coder {
            Coder::Constant => {
                let [value] = *self.data else { return None };
                out.fill(value);
                u32::from(value) >> bits == 0
            }
            Coder::Packed => {
                let fits = self.data.len() == (out.len() * usize::from(bits)).div_ceil(8);
                fits && unpack(level, bits, self.data, out)
            }
            Coder::Rans => return decode_rans(level, self.data, bits, out),
            Coder::Cascade | Coder::Shifted => {
                let mut room = std::mem::take(&mut scratch.cascade);
                let decoder = CascadeDecoder::new(level, *self, out.len(), scratch, &mut room);
                let good = decoder.is_some_and(|mut d| d.decode(out)) && below(out, bits);
                scratch.cascade = room;
                good
            }
            Coder::Contexts => false,
        };
        good.then_some(())
    }
}

/// Decodes the data of a rANS plane.
fn decode_rans(level: Level, data: &[u8], bits: u8, out: &mut [u8]) -> Option<()> {
    let (&lanes, data) = data.split_first()?;
    let (table, used) = frequency::read(data)?;
    fits(&table, bits).then_some(())?;
    let mut decoder =
        rans::Decoder::new(rans::Lanes::from_log2(lanes)?, out.len(), data.get(used..)?)?;
    let table = rans::DecodeTable::new(&table);
    // The last symbols stand in the states: no table bounds them.
    let good = decoder.decode(level, &table, out) && decoder.finish() && below(out, bits);
    good.then_some(())
}

/// Appends frequency tables, one after another.
pub fn write_tables(tables: &[Table], out: &mut Vec<u8>) {
    for table in tables {
        frequency::write(table, out);
    }
}

/// Takes `n` frequency tables off the front of `data`.
pub fn read_tables(n: usize, data: &mut &[u8]) -> Option<Vec<Table>> {
    let mut tables = Vec::with_capacity(n);
    for _ in 0..n {
        let (table, used) = frequency::read(data)?;
        *data = data.get(used..)?;
        tables.push(table);
    }
    Some(tables)
}

/// Whether a table's symbols are below 2^`bits`.
pub fn fits(table: &Table, bits: u8) -> bool {
    table.freq().iter().skip(1 << bits).all(|&f| f == 0)
}

/// Whether values are below 2^`bits`.
pub fn below(values: &[u8], bits: u8) -> bool {
    bits >= 8 || values.iter().fold(0, |all, v| all | v) >> bits == 0
}
