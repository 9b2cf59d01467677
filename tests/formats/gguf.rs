use lmc_gpu::{dtype::Dtype, internals::format::Format};

use crate::{check, check_noted, check_opaque, tensor, typed};

/// A GGUF file in the making.
#[derive(Clone)]
pub struct Gguf {
    pub version: u32,
    pub big_endian: bool,
    pub alignment: Option<u32>,
    /// Name, dimensions innermost first, type, offset.
    pub tensors: Vec<(&'static str, Vec<u64>, u32, u64)>,
    pub data_len: usize,
}

impl Gguf {
    pub fn write(&self) -> Vec<u8> {
        let (mut out, wide) = (b"GGUF".to_vec(), self.version > 1);
        let big = self.big_endian;
        let u32 = |out: &mut Vec<u8>, v: u32| {
            out.extend(if big { v.to_be_bytes() } else { v.to_le_bytes() });
        };
        let u64 = |out: &mut Vec<u8>, v: u64| {
            out.extend(if big { v.to_be_bytes() } else { v.to_le_bytes() });
        };
        let size = |out: &mut Vec<u8>, v: u64| if wide { u64(out, v) } else { u32(out, v as u32) };
        let string = |out: &mut Vec<u8>, s: &str| {
            size(out, s.len() as u64);
            out.extend(s.as_bytes());
        };
        u32(&mut out, self.version);
        size(&mut out, self.tensors.len() as u64);
        size(&mut out, 4 + u64::from(self.alignment.is_some()));
        string(&mut out, "general.name");
        u32(&mut out, 8);
        string(&mut out, "test");
        string(&mut out, "tokens");
        u32(&mut out, 9);
        u32(&mut out, 8);
        size(&mut out, 2);
        string(&mut out, "a");
        string(&mut out, "bc");
        string(&mut out, "nested");
        u32(&mut out, 9);
        u32(&mut out, 9);
        size(&mut out, 2);
        for n in [0, 3] {
            u32(&mut out, 2);
            size(&mut out, n);
            out.extend(vec![0; 2 * n as usize]);
        }
        string(&mut out, "flag");
        u32(&mut out, 7);
        out.push(1);
        if let Some(alignment) = self.alignment {
            string(&mut out, "general.alignment");
            u32(&mut out, 4);
            u32(&mut out, alignment);
        }
        for (name, dims, kind, offset) in &self.tensors {
            string(&mut out, name);
            u32(&mut out, dims.len() as u32);
            for d in dims {
                size(&mut out, *d);
            }
            u32(&mut out, *kind);
            u64(&mut out, *offset);
        }
        let alignment = self.alignment.unwrap_or(32).max(1) as usize;
        out.resize(out.len().next_multiple_of(alignment) + self.data_len, 7);
        out
    }
}

/// Three tensors at the default alignment.
pub fn plain() -> Gguf {
    Gguf {
        version: 3,
        big_endian: false,
        alignment: None,
        tensors: vec![
            ("w", vec![64, 3], 2, 0),
            ("b", vec![5], 0, 128),
            ("h", vec![2, 2, 2], 30, 160),
        ],
        data_len: 176,
    }
}

fn spans(bytes: &[u8]) -> Vec<(Dtype, u64, u64)> {
    let parsed = check(bytes);
    assert_eq!(parsed.format, Format::Gguf, "{:?}", parsed.notes);
    let typed = parsed.spans.iter().filter(|s| s.dtype != Dtype::BYTES);
    typed.map(|s| (s.dtype, s.len, s.row_words)).collect()
}

#[test]
fn every_version_is_read() {
    let want = [(Dtype::Q4_0, 108, 2), (Dtype::F32, 20, 0), (Dtype::BF16, 16, 2)];
    for version in 1..=3 {
        let bytes = Gguf { version, ..plain() }.write();
        assert_eq!(spans(&bytes), want, "version {version}");
        let parsed = check(&bytes);
        assert_eq!(tensor(&parsed, "w").shape, [3, 64]);
        assert_eq!(tensor(&parsed, "b").offset, bytes.len() as u64 - 176 + 128);
    }
    for version in [0, 4, 1 << 31] {
        check_opaque(&Gguf { version, ..plain() }.write(), "version");
    }
}

#[test]
fn big_endian_files_keep_floats_and_leave_quantised_data_opaque() {
    let bytes = Gguf { big_endian: true, ..plain() }.write();
    assert_eq!(spans(&bytes), [(Dtype::F32, 20, 0), (Dtype::BF16, 16, 2)]);
    assert!(check(&bytes).tensors[0].big_endian);
}

#[test]
fn alignments_are_multiples_of_eight() {
    let at = |alignment, second| {
        let mut gguf = Gguf { alignment: Some(alignment), ..plain() };
        gguf.tensors[1].3 = second;
        gguf.tensors[2].3 = 2 * second;
        gguf.data_len = 2 * second as usize + 16;
        gguf.write()
    };
    assert_eq!(spans(&at(24, 120)).len(), 3);
    assert_eq!(spans(&at(8, 112)).len(), 3);
    check_opaque(&at(0, 128), "alignment is 0");
    check_opaque(&at(4, 128), "alignment is 4");
    assert_eq!(check_noted(&at(32, 120), "not a multiple of 32").tensors.len(), 1);
}

#[test]
fn unknown_types_stay_opaque_and_are_counted() {
    let mut gguf = plain();
    gguf.tensors[0].2 = 16;
    let parsed = check(&gguf.write());
    assert_eq!(parsed.tensors.len(), 2);
    assert!(parsed.notes[0].contains("1 tensors of GGUF types [16]"));
}

#[test]
fn shapes_and_offsets_that_do_not_fit_are_noted() {
    let with = |dims: Vec<u64>, offset| {
        let mut gguf = plain();
        gguf.tensors[0] = ("w", dims, 2, offset);
        gguf.write()
    };
    // The others are kept.
    let kept = |dims, offset, why| typed(&check_noted(&with(dims, offset), why)).len();
    assert_eq!(kept(vec![33], 0, "has no size"), 2);
    assert_eq!(kept(vec![16, 2], 0, "has no size"), 2);
    assert_eq!(kept(vec![1 << 32, 1 << 32], 0, "has no size"), 2);
    assert_eq!(kept(vec![32], 1 << 40, "past the file's end"), 2);
    assert_eq!(kept(vec![32], u64::MAX - 31, "has offset"), 2);
    assert_eq!(kept(vec![32], 128, "overlap"), 2);
    check_opaque(&with(vec![32; 5], 0), "5 dimensions");
    let mut twice = plain();
    twice.tensors[1].0 = "w";
    assert_eq!(check_noted(&twice.write(), "twice").tensors.len(), 2);
}

#[test]
fn counts_are_checked_against_the_file() {
    let bytes = plain().write();
    for at in [8, 16] {
        for n in [1u64 << 60, u64::MAX, 1000] {
            let mut lying = bytes.clone();
            lying[at..at + 8].copy_from_slice(&n.to_le_bytes());
            assert_eq!(check(&lying).format, Format::Opaque);
        }
    }
    let whole = check(&bytes);
    for n in 4..bytes.len() {
        let cut = check(&bytes[..n]);
        assert!(cut.tensors.len() < whole.tensors.len() || cut.spans.len() < whole.spans.len());
    }
    // Metadata: an array of 2^60 bytes, arrays in arrays in arrays.
    let head = |tail: &[u8]| {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend([0, 1].map(u64::to_le_bytes).concat());
        out.extend(1u64.to_le_bytes());
        out.extend(b"k");
        out.extend(tail);
        out.extend([0; 64]);
        out
    };
    check_opaque(&head(b"\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10"), "counts");
    check_opaque(&head(b"\x0d\0\0\0"), "type 13");
    check_opaque(
        &head(&[&b"\x09\0\0\0"[..], &b"\x09\0\0\0\x01\0\0\0\0\0\0\0".repeat(100)].concat()),
        "deeply",
    );
    check_opaque(&head(b"\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), "cut off");
}
