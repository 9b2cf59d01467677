//! Tensors that stay in device memory and are read from there: the caller's own, or copies.
//!
//! ```text
//! caller's buffers   [ … a … ]  [ … b ][ … ]
//! copies             [ a | b ]  [ b' | … ]    segments of up to 64 MiB, one submission for all
//! host               bytes of any range, as they are asked for
//! ```
//!
//! A copy is whole words of what surrounds a tensor, laid end to end; where a tensor crosses from
//! one segment to the next it is in two pieces.

use super::{Buffer, Decoder, Device, Plan, Planes, Recorder, Region, buffer::Mapped};
use crate::{
    error::{Error, Result},
    source::Source,
};
use std::io;

/// Bytes of a segment: below every device's limit on buffers.
const SEGMENT_LEN: u64 = 64 << 20;
/// Bytes that are read back at a time, where there is memory for so many, and the least.
const READ_LEN: u64 = 8 << 20;
const LEAST_READ_LEN: u64 = 64 << 10;

/// A tensor in device memory. Clones share the memory.
#[derive(Clone, Debug)]
pub struct Resident {
    device: Device,
    pieces: Vec<Piece>,
    len: u64,
}

/// A stretch of a tensor: `len` bytes from `offset` of `buffer` on.
#[derive(Clone, Debug)]
struct Piece {
    buffer: Buffer,
    offset: u64,
    len: u64,
}

impl Piece {
    fn region(&self) -> Result<Region<'_>> {
        Region::new(&self.buffer, self.offset, self.len)
    }
}

impl Resident {
    /// The bytes `offset..offset + len` of a buffer of the caller's, at any alignment.
    ///
    /// # Errors
    /// As [`Region::new`], and [`Error::InvalidArgument`] where the buffer was made without
    /// `COPY_SRC`.
    pub fn new(device: &Device, buffer: &wgpu::Buffer, offset: u64, len: u64) -> Result<Resident> {
        Region::new(buffer, offset, len)?.require(wgpu::BufferUsages::COPY_SRC, "COPY_SRC")?;
        let piece = Piece { buffer: buffer.clone().into(), offset, len };
        Ok(Resident { device: device.clone(), pieces: vec![piece], len })
    }

    /// The device that has it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies tensors of one device within it. When this returns, the copy is submitted: what is
    /// submitted to the queue later may overwrite the originals.
    ///
    /// # Errors
    /// [`Error::Device`] where the device is lost or has no memory for the copies; nothing is
    /// then kept.
    pub fn copies(tensors: &[&Resident]) -> Result<Vec<Resident>> {
        let Some(first) = tensors.first() else { return Ok(Vec::new()) };
        let device = &first.device;
        let (moves, segment_lens) = lay_out(tensors)?;
        let segments: Vec<Buffer> = segment_lens
            .iter()
            .map(|&len| device.storage("copies of tensors", len))
            .collect::<Result<_>>()?;
        let mut recorder = Recorder::for_copies(device);
        let mut copies: Vec<Resident> = tensors
            .iter()
            .map(|t| Resident { device: device.clone(), pieces: Vec::new(), len: t.len })
            .collect();
        for Move { tensor, from, segment, at } in moves {
            let region = from.region()?;
            region.copy_to(recorder.encoder(), &segments[segment], at);
            let (buffer, offset) = (segments[segment].clone(), at + region.shift());
            copies[tensor].pieces.push(Piece { buffer, offset, len: from.len });
        }
        recorder.submit()?;
        Ok(copies)
    }

