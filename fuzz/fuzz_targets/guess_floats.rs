#![no_main]
//! Bytes that no parser knows: the input repeated, shifted and mixed with words that look like floats.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{CompressOptions, RestoreOptions, internals::format::parse_and_guess};

mod tiling;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    let mut file = Vec::new();
    let word = 1 << (kind % 4);
    // The input says which bytes there are; a few of its own are too few to be looked at.
    for round in 0..(64 << 10) / data.len().max(64) as u32 {
        file.extend(data);
        for i in 0..u32::from(kind) * 8 {
            let noise = (i ^ round).wrapping_mul(2_654_435_761).rotate_left(kind.into());
            let top = 0x3c ^ (noise as u8 & 0x81);
            let bytes = u64::from(noise).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            file.extend(&bytes[..word - 1]);
            file.push(top);
        }
    }
    let parsed = parse_and_guess(&file).expect("reading memory does not fail");
    tiling::check_parsed(&parsed, file.len() as u64);
    assert_eq!(parsed.spans, parse_and_guess(&file).expect("as before").spans);
    let archive = lmc_gpu::compress(&file, &CompressOptions::default()).expect("it can be stored");
    assert_eq!(lmc_gpu::decompress(&archive, &RestoreOptions::default()).expect("it is whole"), file);
});
