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

// Byte `j` of word `i` becomes byte `i` of word `j`; its own inverse.
fn transpose(w: vec4<u32>) -> vec4<u32> {
    let even = (w.xz & vec2(0x00ff00ffu)) | ((w.yw & vec2(0x00ff00ffu)) << vec2(8u));
    let odd = ((w.xz >> vec2(8u)) & vec2(0x00ff00ffu)) | (w.yw & vec2(0xff00ff00u));
    return vec4(
        (even.x & 0xffffu) | (even.y << 16u),
        (odd.x & 0xffffu) | (odd.y << 16u),
        (even.x >> 16u) | (even.y & 0xffff0000u),
        (odd.x >> 16u) | (odd.y & 0xffff0000u),
    );
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
    let s = params.stride;
    switch params.word_len {
        case 2u: {
            let w = vec2(words[2u * i], words[2u * i + 1u]);
            let even = (w & vec2(0xffu)) | ((w >> vec2(8u)) & vec2(0xff00u));
            let odd = ((w >> vec2(8u)) & vec2(0xffu)) | ((w >> vec2(16u)) & vec2(0xff00u));
            planes[i] = even.x | (even.y << 16u);
            planes[s + i] = odd.x | (odd.y << 16u);
        }
        case 4u: {
            let w = 4u * i;
            let p = transpose(vec4(words[w], words[w + 1u], words[w + 2u], words[w + 3u]));
            planes[i] = p.x;
            planes[s + i] = p.y;
            planes[2u * s + i] = p.z;
            planes[3u * s + i] = p.w;
        }
        default: {
            for (var half = 0u; half < 2u; half++) {
                let w = 8u * i + half;
                let at = 4u * half * s + i;
                let p = transpose(vec4(words[w], words[w + 2u], words[w + 4u], words[w + 6u]));
                planes[at] = p.x;
                planes[at + s] = p.y;
                planes[at + 2u * s] = p.z;
                planes[at + 3u * s] = p.w;
            }
        }
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
    let s = params.stride;
    switch params.word_len {
        case 2u: {
            let p = vec2(planes[i], planes[s + i]);
            let low = (p & vec2(0xffu)) | ((p & vec2(0xff00u)) << vec2(8u));
            let high = ((p >> vec2(16u)) & vec2(0xffu)) | ((p >> vec2(8u)) & vec2(0xff0000u));
            words[2u * i] = low.x | (low.y << 8u);
            words[2u * i + 1u] = high.x | (high.y << 8u);
        }
        case 4u: {
            let p = vec4(planes[i], planes[s + i], planes[2u * s + i], planes[3u * s + i]);
            let w = transpose(p);
            words[4u * i] = w.x;
            words[4u * i + 1u] = w.y;
            words[4u * i + 2u] = w.z;
            words[4u * i + 3u] = w.w;
        }
        default: {
            for (var half = 0u; half < 2u; half++) {
                let at = 4u * half * s + i;
                let p = vec4(planes[at], planes[at + s], planes[at + 2u * s], planes[at + 3u * s]);
                let w = transpose(p);
                words[8u * i + half] = w.x;
                words[8u * i + half + 2u] = w.y;
                words[8u * i + half + 4u] = w.z;
                words[8u * i + half + 6u] = w.w;
            }
        }
    }
}
