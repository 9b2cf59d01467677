// Counts byte symbols, all together or by the context of each.
// CPU twin and contract: src/entropy/histogram.rs. Each workgroup counts in its own memory first;
// counts are added to what `counts` holds. Symbols repeat, and additions to one place wait for
// each other: so neighbours count in different tables, whose places lie in different banks.

const WG_SIZE = 256u;

struct Params {
    n_symbols: u32,
    per_invocation: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> symbols: array<u32>;
// Below 16 each, one byte per symbol.
@group(0) @binding(2) var<storage, read_write> contexts: array<u32>;
// 256 counts, or 16 times 256.
@group(0) @binding(3) var<storage, read_write> counts: array<atomic<u32>>;

const TABLES = 8u;
const TABLE_LEN = 257u;

var<workgroup> bins: array<atomic<u32>, 2056>;
var<workgroup> context_bins: array<atomic<u32>, 4096>;

@compute @workgroup_size(WG_SIZE)
fn count(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    for (var t = 0u; t < TABLES; t++) {
        atomicStore(&bins[TABLE_LEN * t + local], 0u);
    }
    workgroupBarrier();
    let table = TABLE_LEN * (local % TABLES);
    let first = (group.y * grid.x + group.x) * WG_SIZE * params.per_invocation + local;
    for (var k = 0u; k < params.per_invocation; k++) {
        let i = first + k * WG_SIZE;
        if 4u * i < params.n_symbols {
            let word = symbols[i];
            for (var j = 0u; j < min(4u, params.n_symbols - 4u * i); j++) {
                atomicAdd(&bins[table + extractBits(word, 8u * j, 8u)], 1u);
            }
        }
    }
    workgroupBarrier();
    var n = 0u;
    for (var t = 0u; t < TABLES; t++) {
        n += atomicLoad(&bins[TABLE_LEN * t + local]);
    }
    if n != 0u {
        atomicAdd(&counts[local], n);
    }
}

@compute @workgroup_size(WG_SIZE)
fn count_contexts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    for (var c = 0u; c < 16u; c++) {
        atomicStore(&context_bins[256u * c + local], 0u);
    }
    workgroupBarrier();
    let first = (group.y * grid.x + group.x) * WG_SIZE * params.per_invocation + local;
    for (var k = 0u; k < params.per_invocation; k++) {
        let i = first + k * WG_SIZE;
        if 4u * i < params.n_symbols {
            let word = symbols[i];
            let context = contexts[i];
            for (var j = 0u; j < min(4u, params.n_symbols - 4u * i); j++) {
                let c = extractBits(context, 8u * j, 4u);
                atomicAdd(&context_bins[256u * c + extractBits(word, 8u * j, 8u)], 1u);
            }
        }
    }
    workgroupBarrier();
    for (var c = 0u; c < 16u; c++) {
        let n = atomicLoad(&context_bins[256u * c + local]);
        if n != 0u {
            atomicAdd(&counts[256u * c + local], n);
        }
    }
}
