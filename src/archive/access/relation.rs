//! Which spans belong together: with spans of the base, and with each other.
//!
//! A span finds its place in the base by file and name, then by name alone, then by type, length
//! and order among what is left: that finds tensors that were moved between shards or renamed.
//! Type and length must agree; of a tensor that grew or shrank in its outermost dimension the
//! common part does. Whether a base is of use is measured when chunks are coded.
//!
//! Siblings are the weights, moments and 16-bit copy of the same parameter: files called `model`,
//! `master`, `exp_avg`, `exp_avg_sq` with the same tensor names, or an optimizer's state in one
//! file.

use super::{Input, average, parameter};
use crate::{
    Result,
    dtype::Dtype,
    format::{self, Parsed, Span},
    source::Source,
};
use std::collections::HashMap;

/// A span of an address space, and what it is.
#[derive(Clone, Debug)]
pub(in crate::archive) struct Item {
    /// Its place in the address space.
    pub span: Span,
    /// Path of its file; empty for the only file there is.
    pub file: String,
    /// Name of the tensor that fills it; of spans that no tensor fills only those of files that
    /// have no tensors at all are named, by nothing.
    pub name: Option<String>,
    /// First byte in its file, where nothing but that tells which span it is.
    pub place: Option<u64>,
    /// For weights whose moments stand in the same file: what their names begin with.
    pub state: Option<String>,
}

/// Where a span's bytes stand in the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::archive) struct Link {
    /// First byte in the base's address space.
    pub offset: u64,
    /// Bytes that the base has.
    pub len: u64,
    /// Type of its words.
    pub dtype: Dtype,
}

/// The items of an input, in order, with its parsers' results. `parse` is one of
/// [`format::parse`] and [`format::parse_and_guess`].
pub(in crate::archive) fn items(
    input: &Input<'_>,
    parse: fn(&dyn Source) -> Result<Parsed>,
    mut also: impl FnMut(usize, &Parsed),
) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let alone = input.manifest.entries.len() == 1;
    for (i, (entry, start, source)) in input.files().enumerate() {
        let parsed = match entry.flat {
            Some(dtype) => format::parse_flat(source.len(), dtype),
            None => parse(source).map_err(|e| e.in_file(&entry.path))?,
        };
        also(i, &parsed);
        let file = if alone { String::new() } else { entry.path.to_text().into_owned() };
        add_items(&mut items, &parsed, start, &file);
    }
    Ok(items)
}

fn add_items(items: &mut Vec<Item>, parsed: &Parsed, start: u64, file: &str) {
    let mut states = parameter::states(parsed);
    let mut tensors: HashMap<u64, usize> = HashMap::new();
    for (i, t) in parsed.tensors.iter().enumerate() {
        if t.extent().is_some_and(|n| n > 0) {
            tensors.entry(t.offset).or_insert(i);
        }
    }
    for span in &parsed.spans {
        let tensor = tensors.get(&span.offset);
        // Of a file with tensors, what is neither tensor nor guessed is a header.
        let by_place = !parsed.guesses.is_empty()
            && tensor.is_none()
            && (parsed.tensors.is_empty() || span.dtype != Dtype::BYTES);
        let name = match tensor {
            Some(&i) => Some(parsed.tensors[i].name.clone()),
            None => (parsed.tensors.is_empty() && !by_place).then(String::new),
        };
        let place = by_place.then_some(span.offset);
        let state = tensor.and_then(|i| states.remove(i));
        let span = Span { offset: span.offset + start, ..span.clone() };
        items.push(Item { span, file: file.to_owned(), name, place, state });
    }
}

