use std::time::Instant;

use lmc_gpu::{
    dtype::Dtype,
    internals::format::{Format, Param},
};

use crate::{
    check, check_noted, check_opaque,
    pickle::{Pickle, View},
    tensor, typed,
    zip::{self, PLAIN, Style, TORCH, find, stored},
};

/// A checkpoint of one linear layer with Adam's state.
pub fn checkpoint(style: Style) -> Vec<u8> {
    let mut p = Pickle::new();
    p.op(b"}(").str("model").global("collections", "OrderedDict").op(b")R(");
    p.str("fc.weight").whole("BFloat16Storage", "0", &[2, 3]);
    p.str("fc.bias").whole("FloatStorage", "1", &[2]);
    p.op(b"u").str("optimizer").op(b"}(").str("state").op(b"}");
    p.int(0).op(b"}(").str("step").whole("FloatStorage", "2", &[]);
    p.str("exp_avg").whole("FloatStorage", "3", &[2, 3]).op(b"us");
    p.str("param_groups").op(b"]}(").str("lr").float(1e-3);
    p.str("betas").op(b"(").float(0.9).float(0.95).op(b"t").str("eps").float(1e-8);
    p.str("weight_decay").int(0).str("amsgrad").op(b"\x89").str("maximize").op(b"\x88");
    p.str("params").op(b"](").int(0).int(1).op(b"eua").op(b"u").str("list").op(b"](");
    p.op(b"N").whole("LongStorage", "4", &[1]).op(b"eu");
    let members = [
        stored("ckpt/data.pkl", &p.stop()),
        stored("ckpt/byteorder", b"little"),
        stored("ckpt/data/0", &[1; 12]),
        stored("ckpt/data/1", &[2; 8]),
        stored("ckpt/data/2", &600f32.to_le_bytes()),
        stored("ckpt/data/3", &[3; 24]),
        stored("ckpt/data/4", &[4; 8]),
        stored("ckpt/version", b"3\n"),
    ];
    zip::write(&members, style)
}

/// An archive of one pickle and these storages.
pub fn archive(pickle: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let mut members = vec![stored("a/data.pkl", pickle)];
    members.extend(storages.iter().map(|(key, data)| stored(&format!("a/data/{key}"), data)));
    zip::write(&members, TORCH)
}

#[test]
fn a_checkpoint_gives_names_types_and_optimizer_settings_in_every_zip_style() {
    let odd = Style { align: 24, descriptors: false, zip64: true };
    for style in [TORCH, PLAIN, odd, Style { zip64: false, ..TORCH }] {
        let bytes = checkpoint(style);
        let parsed = check(&bytes);
        assert_eq!(parsed.format, Format::TorchZip, "{:?}", parsed.notes);
        assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
        let names: Vec<_> = parsed.tensors.iter().map(|t| t.name.as_str()).collect();
        let want = [
            "model.fc.weight",
            "model.fc.bias",
            "optimizer.state.0.step",
            "optimizer.state.0.exp_avg",
            "list.1",
        ];
        assert_eq!(names, want);
        let want = [
            (Dtype::BF16, 12, 3),
            (Dtype::F32, 8, 0),
            (Dtype::F32, 4, 0),
            (Dtype::F32, 24, 3),
            (Dtype::I64, 8, 0),
        ];
        assert_eq!(typed(&parsed), want);
        let weight = tensor(&parsed, "model.fc.weight");
        assert_eq!((weight.dtype, &weight.shape[..]), (Dtype::BF16, &[2, 3][..]));
        assert_eq!(bytes[weight.offset as usize..][..12], [1; 12]);
        let [group] = &parsed.optimizer[..] else { panic!("{:?}", parsed.optimizer) };
        assert_eq!(group.path, "optimizer");
        assert_eq!((group.lr, group.betas), (Some(1e-3), Some([0.9, 0.95])));
        assert_eq!((group.eps, group.weight_decay), (Some(1e-8), Some(0.0)));
        assert_eq!((group.amsgrad, group.maximize), (false, true));
        let params = [(0, Some(600.0)), (1, None)];
        let params = params.map(|(n, step)| Param { key: format!("{n}"), step });
        assert_eq!(group.params, params);
    }
}

