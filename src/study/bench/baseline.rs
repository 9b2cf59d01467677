//! The field: general compressors through well-kept crates, plain and byte-grouped.
//!
//! A name with `bg-` in front codes the same bytes grouped by significance first, all groups in
//! one buffer, which is what the studies call BG-.

use std::io::{Read, Write};

use super::Codec;
use crate::{
    dtype::Dtype,
    error::{Error, Result},
    simd::Level,
    study::codec,
    transform::group,
};

/// A general compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Level, and whether its window is 128 MiB with long-distance matching.
    Zstd(i32, bool),
    Lz4,
    Gzip,
    Deflate,
    Bzip2,
    Xz,
}

const KINDS: [(&str, Kind); 9] = [
    ("zstd-1", Kind::Zstd(1, false)),
    ("zstd-3", Kind::Zstd(3, false)),
    ("zstd-19", Kind::Zstd(19, false)),
    ("zstd-long", Kind::Zstd(3, true)),
    ("lz4", Kind::Lz4),
    ("gzip", Kind::Gzip),
    ("deflate", Kind::Deflate),
    ("bzip2", Kind::Bzip2),
    ("xz-6", Kind::Xz),
];

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<String> {
    let of = |prefix: &'static str| KINDS.iter().map(move |(name, _)| format!("{prefix}{name}"));
    of("").chain(of("bg-")).collect()
}

/// The baseline of this name. zstd uses `threads` of them; the others know only one.
pub fn by_name(name: &str, threads: usize) -> Option<Box<dyn Codec>> {
    let (grouped, plain) = match name.strip_prefix("bg-") {
        Some(plain) => (true, plain),
        None => (false, name),
    };
    let (_, kind) = KINDS.into_iter().find(|(n, _)| *n == plain)?;
    let threads = if matches!(kind, Kind::Zstd(..)) { threads.max(1) } else { 1 };
    let shown = if threads > 1 { format!("{name}-t{threads}") } else { name.into() };
    Some(Box::new(Baseline { name: shown, kind, grouped, threads, groups: Vec::new() }))
}

struct Baseline {
    name: String,
    kind: Kind,
    grouped: bool,
    threads: usize,
    groups: Vec<u8>,
}

impl Codec for Baseline {
    fn name(&self) -> &str {
        &self.name
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let width = codec::group_len(dtype);
        if !self.grouped || width == 1 {
            return self.kind.encode(input, self.threads, out);
        }
        self.groups.resize(input.len(), 0);
        let (words, tail) = input.split_at(input.len() - input.len() % width);
        let (grouped, rest) = self.groups.split_at_mut(words.len());
        rest.copy_from_slice(tail);
        if !words.is_empty() {
            let mut slices: Vec<&mut [u8]> = grouped.chunks_mut(words.len() / width).collect();
            group::split(Level::best(), words, &mut slices);
        }
        self.kind.encode(&self.groups, self.threads, out)
    }

    fn decode(&mut self, dtype: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let width = codec::group_len(dtype);
        if !self.grouped || width == 1 {
            return self.kind.decode(coded, out);
        }
        self.groups.resize(out.len(), 0);
        self.kind.decode(coded, &mut self.groups)?;
        let n = out.len() - out.len() % width;
        let (words, tail) = out.split_at_mut(n);
        tail.copy_from_slice(&self.groups[n..]);
        if n > 0 {
            let slices: Vec<&[u8]> = self.groups[..n].chunks(n / width).collect();
            group::join(Level::best(), &slices, words);
        }
        Ok(())
    }
}

impl Kind {
    fn encode(self, input: &[u8], threads: usize, out: &mut Vec<u8>) -> Result<()> {
        let wrote = match self {
            Kind::Zstd(level, long) => zstd_encode(input, level, long, threads, out),
            Kind::Lz4 => {
                let start = out.len();
                out.resize(start + lz4_flex::block::get_maximum_output_size(input.len()), 0);
                let len = lz4_flex::block::compress_into(input, &mut out[start..])
                    .map_err(std::io::Error::other)?;
                out.truncate(start + len);
                Ok(())
            }
            Kind::Gzip => {
                let mut to = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                to.write_all(input).and_then(|()| to.finish().map(|_| ()))
            }
            Kind::Deflate => {
                let mut to =
                    flate2::write::DeflateEncoder::new(out, flate2::Compression::default());
                to.write_all(input).and_then(|()| to.finish().map(|_| ()))
            }
            Kind::Bzip2 => {
                let mut to = bzip2::write::BzEncoder::new(out, bzip2::Compression::best());
                to.write_all(input).and_then(|()| to.finish().map(|_| ()))
            }
            Kind::Xz => {
                let mut to = xz2::write::XzEncoder::new(out, codec::XZ_PRESET);
                to.write_all(input).and_then(|()| to.finish().map(|_| ()))
            }
        };
        wrote.map_err(Error::from)
    }

    fn decode(self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let read = match self {
            Kind::Zstd(..) => zstd::Decoder::new(coded).and_then(|mut from| {
                from.window_log_max(27)?;
                exactly(from, out)
            }),
            Kind::Lz4 => match lz4_flex::block::decompress_into(coded, out) {
                Ok(n) if n == out.len() => Ok(()),
                Ok(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(e) => Err(std::io::Error::other(e)),
            },
            Kind::Gzip => exactly(flate2::read::GzDecoder::new(coded), out),
            Kind::Deflate => exactly(flate2::read::DeflateDecoder::new(coded), out),
            Kind::Bzip2 => exactly(bzip2::read::BzDecoder::new(coded), out),
            Kind::Xz => exactly(xz2::read::XzDecoder::new(coded), out),
        };
        read.map_err(Error::from)
    }
}

fn zstd_encode(
    input: &[u8],
    level: i32,
    long: bool,
    threads: usize,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut to = zstd::Encoder::new(out, level)?;
    to.set_pledged_src_size(Some(input.len() as u64))?;
    if long {
        to.long_distance_matching(true)?;
        to.window_log(27)?;
    }
    if threads > 1 {
        to.multithread(threads as u32)?;
    }
    to.write_all(input)?;
    to.finish().map(|_| ())
}

fn exactly(mut from: impl Read, out: &mut [u8]) -> std::io::Result<()> {
    from.read_exact(out)?;
    match from.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(std::io::Error::other("decodes to more than was coded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_baseline_round_trips_every_length() {
        for name in names() {
            for threads in [1, 2] {
                let mut codec = by_name(&name, threads).unwrap();
                for dtype in [Dtype::BF16, Dtype::F32, Dtype::U8, Dtype::F64] {
                    for n in [0, 1, 7, 8, 1001, 70_000] {
                        let input: Vec<u8> = (0..n).map(|i| (i * i / 7) as u8).collect();
                        let mut coded = Vec::new();
                        codec.encode(dtype, &input, &mut coded).unwrap();
                        let mut back = vec![1; n];
                        codec.decode(dtype, &coded, &mut back).unwrap();
                        assert!(back == input, "{name} {dtype} n={n}");
                    }
                }
            }
        }
    }
}
