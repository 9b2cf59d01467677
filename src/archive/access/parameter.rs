//! Which weights of a training state an optimizer's moments belong to.
//!
//! An optimizer knows its parameters by a key, most often a number: their place in the groups it
//! was given, which are made by walking over the model. So what is left of the weights, of each
//! shape in the order of the file, belongs to the moments of that shape in the order of the
//! groups. Where keys are names of weights, they say it themselves.
//!
//! This may be wrong, where parameters are frozen or groups were made in another order: then what
//! it predicts does not pay, which is measured, and nothing is lost.

use crate::{
    dtype::Dtype,
    format::{ParamGroup, Parsed},
};
use std::collections::{HashMap, VecDeque};

/// What first moments are called.
pub(in crate::archive) const MOMENTS: [&str; 2] = ["exp_avg", "momentum_buffer"];

/// For each tensor that is the weights of a parameter, the names of whose moments begin with this
/// and a dot.
pub(in crate::archive) fn states(parsed: &Parsed) -> HashMap<usize, String> {
    let mut found = HashMap::new();
    if parsed.optimizer.is_empty() {
        return found;
    }
    let by_name: HashMap<&str, usize> =
        parsed.tensors.iter().enumerate().map(|(i, t)| (&t.name[..], i)).collect();
    let weights = Weights::of(parsed);
    let mut left = weights.by_shape.clone();
    for group in &parsed.optimizer {
        for param in &group.params {
            let state = state_of(group, &param.key);
            let moment = |leaf: &&str| by_name.get(&format!("{state}.{leaf}")[..]);
            let Some(moment) = MOMENTS.iter().find_map(moment) else { continue };
            let shape = &parsed.tensors[*moment].shape;
            let named = weights.by_name.get(&param.key[..]).copied();
            let named = named.filter(|&i| parsed.tensors[i].shape == *shape);
            let next = || left.get_mut(&shape[..]).and_then(VecDeque::pop_front);
            if let Some(i) = named.or_else(next) {
                found.entry(i).or_insert(state);
            }
        }
    }
    found
}

/// The state that belongs to a flat group of weights in DeepSpeed's files of optimizer states, which
/// keep both as lists: `single_partition_of_fp32_groups` up to its stage 2, `fp32_flat_groups` in 3.
pub(super) fn state_of_group(list: &str, index: &str) -> Option<String> {
    let (outer, list) = list.rsplit_once('.')?;
    match list {
        "single_partition_of_fp32_groups" => {
            Some(format!("{outer}.base_optimizer_state.state.{index}"))
        }
        "fp32_flat_groups" => Some(format!("{outer}.optimizer_state_dict.state.{index}")),
        _ => None,
    }
}

fn state_of(group: &ParamGroup, key: &str) -> String {
    match &group.path[..] {
        "" => format!("state.{key}"),
        path => format!("{path}.state.{key}"),
    }
}

/// Tensors that belong to no optimizer.
struct Weights<'p> {
    /// By name, and by name without its first part.
    by_name: HashMap<&'p str, usize>,
    /// By shape, in the order of the file.
    by_shape: HashMap<&'p [u64], VecDeque<usize>>,
}

impl<'p> Weights<'p> {
    fn of(parsed: &'p Parsed) -> Self {
        let mut paths: Vec<&str> = parsed.optimizer.iter().map(|g| &g.path[..]).collect();
        paths.dedup();
        // One optimizer is usual; of many, the first few.
        paths.truncate(8);
        let is_state = |name: &str| {
            paths.iter().any(|path| match name.strip_prefix(path) {
                Some(rest) if path.is_empty() => rest.starts_with("state."),
                Some(rest) => rest.starts_with('.'),
                None => false,
            })
        };
        let mut weights = Weights { by_name: HashMap::new(), by_shape: HashMap::new() };
        for (i, t) in parsed.tensors.iter().enumerate() {
            let fits = matches!(t.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16);
            if !fits || t.strides.is_some() || is_state(&t.name) {
                continue;
            }
            weights.by_name.entry(&t.name).or_insert(i);
            if let Some((_, rest)) = t.name.split_once('.') {
                weights.by_name.entry(rest).or_insert(i);
            }
            weights.by_shape.entry(&t.shape).or_default().push_back(i);
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Param, Tensor};

    fn tensor(name: &str, shape: &[u64]) -> Tensor {
        let (shape, name) = (shape.to_vec(), name.to_owned());
        Tensor { name, dtype: Dtype::F32, shape, strides: None, offset: 0, big_endian: false }
    }

    fn group(path: &str, keys: &[&str]) -> ParamGroup {
        let params = keys.iter().map(|k| Param { key: (*k).to_owned(), step: None }).collect();
        ParamGroup { path: path.into(), params, ..ParamGroup::default() }
    }

    fn found(parsed: &Parsed) -> Vec<(usize, String)> {
        let mut all: Vec<_> = states(parsed).into_iter().collect();
        all.sort();
        all
    }

    #[test]
    fn numbered_parameters_are_matched_by_shape_and_order() {
        let mut parsed = Parsed::opaque(0);
        parsed.tensors = vec![
            tensor("model.a.weight", &[8, 4]),
            tensor("model.a.bias", &[8]),
            tensor("model.b.weight", &[8, 4]),
            tensor("model.b.bias", &[8]),
            tensor("model.rotary", &[3]),
        ];
        for (key, shape) in [("0", &[8, 4][..]), ("1", &[8, 4]), ("2", &[8]), ("3", &[8])] {
            parsed.tensors.push(tensor(&format!("opt.state.{key}.exp_avg"), shape));
        }
        parsed.optimizer = vec![group("opt", &["0", "1"]), group("opt", &["2", "3", "9"])];
        let at = |k: &str| format!("opt.state.{k}");
        assert_eq!(found(&parsed), [(0, at("0")), (1, at("2")), (2, at("1")), (3, at("3"))]);
    }

    #[test]
    fn named_parameters_are_matched_by_name_if_shapes_agree() {
        let mut parsed = Parsed::opaque(0);
        parsed.tensors = vec![
            tensor("model.a", &[4]),
            tensor("model.b", &[4]),
            tensor("state.b.exp_avg", &[4]),
            tensor("state.a.exp_avg", &[5]),
        ];
        parsed.optimizer = vec![group("", &["b", "a"])];
        assert_eq!(found(&parsed), [(1, "state.b".to_owned())]);
    }
}