    /// Overwrites the tensor with `bytes`, which are as many, leaving its neighbours as they are.
    /// The buffer needs the usage `COPY_DST`. Whatever is submitted to the queue later sees them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where lengths or usages do not fit; [`Error::Device`].
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != self.len {
            return Err(Error::InvalidArgument(
                format!("{} bytes do not fill a tensor of {}", bytes.len(), self.len).into(),
            ));
        }
        let mut plan = Plan::new(1).with_chunk_words(1 << 20);
        let mut decoder = Decoder::new(&self.device, plan);
        if decoder.is_err() {
            // Where memory is short.
            plan = plan.with_chunk_words(1 << 14);
            decoder = Decoder::new(&self.device, plan);
        }
        let mut decoder = decoder?;
        let mut rest = bytes;
        for piece in &self.pieces {
            let region = piece.region()?;
            let (of_piece, others) = rest.split_at(piece.len as usize);
            rest = others;
            for (start, len) in plan.chunks(piece.len)? {
                let words = &of_piece[start as usize..][..len as usize];
                decoder.put(&region, None, start, &Planes::Words(words))?;
            }
        }
        decoder.finish()
    }

    /// A buffer for reading back up to `len` bytes at a time, and how many of them it takes.
    fn staging(&self, len: u64) -> Result<(Buffer, u64)> {
        let mut step = len.min(READ_LEN);
        loop {
            // Seven bytes may be copied beside those of each piece.
            match self.device.take_staging(step + 8 * self.pieces.len() as u64) {
                Ok(staging) => return Ok((staging, step)),
                Err(_) if step > LEAST_READ_LEN && self.device.check().is_ok() => step /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    /// Fills `out` with the bytes from `offset` on, which must all be there and fit `staging`.
    fn read(&self, offset: u64, out: &mut [u8], staging: &Buffer) -> Result<()> {
        let mut reads = Vec::new();
        let mut start = 0;
        let end = offset + out.len() as u64;
        for piece in &self.pieces {
            let (from, to) = (offset.max(start), end.min(start + piece.len));
            if from < to {
                reads.push((piece.region()?.part(from - start, to - from), from - offset));
            }
            start += piece.len;
        }
        let lens: Vec<u64> = reads.iter().map(|(region, _)| region.cover_len()).collect();
        let mut recorder = Recorder::for_copies(&self.device);
        let mut at = 0;
        for ((region, _), len) in reads.iter().zip(&lens) {
            region.copy_to(recorder.encoder(), staging, at);
            at += len;
        }
        Mapped::on_submit(recorder, staging, at)?.read(&self.device, |bytes| {
            let mut at = 0;
            for ((region, to), len) in reads.iter().zip(&lens) {
                let from = (at + region.shift()) as usize;
                let n = region.len() as usize;
                out[*to as usize..][..n].copy_from_slice(&bytes[from..][..n]);
                at += len;
            }
        })
    }
}

/// A piece of a tensor on its way to byte `at` of a segment.
struct Move {
    tensor: usize,
    from: Piece,
    segment: usize,
    at: u64,
}

/// Where the pieces of all tensors go, and the lengths of the segments.
fn lay_out(tensors: &[&Resident]) -> Result<(Vec<Move>, Vec<u64>)> {
    let mut moves = Vec::new();
    let mut segments = vec![0];
    for (tensor, resident) in tensors.iter().enumerate() {
        for piece in &resident.pieces {
            let mut start = 0;
            while start < piece.len {
                let mut segment = segments.len() - 1;
                let mut room = SEGMENT_LEN - segments[segment];
                // Seven bytes may be copied beside those that are wanted.
                if room <= 8 {
                    segments.push(0);
                    (segment, room) = (segment + 1, SEGMENT_LEN);
                }
                let len = (piece.len - start).min(room - 8);
                let offset = piece.offset + start;
                let from = Piece { buffer: piece.buffer.clone(), offset, len };
                let cover_len = from.region()?.cover_len();
                moves.push(Move { tensor, from, segment, at: segments[segment] });
                segments[segment] += cover_len;
                start += len;
            }
        }
    }
    Ok((moves, segments))
}

impl Source for Resident {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if buf.is_empty() {
            return Ok(());
        }
        let (staging, step) = self.staging(buf.len() as u64).map_err(io::Error::other)?;
        for (i, part) in buf.chunks_mut(step as usize).enumerate() {
            self.read(offset + i as u64 * step, part, &staging).map_err(io::Error::other)?;
        }
        self.device.return_staging(staging);
        Ok(())
    }
}
