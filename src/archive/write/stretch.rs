//! What is looked at of a tensor to find out what an optimizer did: words in the middle of a large one,
//! the first of small ones, in the input and in the base.

use super::{bundle::Bundle, plan::Large};
use crate::{
    Result,
    archive::access::{
        Input,
        base::Base,
        relation::{Link, ROLES},
    },
    container::Piece,
    dtype::Dtype,
};

/// Words of the stretch.
const SAMPLE: u64 = 16 << 10;

/// Where words of a member are that are looked at, in the base and in the input.
pub(super) struct Places {
    pub base: Vec<Piece>,
    pub new: Vec<Piece>,
    pub big_endian: bool,
}

impl Places {
    /// The middle of a large span; `None` where the base does not have it.
    pub fn of_large(l: &Large) -> Option<Places> {
        Places::middle(l, SAMPLE)
    }

    /// So many words in the middle of a large span.
    pub fn middle(l: &Large, most: u64) -> Option<Places> {
        let Link { offset, len, dtype } = l.link?;
        if dtype != l.span.dtype || len != l.span.len {
            return None;
        }
        let word = dtype.word_len() as u64;
        let n = (len / word).min(most);
        let at = word * ((len / word - n) / 2);
        let piece = |offset: u64| vec![Piece { offset: offset + at, len: word * n }];
        let (base, new) = (piece(offset), piece(l.span.offset));
        Some(Places { base, new, big_endian: l.span.big_endian })
    }

    /// The first words of every role.
    pub fn of_bundle(bundle: &Bundle) -> [Option<Places>; ROLES] {
        let first = |pieces: &[Piece]| {
            let mut left = 4 * SAMPLE;
            let mut taken = Vec::new();
            for piece in pieces {
                let len = piece.len.min(left);
                left -= len;
                taken.extend((len > 0).then_some(Piece { len, ..*piece }));
            }
            taken
        };
        bundle.members.each_ref().map(|member| {
            let member = member.as_ref().filter(|m| m.span.dtype == Dtype::F32)?;
            let big_endian = member.span.big_endian;
            Some(Places { base: first(&member.base), new: first(&member.pieces), big_endian })
        })
    }
}

/// The same stretch of a parameter's member in the base and in the input.
#[derive(Default)]
pub(super) struct Stretch {
    pub base: Vec<u8>,
    pub new: Vec<u8>,
}

impl Stretch {
    /// Reads it, words of four bytes with the lowest first.
    pub fn read(
        input: &Input<'_>,
        base: &Base,
        places: Option<&Places>,
    ) -> Result<Option<Stretch>> {
        let Some(Places { base: of_base, new, big_endian }) = places else { return Ok(None) };
        let len = new.iter().map(|p| p.len).sum::<u64>() as usize;
        let mut stretch = Stretch { base: vec![0; len], new: vec![0; len] };
        base.read(of_base, &mut stretch.base)?;
        input.read(new, &mut stretch.new)?;
        if *big_endian {
            stretch.base.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            stretch.new.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        Ok(Some(stretch))
    }
}