/// The place in the base of every item that has one: by name, or for what is known by its place in
/// its file by that, whatever the base's spans there are. Other items without a name have none: they
/// are headers, which must be readable without the base.
pub(in crate::archive) fn links(items: &[Item], base: &[Item]) -> Vec<Option<Link>> {
    let mut by_place: HashMap<(&str, &str), usize> = HashMap::new();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, item) in base.iter().enumerate() {
        let Some(name) = &item.name else { continue };
        by_place.entry((&item.file, name)).or_insert(i);
        if !name.is_empty() {
            by_name.entry(name).or_default().push(i);
        }
    }
    let mut used = vec![false; base.len()];
    let mut links = vec![None; items.len()];
    for by_file in [true, false] {
        for (item, link) in items.iter().zip(&mut links) {
            let Some(name) = item.name.as_ref().filter(|_| link.is_none()) else { continue };
            let found = match by_file {
                true => by_place.get(&(&item.file[..], &name[..])).copied(),
                false => by_name.get(&name[..]).and_then(|all| match all[..] {
                    [only] => Some(only),
                    _ => None,
                }),
            };
            if let Some(i) = found.filter(|&i| alike(&item.span, &base[i].span)) {
                used[i] = true;
                *link = Some(link_to(&item.span, &base[i].span));
            }
        }
    }
    let mut files: HashMap<&str, (u64, u64)> = HashMap::new();
    for Item { span, file, .. } in base {
        let (from, to) = files.entry(file).or_insert((span.offset, span.offset));
        (*from, *to) = ((*from).min(span.offset), (*to).max(span.offset + span.len));
    }
    for (item, link) in items.iter().zip(&mut links) {
        let Some((place, &(from, to))) = item.place.zip(files.get(&item.file[..])) else {
            continue;
        };
        let word = item.span.dtype.word_len() as u64;
        let len = item.span.len.min((to - from).saturating_sub(place)) / word * word;
        if len > 0 {
            *link = Some(Link { offset: from + place, len, dtype: item.span.dtype });
        }
    }
    let mut left: HashMap<(Dtype, bool, u64), std::collections::VecDeque<usize>> = HashMap::new();
    for (i, item) in base.iter().enumerate() {
        if !used[i] && item.name.is_some() {
            left.entry(key(&item.span)).or_default().push_back(i);
        }
    }
    for (item, link) in items.iter().zip(&mut links) {
        if link.is_none() && item.name.is_some() {
            let next = left.get_mut(&key(&item.span)).and_then(|all| all.pop_front());
            *link = next.map(|i| link_to(&item.span, &base[i].span));
        }
    }
    links
}

fn key(span: &Span) -> (Dtype, bool, u64) {
    (span.dtype, span.big_endian, span.len)
}

/// Whether the words of one span can be predicted from the words of the other.
fn alike(new: &Span, base: &Span) -> bool {
    if new.big_endian != base.big_endian || new.len == 0 || base.len == 0 {
        return false;
    }
    if new.dtype == base.dtype {
        return new.len == base.len || new.row_words == base.row_words;
    }
    let words = |s: &Span| s.len / s.dtype.word_len() as u64;
    let narrow = |d: Dtype| matches!(d, Dtype::BF16 | Dtype::F16);
    let casts = (new.dtype == Dtype::F32 && narrow(base.dtype))
        || (narrow(new.dtype) && base.dtype == Dtype::F32);
    casts && words(new) == words(base)
}

fn link_to(new: &Span, base: &Span) -> Link {
    let len = if new.dtype == base.dtype { new.len.min(base.len) } else { base.len };
    Link { offset: base.offset, len, dtype: base.dtype }
}

/// What a tensor is to its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::archive) enum Role {
    /// Second moment, `v`.
    Second = 0,
    /// First moment, `m`.
    First = 1,
    /// 32-bit weights, `w`.
    Weights = 2,
    /// Narrow copy of the weights.
    Model = 3,
    /// Averaged copy of the weights, or of their narrow copy where there are no others.
    Average = 4,
}

/// Number of roles.
pub(in crate::archive) const ROLES: usize = 5;

/// Spans of one parameter, by role.
pub(in crate::archive) type Family = [Option<usize>; ROLES];

/// The families among these items that have two members or more, or a first moment, in order of
/// their first.
pub(in crate::archive) fn families<'i>(
    items: impl Iterator<Item = (usize, &'i Item)>,
) -> Vec<Family> {
    let items: Vec<(usize, &Item)> = items.collect();
    let mut order: Vec<Family> = Vec::new();
    let mut family_of: HashMap<usize, usize> = HashMap::new();
    let mut known: HashMap<(String, u64, u64, bool), usize> = HashMap::new();
    for &(i, item) in &items {
        let Some(name) = item.name.as_ref().filter(|n| !n.is_empty()) else { continue };
        let state = item.state.as_ref();
        let of_state = state.map(|s| (Role::Model, format!("{}\0{s}", item.file)));
        let Some((role, parameter)) = of_state.or_else(|| role_of(&item.file, name)) else {
            continue;
        };
        let fits = match role {
            Role::Model | Role::Average => {
                matches!(item.span.dtype, Dtype::BF16 | Dtype::F16 | Dtype::F32)
            }
            _ => item.span.dtype == Dtype::F32,
        };
        // A model kept in 32 bits is the weights.
        let role =
            if item.span.dtype == Dtype::F32 && role == Role::Model { Role::Weights } else { role };
        if !fits {
            continue;
        }
        let span = &item.span;
        let words = span.len / span.dtype.word_len() as u64;
        let at = *known.entry((parameter, words, span.row_words, span.big_endian)).or_insert_with(
            || {
                order.push(Family::default());
                order.len() - 1
            },
        );
        if *order[at][role as usize].get_or_insert(i) == i {
            family_of.insert(i, at);
        }
    }
    add_averages(&items, &mut order, family_of);
    let first = Role::First as usize;
    order.retain(|family| family[first].is_some() || family.iter().flatten().count() > 1);
    order
}

