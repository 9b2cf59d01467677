#![no_main]
//! GGUF: the input after the magic.

use libfuzzer_sys::fuzz_target;

mod tiling;

fuzz_target!(|data: &[u8]| {
    let mut file = b"GGUF".to_vec();
    file.extend(data);
    tiling::check(&file);
});
