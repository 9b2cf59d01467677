//! Payloads that decode to something else, under digests that say what they decode to now: nothing
//! in such an archive is wrong, and what it restores is known beforehand.

use crate::{
    anatomy::{Anatomy, BASE, CHUNK, COPY, MANIFEST, digest, read_varint, varint},
    case::Draw,
    common::Rng,
    edit::{Fields, scramble},
    forge::{Claim, Forged, damage},
    subject::Subject,
};
use lmc_gpu::{
    dtype::Dtype,
    internals::{
        codec::{self, ChunkSpec, Form, Payload, Scratch},
        simd::Level,
    },
};
use std::ops::Range;
use twox_hash::{XxHash3_64, XxHash3_128};

/// A payload edited, its own checks right, and the digests of chunk, copies and files those of what
/// it decodes to.
pub fn recoded(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let chunks: Vec<usize> = (0..a.records.len()).filter(|i| a.records[*i].kind == CHUNK).collect();
    if chunks.is_empty() {
        return damage(subject, rng);
    }
    let at = *rng.pick(&chunks);
    let mut fields = Fields::read(&a.records[at].meta);
    let mut payload = a.records[at].payload.clone();
    if chunks.len() > 1 && rng.one_in(8) {
        let other = *rng.pick(&chunks);
        fields.form = a.records[other].meta[2];
        payload = a.records[other].payload.clone();
    }
    edit(&mut payload, rng);
    let decoded = decode(subject, &fields, &payload);
    a.records[at].payload = payload;
    let mut restores = subject.original.clone();
    let how = match decoded {
        Some(bytes) => {
            fields.digest = digest(&bytes);
            put(&mut restores, &fields, &bytes);
            let first = offsets(&fields.pieces)[0].start;
            for record in a.records.iter_mut().filter(|r| r.kind == COPY) {
                let mut copy = Fields::read(&record.meta);
                if copy.copy_of == first as u64 {
                    copy.digest = fields.digest;
                    put(&mut restores, &copy, &bytes);
                    record.meta = copy.bytes();
                }
            }
            "payload and digests"
        }
        None => "payload that does not decode",
    };
    a.records[at].meta = fields.bytes();
    a.relist();
    redigest(&mut a, &restores);
    Forged {
        how,
        bytes: a.bytes(),
        claim: Claim::Everything,
        limited: true,
        restores: Some(restores),
    }
}

/// Edits a payload, and sets right the check of what is edited, where it has one.
fn edit(payload: &mut Vec<u8>, rng: &mut Rng) {
    let guarded = guards(payload);
    if guarded.is_empty() || rng.one_in(8) {
        return scramble(payload, rng);
    }
    let stretch = rng.pick(&guarded).clone();
    if stretch.end == payload.len() && stretch.start == 4 && rng.one_in(2) {
        let mut rest = payload.split_off(4);
        scramble(&mut rest, rng);
        payload.extend(rest);
        let check = check(&payload[4..]);
        payload[..4].copy_from_slice(&check);
        return;
    }
    for _ in 0..1 + rng.below(3) {
        let at = stretch.start + rng.below(stretch.len());
        payload[at] ^= 1 << rng.below(8);
    }
    let check = check(&payload[stretch.clone()]);
    payload[stretch.start - 4..stretch.start].copy_from_slice(&check);
}

/// Stretches of a payload whose check stands before them: all of it, the data of a plane, or the
/// head of that.
fn guards(payload: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut look = |start: usize, end: usize| {
        let is = start < end && end <= payload.len() && {
            payload[start - 4..start] == check(&payload[start..end])
        };
        if is {
            found.push(start..end);
        }
    };
    look(4, payload.len());
    for at in 0..payload.len().saturating_sub(9) {
        if matches!(payload[at], 3 | 4) {
            let len = u32::from_le_bytes(*payload[at + 1..].first_chunk().unwrap()) as usize;
            let start = at + 9;
            look(start, (at + 5).saturating_add(len));
            if payload[at] == 3 && len < payload.len() {
                (1..len.min(64)).for_each(|n| look(start, start + n));
            }
        }
    }
    found
}

fn check(bytes: &[u8]) -> [u8; 4] {
    (XxHash3_64::oneshot(bytes) as u32).to_le_bytes()
}

/// Pieces as they lie in their address space.
fn offsets(pieces: &[[u64; 2]]) -> Vec<Range<usize>> {
    let mut at = 0;
    let range = |&[gap, len]: &[u64; 2]| {
        let start = at + gap as usize;
        at = start + len as usize;
        start..at
    };
    pieces.iter().map(range).collect()
}

fn gather(space: &[u8], pieces: &[[u64; 2]]) -> Vec<u8> {
    offsets(pieces).into_iter().flat_map(|range| space[range].iter().copied()).collect()
}

fn put(space: &mut [u8], fields: &Fields, bytes: &[u8]) {
    let mut rest = bytes;
    for range in offsets(&fields.pieces) {
        let (piece, after) = rest.split_at(range.len());
        space[range].copy_from_slice(piece);
        rest = after;
    }
}

/// What a payload decodes to beside what is known of the chunk.
fn decode(subject: &Subject, fields: &Fields, payload: &[u8]) -> Option<Vec<u8>> {
    let dtype = Dtype::from_code(fields.dtype)?;
    let big_endian = fields.flags & 1 != 0;
    let spec = ChunkSpec { dtype, big_endian, row_words: fields.row_words };
    let known: Vec<Vec<u8>> = (fields.references.iter())
        .map(|r| match r.kind & 1 {
            0 => gather(&subject.base_bytes, &r.pieces),
            _ => gather(&subject.original, &r.pieces),
        })
        .collect();
    let known: Vec<&[u8]> = known.iter().map(|k| &k[..]).collect();
    let mut out = vec![0; fields.pieces.iter().map(|p| p[1] as usize).sum()];
    let (level, scratch) = (Level::best(), &mut Scratch::default());
    let form = Form::from_code(fields.form)?;
    let payload = Payload { spec, form, bytes: payload, known: &known };
    let done = codec::decode(level, &payload, scratch, &mut out);
    done.is_ok().then_some(out)
}

/// Writes the digests of all files into the index, for chunks as their metadata cuts them.
pub fn redigest(a: &mut Anatomy, restores: &[u8]) {
    let mut leaves: Vec<Range<usize>> = Vec::new();
    let is_table = |kind: u8| matches!(kind, MANIFEST | BASE);
    for record in a.records.iter().filter(|r| !is_table(r.kind)) {
        leaves.extend(offsets(&Fields::read(&record.meta).pieces));
    }
    leaves.sort_by_key(|leaf| leaf.start);
    let mut tail = &a.tail[..];
    let n = read_varint(&mut tail);
    let mut out = varint(n);
    let mut start = 0;
    for _ in 0..n {
        let len = read_varint(&mut tail);
        out.extend(varint(len));
        if len == 0 {
            continue;
        }
        tail = &tail[16..];
        let end = start + len as usize;
        let inside = leaves.iter().map(|l| l.start.max(start)..l.end.min(end));
        let digests: Vec<u8> = (inside.filter(|l| !l.is_empty()))
            .flat_map(|leaf| digest(&restores[leaf]).to_le_bytes())
            .collect();
        out.extend(XxHash3_128::oneshot(&digests).to_le_bytes());
        start = end;
    }
    a.tail = out;
}
