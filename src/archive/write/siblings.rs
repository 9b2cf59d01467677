//! Groups of the tensors of one parameter, and how each helps to predict the next.
//!
//! ```text
//! order      v, m, w, model                     m in the contexts of v, model the rounding of w
//! with one   m, v, w, model    m from its base and the gradient, v from the base's v and m and the
//! step more                    new m, w from its base and the new m and v
//! ```
//!
//! Averaged copies come last: one from its base and the weights, or near them. Where there is no
//! second moment, a first one is told by the base's first moment how large its gradient is.
//!
//! Whether a step of the optimizer leads from the base to the checkpoint is found out from a
//! stretch in the middle of the parameter, once for each.

use super::{
    chunk::ChunkPlan,
    derivation::{self, Derived, From},
    plan::{BASE, Large, add_base, base_piece},
};
use crate::{
    Result,
    archive::access::{
        Input,
        base::Base,
        relation::{Family, Link, ROLES, Role},
    },
    codec::Predictor,
    container::{Origin, Piece},
    dtype::Dtype,
    predict::{
        adam::{self, Hints, Sample, Second, Weights},
        average,
        gradient::{self, Fold},
    },
    simd::Level,
};

/// Words of the stretch.
const SAMPLE: u64 = 16 << 10;
/// Parameters without short gradients after which no more are searched for scalars.
const MISSES: usize = 4;
/// Scalars of other parameters that are tried first.
const REMEMBERED: usize = 4;

/// The families of an input and what the optimizer did to each.
#[derive(Default)]
pub(in crate::archive) struct Siblings {
    /// Large spans, by role.
    pub families: Vec<Family>,
    /// What follows from members of each family, in the order of storing; may be shorter.
    pub derived: Vec<Vec<Derived>>,
    /// What follows from the base.
    pub from_base: Vec<Derived>,
    steps: Vec<Step>,
}

/// The scalars of a parameter's update.
#[derive(Clone, Copy, Default)]
struct Step {
    fold: Option<Fold>,
    second: Option<Second>,
    weights: Option<Weights>,
    average: Option<Fold>,
}

impl Siblings {
    /// Looks for the optimizer's step in every family.
    pub fn prepare(
        &mut self,
        input: &Input<'_>,
        base: Option<&Base>,
        level: Level,
        hints: &Hints,
        large: &[Large],
    ) -> Result<()> {
        self.steps = vec![Step::default(); self.families.len()];
        let Some(base) = base else { return Ok(()) };
        let mut tried: Vec<Weights> = Vec::new();
        let mut folds: Vec<Fold> = Vec::new();
        let mut averages: Vec<Fold> = Vec::new();
        let mut missed = 0;
        let mut hints = hints.clone();
        for (family, step) in self.families.iter().zip(&mut self.steps) {
            let read = |role: Role| Stretch::read(input, base, large, family[role as usize]);
            let (v, m) = (read(Role::Second)?, read(Role::First)?);
            let w = match family[Role::Average as usize] {
                Some(_) => read(Role::Weights)?,
                None if v.is_some() && m.is_some() => read(Role::Weights)?,
                None => None,
            };
            if let (Some(a), Some(w)) = (read(Role::Average)?, &w) {
                let stretch = average::Stretch { a0: &a.base, a1: &a.new, w1: &w.new };
                step.average = average::find(level, stretch, &averages);
                remember(step.average, &mut averages);
            }
            let Some(m) = m else { continue };
            let stretch = gradient::Stretch { m0: &m.base, m1: &m.new };
            let alone = v.is_none();
            let betas = if missed < MISSES { hints.first_betas(alone) } else { Vec::new() };
            step.fold = gradient::find(level, stretch, &betas, alone, &folds);
            missed += usize::from(step.fold.is_none());
            remember(step.fold, &mut folds);
            let Some(v) = v else { continue };
            let none = Stretch::default();
            let weights = w.as_ref().unwrap_or(&none);
            let sample = Sample {
                w0: &weights.base,
                w1: &weights.new,
                m0: &m.base,
                m1: &m.new,
                v0: &v.base,
                v1: &v.new,
            };
            let Some((second, betas)) = adam::find_second(level, &sample, &hints) else {
                continue;
            };
            step.second = Some(second);
            if !hints.betas.contains(&betas) {
                hints.betas.insert(0, betas);
            }
            if w.is_some() {
                step.weights = adam::find_weights(level, &sample, &hints, betas, &tried);
            }
            remember(step.weights, &mut tried);
        }
        // What was found in later families may do for the first ones.
        for (family, step) in self.families.iter().zip(&mut self.steps) {
            if step.fold.is_none()
                && !folds.is_empty()
                && let Some(m) = Stretch::read(input, base, large, family[Role::First as usize])?
            {
                let stretch = gradient::Stretch { m0: &m.base, m1: &m.new };
                step.fold = gradient::find(level, stretch, &[], false, &folds);
            }
        }
        Ok(())
    }

