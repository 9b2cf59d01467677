//! Every kernel at every level, beside a copy of the same size.
//!
//! `cargo bench --bench kernels -- [FILTER]`: names are `kernel/level/type/size`. Throughput is in
//! bytes of the words, whichever way they go, or in symbols. Archives as wholes are measured by
//! `cargo bench --bench checkpoint`.

mod others;
mod planes;
mod rans;

criterion::criterion_group!(benches, planes::all, rans::all, others::all);
criterion::criterion_main!(benches);
