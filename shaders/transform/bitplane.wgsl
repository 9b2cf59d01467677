// Bit planes of words, and back.
// CPU twin and contract: src/transform/bitplane.rs. Each invocation transposes 32 x 32 bits in
// registers: 32 words of 32 bits, half of 32 words of 64 bits, or, side by side in the columns,
// two or four runs of 32 words of 16 or 8 bits.

const WG_SIZE = 64u;

struct Params {
    n_words: u32,
    word_bits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> words_in: array<u32>;
// A bit per word in each of `word_bits` planes, one plane after another.
@group(0) @binding(2) var<storage, read_write> planes_out: array<u32>;
@group(0) @binding(3) var<storage, read_write> planes_in: array<u32>;
@group(0) @binding(4) var<storage, read_write> words_out: array<u32>;

// Swaps bit `c` of row `r` with bit `r` of row `c`: ever smaller squares change places.
fn transpose(rows: ptr<function, array<u32, 32>>) {
    var mask = 0x0000ffffu;
    for (var j = 16u; j != 0u; j >>= 1u) {
        for (var k = 0u; k < 32u; k = (k + j + 1u) & ~j) {
            let t = (((*rows)[k] >> j) ^ (*rows)[k + j]) & mask;
            (*rows)[k + j] ^= t;
            (*rows)[k] ^= t << j;
        }
        mask ^= mask << (j >> 1u);
    }
}

// Runs of 32 words side by side in a row, and rows per word.
fn runs() -> u32 {
    return max(32u / params.word_bits, 1u);
}

fn halves() -> u32 {
    return max(params.word_bits / 32u, 1u);
}

fn word_at(w: u32, half: u32) -> u32 {
    if w >= params.n_words {
        return 0u;
    }
    let per = runs();
    let bits = min(params.word_bits, 32u);
    let word = words_in[w / per * halves() + half];
    return (word >> (bits * (w % per))) & (0xffffffffu >> (32u - bits));
}

// Invocation → first run and half of the words. Two neighbours share runs of 64-bit words.
@compute @workgroup_size(WG_SIZE)
fn planes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    let n_runs = (params.n_words + 31u) / 32u;
    let run = i / halves() * runs();
    let half = i % halves();
    if run >= n_runs {
        return;
    }
    let bits = min(params.word_bits, 32u);
    var rows: array<u32, 32>;
    for (var k = 0u; k < 32u; k++) {
        var row = 0u;
        for (var r = 0u; r < runs(); r++) {
            row |= word_at(32u * (run + r) + k, half) << (bits * r);
        }
        rows[k] = row;
    }
    transpose(&rows);
    for (var k = 0u; k < 32u; k++) {
        let r = run + k / bits;
        if r < n_runs {
            planes_out[(32u * half + k % bits) * n_runs + r] = rows[k];
        }
    }
}

@compute @workgroup_size(WG_SIZE)
fn words(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    let n_runs = (params.n_words + 31u) / 32u;
    let run = i / halves() * runs();
    let half = i % halves();
    if run >= n_runs {
        return;
    }
    let bits = min(params.word_bits, 32u);
    var rows: array<u32, 32>;
    for (var k = 0u; k < 32u; k++) {
        let r = run + k / bits;
        rows[k] = 0u;
        if r < n_runs {
            rows[k] = planes_in[(32u * half + k % bits) * n_runs + r];
        }
    }
    transpose(&rows);
    // Row k holds word k of each run; words that share a u32 are neighbours, not rows apart.
    let per = runs();
    for (var k = 0u; k < 32u; k++) {
        let r = k * per / 32u;
        let first = 32u * (run + r) + (k * per) % 32u;
        if first < params.n_words {
            var word = 0u;
            for (var s = 0u; s < per; s++) {
                let row = rows[(k * per) % 32u + s] >> (bits * r);
                word |= (row & (0xffffffffu >> (32u - bits))) << (bits * s);
            }
            words_out[first / per * halves() + half] = word;
        }
    }
}
