//! The requests of one coder: words to the device, a dispatch, planes back.

use super::Shared;
use crate::{
    codec::{Delta, Transforms},
    error::{Error, Result},
    gpu::{
        Buffer, Device, Encoder, Pass, Plan, Planes, Recorder, Symbols, Tensor, Transform,
        buffer::Mapped, codec::split_params,
    },
    shader::{DeltaParams, GroupParams},
    transform::split::{PlanesMut, Split},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Bytes of a chunk below which the way to the device is not worth it.
const LEAST_LEN: usize = 16 << 10;
/// Bytes of a chunk above which buffers would be large.
const MOST_LEN: usize = 8 << 20;
/// Bytes that are read back beside the planes: count of escapes, then two readings of the clock.
const TRAILER: u64 = 32;
const CLOCK_AT: u64 = 16;

/// Transforms of one coder on a device that it shares with others.
pub(super) struct Requests {
    shared: Arc<Shared>,
    at_work: bool,
    buffers: Option<Buffers>,
    encoder: Option<(usize, Encoder)>,
}

/// Buffers for chunks of up to `len` bytes and planes of up to `planes_len`.
struct Buffers {
    len: u64,
    planes_len: u64,
    uniforms: Buffer,
    words: Buffer,
    base: Buffer,
    planes: Buffer,
    n_escapes: Buffer,
    staging: Buffer,
    clock: Option<(wgpu::QuerySet, Buffer)>,
}

impl Requests {
    pub fn new(shared: Arc<Shared>) -> Requests {
        Requests { shared, at_work: false, buffers: None, encoder: None }
    }

    /// Whether a chunk of `len` bytes is worth a request.
    fn takes(&self, len: usize) -> bool {
        (LEAST_LEN..=MOST_LEN).contains(&len) && self.shared.is_usable()
    }

    /// The answer of `f`, or none where it failed.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        let begun = Instant::now();
        self.shared.change(0, 1);
        let answer = f(self);
        self.shared.change(0, -1);
        let waited = begun.elapsed();
        match answer {
            Ok(answer) => {
                self.shared.count(|usage| {
                    usage.done += 1;
                    usage.waited += waited;
                });
                Some(answer)
            }
            Err(error) => {
                // They may be in use still, or mapped.
                (self.buffers, self.encoder) = (None, None);
                self.shared.failed(&error);
                None
            }
        }
    }

    /// Sends words (and a base), records dispatches, waits, and hands over `planes_len` bytes of
    /// planes and the number of escapes.
    fn planes<T>(
        &mut self,
        (words, base): (&[u8], Option<&[u8]>),
        planes_len: u64,
        record: impl FnOnce(&Buffers, &mut Pass<'_>) -> Result<()>,
        read: impl FnOnce(&[u8], usize) -> T,
    ) -> Result<T> {
        let device = &self.shared.device;
        let (len, planes_len) = (words.len() as u64, planes_len.next_multiple_of(4));
        let fits = |b: &Buffers| b.len >= len && b.planes_len >= planes_len;
        if !self.buffers.as_ref().is_some_and(fits) {
            self.buffers = None;
            self.buffers = Some(Buffers::new(device, len, planes_len)?);
        }
        let Some(buffers) = &self.buffers else { return Err(Error::Device("no buffers".into())) };
        let mut recorder = Recorder::new(device, &buffers.uniforms);
        recorder.write(&buffers.words, 0, words)?;
        if let Some(base) = base {
            recorder.write(&buffers.base, 0, base)?;
        }
        recorder.encoder().clear_buffer(&buffers.n_escapes, 0, None);
        record(buffers, &mut recorder.pass(buffers.clock.as_ref().map(|(set, _)| set)))?;
        let encoder = recorder.encoder();
        encoder.copy_buffer_to_buffer(&buffers.n_escapes, 0, &buffers.staging, 0, 4);
        if let Some((set, times)) = &buffers.clock {
            encoder.resolve_query_set(set, 0..2, times, 0);
            encoder.copy_buffer_to_buffer(times, 0, &buffers.staging, CLOCK_AT, 16);
        }
        encoder.copy_buffer_to_buffer(&buffers.planes, 0, &buffers.staging, TRAILER, planes_len);
        let received = TRAILER + planes_len;
        let mapped = Mapped::on_submit(recorder, &buffers.staging, received)?;
        let (value, ticks) = mapped.read(device, |bytes| {
            let (trailer, planes) = bytes.split_at(TRAILER as usize);
            let escapes = trailer.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            let tick = |at: usize| {
                let bytes = trailer.get(at..).and_then(|b| b.first_chunk());
                bytes.map_or(0, |b| u64::from_le_bytes(*b))
            };
            let ticks = tick(CLOCK_AT as usize + 8).saturating_sub(tick(CLOCK_AT as usize));
            (read(planes, escapes as usize), ticks)
        })?;
        let sent = len + base.map_or(0, |base| base.len() as u64);
        let period = device.timestamp_period().unwrap_or(0.0);
        self.shared.count(|usage| {
            usage.sent += sent;
            usage.received += received;
            if let Some(time) = &mut usage.transform {
                *time += Duration::from_nanos((ticks as f64 * period) as u64);
            }
        });
        Ok(value)
    }

    fn cascade(
        &mut self,
        words: &[u8],
        rest: &mut [u8],
        cascade: &mut [u8],
    ) -> Result<Option<usize>> {
        let device = &self.shared.device;
        let chunk_words = (words.len() / 2).next_power_of_two();
        if self.encoder.as_ref().is_none_or(|(n, _)| *n != chunk_words) {
            self.encoder = None;
            let fields = Split { word_bits: 16, rest_bits: 8, base: 1, sign: None };
            let transform = Transform::Cascade { fields, sampled: true };
            let plan = Plan::new(2).with_transform(transform).with_chunk_words(chunk_words);
            self.encoder = Some((chunk_words, Encoder::with_depth(device, plan, 1)?));
        }
        let Some((_, encoder)) = &mut self.encoder else {
            return Err(Error::Device("no encoder".into()));
        };
        let mut found = None;
        let stats = encoder.encode(Tensor::Host(words), None, |chunk| {
            // Anything else did not shrink, and would not fit.
            if let Planes::Split { symbols: Symbols::Cascade(parts), rest_lo, .. } = chunk.planes {
                rest.copy_from_slice(rest_lo);
                found = concat(&parts, cascade);
            }
            Ok(())
        })?;
        self.shared.count(|usage| {
            usage.sent += stats.bytes;
            usage.received += stats.transferred;
            if let (Some(time), Some(took)) = (&mut usage.transform, stats.transform) {
                *time += took;
            }
        });
        Ok(found)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.at_work(false);
    }
}

/// Lays parts end to end; how long they are, or none where they do not fit.
fn concat(parts: &[impl AsRef<[u8]>], out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    for part in parts.iter().map(AsRef::as_ref) {
        out.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    Some(at)
}

impl Buffers {
    fn new(device: &Device, len: u64, planes_len: u64) -> Result<Buffers> {
        // Chunks differ in length by less than a half mostly.
        let (len, planes_len) = (len.next_power_of_two(), planes_len.next_power_of_two());
        let clock = || -> Result<_> {
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            Ok((device.query_set()?, device.create_buffer("times", 16, usage)?))
        };
        Ok(Buffers {
            len,
            planes_len,
            uniforms: Recorder::uniforms(device)?,
            words: device.storage("words", len)?,
            base: device.storage("words of the base", len)?,
            planes: device.storage("planes", planes_len)?,
            n_escapes: device.storage("escapes", 16)?,
            staging: device.staging("planes on the host", TRAILER + planes_len)?,
            clock: device.timestamp_period().map(|_| clock()).transpose()?,
        })
    }
}

impl Transforms for Requests {
    fn at_work(&mut self, at_work: bool) {
        let change = isize::from(at_work) - isize::from(self.at_work);
        self.shared.change(change, 0);
        self.at_work = at_work;
    }

    fn split(&mut self, fields: &Split, words: &[u8], planes: PlanesMut<'_>) -> Option<usize> {
        let n = words.len() / fields.word_len();
        if !self.takes(words.len()) || !fields.is_valid() || words.len() != n * fields.word_len() {
            return None;
        }
        let stride = n.next_multiple_of(4);
        let rest_bits = fields.stored_rest_bits();
        let mut outs: Vec<&mut [u8]> = vec![planes.symbols];
        if rest_bits > 0 {
            outs.push(planes.rest_lo);
        }
        if rest_bits > 8 {
            outs.push(planes.rest_hi);
        }
        outs.extend(planes.tails.iter_mut().map(|tail| &mut tail[..]));
        let planes_len = (outs.len() * stride) as u64;
        let params = split_params(fields, n as u64, stride as u64);
        self.attempt(|this| {
            this.planes(
                (words, None),
                planes_len,
                |b, pass| {
                    let buffers = [&b.words, &b.planes, &b.n_escapes];
                    pass.dispatch("split", &params, n.div_ceil(4) as u64, &buffers)
                },
                |planes, escapes| {
                    for (out, plane) in outs.iter_mut().zip(planes.chunks(stride)) {
                        out.copy_from_slice(&plane[..n]);
                    }
                    escapes
                },
            )
        })
    }

    fn group(&mut self, words: &[u8], planes: &mut [&mut [u8]]) -> bool {
        let word_len = planes.len();
        let n = words.len() / word_len.max(1);
        if !self.takes(words.len()) || !matches!(word_len, 2 | 4 | 8) || words.len() != n * word_len
        {
            return false;
        }
        let stride = n.next_multiple_of(4);
        let params = GroupParams {
            n_words: n as u32,
            word_len: word_len as u32,
            stride: (stride / 4) as u32,
        };
        let done = self.attempt(|this| {
            this.planes(
                (words, None),
                (word_len * stride) as u64,
                |b, pass| {
                    let buffers = [&b.words, &b.planes];
                    pass.dispatch("split", &params, n.div_ceil(4) as u64, &buffers)
                },
                |got, _| {
                    for (out, plane) in planes.iter_mut().zip(got.chunks(stride)) {
                        out.copy_from_slice(&plane[..n]);
                    }
                },
            )
        });
        done.is_some()
    }

    fn delta(
        &mut self,
        kind: Delta,
        word_len: usize,
        words: &[u8],
        base: &[u8],
        out: &mut [u8],
    ) -> bool {
        let len = words.len();
        if !self.takes(len) || base.len() != len || out.len() != len {
            return false;
        }
        let params = DeltaParams { n_bytes: len as u32, word_bits: 8 * word_len as u32 };
        let entry = match kind {
            Delta::Xor => "xor",
            Delta::Diff => "diff",
        };
        let done = self.attempt(|this| {
            this.planes(
                (words, Some(base)),
                len.next_multiple_of(8) as u64,
                |b, pass| {
                    let buffers = [&b.words, &b.base, &b.planes];
                    pass.dispatch(entry, &params, len.div_ceil(8) as u64, &buffers)
                },
                |got, _| out.copy_from_slice(&got[..len]),
            )
        });
        done.is_some()
    }

    fn cascade_bf16(
        &mut self,
        words: &[u8],
        rest: &mut [u8],
        cascade: &mut [u8],
    ) -> Option<Option<usize>> {
        if !self.takes(words.len()) || words.len() != 2 * rest.len() {
            return None;
        }
        self.attempt(|this| this.cascade(words, rest, cascade))
    }
}
