// Moves bytes between words that hold them from any byte on and words that start with them.
// CPU twin and contract: src/transform/align.rs. One word per invocation.

const WG_SIZE = 256u;

struct Params {
    n_bytes: u32,
    shift: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> unaligned: array<u32>;
@group(0) @binding(2) var<storage, read_write> aligned: array<u32>;

// The bytes of a word that lie in `start..end`, where both count from the first byte of the word.
fn mask(start: i32, end: i32) -> u32 {
    let below_end = select(0xffffffffu >> u32(clamp(8 * (4 - end), 0, 31)), 0u, end <= 0);
    let below_start = select(0xffffffffu >> u32(clamp(8 * (4 - start), 0, 31)), 0u, start <= 0);
    return below_end & ~below_start;
}

// Four bytes from byte `shift` of `low` on, where `high` follows `low`.
fn funnel(low: u32, high: u32, shift: u32) -> u32 {
    return select((low >> (8u * shift)) | (high << (32u - 8u * shift)), low, shift == 0u);
}

@compute @workgroup_size(WG_SIZE)
fn take(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 4u * i >= params.n_bytes {
        return;
    }
    let word = funnel(unaligned[i], unaligned[i + 1u], params.shift);
    aligned[i] = word & mask(0, i32(params.n_bytes - 4u * i));
}

@compute @workgroup_size(WG_SIZE)
fn put(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    if 4u * i >= params.shift + params.n_bytes {
        return;
    }
    let word = funnel(aligned[max(i, 1u) - 1u], aligned[i], (4u - params.shift) & 3u);
    let first = i32(params.shift) - i32(4u * i);
    let ours = mask(first, first + i32(params.n_bytes));
    unaligned[i] = (unaligned[i] & ~ours) | (select(word, aligned[i], params.shift == 0u) & ours);
}