/// Joins averaged copies of weights to the families of these, or to them alone.
fn add_averages(
    items: &[(usize, &Item)],
    order: &mut Vec<Family>,
    mut family_of: HashMap<usize, usize>,
) {
    let named = |item: &Item| item.name.clone().filter(|n| !n.is_empty());
    let mut copies: Vec<(usize, &Item, String)> = Vec::new();
    for &(i, item) in items {
        let key = named(item).and_then(|name| average::copied(&item.file, &name));
        copies.extend(key.map(|key| (i, item, key)));
    }
    if copies.is_empty() {
        return;
    }
    let mut weights: HashMap<String, (usize, &Item)> = HashMap::new();
    for &(i, item) in items {
        let Some(name) = named(item).filter(|n| average::copied(&item.file, n).is_none()) else {
            continue;
        };
        let own = family_of.get(&i).map(|&at| &order[at]);
        if own
            .is_some_and(|f| [Role::First, Role::Second].iter().any(|&r| f[r as usize] == Some(i)))
        {
            continue;
        }
        for key in average::keys(&item.file, &name) {
            weights.entry(key).or_insert((i, item));
        }
    }
    for (i, item, key) in copies {
        let Some(&(of, weight)) = weights.get(&key) else { continue };
        let role = match weight.span.dtype {
            Dtype::F32 => Role::Weights,
            Dtype::BF16 | Dtype::F16 => Role::Model,
            _ => continue,
        };
        let alike = self::key(&item.span) == self::key(&weight.span);
        let own = family_of.get(&i).copied();
        let has_others = own.is_some_and(|at| order[at].iter().flatten().count() > 1);
        if !alike || item.span.row_words != weight.span.row_words || has_others {
            continue;
        }
        if let Some(at) = own {
            order[at] = Family::default();
        }
        let at = *family_of.entry(of).or_insert_with(|| {
            order.push(Family::default());
            order.len() - 1
        });
        if *order[at][role as usize].get_or_insert(of) == of {
            order[at][Role::Average as usize].get_or_insert(i);
        }
    }
}

/// The role of a tensor and a name for its parameter.
fn role_of(file: &str, name: &str) -> Option<(Role, String)> {
    if let Some((state, leaf)) = name.rsplit_once('.') {
        let role = match leaf {
            _ if parameter::MOMENTS.contains(&leaf) => Some(Role::First),
            "exp_avg_sq" => Some(Role::Second),
            "master_param" | "fp32_param" | "master" | "param" => Some(Role::Weights),
            _ => None,
        };
        if let Some(role) = role {
            return Some((role, format!("{file}\0{state}")));
        }
        if let Some(state) = parameter::state_of_group(state, leaf) {
            return Some((Role::Weights, format!("{file}\0{state}")));
        }
    }
    let (dir, leaf) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = leaf.split('.').next().unwrap_or(leaf);
    let tokens = stem.split("-of-").next().unwrap_or(stem);
    let tokens = tokens.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let role = match &tokens.to_ascii_lowercase().replace('-', "_")[..] {
        "exp_avg" | "optimizer_exp_avg" | "momentum_buffer" => Role::First,
        "exp_avg_sq" | "optimizer_exp_avg_sq" => Role::Second,
        "master" | "fp32" | "master_weights" | "fp32_weights" | "optimizer_master" => Role::Weights,
        "model" | "pytorch_model" | "weights" | "params" => Role::Model,
        _ => return None,
    };
    Some((role, format!("{dir}\0{name}")))
}

#[cfg(test)]
mod tests;
