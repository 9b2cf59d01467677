use std::time::Instant;

use lmc_gpu::{
    dtype::Dtype,
    internals::format::{Format, PrefixResult, parse_flat, parse_prefix},
};

use crate::{check, check_noted, check_opaque, check_tiling, tensor, typed};

/// A file of this header and `data_len` bytes of data.
pub fn file(json: &str, data_len: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.extend((0..data_len).map(|i| i as u8));
    bytes
}

const TWO: &str = r#"{"__metadata__":{"format":"pt"},
"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},
"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}} "#;

#[test]
fn a_plain_file_has_its_tensors_in_header_order() {
    let parsed = check(&file(TWO, 26));
    assert_eq!(parsed.format, Format::Safetensors);
    assert!(parsed.notes.is_empty());
    let data = 8 + TWO.len() as u64;
    let spans: Vec<_> =
        parsed.spans.iter().map(|s| (s.offset, s.len, s.dtype, s.row_words)).collect();
    let want =
        [(0, data, Dtype::BYTES, 0), (data, 2, Dtype::BF16, 0), (data + 2, 24, Dtype::F32, 3)];
    assert_eq!(spans, want);
    assert_eq!(parsed.tensors[0].name, "b");
    assert_eq!(parsed.tensors[0].shape, [2, 3]);
    assert_eq!((parsed.tensors[0].offset, parsed.tensors[1].offset), (data + 2, data));
    assert_eq!(parsed.tensors[1].shape, [0u64; 0]);
}

