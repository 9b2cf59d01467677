//! Archives that are not what they were.

use super::{Place, data};

/// A directory of two models and a file, its archive, and a byte in the middle of `big.weight`
/// of the first model.
fn damaged() -> Place {
    let at = Place::new();
    at.write("d/a.safetensors", &data::model());
    at.write(
        "d/b.safetensors",
        &data::safetensors(&[("other", "BF16", vec![300, 500], data::weights(150_000, 9))]),
    );
    at.write("d/c.txt", b"text");
    at.ok(&["compress", "d"]);
    let mut bytes = at.read("d.lmc");
    bytes[300_000] ^= 1;
    at.write("d.lmc", &bytes);
    at
}

#[test]
fn a_flipped_bit_is_found_and_its_tensor_named() {
    let at = damaged();
    for args in [&["verify", "d.lmc"][..], &["decompress", "d.lmc", "-o", "back"]] {
        let text = at.fails(1, args);
        let named = ["a.safetensors", "big.weight", "chunk"].iter().all(|t| text.contains(t));
        assert!(named, "{text}");
    }
    assert_eq!(at.names(), ["d", "d.lmc"]);
}

#[test]
fn keep_going_saves_what_is_sound() {
    let at = damaged();
    let text = at.fails(1, &["decompress", "d.lmc", "-o", "back", "--keep-going"]);
    assert!(
        text.contains("big.weight") && text.contains("zeros") || text.contains("lost"),
        "{text}"
    );
    assert!(at.read("back/b.safetensors") == at.read("d/b.safetensors"));
    assert!(at.read("back/c.txt") == at.read("d/c.txt"));
    let (was, is) = (at.read("d/a.safetensors"), at.read("back/a.safetensors"));
    assert_eq!(was.len(), is.len());
    let wrong = was.iter().zip(&is).filter(|(a, b)| a != b).count();
    assert!(wrong > 0 && wrong <= 2 * (256 << 10), "{wrong} bytes differ");
    let out = at.run(&["verify", "d.lmc", "--keep-going", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(told["ok"], false);
    assert_eq!(told["damage"].as_array().unwrap().len(), 1);
    assert_eq!(told["damage"][0]["tensors"][0], "big.weight");
}

#[test]
fn keep_going_saves_what_a_cut_archive_still_holds() {
    let at = damaged();
    at.ok(&["compress", "d", "--force"]);
    let bytes = at.read("d.lmc");
    at.write("cut.lmc", &bytes[..bytes.len() - 1000]);
    let text = at.fails(1, &["decompress", "cut.lmc", "-o", "back"]);
    assert!(text.contains("cut short"), "{text}");
    at.fails(1, &["decompress", "cut.lmc", "-o", "back", "--keep-going"]);
    assert!(at.read("back/a.safetensors") == at.read("d/a.safetensors"));
}

#[test]
fn any_cut_and_any_flip_of_a_small_archive_exits_with_1_or_is_harmless() {
    let at = Place::new();
    let file = data::safetensors(&[("t", "BF16", vec![30], data::weights(30, 1))]);
    at.write("s", &file);
    at.ok(&["compress", "s"]);
    let good = at.read("s.lmc");
    for n in (0..good.len()).step_by(7) {
        at.write("x.lmc", &good[..n]);
        at.fails(1, &["decompress", "x.lmc", "-o", "back"]);
    }
    for bit in (0..8 * good.len()).step_by(11) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        at.write("x.lmc", &bad);
        let code = at.run(&["decompress", "x.lmc", "-o", "back"]).status.code();
        if code == Some(0) {
            assert!(at.read("back") == file, "bit {bit}");
            std::fs::remove_file(at.path("back")).unwrap();
        } else {
            assert_eq!(code, Some(1), "bit {bit}");
        }
    }
    assert_eq!(at.names(), ["s", "s.lmc", "x.lmc"]);
}

#[test]
fn other_files_and_newer_archives_are_called_what_they_are() {
    let at = Place::new();
    at.write("x.lmc", b"not an archive at all, but long enough to be one, one would think");
    assert!(at.fails(1, &["verify", "x.lmc"]).contains("not an lmc archive"));
    at.write("s", b"x");
    at.ok(&["compress", "s"]);
    let mut newer = at.read("s.lmc");
    newer[8] = 77;
    let check = lmc_gpu::internals::container::hash64(&newer[..20]).to_le_bytes();
    newer[20..24].copy_from_slice(&check[..4]);
    at.write("s.lmc", &newer);
    assert!(at.fails(1, &["verify", "s.lmc"]).contains("version 77"));
}

#[test]
fn inspect_lists_what_it_can_of_an_archive_with_a_damaged_header() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    let mut bytes = at.read("m.lmc");
    let end = {
        let archive =
            lmc_gpu::Archive::from_bytes(&bytes, &lmc_gpu::RestoreOptions::default()).unwrap();
        let header = archive.chunks().iter().find(|c| c.meta.offset() == 0).unwrap();
        (header.offset + header.stored_len) as usize
    };
    bytes[end - 2] ^= 1;
    at.write("m.lmc", &bytes);
    let out = at.run(&["inspect", "m.lmc", "--json"]);
    assert!(out.status.success());
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(told["files"][0]["path"], "m");
    assert!(told["notes"][0].as_str().unwrap().contains("not known"), "{told}");
}

