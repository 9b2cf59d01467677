//! What a checkpoint says about its optimizer.
//!
//! Training states carry parameter groups; trainers write learning rate and step into small JSON
//! files beside them. All of it only starts the search for scalars: nothing depends on it.

use crate::{archive::access::Input, format::Parsed, predict::adam::Hints};
use serde_json::Value;

/// JSON files above this many bytes are no metadata.
const MAX_JSON: u64 = 1 << 20;
/// Values of a kind that are kept.
const MAX_VALUES: usize = 8;

/// Adds what the parameter groups of a file say.
pub(in crate::archive) fn from_groups(parsed: &Parsed, hints: &mut Hints) {
    for group in &parsed.optimizer {
        add(&mut hints.lr, group.lr);
        add(&mut hints.eps, group.eps);
        add(&mut hints.weight_decay, group.weight_decay);
        add(&mut hints.betas, group.betas);
        let step = group.params.iter().find_map(|p| p.step);
        add(&mut hints.steps, step.and_then(whole));
    }
}

/// Adds what a small JSON file says; other files are left alone.
pub(in crate::archive) fn from_json(input: &Input<'_>, entry: usize, hints: &mut Hints) {
    let (Some(e), source) = (input.manifest.entries.get(entry), input.file(entry)) else { return };
    if !e.path.as_bytes().ends_with(b".json") || e.len > MAX_JSON || e.flat.is_some() {
        return;
    }
    let bytes = source.read_vec(0, e.len).unwrap_or_default();
    if let Ok(value) = serde_json::from_slice(&bytes) {
        walk(&value, hints, 0);
    }
}

fn walk(value: &Value, hints: &mut Hints, depth: u32) {
    let Value::Object(fields) = value else { return };
    for (key, value) in fields {
        let number = value.as_f64();
        match &key.to_ascii_lowercase()[..] {
            "lr" | "learning_rate" | "base_lr" => add(&mut hints.lr, number),
            "eps" | "adam_eps" | "adam_epsilon" => add(&mut hints.eps, number),
            "weight_decay" | "wd" => add(&mut hints.weight_decay, number),
            "step" | "global_step" | "iteration" | "iter" | "num_updates" => {
                add(&mut hints.steps, number.and_then(whole));
            }
            "betas" | "adam_betas" => {
                let two = value.as_array().filter(|a| a.len() == 2);
                let betas = two.and_then(|a| Some([a[0].as_f64()?, a[1].as_f64()?]));
                add(&mut hints.betas, betas);
            }
            _ if depth < 3 => walk(value, hints, depth + 1),
            _ => {}
        }
    }
}

fn whole(step: f64) -> Option<u64> {
    ((0.0..1e12).contains(&step) && step.fract() == 0.0).then_some(step as u64)
}

fn add<T: PartialEq>(list: &mut Vec<T>, value: Option<T>) {
    if let Some(value) = value
        && list.len() < MAX_VALUES
        && !list.contains(&value)
    {
        list.push(value);
    }
}
