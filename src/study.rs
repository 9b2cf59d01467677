//! The laboratory: the methods of the two studies that this codec descends from, and benchmarks
//! of them and others.
//!
//! The methods are real codecs, which `compress --method` takes and which chunks name in their
//! forms. The rest of the crate reaches them through one door, `codec::study`, which also stands in
//! builds without the feature `study` and says there what is lacking; nothing else outside but the
//! command `bench` names this wing. The wing may use everything but the command line.
//!
//! * `codec`: chunks to payloads and back
//! * `huffman`: the entropy coder of LMC
//! * `bench`: measurements, baselines, statistics, and the experiments of the studies

#[cfg_attr(not(feature = "cli"), allow(dead_code))] // the command is what measures
pub mod bench;
pub mod codec;
pub mod huffman;
