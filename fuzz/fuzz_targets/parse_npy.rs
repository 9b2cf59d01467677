#![no_main]
//! NumPy arrays: the input after the magic, and as a header with some data behind it.

use libfuzzer_sys::fuzz_target;

mod tiling;

fuzz_target!(|data: &[u8]| {
    let mut file = b"\x93NUMPY".to_vec();
    file.extend(data);
    tiling::check(&file);
    let mut file = b"\x93NUMPY\x02\0".to_vec();
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file.extend([0; 64]);
    tiling::check(&file);
});
