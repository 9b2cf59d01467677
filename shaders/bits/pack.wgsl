// Packs values of 1 to 8 bits into a bit string, and back.
// CPU twin and contract: src/bits/pack.rs. One word of the result per invocation.

const WG_SIZE = 256u;

struct Params {
    n_values: u32,
    width: u32,
    at: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// A byte per value, from word `at` on.
@group(0) @binding(1) var<storage, read_write> values: array<u32>;
// A word longer than the bit string.
@group(0) @binding(2) var<storage, read_write> packed: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn pack(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    let width = params.width;
    // The first value with a bit in this word, and the place of its lowest bit.
    var v = 32u * i / width;
    var place = i32(v * width) - i32(32u * i);
    if v >= params.n_values {
        return;
    }
    var word = 0u;
    for (; place < 32 && v < params.n_values; v++) {
        let value = extractBits(values[params.at + v / 4u], 8u * (v % 4u), width);
        word |= select(value << (u32(place) & 31u), value >> u32(-place), place < 0);
        place += i32(width);
    }
    packed[i] = word;
}

@compute @workgroup_size(WG_SIZE)
fn unpack(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 4u * i >= params.n_values {
        return;
    }
    let width = params.width;
    let first = 4u * width * i;
    let shift = first % 32u;
    // Four values take at most 32 bits, which may reach into the next word.
    let low = packed[first / 32u] >> shift;
    let high = select(packed[first / 32u + 1u] << ((32u - shift) & 31u), 0u, shift == 0u);
    let bits = low | high;
    var word = 0u;
    for (var k = 0u; k < 4u && 4u * i + k < params.n_values; k++) {
        word |= extractBits(bits, width * k, width) << (8u * k);
    }
    values[params.at + i] = word;
}
