use std::time::Instant;

use crate::{check, pickle::Pickle, torch::archive};

#[test]
fn pickles_that_attack_end_quickly() {
    let storages: &[(&str, &[u8])] = &[("0", &[0; 4])];
    let noted = |pickle: &[u8], why: &str| {
        let start = Instant::now();
        let parsed = check(&archive(pickle, storages));
        assert!(start.elapsed().as_secs() < 30);
        assert!(parsed.notes.join(";").contains(why), "{:?}", parsed.notes);
        parsed
    };
    noted(b"\x80\x02(((((.", "empty stack");
    noted(b"\x80\x02N", "cut off");
    noted(b"\x80\x02\xff.", "unknown opcode");
    noted(b"\x80\x02h\x05.", "memo");
    noted(b"\x80\x02X\xff\xff\xff\xffa.", "cut off");
    noted(b"\x80\x02NNs.", "empty stack");
    noted(b"\x80\x02N)a.", "adds elements");
    // A memo index of four billion costs one entry.
    let mut p = Pickle::new();
    p.op(b"](").whole("FloatStorage", "0", &[1]).op(b"r\xff\xff\xff\xff0j\xff\xff\xff\xffe");
    let parsed = noted(&p.stop(), "");
    assert_eq!(parsed.tensors.len(), 1);
    // A list that holds itself, and a million nested lists.
    noted(b"\x80\x02]q\x00h\x00a.", "");
    let mut deep = b"\x80\x02".to_vec();
    deep.extend(vec![b']'; 1_000_000]);
    deep.extend(vec![b'a'; 999_999]);
    deep.push(b'.');
    noted(&deep, "nested deeper");
    // Sixty levels of lists that hold the one below twice: 2^60 paths.
    let mut wide = b"\x80\x02]q\x00".to_vec();
    for i in 1..60 {
        wide.extend([b']', b'q', i, b'(', b'h', i - 1, b'h', i - 1, b'e']);
    }
    wide.push(b'.');
    noted(&wide, "");
    // A subclass whose arguments are itself.
    let mut p = Pickle::new();
    p.global("torch._tensor", "_rebuild_from_type_v2").op(b"q\x00](q\x01h\x00Nh\x01NtR");
    noted(&p.stop(), "");
}

#[test]
fn repeated_use_of_long_strings_and_lists_stays_linear() {
    let long = "k".repeat(1 << 20);
    let mut p = Pickle::new();
    p.op(b"}q\x01").str(&long).op(b"q\x020](");
    p.whole("FloatStorage", "0", &[1]).op(b"q\x03");
    for _ in 0..100_000 {
        p.op(b"}h\x02h\x03s");
    }
    p.op(b"(h\x02h\x02h\x02h\x02h\x02tq\x04");
    for _ in 0..100_000 {
        p.op(b"h\x02h\x02\x93h\x04R");
        p.op(b"h\x04Q");
    }
    p.op(b"e");
    let start = Instant::now();
    let parsed = check(&archive(&p.stop(), &[("0", &[0; 4])]));
    println!("{} tensors in {:?}", parsed.tensors.len(), start.elapsed());
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn lists_shared_by_many_calls_are_walked_once() {
    let mut p = Pickle::new();
    p.global("collections", "OrderedDict").op(b"q\x010](");
    for _ in 0..50_000 {
        p.op(b"]q\x02(").str("k").op(b"]e");
    }
    p.op(b"eq\x03\x85q\x040](");
    for _ in 0..50_000 {
        p.op(b"h\x01h\x04Rh\x01h\x03\x85R");
    }
    p.op(b"}(").str("state").op(b"}").str("param_groups").op(b"](");
    p.op(b"}").str("params").op(b"](");
    for _ in 0..50_000 {
        p.int(3);
    }
    p.op(b"esq\x05");
    for _ in 0..50_000 {
        p.op(b"h\x05");
    }
    let start = Instant::now();
    let parsed = check(&archive(&p.op(b"eue").stop(), &[]));
    assert!(start.elapsed().as_secs() < 30);
    assert!(parsed.notes.join(";").contains("share too much"), "{:?}", parsed.notes);
    assert!(parsed.optimizer.len() < 100);
}
