#![no_main]
//! torch: the input as a file, as the object's pickle of a legacy file, and as the `data.pkl` of a
//! zip archive with two storages.

use libfuzzer_sys::fuzz_target;

mod tiling;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else { return };
    match kind % 3 {
        0 => tiling::check(data),
        1 => {
            let mut file = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.M\xe9\x03.}.".to_vec();
            file.extend(data);
            tiling::check(&file);
        }
        _ => tiling::check(&archive(data)),
    }
});

/// A zip archive as plain as can be.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in [("a/data.pkl", pickle), ("a/data/0", &[0; 16]), ("a/data/1", &[0; 8])] {
        let (offset, len) = (out.len() as u32, data.len() as u32);
        let sizes = [len.to_le_bytes(), len.to_le_bytes()].concat();
        let name_len = (name.len() as u16).to_le_bytes();
        out.extend(b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        out.extend([&sizes[..], &name_len, &[0; 2], name.as_bytes(), data].concat());
        directory.extend(b"PK\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        directory.extend([&sizes[..], &name_len, &[0; 12]].concat());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, len) = (out.len() as u32, directory.len() as u32);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0\x03\0\x03\0");
    out.extend([len.to_le_bytes(), at.to_le_bytes()].concat());
    out.extend([0; 2]);
    out
}
