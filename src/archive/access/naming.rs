//! One name for a parameter, whatever a format calls it.
//!
//! ```text
//! model.layers.7.self_attn.q_proj.weight              ┐
//! encoder.layer.7.attention.self.query.weight         ├  blk.7.attn_q.weight
//! blk.7.attn_q.weight                                 ┘
//! ```
//!
//! Names lead to what is tried first, and nothing else rests on them: two parameters that come
//! to share a name here cost a trial more.

/// What stands between the number of the layer and `weight`, in files of other formats, and what
/// GGUF has.
const IN_LAYERS: [(&str, &[&str]); 14] = [
    ("attn_q", &["self_attn.q_proj", "attention.self.query", "attention.wq", "attention.q_lin"]),
    ("attn_k", &["self_attn.k_proj", "attention.self.key", "attention.wk", "attention.k_lin"]),
    ("attn_v", &["self_attn.v_proj", "attention.self.value", "attention.wv", "attention.v_lin"]),
    (
        "attn_output",
        &[
            "self_attn.o_proj",
            "self_attn.out_proj",
            "attention.output.dense",
            "attention.wo",
            "attention.out_lin",
            "self_attention.dense",
            "attention.dense",
            "attn.c_proj",
        ],
    ),
    (
        "attn_qkv",
        &["self_attn.qkv_proj", "attn.c_attn", "self_attention.query_key_value", "attn.Wqkv"],
    ),
    ("ffn_gate", &["mlp.gate_proj", "feed_forward.w1"]),
    (
        "ffn_up",
        &[
            "mlp.up_proj",
            "feed_forward.w3",
            "intermediate.dense",
            "mlp.c_fc",
            "mlp.fc1",
            "ffn.lin1",
            "mlp.dense_h_to_4h",
            "mlp.gate_up_proj",
        ],
    ),
    (
        "ffn_down",
        &[
            "mlp.down_proj",
            "feed_forward.w2",
            "output.dense",
            "mlp.c_proj",
            "mlp.fc2",
            "ffn.lin2",
            "mlp.dense_4h_to_h",
        ],
    ),
    ("attn_norm", &["input_layernorm", "attention_norm", "ln_1"]),
    ("ffn_norm", &["post_attention_layernorm", "ffn_norm", "ln_2"]),
    ("attn_q_norm", &["self_attn.q_norm"]),
    ("attn_k_norm", &["self_attn.k_norm"]),
    ("attn_output_norm", &["attention.output.LayerNorm"]),
    ("layer_output_norm", &["output.LayerNorm"]),
];

/// The same outside of layers.
const OUTSIDE: [(&str, &[&str]); 6] = [
    (
        "token_embd",
        &[
            "embed_tokens",
            "embeddings.word_embeddings",
            "word_embeddings",
            "wte",
            "tok_embeddings",
            "embed_in",
        ],
    ),
    ("position_embd", &["embeddings.position_embeddings", "wpe", "embed_positions"]),
    ("token_types", &["embeddings.token_type_embeddings"]),
    ("token_embd_norm", &["embeddings.LayerNorm"]),
    ("output", &["lm_head", "embed_out"]),
    ("output_norm", &["norm", "ln_f", "final_layernorm"]),
];

/// What names begin with and parameters do not differ in.
const PREFIXES: [&str; 9] = [
    "model.",
    "transformer.",
    "bert.",
    "distilbert.",
    "roberta.",
    "gpt_neox.",
    "module.",
    "base_model.",
    "decoder.",
];

/// What the layers of a model are called.
const LAYERS: [&str; 6] = ["layers", "layer", "blk", "h", "blocks", "block"];

/// The name of a parameter.
pub(in crate::archive) fn parameter_name(name: &str) -> String {
    let mut name = name;
    while let Some(rest) = PREFIXES.iter().find_map(|p| name.strip_prefix(p)) {
        name = rest;
    }
    let (stem, kind) = match name.rsplit_once('.') {
        Some((stem, kind @ ("weight" | "bias"))) => (stem, kind),
        _ => (name, "weight"),
    };
    let parts: Vec<&str> = stem.split('.').collect();
    let is_layer = |i: &usize| {
        LAYERS.contains(&parts[*i])
            && parts.get(i + 1).is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    match (0..parts.len()).find(is_layer) {
        Some(i) => {
            let rest = parts.get(i + 2..).unwrap_or(&[]).join(".");
            format!("blk.{}.{}.{kind}", parts[i + 1], of_table(&IN_LAYERS, &rest))
        }
        None => format!("{}.{kind}", of_table(&OUTSIDE, stem)),
    }
}

fn of_table<'n>(table: &[(&'n str, &[&str])], name: &'n str) -> &'n str {
    let found = table.iter().find(|(_, names)| names.contains(&name));
    found.map_or(name, |(usual, _)| usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_call_parameters_by_names_that_become_one() {
        let same = [
            ["model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight"],
            ["encoder.layer.11.attention.self.key.weight", "blk.11.attn_k.weight"],
            ["bert.encoder.layer.2.output.dense.bias", "blk.2.ffn_down.bias"],
            ["encoder.layer.2.attention.output.dense.weight", "blk.2.attn_output.weight"],
            ["transformer.h.3.mlp.c_fc.weight", "blk.3.ffn_up.weight"],
            ["model.embed_tokens.weight", "token_embd.weight"],
            ["embeddings.word_embeddings.weight", "token_embd.weight"],
            ["lm_head.weight", "output.weight"],
            ["model.norm.weight", "output_norm.weight"],
            ["layers.1.feed_forward.w2.weight", "blk.1.ffn_down.weight"],
            ["something.else", "something.else.weight"],
        ];
        for [a, b] in same {
            assert_eq!(parameter_name(a), parameter_name(b));
        }
        assert_ne!(parameter_name("layers.1.a.weight"), parameter_name("layers.2.a.weight"));
        assert_ne!(parameter_name("layers.1.a.weight"), parameter_name("layers.1.a.bias"));
    }
}