#[test]
fn views_share_a_storage_and_strides_are_kept() {
    let view =
        View { class: "HalfStorage", key: "0", n: 12, offset: 0, shape: &[3, 4], strides: &[1, 3] };
    let mut p = Pickle::new();
    p.op(b"}(").str("t").tensor(&view);
    p.str("row").tensor(&View { offset: 4, shape: &[4], strides: &[1], ..view });
    p.str("col").tensor(&View { offset: 1, shape: &[3], strides: &[4], ..view });
    p.str("broadcast").tensor(&View { shape: &[9, 12], strides: &[0, 1], ..view });
    p.str("past").tensor(&View { offset: 9, shape: &[4], strides: &[1], ..view });
    p.str("far").tensor(&View { shape: &[2], strides: &[i64::MAX], ..view });
    p.str("back").tensor(&View { shape: &[2], strides: &[-1], ..view });
    let parsed = check(&archive(&p.op(b"u").stop(), &[("0", &[7; 24])]));
    assert_eq!(typed(&parsed), [(Dtype::F16, 24, 3)]);
    let names: Vec<_> = parsed.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t", "row", "col", "broadcast"]);
    let start = tensor(&parsed, "t").offset;
    assert_eq!(tensor(&parsed, "t").strides, Some(vec![1, 3]));
    assert_eq!(tensor(&parsed, "row").offset, start + 8);
    assert_eq!(tensor(&parsed, "row").strides, None);
    assert_eq!(tensor(&parsed, "col").strides, Some(vec![4]));
    assert_eq!(parsed.notes.len(), 3, "{:?}", parsed.notes);
}

#[test]
fn untyped_storages_take_the_type_of_their_tensor() {
    let mut p = Pickle::new();
    p.global("torch._utils", "_rebuild_tensor_v3").op(b"((").str("storage");
    p.global("torch.storage", "UntypedStorage").str("0").str("cpu").int(6).op(b"tQ");
    p.int(0).ints(&[2, 3]).ints(&[3, 1]).op(b"\x89").op(b"}").global("torch", "float8_e4m3fn");
    let parsed = check(&archive(&p.op(b"tR").stop(), &[("0", &[0; 6])]));
    assert_eq!(typed(&parsed), [(Dtype::F8_E4M3, 6, 3)]);
    assert_eq!(parsed.tensors[0].name, "tensor");
}

#[test]
fn parameters_subclasses_and_whole_modules_are_looked_through() {
    let mut p = Pickle::new();
    p.op(b"(").global("torch._utils", "_rebuild_parameter").op(b"(");
    p.whole("FloatStorage", "0", &[2]).op(b"\x88}tR");
    // A tensor subclass.
    p.global("torch._tensor", "_rebuild_from_type_v2").op(b"(");
    p.global("torch._utils", "_rebuild_tensor_v2").global("my", "Tensor").op(b"(");
    p.storage("FloatStorage", "1", 2).int(0).ints(&[2]).ints(&[1]).op(b"\x89}t}tR");
    // A module: an object whose state is set.
    p.global("torch.nn.modules.linear", "Linear").op(b")\x81}(");
    p.str("_parameters").op(b"}").str("weight").whole("FloatStorage", "2", &[2]).op(b"s");
    p.op(b"ub");
    let data = [0; 8];
    let parsed = check(&archive(&p.op(b"t").stop(), &[("0", &data), ("1", &data), ("2", &data)]));
    let names: Vec<_> = parsed.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2.weight"], "{:?}", parsed.notes);
    assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
}

#[test]
fn big_endian_archives_say_so() {
    let mut bytes = checkpoint(TORCH);
    let at = find(&bytes, b"little");
    // The member keeps its place; only its name and length are seen by the parser.
    assert!(!check(&bytes).tensors[0].big_endian);
    bytes[at..at + 6].copy_from_slice(b"big   ");
    assert!(!check(&bytes).tensors[0].big_endian);
    let mut p = Pickle::new();
    let members = [
        stored("a/data.pkl", &p.whole("FloatStorage", "0", &[1]).stop()),
        stored("a/byteorder", b"big"),
        stored("a/data/0", &[0; 4]),
    ];
    let parsed = check(&zip::write(&members, TORCH));
    assert!(parsed.tensors[0].big_endian);
    assert!(parsed.spans.iter().any(|s| s.dtype == Dtype::F32 && s.big_endian));
}