    /// What follows from the members of a family.
    pub fn derived_of(&self, f: usize) -> &[Derived] {
        self.derived.get(f).map_or(&[], |d| &d[..])
    }

    /// Joins the chunks of a family's members by turns into groups, and says what each may be
    /// predicted from.
    pub fn interleave(
        &self,
        f: usize,
        large: &[Large],
        mut members: [Option<Vec<ChunkPlan>>; ROLES],
        derived: Vec<Vec<ChunkPlan>>,
    ) -> Vec<Vec<ChunkPlan>> {
        let family = &self.families[f];
        let step = self.steps.get(f).copied().unwrap_or_default();
        let (first, next) = match (step.second, step.fold) {
            (Some(_), _) | (_, Some(_)) => (Role::First, Role::Second),
            (None, None) => (Role::Second, Role::First),
        };
        let order = [first, next, Role::Weights, Role::Model, Role::Average];
        let n = members.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let mut groups = Vec::with_capacity(n);
        for k in 0..n {
            let mut group =
                Group { family, large, step, stored: [None; ROLES], bases: [None; ROLES] };
            for role in order {
                let chunk = members[role as usize].as_ref().and_then(|m| m.get(k));
                let large = family[role as usize].map(|i| &large[i]);
                let (Some(chunk), Some(large)) = (chunk, large) else { continue };
                group.bases[role as usize] = base_piece(chunk, large)
                    .filter(|(_, dtype)| *dtype == chunk.dtype)
                    .map(|(piece, _)| piece);
            }
            let mut chunks: Vec<ChunkPlan> = Vec::with_capacity(ROLES);
            for role in order {
                let taken = members[role as usize].as_mut().and_then(|m| m.get_mut(k));
                let Some(chunk) = taken else { continue };
                let mut chunk = chunk.clone();
                chunk.continues_group = !chunks.is_empty();
                group.offer(role, &mut chunk);
                group.stored[role as usize] = chunk.pieces.first().copied();
                chunks.push(chunk);
            }
            for (d, cut) in self.derived_of(f).iter().zip(&derived) {
                let Some(mut chunk) = cut.get(k).cloned() else { continue };
                chunk.continues_group = !chunks.is_empty();
                let From::Large(source) = d.from else { continue };
                let role = family.iter().position(|m| *m == Some(source));
                let other = self.derived_of(f).iter().position(|d| d.large == source);
                let stored = role.and_then(|role| group.stored[role]);
                let other = other.and_then(|i| derived[i].get(k)?.pieces.first().copied());
                derivation::offer(d, &mut chunk, large, stored.or(other));
                chunks.push(chunk);
            }
            groups.push(chunks);
        }
        groups
    }
}

/// Puts scalars that did in front of those that are tried first.
fn remember<T: PartialEq>(found: Option<T>, all: &mut Vec<T>) {
    if let Some(found) = found.filter(|s| !all.contains(s)) {
        all.insert(0, found);
        all.truncate(REMEMBERED);
    }
}

/// One group while it is put together.
struct Group<'g> {
    family: &'g Family,
    large: &'g [Large],
    step: Step,
    /// Pieces of the members so far.
    stored: [Option<Piece>; ROLES],
    /// Pieces of the base for every member.
    bases: [Option<Piece>; ROLES],
}

