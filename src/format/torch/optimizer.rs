//! Parameter groups of optimizers: `{"state": {key: {"step": …}}, "param_groups": [{…}]}`.

use std::collections::HashMap;

use super::walk::Walk;
use crate::format::{
    Param, ParamGroup,
    pickle::{Id, Value},
};

/// A number that stands in the pickle, or in a tensor of one element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// The number.
    Known(f64),
    /// Index of the view that holds it.
    View(usize),
}

/// A parameter group with numbers that may still have to be read from tensors.
#[derive(Debug)]
pub(crate) struct Group {
    /// What is known without tensors.
    pub(crate) group: ParamGroup,
    /// The learning rate.
    pub(crate) lr: Option<Number>,
    /// The step of each parameter.
    pub(crate) steps: Vec<Option<Number>>,
}

/// Reads the groups of the dicts found to hold `param_groups`, with their paths. Where the state has no
/// step, some trainers keep it in the group. Lists may be shared, so the work is counted and stops at a multiple of the pickle's size.
pub(super) fn read(walk: &mut Walk<'_, '_>, optimizers: &[(Id, u32)]) {
    let mut budget = 4 * walk.pickle.len + 4096;
    for (id, path) in optimizers {
        let path = &walk.path_name(*path);
        if read_one(walk, *id, path, &mut budget).is_none() {
            walk.notes.push("optimizer states share too much to list their groups".into());
            return;
        }
    }
}

/// `None` where the budget is used up.
fn read_one(walk: &mut Walk<'_, '_>, id: Id, path: &str, budget: &mut usize) -> Option<()> {
    let pickle = walk.pickle;
    let Some(pairs) = pickle.pairs(id) else { return Some(()) };
    spend(budget, pairs.len())?;
    let mut steps = HashMap::new();
    if let Some(state) = find(walk, pairs, "state").and_then(|s| pickle.pairs(s)) {
        spend(budget, state.len())?;
        for pair in state.chunks_exact(2) {
            let Some(entry) = pickle.pairs(pair[1]) else { continue };
            spend(budget, entry.len())?;
            if let Some(step) = find(walk, entry, "step") {
                let key = walk.key_text(pair[0]);
                spend(budget, key.len() / 8)?;
                steps.insert(key, step);
            }
        }
    }
    let groups = find(walk, pairs, "param_groups").and_then(|g| pickle.sequence(g));
    for group in groups.unwrap_or_default() {
        let Some(settings) = pickle.pairs(*group) else { continue };
        spend(budget, settings.len() + path.len() / 8)?;
        let number = |key: &str| find(walk, settings, key).and_then(|id| number(walk, id));
        let known = |key: &str| match number(key) {
            Some(Number::Known(n)) => Some(n),
            _ => None,
        };
        let betas = find(walk, settings, "betas").and_then(|b| match pickle.sequence(b)? {
            [a, b] => match (self::number(walk, *a)?, self::number(walk, *b)?) {
                (Number::Known(a), Number::Known(b)) => Some([a, b]),
                _ => None,
            },
            _ => None,
        });
        let ids = find(walk, settings, "params").and_then(|p| pickle.sequence(p));
        let ids = ids.unwrap_or_default();
        let mut params = Vec::new();
        for id in ids {
            let key = walk.key_text(*id);
            spend(budget, 2 + key.len() / 8)?;
            params.push(Param { key, step: None });
        }
        let steps = params
            .iter()
            .map(|p| match steps.get(&p.key) {
                Some(id) => self::number(walk, *id),
                None => number("step"),
            })
            .collect();
        let lr = number("lr");
        let group = ParamGroup {
            path: path.to_string(),
            lr: None,
            betas,
            eps: known("eps"),
            weight_decay: known("weight_decay"),
            amsgrad: known("amsgrad") == Some(1.0),
            maximize: known("maximize") == Some(1.0),
            params,
        };
        walk.out.groups.push(Group { group, lr, steps });
    }
    Some(())
}

fn spend(budget: &mut usize, n: usize) -> Option<()> {
    *budget = budget.checked_sub(n)?;
    Some(())
}

/// The last value of a key, as in a dict.
fn find(walk: &Walk<'_, '_>, pairs: &[Id], key: &str) -> Option<Id> {
    let found = pairs.chunks_exact(2).rfind(|p| walk.pickle.str(p[0]) == Some(key.as_bytes()));
    found.map(|p| p[1])
}

fn number(walk: &Walk<'_, '_>, id: Id) -> Option<Number> {
    match walk.pickle.get(id) {
        Value::Int(n) => Some(Number::Known(*n as f64)),
        Value::Float(f) => Some(Number::Known(*f)),
        Value::Bool(b) => Some(Number::Known(f64::from(u8::from(*b)))),
        _ => walk.scalars.get(&id).map(|view| Number::View(*view)),
    }
}
