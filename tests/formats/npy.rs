use lmc_gpu::{dtype::Dtype, internals::format::Format};

use crate::{
    check, check_noted, check_opaque, tensor, typed,
    zip::{self, PLAIN, TORCH, stored},
};

/// An array of this header and data.
pub fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut out = b"\x93NUMPY".to_vec();
    out.extend([version, 0]);
    if version == 1 {
        out.extend((header.len() as u16).to_le_bytes());
    } else {
        out.extend((header.len() as u32).to_le_bytes());
    }
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

const HEADER: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

#[test]
fn arrays_of_every_version_and_order_are_read() {
    for version in 1..=3 {
        let parsed = check(&file(version, HEADER, &[0; 24]));
        assert_eq!(parsed.format, Format::Npy, "{:?}", parsed.notes);
        assert_eq!(parsed.spans[1].row_words, 3);
        assert_eq!(tensor(&parsed, "array").strides, None);
    }
    let fortran = HEADER.replace("False", "True").replace("<f4", ">f4");
    let parsed = check(&file(1, &fortran, &[0; 24]));
    assert_eq!((parsed.spans[1].row_words, parsed.spans[1].big_endian), (2, true));
    assert_eq!(tensor(&parsed, "array").strides, Some(vec![1, 2]));
    assert_eq!(tensor(&parsed, "array").shape, [2, 3]);
    let scalar = HEADER.replace("(2, 3)", "()");
    assert_eq!(check(&file(1, &scalar, &[0; 4])).tensors[0].shape, [0u64; 0]);
    let empty = HEADER.replace("(2, 3)", "(0, 3)");
    assert_eq!(check(&file(1, &empty, &[])).format, Format::Npy);
}

#[test]
fn bad_arrays_are_noted() {
    let cut = check_noted(&file(1, HEADER, &[0; 23]), "23 bytes of 24");
    assert_eq!((typed(&cut), cut.tensors.len()), (vec![(Dtype::F32, 20, 0)], 0));
    check_opaque(&file(4, HEADER, &[0; 24]), "version is 4");
    check_opaque(&file(1, "{}", &[0; 24]), "lacks a key");
    check_opaque(&file(1, &HEADER.replace("<f4", "|O"), &[0; 24]), "unknown type");
    let huge = HEADER.replace("(2, 3)", "(4294967296, 4294967296)");
    check_opaque(&file(1, &huge, &[0; 24]), "no size");
    check_opaque(b"\x93NUMPY", "cut off");
    check_opaque(b"\x93NUMPY\x02\0\xff\xff\xff\xff", "longer than the file");
    let parsed = check(&file(1, HEADER, &[0; 30]));
    assert_eq!(parsed.format, Format::Npy);
    assert!(parsed.notes[0].contains("6 bytes follow"));
}

#[test]
fn fields_of_one_type_are_a_dimension() {
    let header = HEADER.replace("'<f4'", "[('x', '<f4'), ('y', '<f4', (2,))]");
    let parsed = check(&file(1, &header, &[0; 72]));
    assert_eq!(tensor(&parsed, "array").shape, [2, 3, 3]);
    assert_eq!(typed(&parsed), [(Dtype::F32, 72, 3)]);
}

/// An archive of two arrays.
pub fn archive() -> Vec<u8> {
    let one = file(1, HEADER, &[0; 24]);
    zip::write(&[stored("a.npy", &one), stored("dir/b.npy", &one)], TORCH)
}

#[test]
fn archives_name_arrays_after_their_members() {
    let parsed = check(&archive());
    assert_eq!(parsed.format, Format::Npz);
    assert_eq!(tensor(&parsed, "a").shape, [2, 3]);
    assert_eq!(tensor(&parsed, "dir/b").dtype, Dtype::F32);
    let one = file(1, HEADER, &[0; 24]);
    let mut members = [stored("a.npy", &one), stored("b.npy", &one), stored("c.npy", &one[..90])];
    members[1].method = 8;
    let parsed = check(&zip::write(&members, PLAIN));
    assert_eq!(parsed.tensors.len(), 1);
    assert!(parsed.notes[0].contains("compressed"));
    assert!(parsed.notes[1].contains("\"c\" have"), "{:?}", parsed.notes);
}

#[test]
fn other_archives_are_opaque_without_a_note() {
    check_opaque(&zip::write(&[stored("word/document.xml", b"<x/>")], PLAIN), "");
}