impl Group<'_> {
    /// Offers a member everything that helps.
    fn offer(&self, role: Role, chunk: &mut ChunkPlan) {
        let base = self.family[role as usize].and_then(|i| add_base(chunk, &self.large[i]));
        let sibling = |chunk: &mut ChunkPlan, role: Role| {
            let piece = self.stored[role as usize]?;
            Some(chunk.know(Origin::Sibling, vec![piece]))
        };
        match role {
            Role::First => {
                if let Some(v) = sibling(chunk, Role::Second) {
                    chunk.offer(Predictor::Moment, &[v]);
                }
                let v0 = self.bases[Role::Second as usize];
                if let (Some(s), Some(m0)) = (self.step.fold, base) {
                    let size = v0.map_or(m0, |v0| chunk.know(BASE, vec![v0]));
                    chunk.offer(Predictor::Gradient(s), &[m0, size]);
                }
            }
            Role::Second => {
                let m0 = self.bases[Role::First as usize];
                let m1 = self.stored[Role::First as usize];
                if let (Some(s), Some(v0), Some(m0), Some(m1)) = (self.step.second, base, m0, m1) {
                    let m0 = chunk.know(BASE, vec![m0]);
                    let m1 = chunk.know(Origin::Sibling, vec![m1]);
                    chunk.offer(Predictor::Second(s), &[v0, m0, m1]);
                }
            }
            Role::Weights => {
                let (m1, v1) =
                    (self.stored[Role::First as usize], self.stored[Role::Second as usize]);
                if let (Some(s), Some(w0), Some(m1), Some(v1)) = (self.step.weights, base, m1, v1) {
                    let m1 = chunk.know(Origin::Sibling, vec![m1]);
                    let v1 = chunk.know(Origin::Sibling, vec![v1]);
                    chunk.offer(Predictor::Weights(s), &[w0, m1, v1]);
                }
            }
            Role::Model => {
                if let Some(w) = sibling(chunk, Role::Weights) {
                    // Where it is the rounding, nothing else is needed; where not, the base is.
                    chunk.offer(Predictor::Narrow, &[w]);
                }
                if let Some(base) = base
                    && let Some(m) = sibling(chunk, Role::First)
                {
                    chunk.offer(Predictor::Signed, &[base, m]);
                }
            }
            Role::Average => {
                let own = self.large[self.family[role as usize].unwrap_or(0)].span.dtype;
                let of = if own == Dtype::F32 { Role::Weights } else { Role::Model };
                let Some(w) = sibling(chunk, of) else { return };
                if let (Some(s), Some(a0)) = (self.step.average, base) {
                    chunk.offer(Predictor::Average(s), &[a0, w]);
                }
                chunk.offer(Predictor::Base, &[w]);
            }
        }
    }
}

/// The same stretch of a parameter's member in the base and in the input.
#[derive(Default)]
struct Stretch {
    base: Vec<u8>,
    new: Vec<u8>,
}

impl Stretch {
    /// Reads it; `None` where the base does not have it.
    fn read(
        input: &Input<'_>,
        base: &Base,
        large: &[Large],
        member: Option<usize>,
    ) -> Result<Option<Stretch>> {
        let Some(l) = member.map(|i| &large[i]) else { return Ok(None) };
        let Some(Link { offset, len, dtype }) = l.link else { return Ok(None) };
        if dtype != l.span.dtype || len != l.span.len {
            return Ok(None);
        }
        let words = len / 4;
        let n = words.min(SAMPLE);
        let at = 4 * ((words - n) / 2);
        let mut stretch = Stretch { base: vec![0; 4 * n as usize], new: vec![0; 4 * n as usize] };
        base.read(&[Piece { offset: offset + at, len: 4 * n }], &mut stretch.base)?;
        input.read(&[Piece { offset: l.span.offset + at, len: 4 * n }], &mut stretch.new)?;
        if l.span.big_endian {
            stretch.base.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            stretch.new.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        Ok(Some(stretch))
    }
}
