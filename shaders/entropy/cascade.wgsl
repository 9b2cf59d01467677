// Levels of two-bit digits of byte symbols, and back.
// CPU twin and contract: src/entropy/cascade.rs. A workgroup handles a tile of 4096 symbols,
// an invocation 16 of them: the digits of one word.
//
// plan    sample  counts of the symbols, or of some of many               (counts)
//         plan    symbols of the levels and how many levels there are     (order)
// encode  count   how many symbols of each tile pass level 0, 1, 2, 3     (tiles)
//         scan    the same of all tiles before it, and of all             (tiles, totals)
//         clear   zeros to the words where tiles meet                     (levels, raw)
//         emit    each tile at the places found                           (digits, levels, raw)
// decode  count_digits, scan, expand for each level, the last first

const WG_SIZE = 256u;
// Symbols that are counted whole; words of a sampled group, and groups of a stretch.
const SAMPLED_FROM = 65536u;
const GROUP_WORDS = 16u;
const STRETCH = 64u;

struct Params {
    n_symbols: u32,
    n_tiles: u32,
    first: u32,
    digits_at: u32,
    stride: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// A byte per symbol.
@group(0) @binding(1) var<storage, read_write> symbols: array<u32>;
// 256 counts.
@group(0) @binding(2) var<storage, read_write> counts: array<atomic<u32>>;
// 256 symbols, the commonest first, one per entry, then the number of levels.
@group(0) @binding(3) var<storage, read_write> order: array<u32>;
@group(0) @binding(4) var<storage, read_write> tiles: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> totals: array<vec4<u32>>;
// Digits of the first level; when decoding, of the level at `digits_at`.
@group(0) @binding(6) var<storage, read_write> digits: array<u32>;
// Digits of the further levels, `stride` apart.
@group(0) @binding(7) var<storage, read_write> levels: array<atomic<u32>>;
// The symbols that passed all levels, a byte each.
@group(0) @binding(8) var<storage, read_write> raw: array<atomic<u32>>;
// When decoding: the symbols that passed the level, a byte each.
@group(0) @binding(9) var<storage, read_write> below: array<u32>;

var<workgroup> bins: array<atomic<u32>, 256>;
var<workgroup> ranks: array<u32, 256>;
var<workgroup> sums: array<vec4<u32>, 256>;
// Digits of three further levels and raw symbols of the tile, at the bit they have in their words.
var<workgroup> tile_levels: array<atomic<u32>, 771>;
var<workgroup> tile_raw: array<atomic<u32>, 1025>;

// One word of symbols per invocation: of all, or where there are `SAMPLED_FROM` of them or more,
// of one group in each stretch of groups. Counts are added to what `counts` holds.
@compute @workgroup_size(WG_SIZE)
fn sample(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    atomicStore(&bins[local], 0u);
    workgroupBarrier();
    let i = (group.y * grid.x + group.x) * WG_SIZE + local;
    let n = params.n_symbols;
    if n < SAMPLED_FROM {
        if 4u * i < n {
            let word = symbols[i];
            for (var j = 0u; j < min(4u, n - 4u * i); j++) {
                atomicAdd(&bins[extractBits(word, 8u * j, 8u)], 1u);
            }
        }
    } else {
        let stretch = i / GROUP_WORDS;
        if stretch < n / (4u * GROUP_WORDS * STRETCH) {
            let group_at = stretch * STRETCH + 13u * stretch % STRETCH;
            let word = symbols[group_at * GROUP_WORDS + i % GROUP_WORDS];
            for (var j = 0u; j < 4u; j++) {
                atomicAdd(&bins[extractBits(word, 8u * j, 8u)], 1u);
            }
        }
    }
    workgroupBarrier();
    let sum = atomicLoad(&bins[local]);
    if sum != 0u {
        atomicAdd(&counts[local], sum);
    }
}

// Sorts the symbols by count, ties by value, and adds levels while they save more than they take.
// One workgroup.
@compute @workgroup_size(WG_SIZE)
fn plan(@builtin(local_invocation_index) local: u32) {
    let mine = atomicLoad(&counts[local]);
    ranks[local] = mine;
    workgroupBarrier();
    var r = 0u;
    for (var j = 0u; j < 256u; j++) {
        let other = ranks[j];
        r += select(0u, 1u, other > mine || (other == mine && j < local));
    }
    order[r] = local;
    workgroupBarrier();
    ranks[r] = mine;
    workgroupBarrier();
    if local == 0u {
        var left = 0u;
        for (var j = 0u; j < 256u; j++) {
            left += ranks[j];
        }
        var n_levels = 0u;
        for (; n_levels < 4u; n_levels++) {
            let saved = ranks[3u * n_levels] + ranks[3u * n_levels + 1u] + ranks[3u * n_levels + 2u];
            if n_levels > 0u && 4u * saved <= left {
                break;
            }
            left -= saved;
        }
        order[256] = n_levels;
    }
}

// Sets `ranks` to the place of each symbol among those that have digits, 255 for others.
fn load_ranks(local: u32) {
    ranks[local] = 255u;
    workgroupBarrier();
    if local < 3u * order[256] {
        ranks[order[local]] = local;
    }
    workgroupBarrier();
}

// Sums of `value` over the invocations before this one; `sums[255]` is the sum over all.
fn scan_tile(local: u32, value: vec4<u32>) -> vec4<u32> {
    sums[local] = value;
    workgroupBarrier();
    for (var step = 1u; step < WG_SIZE; step <<= 1u) {
        var sum = sums[local];
        if local >= step {
            sum += sums[local - step];
        }
        workgroupBarrier();
        sums[local] = sum;
        workgroupBarrier();
    }
    return sums[local] - value;
}

// The 16 symbols from `first` on, four a word, and zeros beyond the last.
fn load(first: u32) -> vec4<u32> {
    let n = params.n_symbols - min(first, params.n_symbols);
    var words = vec4(0u);
    for (var k = 0u; k < 4u; k++) {
        if 4u * k < n {
            words[k] = symbols[first / 4u + k];
        }
    }
    return words;
}

fn symbol_at(words: vec4<u32>, k: u32) -> u32 {
    return extractBits(words[k / 4u], 8u * (k % 4u), 8u);
}

// 1 for each of the levels that a symbol of this rank passes.
fn passes(r: u32, n_levels: u32) -> vec4<u32> {
    return select(vec4(0u), vec4(1u), vec4(r) >= vec4(3u, 6u, 9u, 12u))
        * select(vec4(0u), vec4(1u), vec4(0u, 1u, 2u, 3u) < vec4(n_levels));
}

@compute @workgroup_size(WG_SIZE)
fn count(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    load_ranks(local);
    let n_levels = order[256];
    let tile = group.y * grid.x + group.x;
    let first = 4096u * tile + 16u * local;
    let words = load(first);
    var n = vec4(0u);
    for (var k = 0u; k < 16u; k++) {
        if first + k < params.n_symbols {
            n += passes(ranks[symbol_at(words, k)], n_levels);
        }
    }
    scan_tile(local, n);
    if local == 0u && tile < params.n_tiles {
        tiles[tile] = sums[255];
    }
}

// One workgroup.
@compute @workgroup_size(WG_SIZE)
fn scan(@builtin(local_invocation_index) local: u32) {
    var before = vec4(0u);
    for (var first = 0u; first < params.n_tiles; first += WG_SIZE) {
        let tile = first + local;
        var value = vec4(0u);
        if tile < params.n_tiles {
            value = tiles[tile];
        }
        let sum = scan_tile(local, value);
        if tile < params.n_tiles {
            tiles[tile] = before + sum;
        }
        before += sums[255];
        workgroupBarrier();
    }
    if local == 0u {
        totals[0] = before;
    }
}

// One invocation per tile and one for the end.
@compute @workgroup_size(WG_SIZE)
fn clear(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = (group.y * grid.x + group.x) * WG_SIZE + local;
    if tile > params.n_tiles {
        return;
    }
    var place = totals[0];
    if tile < params.n_tiles {
        place = tiles[tile];
    }
    let n_levels = order[256];
    for (var l = 0u; l + 1u < n_levels; l++) {
        atomicStore(&levels[l * params.stride + place[l] / 16u], 0u);
    }
    atomicStore(&raw[place[n_levels - 1u] / 4u], 0u);
}

@compute @workgroup_size(WG_SIZE)
fn emit(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    load_ranks(local);
    let n_levels = order[256];
    for (var k = local; k < 771u; k += WG_SIZE) {
        atomicStore(&tile_levels[k], 0u);
    }
    for (var k = local; k < 1025u; k += WG_SIZE) {
        atomicStore(&tile_raw[k], 0u);
    }
    let tile = group.y * grid.x + group.x;
    let first = 4096u * tile + 16u * local;

    let words = load(first);

    // The digits of 16 symbols at the first level, and of those that pass at the others.
    var top = 0u;
    var further = array<u32, 3>();
    var n = vec4(0u);
    for (var k = 0u; k < 16u; k++) {
        if first + k < params.n_symbols {
            let r = ranks[symbol_at(words, k)];
            top |= min(r, 3u) << (2u * k);
            for (var l = 0u; l + 1u < n_levels && r >= 3u * (l + 1u); l++) {
                further[l] |= min(r - 3u * (l + 1u), 3u) << (2u * n[l]);
            }
            n += passes(r, n_levels);
        }
    }
    if first < params.n_symbols {
        digits[first / 16u] = top;
    }

    // Their places in the tile, then in the whole.
    let before = scan_tile(local, n);
    let n_tile = sums[255];
    var start = vec4(0u);
    if tile < params.n_tiles {
        start = tiles[tile];
    }
    let last = n_levels - 1u;
    for (var l = 0u; l < last; l++) {
        if n[l] != 0u {
            let place = start[l] % 16u + before[l];
            let shift = 2u * (place % 16u);
            let w = 257u * l + place / 16u;
            atomicOr(&tile_levels[w], further[l] << shift);
            if shift != 0u {
                atomicOr(&tile_levels[w + 1u], further[l] >> (32u - shift));
            }
        }
    }
    var place = start[last] % 4u + before[last];
    for (var k = 0u; k < 16u; k++) {
        if first + k < params.n_symbols {
            let symbol = symbol_at(words, k);
            if ranks[symbol] >= 3u * n_levels {
                atomicOr(&tile_raw[place / 4u], symbol << (8u * (place % 4u)));
                place++;
            }
        }
    }
    workgroupBarrier();

    // Words that are shared with the tiles around: `clear` has emptied them.
    for (var l = 0u; l < last; l++) {
        let head = start[l] % 16u;
        let n_words = (head + n_tile[l] + 15u) / 16u;
        let at = l * params.stride + start[l] / 16u;
        for (var k = local; k < n_words; k += WG_SIZE) {
            let word = atomicLoad(&tile_levels[257u * l + k]);
            if is_shared(k, n_words, head, (head + n_tile[l]) % 16u) {
                atomicOr(&levels[at + k], word);
            } else {
                atomicStore(&levels[at + k], word);
            }
        }
    }
    let head = start[last] % 4u;
    let n_words = (head + n_tile[last] + 3u) / 4u;
    for (var k = local; k < n_words; k += WG_SIZE) {
        let word = atomicLoad(&tile_raw[k]);
        if is_shared(k, n_words, head, (head + n_tile[last]) % 4u) {
            atomicOr(&raw[start[last] / 4u + k], word);
        } else {
            atomicStore(&raw[start[last] / 4u + k], word);
        }
    }
}

// Whether word `k` of `n_words` also holds what is before (`head`) or after (`end`) the tile.
fn is_shared(k: u32, n_words: u32, head: u32, end: u32) -> bool {
    return (k == 0u && head != 0u) || (k + 1u == n_words && end != 0u);
}

// The digits 3 among the 16 of invocation `local`, as a bit at the low bit of each.
fn threes(word: u32, first: u32) -> u32 {
    var here = 0u;
    if first < params.n_symbols {
        let unused = 16u - min(16u, params.n_symbols - first);
        here = 0x55555555u & (0xffffffffu >> (2u * unused));
    }
    return word & (word >> 1u) & here;
}

@compute @workgroup_size(WG_SIZE)
fn count_digits(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group.y * grid.x + group.x;
    let first = 4096u * tile + 16u * local;
    let word = digits[params.digits_at + first / 16u];
    scan_tile(local, vec4(countOneBits(threes(word, first)), 0u, 0u, 0u));
    if local == 0u && tile < params.n_tiles {
        tiles[tile] = sums[255];
    }
}

@compute @workgroup_size(WG_SIZE)
fn expand(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group.y * grid.x + group.x;
    let first = 4096u * tile + 16u * local;
    let word = digits[params.digits_at + first / 16u];
    let before = scan_tile(local, vec4(countOneBits(threes(word, first)), 0u, 0u, 0u)).x;
    if first >= params.n_symbols {
        return;
    }
    var place = tiles[tile].x + before;
    let three = vec3(order[params.first], order[params.first + 1u], order[params.first + 2u]);
    for (var k = 0u; k < 4u; k++) {
        var four = 0u;
        for (var j = 0u; j < 4u; j++) {
            let digit = extractBits(word, 8u * k + 2u * j, 2u);
            var symbol = three[min(digit, 2u)];
            if digit == 3u {
                symbol = extractBits(below[place / 4u], 8u * (place % 4u), 8u);
                place++;
            }
            four |= symbol << (8u * j);
        }
        symbols[first / 4u + k] = four;
    }
}
