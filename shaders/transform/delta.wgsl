// Difference between words and the words of a base, and back.
// CPU twin and contract: src/transform/delta.rs. Two u32 per invocation: a 64-bit word, or the
// lanes of words of 8, 16 or 32 bits, which never carry into each other.

const WG_SIZE = 256u;

struct Params {
    n_bytes: u32,
    word_bits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Rounded up to eight bytes, as are all three.
@group(0) @binding(1) var<storage, read_write> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> b: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<u32>;

// The sign bit of every lane.
fn signs() -> u32 {
    switch params.word_bits {
        case 8u: { return 0x80808080u; }
        case 16u: { return 0x80008000u; }
        default: { return 0x80000000u; }
    }
}

// Flips the bits below the sign of every lane whose sign is set.
fn order(x: vec2<u32>) -> vec2<u32> {
    if params.word_bits == 64u {
        let flip = select(0u, 0xffffffffu, x.y >> 31u == 1u);
        return x ^ vec2(flip, flip >> 1u);
    }
    let sign = x & vec2(signs());
    return x ^ (sign - (sign >> vec2(min(params.word_bits, 32u) - 1u)));
}

// Lane-wise: the sign bits are worked out apart, so that nothing is borrowed across lanes.
fn subtract(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    if params.word_bits == 64u {
        return vec2(x.x - y.x, x.y - y.y - select(0u, 1u, x.x < y.x));
    }
    let h = vec2(signs());
    return ((x | h) - (y & ~h)) ^ ((x ^ ~y) & h);
}

fn add(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    if params.word_bits == 64u {
        let low = x.x + y.x;
        return vec2(low, x.y + y.y + select(0u, 1u, low < x.x));
    }
    let h = vec2(signs());
    return ((x & ~h) + (y & ~h)) ^ ((x ^ y) & h);
}

@compute @workgroup_size(WG_SIZE)
fn xor(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = 2u * ((group.y * grid.x + group.x) * WG_SIZE + local);
    if 4u * i < params.n_bytes {
        result[i] = a[i] ^ b[i];
        result[i + 1u] = a[i + 1u] ^ b[i + 1u];
    }
}

@compute @workgroup_size(WG_SIZE)
fn diff(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = 2u * ((group.y * grid.x + group.x) * WG_SIZE + local);
    if 4u * i < params.n_bytes {
        let d = subtract(order(vec2(a[i], a[i + 1u])), order(vec2(b[i], b[i + 1u])));
        result[i] = d.x;
        result[i + 1u] = d.y;
    }
}

@compute @workgroup_size(WG_SIZE)
fn undo(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = 2u * ((group.y * grid.x + group.x) * WG_SIZE + local);
    if 4u * i < params.n_bytes {
        let w = order(add(order(vec2(b[i], b[i + 1u])), vec2(a[i], a[i + 1u])));
        result[i] = w.x;
        result[i + 1u] = w.y;
    }
}
