//! Which tensors are averaged copies of weights, by what trainers call them.
//!
//! ```text
//! one file        ema.layer.weight          model.layer.weight, or layer.weight
//! files           ema.safetensors           model.safetensors, with the same names
//! directories     unet_ema/…                unet/…, with the same names of files and tensors
//! ```
//!
//! Names only suggest it: whether a copy follows from its weights is measured.

/// What stands before the names of copies.
const COPIES: [&str; 8] = [
    "ema",
    "ema_model",
    "ema_state_dict",
    "ema_weights",
    "model_ema",
    "averaged_model",
    "swa_model",
    "avg_model",
];
/// What stands before the names of weights beside them.
const MODELS: [&str; 7] =
    ["model", "module", "net", "state_dict", "model_state_dict", "weights", "params"];

/// For a copy, the key of the weights that it is of.
pub(super) fn copied(file: &str, name: &str) -> Option<String> {
    if let Some((_, rest)) = name.split_once('.').filter(|(first, _)| COPIES.contains(first)) {
        return Some(format!("{file}\0{}", rest.strip_prefix("module.").unwrap_or(rest)));
    }
    let (dir, leaf) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = leaf.split('.').next().unwrap_or(leaf);
    if COPIES.contains(&stem) {
        return Some(format!("{dir}/\0{name}"));
    }
    dir.strip_suffix("_ema").map(|dir| format!("{dir}/{leaf}\0{name}"))
}

/// The keys under which copies look for these weights, the best first.
pub(super) fn keys(file: &str, name: &str) -> Vec<String> {
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut keys = vec![format!("{file}\0{name}"), format!("{dir}/\0{name}")];
    if let Some((_, rest)) = name.split_once('.').filter(|(first, _)| MODELS.contains(first)) {
        keys.push(format!("{file}\0{rest}"));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_find_their_weights_wherever_trainers_put_them() {
        for (copy, weights) in [
            (("t.pt", "ema.a.b"), ("t.pt", "model.a.b")),
            (("t.pt", "ema_model.module.a.b"), ("t.pt", "a.b")),
            (("x/ema.safetensors", "a.b"), ("x/model.safetensors", "a.b")),
            (("ema.pt", "a.b"), ("weights.pt", "a.b")),
            (("unet_ema/m.safetensors", "a"), ("unet/m.safetensors", "a")),
        ] {
            let key = copied(copy.0, copy.1).unwrap();
            assert!(keys(weights.0, weights.1).contains(&key), "{copy:?}");
            assert_eq!(copied(weights.0, weights.1), None);
        }
    }
}
