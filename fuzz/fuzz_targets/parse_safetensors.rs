#![no_main]
//! safetensors: the input as a file, as a stream's beginning, and as a header of the right length.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::internals::format::{PrefixResult, parse_prefix};

mod tiling;

fuzz_target!(|data: &[u8]| {
    tiling::check(data);
    if let PrefixResult::NeedMore(n) = parse_prefix(data) {
        assert!(n > data.len() as u64 && n <= 100_000_008);
    }
    let mut file = (data.len() as u64).to_le_bytes().to_vec();
    file.extend(data);
    if let PrefixResult::Parsed(parsed) = parse_prefix(&file) {
        let end = parsed.spans.last().map_or(0, |s| s.offset + s.len);
        tiling::check_parsed(&parsed, end);
        if end < 1 << 20 {
            file.resize(end as usize, 0);
        }
    }
    tiling::check(&file);
});
