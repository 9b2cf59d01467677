//! Random files and random mutations of valid ones: always a tiling, never a panic.

use proptest::prelude::*;

use crate::{check, gguf, npy, safetensors, torch, zip};

/// One valid file of each kind.
fn valid_files() -> Vec<Vec<u8>> {
    let json = r#"{"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},
        "a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}"#;
    let plain = torch::checkpoint(zip::PLAIN);
    vec![
        safetensors::file(json, 26),
        torch::checkpoint(zip::TORCH),
        [&plain[..], &plain].concat(),
        torch::legacy(),
        gguf::plain().write(),
        npy::file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", &[0; 24]),
        npy::archive(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_are_tiled(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_magic_are_tiled(
        which in 0usize..8,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let magics = magics();
        let mut file = magics[which % magics.len()].clone();
        file.extend(bytes);
        check(&file);
    }

    #[test]
    fn mutated_files_are_tiled(
        which in 0usize..64,
        edits in proptest::collection::vec((any::<u32>(), any::<u8>(), 0u8..6), 1..6),
    ) {
        let files = valid_files();
        let mut file = files[which % files.len()].clone();
        for (at, value, kind) in edits {
            let at = at as usize % (file.len() + 1);
            mutate(&mut file, at, value, kind);
        }
        check(&file);
    }
}

fn mutate(file: &mut Vec<u8>, at: usize, value: u8, kind: u8) {
    match kind {
        0 => file.truncate(at),
        1 => file.insert(at, value),
        2 if at < file.len() => drop(file.remove(at)),
        3 if at < file.len() => file[at] ^= 1 << (value % 8),
        4 => {
            let tail = file[at..].to_vec();
            file.extend(tail);
        }
        _ if at < file.len() => file[at] = value,
        _ => {}
    }
}

/// Beginnings that lead into each parser.
fn magics() -> Vec<Vec<u8>> {
    vec![
        b"GGUF\x03\0\0\0".to_vec(),
        b"\x93NUMPY\x01\0".to_vec(),
        b"PK\x03\x04".to_vec(),
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".to_vec(),
        b"\x40\0\0\0\0\0\0\0{\"".to_vec(),
    ]
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_valid_file_is_tiled() {
    for file in valid_files() {
        let step = (file.len() / 2000).max(1);
        for n in (0..file.len()).step_by(step) {
            check(&file[..n]);
        }
        let mut flipped = file.clone();
        for at in (0..file.len()).step_by(step) {
            for bit in [0, 3, 7] {
                flipped[at] ^= 1 << bit;
                check(&flipped);
                flipped[at] ^= 1 << bit;
            }
        }
    }
}

/// Numbers at which sums and products of 16, 32 and 64 bits run over.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX / 4 + 1,
    u64::MAX - 7,
    u64::MAX,
];

#[test]
fn binary_numbers_of_any_size_anywhere_are_tiled() {
    for file in valid_files() {
        let mut changed = file.clone();
        for at in 0..file.len() {
            for number in NUMBERS {
                for width in [2, 4, 8].into_iter().filter(|w| at + w <= file.len()) {
                    // What does not fit is said by a wider number.
                    if width < 8 && number >> (8 * width) != 0 {
                        continue;
                    }
                    changed[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
                    check(&changed);
                    if width == 8 {
                        changed[at..at + 8].reverse();
                        check(&changed);
                    }
                    changed[at..at + width].copy_from_slice(&file[at..at + width]);
                }
            }
        }
    }
}

#[test]
fn decimal_numbers_of_any_size_anywhere_are_tiled() {
    let json = |shape: &str, begin: &str, end: &str| {
        let entry =
            format!("\"dtype\":\"F32\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]");
        safetensors::file(&format!("{{\"a\":{{{entry}}}}}"), 24)
    };
    let numbers: Vec<String> = NUMBERS.iter().map(u64::to_string).collect();
    let more = ["18446744073709551616", "-1", "1e19", "0.5", "24"].map(String::from);
    let numbers: Vec<&String> = numbers.iter().chain(&more).collect();
    for a in &numbers {
        for b in &numbers {
            check(&json(a, b, "24"));
            check(&json("6", a, b));
            check(&json(&format!("{a},{b}"), "0", "24"));
            check(&json(&format!("0,{a},{b}"), "0", "0"));
            for order in ["False", "True"] {
                let shape = format!("({a}, {b}, )");
                let header =
                    format!("{{'descr': '<c16', 'fortran_order': {order}, 'shape': {shape}, }}");
                check(&npy::file(1, &header, &[0; 24]));
            }
        }
    }
}
