// Groups the bytes of words by significance.
// CPU twin and contract: src/transform/group.rs. Four words per invocation.

const WG_SIZE = 256u;

struct Params {
    n_words: u32,
    word_len: u32,
    stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Whole groups of four words.
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
// A byte per word in each of `word_len` planes, `stride` apart.
@group(0) @binding(2) var<storage, read_write> planes: array<u32>;

// Byte `k` of the `word_len * 4` bytes that start at word `at`.
fn byte_at(at: u32, k: u32) -> u32 {
    return (words[at + k / 4u] >> (8u * (k % 4u))) & 0xffu;
}

@compute @workgroup_size(WG_SIZE)
fn split(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 4u * i >= params.n_words {
        return;
    }
    let len = params.word_len;
    for (var p = 0u; p < len; p++) {
        var plane = 0u;
        for (var k = 0u; k < 4u; k++) {
            plane |= byte_at(len * i, len * k + p) << (8u * k);
        }
        planes[p * params.stride + i] = plane;
    }
}

@compute @workgroup_size(WG_SIZE)
fn join(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 4u * i >= params.n_words {
        return;
    }
    let len = params.word_len;
    for (var j = 0u; j < len; j++) {
        var word = 0u;
        for (var b = 0u; b < 4u; b++) {
            let k = 4u * j + b;
            let plane = planes[(k % len) * params.stride + i];
            word |= ((plane >> (8u * (k / len))) & 0xffu) << (8u * b);
        }
        words[len * i + j] = word;
    }
}
