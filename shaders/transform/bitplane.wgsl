// Bit planes of words, and back.
// CPU twin and contract: src/transform/bitplane.rs. 32 neighbouring invocations transpose a square
// of 32 x 32 bits, a row each: 32 words of 32 bits, half of 32 words of 64 bits, or, side by side
// in the columns, two or four runs of 32 words of 16 or 8 bits. A workgroup has eight squares.

const WG_SIZE = 256u;
const SQUARES = 8u;

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

var<workgroup> rows: array<u32, 256>;

// Swaps bit `c` of row `r` with bit `r` of row `c`: ever smaller squares change places.
fn transpose(local: u32, row: u32) -> u32 {
    var x = row;
    var mask = 0x0000ffffu;
    for (var j = 16u; j != 0u; j >>= 1u) {
        rows[local] = x;
        workgroupBarrier();
        let y = rows[local ^ j];
        workgroupBarrier();
        if (local & j) == 0u {
            x = (x & mask) | ((y & mask) << j);
        } else {
            x = (x & ~mask) | ((y & ~mask) >> j);
        }
        mask ^= mask << (j >> 1u);
    }
    return x;
}

// Runs of 32 words in a square.
fn runs() -> u32 {
    return max(32u / params.word_bits, 1u);
}

// Squares to a run.
fn halves() -> u32 {
    return max(params.word_bits / 32u, 1u);
}

// Columns of a run in a square.
fn columns() -> u32 {
    return min(params.word_bits, 32u);
}

fn column_mask() -> u32 {
    return 0xffffffffu >> (32u - columns());
}

fn n_runs() -> u32 {
    return (params.n_words + 31u) / 32u;
}

// The part of word `w` that is in a square, zero after the last word.
fn word_at(w: u32, half: u32) -> u32 {
    if w >= params.n_words {
        return 0u;
    }
    let word = words_in[w / runs() * halves() + half];
    return (word >> (columns() * (w % runs()))) & column_mask();
}

// Where row `k` of a square lies in the planes; past their end for rows of no words.
fn place(square: u32, k: u32) -> u32 {
    let run = square / halves() * runs() + k / columns();
    let plane = 32u * (square % halves()) + k % columns();
    return select(0xffffffffu, plane * n_runs() + run, run < n_runs());
}

@compute @workgroup_size(WG_SIZE)
fn planes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * grid.x + group.x) * SQUARES;
    let square = first + local / 32u;
    let run = square / halves() * runs();
    var row = 0u;
    for (var r = 0u; r < runs(); r++) {
        let word = word_at(32u * (run + r) + local % 32u, square % halves());
        row |= word << (columns() * r);
    }
    row = transpose(local, row);
    rows[local] = row;
    workgroupBarrier();
    // Neighbours write neighbouring words of one plane.
    let at = place(first + local % SQUARES, local / SQUARES);
    if at != 0xffffffffu {
        planes_out[at] = rows[32u * (local % SQUARES) + local / SQUARES];
    }
}

@compute @workgroup_size(WG_SIZE)
fn words(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * grid.x + group.x) * SQUARES;
    let at = place(first + local % SQUARES, local / SQUARES);
    var plane = 0u;
    if at != 0xffffffffu {
        plane = planes_in[at];
    }
    rows[32u * (local % SQUARES) + local / SQUARES] = plane;
    workgroupBarrier();
    let row = rows[local];
    workgroupBarrier();
    let word = transpose(local, row);
    rows[local] = word;
    workgroupBarrier();

    // Row k has word k of each run; words that share a u32 are neighbours, not in one row.
    let square = first + local / 32u;
    let k = local % 32u * runs();
    let run = k / 32u;
    let w = 32u * (square / halves() * runs() + run) + k % 32u;
    if w < params.n_words {
        var memory = 0u;
        for (var s = 0u; s < runs(); s++) {
            let part = rows[(local & ~31u) + k % 32u + s] >> (columns() * run);
            memory |= (part & column_mask()) << (columns() * s);
        }
        words_out[w / runs() * halves() + square % halves()] = memory;
    }
}