#[test]
fn every_dtype_of_the_format_is_known() {
    let bits = [
        ("BOOL", 8),
        ("F4", 4),
        ("F6_E2M3", 6),
        ("F6_E3M2", 6),
        ("U8", 8),
        ("I8", 8),
        ("F8_E5M2", 8),
        ("F8_E4M3", 8),
        ("F8_E8M0", 8),
        ("F8_E4M3FNUZ", 8),
        ("F8_E5M2FNUZ", 8),
        ("I16", 16),
        ("U16", 16),
        ("F16", 16),
        ("BF16", 16),
        ("I32", 32),
        ("U32", 32),
        ("F32", 32),
        ("C64", 64),
        ("F64", 64),
        ("I64", 64),
        ("U64", 64),
    ];
    for (dtype, bits) in bits {
        let len = 3 * 4 * bits / 8;
        let json =
            format!(r#"{{"x":{{"dtype":"{dtype}","shape":[3,4],"data_offsets":[0,{len}]}}}}"#);
        let parsed = check(&file(&json, len));
        assert_eq!(parsed.format, Format::Safetensors, "{dtype}: {:?}", parsed.notes);
        assert_eq!(tensor(&parsed, "x").dtype.name(), dtype);
        let span = &parsed.spans[1];
        assert_eq!(span.len, len as u64);
        let rows = span.len / span.dtype.word_len() as u64;
        assert_eq!(span.row_words * 3, rows, "{dtype}");
    }
    for dtype in ["Q4_0", "BYTES", "C128", "f32", ""] {
        let json = format!(r#"{{"x":{{"dtype":"{dtype}","shape":[0],"data_offsets":[0,0]}}}}"#);
        check_opaque(&file(&json, 0), "unknown dtype");
    }
}

#[test]
fn sub_byte_shapes_count_elements_and_must_fill_bytes() {
    let f4 = r#"{"x":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}"#;
    let parsed = check(&file(f4, 3));
    assert_eq!((parsed.spans[1].len, parsed.spans[1].row_words), (3, 0));
    check_opaque(&file(&f4.replace("[2,3]", "[5]"), 3), "has no size");
    let f6 = r#"{"x":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}"#;
    assert_eq!(check(&file(f6, 3)).format, Format::Safetensors);
}

#[test]
fn empty_tensors_scalars_and_no_tensors_are_legal() {
    let json = r#"{"e":{"dtype":"F32","shape":[4,0],"data_offsets":[4,4]},
        "s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#;
    let parsed = check(&file(json, 8));
    assert_eq!(parsed.format, Format::Safetensors, "{:?}", parsed.notes);
    assert_eq!(parsed.tensors.len(), 3);
    assert_eq!(check(&file("{}", 0)).format, Format::Safetensors);
    assert_eq!(check(&file(r#"{"__metadata__":{}}"#, 0)).format, Format::Safetensors);
}

#[test]
fn headers_may_be_padded_by_white_space_or_zeros() {
    let json = r#"{"x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}"#;
    let zeros = format!("{json}\0\0\0");
    for padded in [format!(" \n\t{json}\r\n  "), json.into(), format!("{json}    "), zeros] {
        assert_eq!(check(&file(&padded, 2)).format, Format::Safetensors);
    }
    check_opaque(&file(&format!("{json}{{}}"), 2), "not valid");
}

#[test]
fn short_files_are_opaque_without_a_note() {
    for n in 0..16 {
        check_opaque(&vec![0; n], "");
        check_opaque(&vec![0xff; n], "");
    }
    check_opaque(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "");
    check_opaque(b"{\"metadata\":{\"total_size\":12},\"weight_map\":{}}", "");
}

#[test]
fn header_lengths_that_lie_are_noted() {
    let mut bytes = file(TWO, 26);
    for n in [1 << 63, u64::MAX, 100_000_001, 1_000_000] {
        bytes[..8].copy_from_slice(&u64::to_le_bytes(n));
        check_opaque(&bytes, "longer than");
    }
    for n in 0..TWO.len() as u64 - 1 {
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        check_opaque(&bytes, "not valid");
    }
}

#[test]
fn what_is_there_of_a_cut_file_is_kept() {
    let lens = |n| typed(&check_noted(&file(TWO, n), "")).iter().map(|t| t.1).collect::<Vec<_>>();
    let whole = lens(26);
    assert_eq!(whole.iter().sum::<u64>(), 26);
    let word = check(&file(TWO, 26)).spans.last().unwrap().dtype.word_len() as u64;
    let cut = check_noted(&file(TWO, 25), "1 bytes past the end");
    assert_eq!(cut.tensors.len(), 1);
    assert_eq!(typed(&cut)[1].1, (whole[1] - 1) / word * word);
    let none = check_noted(&file(TWO, 0), "past the end");
    assert!(none.tensors.is_empty() && typed(&none).is_empty());
    let longer = check_noted(&file(TWO, 27), "1 bytes follow");
    assert_eq!((longer.tensors.len(), lens(27)), (2, whole));
}

#[test]
fn tensors_beside_a_bad_one_are_kept() {
    let with = |bad: &str| {
        let json = format!(
            r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"x":{bad},
                "b":{{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}}}"#
        );
        file(&json, 24)
    };
    let cases = [
        (r#"{"dtype":"F99","shape":[2],"data_offsets":[8,16]}"#, "unknown dtype"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[8,12]}"#, "offsets [8, 12] for shape [2]"),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[12,16]}"#, "no tensor holds the 4 bytes"),
        (r#"{"dtype":"F32","shape":[5],"data_offsets":[0,20]}"#, "overlap"),
        (r#"{"dtype":"F32","shape":[99],"data_offsets":[8,404]}"#, "past the end"),
    ];
    for (bad, why) in cases {
        let parsed = check_noted(&with(bad), why);
        for name in ["a", "b"] {
            let offset = tensor(&parsed, name).offset;
            let span = parsed.spans.iter().find(|s| s.offset == offset).unwrap();
            assert_eq!((span.dtype, span.len), (Dtype::F32, 8), "{why}");
        }
    }
}

#[test]
fn bad_entries_are_noted() {
    let entry = |s: &str| format!(r#"{{"x":{s}}}"#);
    let cases = [
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[0,12]}"#, "offsets [0, 12] for shape [2]"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#, "offsets [8, 0]"),
        (r#"{"dtype":"F99","shape":[2],"data_offsets":[0,8]}"#, "unknown dtype"),
        (r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}"#, "no size"),
        (r#"{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8]}"#, "no size"),
        (r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}"#, "not valid"),
        (r#"{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}"#, "not valid"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}"#, "not valid"),
        (r#"{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}"#, "not valid"),
        (r#"{"dtype":"F32","shape":[2]}"#, "not valid"),
        (r#"[]"#, "not valid"),
    ];
    for (text, why) in cases {
        check_opaque(&file(&entry(text), 8), why);
    }
    let huge = r#"{"dtype":"U8","shape":[2],
        "data_offsets":[18446744073709551613,18446744073709551615]}"#;
    check_opaque(&file(&entry(huge), 8), "has offsets");
    let nested = format!(r#"{{"__metadata__":{}"#, "[".repeat(100_000));
    check_opaque(&file(&nested, 8), "not valid");
}

#[test]
fn overlaps_and_duplicates_are_noted() {
    let two = |a: &str, x: &str, b: &str, y: &str| {
        format!(
            r#"{{"{a}":{{"dtype":"U8","shape":[4],"data_offsets":{x}}},
                 "{b}":{{"dtype":"U8","shape":[4],"data_offsets":{y}}}}}"#
        )
    };
    let kept = |text: String, len, why| {
        let parsed = check_noted(&file(&text, len), why);
        (typed(&parsed).len(), parsed.tensors.len())
    };
    assert_eq!(kept(two("a", "[0,4]", "b", "[2,6]"), 6, "overlap"), (1, 2));
    assert_eq!(kept(two("a", "[0,4]", "b", "[0,4]"), 4, "overlap"), (1, 2));
    assert_eq!(kept(two("a", "[0,4]", "b", "[6,10]"), 10, "no tensor holds the 2 bytes"), (2, 2));
    assert_eq!(kept(two("a", "[0,4]", "a", "[4,8]"), 8, "twice"), (2, 1));
    assert_eq!(kept(two("a", "[0,4]", "\\u0061", "[4,8]"), 8, "twice"), (2, 1));
    check_opaque(&file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), "twice");
}

#[test]
fn escaped_names_are_read() {
    let json = r#"{"\u0061\n\"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    tensor(&check(&file(json, 1)), "a\n\"");
}

#[test]
fn two_hundred_thousand_tensors_parse_in_well_under_a_second() {
    let entries: Vec<String> = (0..200_000)
        .map(|i| {
            format!(
                r#""model.layers.{i}.w":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#,
                4 * i,
                4 * i + 4
            )
        })
        .collect();
    let bytes = file(&format!("{{{}}}", entries.join(",")), 800_000);
    let start = Instant::now();
    let parsed = check(&bytes);
    println!("{} tensors in {:?}", parsed.tensors.len(), start.elapsed());
    assert_eq!(parsed.tensors.len(), 200_000);
    assert!(start.elapsed().as_secs() < 10);
}

#[test]
fn a_prefix_asks_for_the_header_and_then_knows_the_stream() {
    let bytes = file(TWO, 26);
    let header = 8 + TWO.len();
    for n in 0..8 {
        assert!(matches!(parse_prefix(&bytes[..n]), PrefixResult::NeedMore(8)));
    }
    for n in 8..header {
        assert!(
            matches!(parse_prefix(&bytes[..n]), PrefixResult::NeedMore(h) if h == header as u64)
        );
    }
    for n in [header, header + 1, bytes.len()] {
        let PrefixResult::Parsed(parsed) = parse_prefix(&bytes[..n]) else { panic!("{n}") };
        check_tiling(&parsed, bytes.len() as u64);
        assert_eq!(parsed.tensors.len(), 2);
    }
    for other in
        [&b"GGUF\x03\0\0\0aaaa"[..], b"PK\x03\x04\x14\0\0\0aaa", b"\xff\xff\0\0\0\0\0\0abc"]
    {
        assert!(matches!(parse_prefix(other), PrefixResult::Opaque));
    }
    assert!(matches!(parse_prefix(&file("{\"a\":1}", 0)), PrefixResult::Opaque));
    let huge = r#"{"a":{"dtype":"U8","shape":[18446744073709551615],
        "data_offsets":[0,18446744073709551615]}}"#;
    assert!(matches!(parse_prefix(&file(huge, 0)), PrefixResult::Opaque));
}

#[test]
fn a_flat_array_keeps_its_part_word_apart() {
    let parsed = parse_flat(11, Dtype::F32);
    check_tiling(&parsed, 11);
    let spans: Vec<_> = parsed.spans.iter().map(|s| (s.len, s.dtype)).collect();
    assert_eq!(spans, [(8, Dtype::F32), (3, Dtype::BYTES)]);
    assert_eq!(parse_flat(3, Dtype::F32).spans.len(), 1);
    assert_eq!(parse_flat(0, Dtype::F32).spans.len(), 0);
    assert_eq!(parse_flat(36, Dtype::Q4_0).spans.len(), 1);
}
