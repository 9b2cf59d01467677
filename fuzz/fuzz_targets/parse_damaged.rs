#![no_main]
//! Damaged files: the input as what follows the local headers of a zip archive without a directory,
//! and as entries of a safetensors header beside a sound one.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::internals::format::{Format, parse};

mod tiling;

fuzz_target!(|data: &[u8]| {
    let name = b"a/data.pkl";
    let mut zip = b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0".to_vec();
    zip.extend([0; 12]);
    zip.extend((name.len() as u16).to_le_bytes());
    zip.extend([0; 2]);
    zip.extend(name);
    zip.extend(data);
    tiling::check(&zip);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let json = format!(r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},{text}}}"#);
    let mut file = (json.len() as u64).to_le_bytes().to_vec();
    file.extend(json.bytes());
    file.extend([0; 64]);
    tiling::check(&file);
    let parsed = parse(&file).expect("reading memory does not fail");
    if parsed.format == Format::Safetensors {
        assert!(parsed.tensors.iter().any(|t| t.name == "a"));
    }
});
