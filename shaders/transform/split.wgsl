// Splits words into symbols, rests and tails, without shifts, and joins planes that hold no escapes.
// CPU twin and contract: src/transform/split.rs. Four words per invocation.

const WG_SIZE = 256u;

struct Params {
    n_words: u32,
    word_bits: u32,
    rest_bits: u32,
    base: u32,
    sign: u32,
    stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Whole groups of four words.
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
// A byte per word in each plane, `stride` apart: symbols, the rest's one or two bytes, tails.
@group(0) @binding(2) var<storage, read_write> planes: array<u32>;
// How many symbols are escapes from the window; one entry, counted up.
@group(0) @binding(3) var<storage, read_write> n_escapes: array<atomic<u32>>;

fn head_bits() -> u32 {
    return min(params.word_bits, 16u);
}

fn windowed() -> bool {
    return head_bits() - params.rest_bits > 8u;
}

// Bits of the stored rest: without a sign that all words share.
fn stored_bits() -> u32 {
    return params.rest_bits - min(params.sign, 1u);
}

// First plane of the tails.
fn tails_at() -> u32 {
    return 1u + (stored_bits() + 7u) / 8u;
}

// Places the low bytes of four values in one word.
fn gather(v: vec4<u32>) -> u32 {
    let b = (v & vec4(0xffu)) << vec4(0u, 8u, 16u, 24u);
    return b.x | b.y | b.z | b.w;
}

fn scatter(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
}

// The top 16 bits (all 8 of an 8-bit word) of four words, not yet rotated.
fn tops(i: u32) -> vec4<u32> {
    switch params.word_bits {
        case 8u: { return scatter(words[i]); }
        case 16u: {
            let pair = vec2(words[2u * i], words[2u * i + 1u]);
            return vec4(pair.x & 0xffffu, pair.x >> 16u, pair.y & 0xffffu, pair.y >> 16u);
        }
        case 32u: {
            let w = 4u * i;
            return vec4(words[w], words[w + 1u], words[w + 2u], words[w + 3u]) >> vec4(16u);
        }
        default: {
            let w = 8u * i + 1u;
            return vec4(words[w], words[w + 2u], words[w + 4u], words[w + 6u]) >> vec4(16u);
        }
    }
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
    let top = tops(i);
    let bits = head_bits();
    let head = ((top << vec4(1u)) | (top >> vec4(bits - 1u))) & vec4((1u << bits) - 1u);
    var symbol = head >> vec4(params.rest_bits);
    if windowed() {
        let inside = min((symbol - vec4(params.base)) & vec4(0xffffu), vec4(254u)) + vec4(1u);
        symbol = select(inside, vec4(0u), symbol == vec4(0u));
        let here = vec4(4u * i) + vec4(0u, 1u, 2u, 3u) < vec4(params.n_words);
        let escapes = select(vec4(0u), vec4(1u), (symbol == vec4(255u)) & here);
        let n = escapes.x + escapes.y + escapes.z + escapes.w;
        if n != 0u {
            atomicAdd(&n_escapes[0], n);
        }
    }
    planes[i] = gather(symbol);
    let rest = (head & vec4((1u << params.rest_bits) - 1u)) >> vec4(min(params.sign, 1u));
    let stored = stored_bits();
    if stored > 0u {
        planes[params.stride + i] = gather(rest);
    }
    if stored > 8u {
        planes[2u * params.stride + i] = gather(rest >> vec4(8u));
    }
    let tails = tails_at();
    if params.word_bits >= 32u {
        let step = params.word_bits / 32u;
        let n_tails = params.word_bits / 8u - 2u;
        for (var t = 0u; t < n_tails; t++) {
            let w = vec4(step * 4u * i + t / 4u) + vec4(0u, step, 2u * step, 3u * step);
            let tail = vec4(words[w.x], words[w.y], words[w.z], words[w.w]);
            planes[(tails + t) * params.stride + i] = gather(tail >> vec4(8u * (t % 4u)));
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
    let symbol = scatter(planes[i]);
    var s = symbol;
    if windowed() {
        s = select((symbol + vec4(params.base - 1u)), vec4(0u), symbol == vec4(0u));
    }
    let stored = stored_bits();
    var rest = vec4(0u);
    if stored > 0u {
        rest = scatter(planes[params.stride + i]);
    }
    if stored > 8u {
        rest |= scatter(planes[2u * params.stride + i]) << vec4(8u);
    }
    if params.sign != 0u {
        rest = (rest << vec4(1u)) | vec4(params.sign - 1u);
    }
    let bits = head_bits();
    let head = ((s << vec4(params.rest_bits)) | rest) & vec4((1u << bits) - 1u);
    let top = (head >> vec4(1u)) | ((head & vec4(1u)) << vec4(bits - 1u));
    let tails = tails_at();
    switch params.word_bits {
        case 8u: { words[i] = gather(top); }
        case 16u: {
            words[2u * i] = top.x | (top.y << 16u);
            words[2u * i + 1u] = top.z | (top.w << 16u);
        }
        case 32u: {
            let low = tail(tails, i) | (tail(tails + 1u, i) << vec4(8u));
            let word = low | (top << vec4(16u));
            words[4u * i] = word.x;
            words[4u * i + 1u] = word.y;
            words[4u * i + 2u] = word.z;
            words[4u * i + 3u] = word.w;
        }
        default: {
            let low = tail(tails, i) | (tail(tails + 1u, i) << vec4(8u))
                | (tail(tails + 2u, i) << vec4(16u)) | (tail(tails + 3u, i) << vec4(24u));
            let high = tail(tails + 4u, i) | (tail(tails + 5u, i) << vec4(8u))
                | (top << vec4(16u));
            let w = 8u * i;
            words[w] = low.x;
            words[w + 1u] = high.x;
            words[w + 2u] = low.y;
            words[w + 3u] = high.y;
            words[w + 4u] = low.z;
            words[w + 5u] = high.z;
            words[w + 6u] = low.w;
            words[w + 7u] = high.w;
        }
    }
}

fn tail(plane: u32, i: u32) -> vec4<u32> {
    return scatter(planes[plane * params.stride + i]);
}