#[test]
fn unknown_globals_are_named_and_not_run() {
    let mut p = Pickle::new();
    p.op(b"}(").str("x").global("os", "system").op(b"(").str("touch owned").op(b"tR");
    p.str("y").whole("FloatStorage", "0", &[1]).op(b"u");
    let parsed = check(&archive(&p.stop(), &[("0", &[0; 4])]));
    assert!(parsed.notes[0].contains("os.system") && parsed.notes[0].contains("not run"));
    assert_eq!(tensor(&parsed, "y").dtype, Dtype::F32);
    assert!(!std::path::Path::new("owned").exists());
}

#[test]
fn storages_that_are_missing_short_or_long_keep_their_bytes() {
    let pickle = Pickle::new().whole("FloatStorage", "0", &[4]).stop();
    let parsed = check(&archive(&pickle, &[("0", &[0; 15])]));
    assert!(typed(&parsed).is_empty() && parsed.notes[0].contains("too few"));
    let parsed = check(&archive(&pickle, &[("1", &[0; 16])]));
    assert!(typed(&parsed).is_empty() && parsed.notes[0].contains("not in the file"));
    let parsed = check(&archive(&pickle, &[("0", &[0; 19])]));
    assert_eq!(typed(&parsed), [(Dtype::F32, 16, 0)]);
}

#[test]
fn compressed_members_stay_opaque_however_large_they_claim_to_be() {
    let pickle = Pickle::new().whole("FloatStorage", "0", &[1 << 40]).stop();
    let mut members = [stored("a/data.pkl", &pickle), stored("a/data/0", &[0; 100])];
    members[1].method = 8;
    let parsed = check(&zip::write(&members, PLAIN));
    assert_eq!(parsed.format, Format::TorchZip);
    assert!(parsed.notes[0].contains("compressed") && parsed.tensors.is_empty());
    members[0].method = 8;
    let parsed = check(&zip::write(&members, PLAIN));
    assert!(parsed.notes[0].contains("compressed") && parsed.tensors.is_empty());
}

#[test]
fn archives_that_lie_are_read_as_far_as_they_agree() {
    let bytes = checkpoint(PLAIN);
    let directory = find(&bytes, b"PK\x01\x02");
    // Another name in a local header: that storage alone is left out.
    let mut other = bytes.clone();
    let local = find(&other, b"ckpt/data/0");
    other[local] = b'x';
    let parsed = check(&other);
    assert!(parsed.notes[0].contains("another name"));
    assert_eq!(typed(&parsed).len(), 4);
    // A directory entry that points past the end, or at another member.
    let entry = directory + find(&bytes[directory..], b"ckpt/data/3") - 46;
    for offset in [u32::MAX - 1, 0, bytes.len() as u32 - 4] {
        let mut lying = bytes.clone();
        lying[entry + 42..entry + 46].copy_from_slice(&offset.to_le_bytes());
        let parsed = check(&lying);
        assert_eq!(typed(&parsed).len(), 4, "{:?}", parsed.notes);
    }
    // Lengths that reach into the next member, or past everything.
    for len in [60u32, 1 << 30] {
        let mut lying = bytes.clone();
        for at in [entry + 20, entry + 24] {
            lying[at..at + 4].copy_from_slice(&len.to_le_bytes());
        }
        check(&lying);
    }
    // The directory's own length and place.
    for at in [12, 16] {
        let mut lying = bytes.clone();
        let field = lying.len() - 22 + at;
        lying[field..field + 4].copy_from_slice(&(1u32 << 20).to_le_bytes());
        assert_eq!(check_noted(&lying, "no central directory").tensors.len(), 5);
    }
    let mut cut = bytes.clone();
    cut[entry] = b'x';
    check_opaque(&cut, "cut off");
}

