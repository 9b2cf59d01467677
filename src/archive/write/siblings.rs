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
    bundle::{Bundle, joined},
    chunk::ChunkPlan,
    derivation::{self, Derived, From},
    plan::{BASE, Large, add_base, base_piece},
    stretch::{Places, Stretch},
};
use crate::{
    Result,
    archive::access::{
        Input,
        base::Base,
        relation::{Family, ROLES, Role},
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
use std::collections::HashSet;

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
    /// Small tensors that are predicted as large ones are.
    pub bundles: Vec<Bundle>,
    /// Of every family, then of every bundle.
    steps: Vec<Step>,
}

/// The scalars of a parameter's update.
#[derive(Clone, Copy, Default, PartialEq)]
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
        let of_family = |family: &Family| family.map(|i| Places::of_large(&large[i?]));
        let places: Vec<[Option<Places>; ROLES]> = self
            .families
            .iter()
            .map(of_family)
            .chain(self.bundles.iter().map(Places::of_bundle))
            .collect();
        self.steps = vec![Step::default(); places.len()];
        let Some(base) = base else { return Ok(()) };
        let mut tried: Vec<Weights> = Vec::new();
        let mut folds: Vec<Fold> = Vec::new();
        let mut averages: Vec<Fold> = Vec::new();
        let mut missed = 0;
        let mut hints = hints.clone();
        for (places, step) in places.iter().zip(&mut self.steps) {
            let read = |role: Role| Stretch::read(input, base, places[role as usize].as_ref());
            let (v, m) = (read(Role::Second)?, read(Role::First)?);
            let w = match &places[Role::Average as usize] {
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
        for (places, step) in places.iter().zip(&mut self.steps) {
            if step.fold.is_none()
                && !folds.is_empty()
                && let Some(m) = Stretch::read(input, base, places[Role::First as usize].as_ref())?
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
        let order = step.order();
        let n = members.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let mut groups = Vec::with_capacity(n);
        for k in 0..n {
            let mut group = Group::new(step);
            for role in order {
                let chunk = members[role as usize].as_ref().and_then(|m| m.get(k));
                let large = family[role as usize].map(|i| &large[i]);
                let (Some(chunk), Some(large)) = (chunk, large) else { continue };
                group.bases[role as usize] = base_piece(chunk, large)
                    .filter(|(_, dtype)| *dtype == chunk.dtype)
                    .map(|(piece, _)| vec![piece]);
            }
            let mut chunks: Vec<ChunkPlan> = Vec::with_capacity(ROLES);
            for role in order {
                let taken = members[role as usize].as_mut().and_then(|m| m.get_mut(k));
                let Some(chunk) = taken else { continue };
                let mut chunk = chunk.clone();
                chunk.continues_group = !chunks.is_empty();
                let base = family[role as usize].and_then(|i| add_base(&mut chunk, &large[i]));
                group.offer(role, &mut chunk, base);
                group.stored[role as usize] = Some(chunk.pieces.clone());
                chunks.push(chunk);
            }
            for (d, cut) in self.derived_of(f).iter().zip(&derived) {
                let Some(mut chunk) = cut.get(k).cloned() else { continue };
                chunk.continues_group = !chunks.is_empty();
                let From::Large(source) = d.from else { continue };
                let role = family.iter().position(|m| *m == Some(source));
                let other = self.derived_of(f).iter().position(|d| d.large == source);
                let stored = role.and_then(|role| group.stored[role].as_ref()?.first().copied());
                let other = other.and_then(|i| derived[i].get(k)?.pieces.first().copied());
                derivation::offer(d, &mut chunk, large, stored.or(other));
                chunks.push(chunk);
            }
            groups.push(chunks);
        }
        groups
    }
}

impl Siblings {
    /// The bundles for which something leads on from the base, with what.
    fn useful(&self) -> impl Iterator<Item = (&Bundle, Step)> {
        let steps = self.steps.iter().skip(self.families.len());
        self.bundles.iter().zip(steps.copied()).filter(|(_, step)| *step != Step::default())
    }

    /// Indices of the small spans that stand in bundles.
    pub fn bundled(&self) -> HashSet<usize> {
        self.useful().flat_map(|(bundle, _)| bundle.spans.iter().copied()).collect()
    }

    /// The groups of the bundles.
    pub fn of_bundles(&self) -> impl Iterator<Item = Vec<ChunkPlan>> {
        self.useful().map(|(bundle, step)| {
            let mut group = Group::new(step);
            group.bases = bundle.members.each_ref().map(|m| m.as_ref().map(|m| joined(&m.base)));
            let mut chunks: Vec<ChunkPlan> = Vec::with_capacity(ROLES);
            for role in step.order() {
                let Some(member) = &bundle.members[role as usize] else { continue };
                let (mut chunk, base) = member.chunk();
                chunk.continues_group = !chunks.is_empty();
                group.offer(role, &mut chunk, Some(base));
                group.stored[role as usize] = Some(chunk.pieces.clone());
                chunks.push(chunk);
            }
            chunks
        })
    }
}

impl Step {
    /// The roles in the order of storing.
    fn order(&self) -> [Role; ROLES] {
        let (first, next) = match (self.second, self.fold) {
            (Some(_), _) | (_, Some(_)) => (Role::First, Role::Second),
            (None, None) => (Role::Second, Role::First),
        };
        [first, next, Role::Weights, Role::Model, Role::Average]
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
struct Group {
    step: Step,
    /// Pieces of the members so far.
    stored: [Option<Vec<Piece>>; ROLES],
    /// Pieces of the base for every member.
    bases: [Option<Vec<Piece>>; ROLES],
}

impl Group {
    fn new(step: Step) -> Self {
        Group { step, stored: Default::default(), bases: Default::default() }
    }

    /// Offers a member everything that helps. `base` is the index of its own base among what is
    /// known.
    fn offer(&self, role: Role, chunk: &mut ChunkPlan, base: Option<u8>) {
        let sibling = |chunk: &mut ChunkPlan, role: Role| {
            let pieces = self.stored[role as usize].clone()?;
            Some(chunk.know(Origin::Sibling, pieces))
        };
        match role {
            Role::First => {
                if let Some(v) = sibling(chunk, Role::Second) {
                    chunk.offer(Predictor::Moment, &[v]);
                }
                let v0 = self.bases[Role::Second as usize].clone();
                if let (Some(s), Some(m0)) = (self.step.fold, base) {
                    let size = v0.map_or(m0, |v0| chunk.know(BASE, v0));
                    chunk.offer(Predictor::Gradient(s), &[m0, size]);
                }
            }
            Role::Second => {
                let m0 = self.bases[Role::First as usize].clone();
                let m1 = self.stored[Role::First as usize].clone();
                if let (Some(s), Some(v0), Some(m0), Some(m1)) = (self.step.second, base, m0, m1) {
                    let m0 = chunk.know(BASE, m0);
                    let m1 = chunk.know(Origin::Sibling, m1);
                    chunk.offer(Predictor::Second(s), &[v0, m0, m1]);
                }
            }
            Role::Weights => {
                let stored = |role: Role| self.stored[role as usize].clone();
                let (m1, v1) = (stored(Role::First), stored(Role::Second));
                if let (Some(s), Some(w0), Some(m1), Some(v1)) = (self.step.weights, base, m1, v1) {
                    let m1 = chunk.know(Origin::Sibling, m1);
                    let v1 = chunk.know(Origin::Sibling, v1);
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
                let of = if chunk.dtype == Dtype::F32 { Role::Weights } else { Role::Model };
                let Some(w) = sibling(chunk, of) else { return };
                if let (Some(s), Some(a0)) = (self.step.average, base) {
                    chunk.offer(Predictor::Average(s), &[a0, w]);
                }
                chunk.offer(Predictor::Base, &[w]);
            }
        }
    }
}
