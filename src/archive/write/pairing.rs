//! Weights of moments that stand in another file, where no name says whose they are.
//!
//! A step of an optimizer moves weights against their first moments. So of the tensors of as many
//! words, the weights are those that moved against nearly all of some moments in the middle:
//!
//! ```text
//! moments     + - - + 0 + - …      signs of m1
//! weights     - + + - 0 - + …      signs of w1 - w0
//! ```
//!
//! That finds a model beside an optimizer whose state has numbers for keys, and flat shards of both.
//! Where moments and weights have the same name they are a family already.

use super::{
    plan::Large,
    siblings::Siblings,
    stretch::{Places, Stretch},
};
use crate::{
    Result,
    archive::access::{
        Input,
        base::Base,
        relation::{Family, Role},
    },
    dtype::Dtype,
};
use std::collections::BTreeMap;

/// Words that are looked at.
const WORDS: u64 = 512;
/// Fewer words that moved, or one in so many that moved otherwise, tell nothing.
const LEAST: u32 = 64;
const ONE_IN: u32 = 8;
/// Most pairs of moments and weights of a length that are tried.
const MOST_PAIRS: usize = 1 << 20;

/// Signs of words: which are above zero, and which below.
type Signs = [[u64; WORDS as usize / 64]; 2];

/// What has the same length: families without weights, and large spans that may be weights.
#[derive(Default)]
struct Alike {
    families: Vec<usize>,
    weights: Vec<usize>,
}

impl Siblings {
    /// Gives families that have moments alone the weights that moved against them.
    pub fn pair(&mut self, input: &Input<'_>, base: &Base, large: &[Large]) -> Result<()> {
        let role = |family: &Family, role: Role| family[role as usize];
        let mut family_of = BTreeMap::new();
        let mut alike: BTreeMap<(u64, bool), Alike> = BTreeMap::new();
        let key = |l: &Large| (l.span.len / l.span.dtype.word_len() as u64, l.span.big_endian);
        for (f, family) in self.families.iter().enumerate() {
            family.iter().flatten().for_each(|&i| {
                family_of.insert(i, f);
            });
            let has_weights =
                [Role::Weights, Role::Model].iter().any(|&r| role(family, r).is_some());
            if let Some(m) = role(family, Role::First).filter(|_| !has_weights) {
                alike.entry(key(&large[m])).or_default().families.push(f);
            }
        }
        if alike.is_empty() {
            return Ok(());
        }
        for (i, l) in large.iter().enumerate().filter(|(_, l)| l.copy_of.is_none()) {
            let narrow = matches!(l.span.dtype, Dtype::BF16 | Dtype::F16) && !l.span.big_endian;
            let floats = narrow || l.span.dtype == Dtype::F32;
            let of_moments = |f: &usize| {
                let family = &self.families[*f];
                [Role::First, Role::Second].iter().any(|&r| role(family, r).is_some())
            };
            if floats
                && !family_of.get(&i).is_some_and(of_moments)
                && let Some(alike) = alike.get_mut(&key(l))
            {
                alike.weights.push(i);
            }
        }
        for Alike { families, mut weights } in alike.into_values() {
            if families.len() * weights.len() > MOST_PAIRS || weights.is_empty() {
                continue;
            }
            // Weights of 32 bits tell more, and have their narrow copies beside them.
            weights.sort_by_key(|&i| large[i].span.dtype != Dtype::F32);
            let mut moved = Vec::new();
            for i in weights {
                if let Some(signs) = signs(input, base, &large[i], true)? {
                    moved.push((i, signs));
                }
            }
            for f in families {
                let m = role(&self.families[f], Role::First).map(|m| &large[m]);
                let Some(m) = m.map_or(Ok(None), |m| signs(input, base, m, false))? else {
                    continue;
                };
                let Some(at) = moved.iter().position(|(_, w)| against(&m, w)) else { continue };
                let (i, _) = moved.remove(at);
                self.join(f, i, family_of.get(&i).copied(), large);
            }
        }
        self.families.retain(|family| family.iter().any(Option::is_some));
        Ok(())
    }

    /// Joins weights, and what belongs to them already, to a family.
    fn join(&mut self, f: usize, weights: usize, own: Option<usize>, large: &[Large]) {
        let narrow = large[weights].span.dtype != Dtype::F32;
        let role = if narrow { Role::Model } else { Role::Weights };
        let mut others =
            own.map_or_else(Family::default, |o| std::mem::take(&mut self.families[o]));
        others[role as usize] = Some(weights);
        for (member, other) in self.families[f].iter_mut().zip(others) {
            *member = member.or(other);
        }
    }
}

/// Whether weights moved against moments.
fn against(m: &Signs, w: &Signs) -> bool {
    let count =
        |a: &[u64], b: &[u64]| -> u32 { a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum() };
    let good = count(&m[0], &w[1]) + count(&m[1], &w[0]);
    let bad = count(&m[0], &w[0]) + count(&m[1], &w[1]);
    good >= LEAST && bad * ONE_IN <= good
}

/// Signs of words, or of how they moved since the base; `None` where the base does not have them.
fn signs(input: &Input<'_>, base: &Base, large: &Large, moved: bool) -> Result<Option<Signs>> {
    let places = Places::middle(large, WORDS);
    let Some(stretch) = Stretch::read(input, base, places.as_ref())? else { return Ok(None) };
    // As integers in the order of the floats that they are.
    let words = |bytes: &[u8]| -> Vec<i32> {
        match large.span.dtype {
            Dtype::F32 => {
                let ordered = |x: i32| x ^ ((x >> 31) as u32 >> 1) as i32;
                bytes.as_chunks().0.iter().map(|w| ordered(i32::from_le_bytes(*w))).collect()
            }
            _ => {
                let ordered = |x: i16| i32::from(x ^ ((x >> 15) as u16 >> 1) as i16);
                bytes.as_chunks().0.iter().map(|w| ordered(i16::from_le_bytes(*w))).collect()
            }
        }
    };
    let new = words(&stretch.new);
    let old = if moved { words(&stretch.base) } else { vec![0; new.len()] };
    let mut signs = Signs::default();
    for (i, (new, old)) in new.iter().zip(&old).enumerate() {
        signs[0][i / 64] |= u64::from(new > old) << (i % 64);
        signs[1][i / 64] |= u64::from(new < old) << (i % 64);
    }
    Ok(Some(signs))
}