#[test]
fn overlapping_members_are_left_out() {
    let pickle = {
        let mut p = Pickle::new();
        p.op(b"(").whole("ByteStorage", "0", &[40]).whole("ByteStorage", "1", &[4]).op(b"t");
        p.stop()
    };
    let inner = zip::write(&[stored("a/data/1", &[1; 4])], PLAIN);
    let members =
        [stored("a/data.pkl", &pickle), stored("a/data/0", &inner), stored("a/data/1", &[1; 4])];
    let mut bytes = zip::write(&members, PLAIN);
    let directory = bytes.len() - 22 - 3 * 46 - 10 - 2 * 8;
    let at = find(&bytes, &inner);
    let entry = directory + 46 + 10 + 46 + 8;
    bytes[entry + 42..entry + 46].copy_from_slice(&(at as u32).to_le_bytes());
    let parsed = check(&bytes);
    assert!(parsed.notes.iter().any(|n| n.contains("overlaps")), "{:?}", parsed.notes);
}

#[test]
fn bytes_around_an_archive_are_kept_apart() {
    let bytes = checkpoint(TORCH);
    let mut longer = bytes.clone();
    longer.extend([0; 100]);
    let parsed = check(&longer);
    assert_eq!(parsed.format, Format::TorchZip);
    assert_eq!(parsed.tensors.len(), 5);
    assert!(parsed.notes[0].contains("100 bytes follow"));
    longer.extend(vec![0; 70_000]);
    assert_eq!(check_noted(&longer, "no central directory").tensors.len(), 5);
}

#[test]
fn archives_without_a_directory_keep_the_members_that_are_there() {
    for style in [PLAIN, TORCH] {
        let bytes = checkpoint(style);
        let whole = typed(&check(&bytes));
        assert_eq!(whole.len(), 5);
        let directory = find(&bytes, b"PK\x01\x02");
        for end in [directory, bytes.len() - 1] {
            let parsed = check_noted(&bytes[..end], "no central directory");
            assert_eq!((typed(&parsed), parsed.tensors.len()), (whole.clone(), 5));
        }
        let mut most = 0;
        for end in 0..directory {
            let parsed = check(&bytes[..end]);
            most = most.max(typed(&parsed).len());
            assert!(typed(&parsed).iter().all(|t| whole.contains(t)));
        }
        assert_eq!(most, 5);
    }
}