#[test]
fn the_advice_to_keep_going_is_given_only_where_it_helps() {
    let advice = "--keep-going";
    let at = damaged();
    let fails = |args: &[&str]| at.fails(1, args);
    let restore = |x: &str| fails(&["decompress", x, "-o", "back"]);
    // A chunk, the end, the index and the header are damaged: the rest can be had.
    assert!(restore("d.lmc").contains(advice));
    at.ok(&["compress", "d", "--force"]);
    let good = at.read("d.lmc");
    at.write("cut.lmc", &good[..good.len() - 1000]);
    let mut header = good.clone();
    header[21] ^= 1;
    at.write("header.lmc", &header);
    for x in ["cut.lmc", "header.lmc"] {
        assert!(restore(x).contains(advice), "{x}");
        at.run(&["decompress", x, "-o", "back", "--keep-going"]);
        assert!(at.read("back/c.txt") == at.read("d/c.txt"), "{x}");
        std::fs::remove_dir_all(at.path("back")).unwrap();
    }
    // No archive, a newer version, no list of files, no base, another base: nothing can be had.
    at.write("text.lmc", &[b'x'; 200]);
    at.write("short.lmc", &good[..20]);
    at.write("start.lmc", &good[..30]);
    let mut list = good.clone();
    list[24..80].fill(0xa5);
    list.truncate(good.len() - 10);
    at.write("list.lmc", &list);
    let mut newer = good.clone();
    newer[8] = 77;
    let check = lmc_gpu::internals::container::hash64(&newer[..20]).to_le_bytes();
    newer[20..24].copy_from_slice(&check[..4]);
    at.write("newer.lmc", &newer);
    at.write("m", &data::safetensors(&[("t", "BF16", vec![150_000], data::weights(150_000, 9))]));
    let mut after = data::weights(150_000, 9);
    after[1000] ^= 1;
    at.write("n", &data::safetensors(&[("t", "BF16", vec![150_000], after.clone())]));
    at.ok(&["compress", "n", "--base", "m"]);
    after[2000] ^= 64;
    at.write("m", &data::safetensors(&[("t", "BF16", vec![150_000], after)]));
    for x in ["text.lmc", "short.lmc", "start.lmc", "list.lmc", "newer.lmc"] {
        assert!(!restore(x).contains(advice), "{x}: {}", restore(x));
    }
    for args in [
        &["decompress", "n.lmc", "-o", "back"][..],
        &["decompress", "n.lmc", "-o", "back", "--base", "m"],
    ] {
        let text = fails(args);
        assert!(text.contains("base") && !text.contains(advice), "{text}");
    }
    // What was in a pipe cannot be asked for again.
    let out = at.piped(&["decompress", "-", "-o", "back"], &good[..good.len() - 1000]);
    assert!(!super::stderr(&out).contains(advice));
}
