// Which words of a delta are not zero.
// CPU twin and contract: src/transform/change.rs. 32 words per invocation.

const WG_SIZE = 256u;

struct Params {
    n_words: u32,
    word_bits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> delta: array<u32>;
// A bit per word.
@group(0) @binding(2) var<storage, read_write> changed: array<u32>;
// How many words are not zero; one entry, counted up.
@group(0) @binding(3) var<storage, read_write> n_changed: array<atomic<u32>>;

fn is_set(w: u32) -> bool {
    let bits = params.word_bits;
    if bits == 64u {
        return (delta[2u * w] | delta[2u * w + 1u]) != 0u;
    }
    let per = 32u / bits;
    return extractBits(delta[w / per], bits * (w % per), bits) != 0u;
}

@compute @workgroup_size(WG_SIZE)
fn bitmap(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 32u * i >= params.n_words {
        return;
    }
    var map = 0u;
    for (var k = 0u; k < min(32u, params.n_words - 32u * i); k++) {
        map |= select(0u, 1u, is_set(32u * i + k)) << k;
    }
    changed[i] = map;
    if map != 0u {
        atomicAdd(&n_changed[0], countOneBits(map));
    }
}