#[test]
fn lengths_that_stand_behind_the_data_are_found() {
    let pickle = Pickle::new().whole("FloatStorage", "0", &[4]).stop();
    for wide in [false, true] {
        let mut bytes = Vec::new();
        // A signature in the data is none, unless the length agrees.
        for (name, data) in [("a/data.pkl", &pickle[..]), ("a/data/0", b"PK\x07\x08345678901234")] {
            bytes.extend(b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0");
            bytes.extend([0; 12]);
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend([0; 2]);
            bytes.extend(name.bytes());
            bytes.extend(data);
            bytes.extend(b"PK\x07\x08crc!");
            let len = data.len() as u64;
            for _ in 0..2 {
                bytes.extend(&len.to_le_bytes()[..if wide { 8 } else { 4 }]);
            }
        }
        let parsed = check_noted(&bytes, "no central directory");
        assert_eq!(typed(&parsed), [(Dtype::F32, 16, 0)], "{:?}", parsed.notes);
    }
}

#[test]
fn archives_one_after_another_are_items() {
    let one = |key: &str| {
        let pickle = Pickle::new().whole("FloatStorage", key, &[2, 2]).stop();
        archive(&pickle, &[(key, &[0; 16])])
    };
    let bytes = [one("0"), one("0"), checkpoint(TORCH), one("0")].concat();
    let parsed = check(&bytes);
    assert_eq!(parsed.format, Format::Dcp, "{:?}", parsed.notes);
    assert_eq!(tensor(&parsed, "item0").shape, [2, 2]);
    tensor(&parsed, "item1");
    tensor(&parsed, "item2.model.fc.weight");
    tensor(&parsed, "item3");
    assert_eq!(parsed.optimizer[0].path, "item2.optimizer");
}

/// A legacy file of two storages.
pub fn legacy() -> Vec<u8> {
    let mut bytes = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec();
    let mut p = Pickle::new();
    bytes.extend(p.op(b"}").str("little_endian").op(b"\x88s").stop());
    let mut p = Pickle::new();
    p.op(b"}(").str("b").whole("FloatStorage", "20", &[2, 2]);
    p.str("a").whole("HalfStorage", "10", &[3]);
    bytes.extend(p.op(b"u").stop());
    let mut p = Pickle::new();
    bytes.extend(p.op(b"](").str("10").str("20").op(b"e").stop());
    bytes.extend(3u64.to_le_bytes());
    bytes.extend([1; 6]);
    bytes.extend(4u64.to_le_bytes());
    bytes.extend([2; 16]);
    bytes
}

#[test]
fn legacy_files_have_their_storages_after_the_keys() {
    let bytes = legacy();
    let parsed = check(&bytes);
    assert_eq!(parsed.format, Format::TorchLegacy, "{:?}", parsed.notes);
    assert_eq!(typed(&parsed), [(Dtype::F16, 6, 0), (Dtype::F32, 16, 2)]);
    let b = tensor(&parsed, "b").offset as usize;
    assert_eq!(bytes[b..b + 16], [2; 16]);
    assert!(parsed.notes.is_empty());
    // Cut off in the second storage: the first stays known.
    let parsed = check(&bytes[..bytes.len() - 1]);
    assert_eq!(typed(&parsed), [(Dtype::F16, 6, 0)]);
    assert!(parsed.notes[0].contains("cut off"));
    let longer = [&bytes[..], b"tail"].concat();
    assert!(check(&longer).notes[0].contains("4 bytes follow"));
    // Protocol 4 puts a length before the magic.
    let framed = [&b"\x80\x04\x95\x0d\0\0\0\0\0\0\0"[..], &bytes[2..]].concat();
    assert_eq!(check(&framed).tensors.len(), 2);
    // Another count than the pickle's.
    let mut other = bytes.clone();
    let at = other.len() - 24;
    other[at] = 5;
    assert!(check(&other).notes[0].contains("another size"));
    check_opaque(&bytes[..60], "cut off");
}

#[test]
fn five_thousand_tensors_parse_in_a_few_milliseconds() {
    let mut p = Pickle::new();
    p.op(b"}(");
    let mut storages = Vec::new();
    for i in 0..5000 {
        let key = i.to_string();
        p.str(&format!("model.layers.{i}.weight")).whole("FloatStorage", &key, &[2, 2]);
        storages.push((key, [0; 16]));
    }
    p.op(b"u");
    let storages: Vec<_> = storages.iter().map(|(k, d)| (k.as_str(), &d[..])).collect();
    let bytes = archive(&p.stop(), &storages);
    let start = Instant::now();
    let parsed = check(&bytes);
    println!("{} tensors in {:?}", parsed.tensors.len(), start.elapsed());
    assert_eq!(parsed.tensors.len(), 5000);
    assert!(start.elapsed().as_secs() < 2);
}

#[test]
fn scripted_modules_have_attributes_and_constants() {
    let mut p = Pickle::new();
    p.global("__torch__", "Net").op(b")\x81}(").str("training").op(b"\x89");
    p.str("fc").global("__torch__.torch.nn", "Linear").op(b")\x81}");
    p.str("weight").whole("FloatStorage", "0", &[2, 2]).op(b"sb");
    p.str("constants.0").whole("FloatStorage", "0", &[4]).op(b"ub");
    let mut constants = Pickle::new();
    constants.op(b"(").whole("HalfStorage", "0", &[3]);
    constants.whole("HalfStorage", "0", &[3]).op(b"t");
    let members = [
        stored("net/data.pkl", &p.stop()),
        stored("net/data/0", &[0; 16]),
        stored("net/code/__torch__.py", b"class Net:\n"),
        stored("net/constants.pkl", &constants.stop()),
        stored("net/constants/0", &[0; 6]),
    ];
    let parsed = check(&zip::write(&members, TORCH));
    assert!(parsed.notes.is_empty(), "{:?}", parsed.notes);
    assert_eq!(tensor(&parsed, "fc.weight").dtype, Dtype::F32);
    assert_eq!(tensor(&parsed, "constants.0").shape, [4], "an attribute's name comes first");
    assert_eq!(tensor(&parsed, "constants.1").shape, [3]);
}
