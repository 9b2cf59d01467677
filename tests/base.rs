//! Deltas: archives against a base, and checkpoints whose tensors predict each other.

use lmc_gpu::{
    Archive, Base, Error, Method, OnDamage, Overwrite, compress_path,
    internals::{
        archive::{
            Checkpoint, Input, Options, compress_files, decompress_stream, extract, verify_stream,
        },
        simd::Level,
        source::Source,
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A tensor for a safetensors file: name, type, shape, bytes.
type Tensor = (&'static str, &'static str, Vec<usize>, Vec<u8>);

fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = String::new();
    let (mut data, mut at) = (Vec::new(), 0);
    for (name, dtype, shape, bytes) in tensors {
        let end = at + bytes.len();
        let comma = if header.is_empty() { "" } else { "," };
        header += &format!(
            "{comma}\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}}"
        );
        data.extend_from_slice(bytes);
        at = end;
    }
    let header = format!("{{{header}}}");
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A pseudo-random number in −0.5 … 0.5 for every index and key.
fn random(i: usize, key: u32) -> f32 {
    let x = ((i as u32).wrapping_mul(0x9E37_79B1) ^ key.wrapping_mul(0x27D4_EB2F))
        .wrapping_mul(0x85EB_CA6B);
    let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
    (x ^ x >> 16) as f32 / 4294967296.0 - 0.5
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn bf16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect()
}

/// The state of a training run with two large parameters and a small one.
#[derive(Clone)]
struct Training {
    w: [Vec<f32>; 3],
    m: [Vec<f32>; 3],
    v: [Vec<f32>; 3],
    t: i32,
    lr: f64,
}

const SHAPES: [[usize; 2]; 3] = [[160, 128], [300, 64], [1, 96]];
const NAMES: [&str; 3] = ["layers.0.up.weight", "layers.0.down.weight", "norm.weight"];

impl Training {
    fn new() -> Self {
        let values = |key: u32, size: f32| {
            std::array::from_fn(|p| {
                let n = SHAPES[p][0] * SHAPES[p][1];
                (0..n).map(|i| random(i, key + p as u32) * size * (1.0 + (i % 5) as f32)).collect()
            })
        };
        let mut v: [Vec<f32>; 3] = values(20, 1e-3);
        v.iter_mut().flatten().for_each(|v| *v = *v * *v);
        Training { w: values(0, 0.1), m: values(10, 1e-3), v, t: 400, lr: 3.7e-4 }
    }

    /// One step of AdamW in the order of operations of common trainers.
    fn step(&mut self) {
        self.t += 1;
        let (b1, b2) = (0.9f32, 0.95f32);
        let decay = (1.0 - self.lr * 0.1) as f32;
        let step = (-self.lr / (1.0 - 0.9f64.powi(self.t))) as f32;
        let bias = (1.0 - 0.95f64.powi(self.t)).sqrt() as f32;
        for p in 0..3 {
            for i in 0..self.w[p].len() {
                let g = random(i, 1000 + 3 * self.t as u32 + p as u32) * 2e-3;
                let (w, m, v) = (&mut self.w[p][i], &mut self.m[p][i], &mut self.v[p][i]);
                *m += (g - *m) * (1.0 - b1);
                *v = ((f64::from((1.0 - 0.95f64) as f32 * g)) * f64::from(g) + f64::from(*v * b2))
                    as f32;
                *w = *w * decay + (step * *m) / (v.sqrt() / bias + 1e-8);
            }
        }
    }

    fn tensors(&self, of: &[Vec<f32>; 3], narrow: bool) -> Vec<Tensor> {
        (0..3)
            .map(|p| {
                let shape = SHAPES[p].to_vec();
                match narrow {
                    true => (NAMES[p], "BF16", shape, bf16s(&of[p])),
                    false => (NAMES[p], "F32", shape, f32s(&of[p])),
                }
            })
            .collect()
    }

    /// The files of a checkpoint.
    fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let file = |of: &[Vec<f32>; 3], narrow| safetensors(&self.tensors(of, narrow));
        vec![
            ("exp_avg.safetensors", file(&self.m, false)),
            ("exp_avg_sq.safetensors", file(&self.v, false)),
            ("master.safetensors", file(&self.w, false)),
            ("meta.json", format!("{{\"step\": {}, \"lr\": {}}}", self.t, self.lr).into_bytes()),
            ("model.safetensors", file(&self.w, true)),
        ]
    }

    fn len(&self) -> usize {
        self.files().iter().map(|f| f.1.len()).sum()
    }
}

fn write(dir: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).unwrap();
    }
    dir.to_owned()
}

fn options() -> Options {
    Options::default().with_threads(2).with_overwrite(Overwrite::Files)
}

fn with_base(base: &Path) -> Options {
    options().with_base(Some(Base::open_with(base, &[], &options()).unwrap()))
}

/// Compresses, verifies and restores in every way; returns the length of the archive.
fn round_trip(dir: &Path, files: &[(&str, Vec<u8>)], base: Option<&Path>) -> usize {
    let new = write(&dir.join("new"), files);
    let out = dir.join("x.lmc");
    let options = base.map_or(options(), with_base);
    compress_path(&new, &out, &options.compressing()).unwrap();
    check(&out, files, &options);
    let len = fs::metadata(&out).unwrap().len() as usize;
    fs::remove_dir_all(&new).unwrap();
    len
}

fn check(out: &Path, files: &[(&str, Vec<u8>)], options: &Options) {
    let archive = Archive::open(out, &options.restoring()).unwrap();
    archive.verify(&options.restoring()).unwrap();
    let back = out.with_extension("back");
    archive.restore(&back, &options.restoring()).unwrap();
    for (name, bytes) in files {
        assert!(fs::read(back.join(name)).unwrap() == *bytes, "{name} differs");
    }
    // One file after the other, from its own chunks and what they refer to.
    for (i, entry) in archive.entries().iter().enumerate() {
        let (_, bytes) = files.iter().find(|f| f.0 == entry.path).unwrap();
        assert!(
            archive.file(i).unwrap().read_vec(0, entry.len).unwrap() == *bytes,
            "{}",
            entry.path
        );
    }
    fs::remove_dir_all(&back).unwrap();
    if archive.refers_to_base() && options.base.is_none() {
        // A pipe has no place beside it where a base could be found.
        return;
    }
    let bytes = fs::read(out).unwrap();
    decompress_stream(&mut &bytes[..], &back, &options.restoring()).unwrap();
    for (name, bytes) in files {
        assert!(fs::read(back.join(name)).unwrap() == *bytes, "{name} differs, from a pipe");
    }
    fs::remove_dir_all(&back).unwrap();
    verify_stream(&mut &bytes[..], &options.restoring()).unwrap();
}

#[test]
fn a_step_of_the_optimizer_costs_little_more_than_its_first_moments() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let alone = round_trip(dir.path(), &run.files(), None);
    let base = write(&dir.path().join("base"), &run.files());
    run.step();
    let delta = round_trip(dir.path(), &run.files(), Some(&base));
    let moments = f32s(&run.m.concat()).len();
    assert!(delta < moments + moments / 20, "{delta} for {moments} bytes of first moments");
    assert!(alone < run.len() * 3 / 4, "{alone} of {}", run.len());
    run.step();
    let two_steps = round_trip(dir.path(), &run.files(), Some(&base));
    assert!(two_steps <= alone + 1000, "{two_steps} {alone}");
}

#[test]
fn archives_do_not_depend_on_threads_or_instruction_sets() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let base = write(&dir.path().join("base"), &run.files());
    run.step();
    let new = write(&dir.path().join("new"), &run.files());
    let mut archives = Vec::new();
    for level in Level::available() {
        for threads in [1, 3] {
            let options = with_base(&base).with_level(level).with_threads(threads);
            let out = dir.path().join("x.lmc");
            compress_path(&new, &out, &options.compressing()).unwrap();
            archives.push(fs::read(&out).unwrap());
            check(&out, &run.files(), &options);
        }
    }
    assert!(archives.windows(2).all(|w| w[0] == w[1]));
}

#[test]
fn a_chain_of_archives_restores_through_all_of_its_links() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let input = |run: &Training| {
        let boxed = |(n, b): (&str, Vec<u8>)| (n.to_owned(), Box::new(b) as Box<dyn Source>);
        Input::from_files(run.files().into_iter().map(boxed).collect()).unwrap()
    };
    let path = |i: usize| dir.path().join(format!("step{i}.lmc"));
    compress_files(&input(&run), &path(0), &options().compressing()).unwrap();
    for i in 1..5 {
        run.step();
        compress_files(&input(&run), &path(i), &with_base(&path(i - 1)).compressing()).unwrap();
    }
    // Every link is found beside the one that needs it.
    check(&path(4), &run.files(), &options());
    // Or in a list.
    let other = dir.path().join("elsewhere");
    fs::create_dir(&other).unwrap();
    let moved: Vec<PathBuf> = (0..4).map(|i| other.join(format!("old{i}.lmc"))).collect();
    for (i, to) in moved.iter().enumerate() {
        fs::rename(path(i), to).unwrap();
    }
    let base = Base::open_with(&moved[3], &moved, &options()).unwrap();
    check(&path(4), &run.files(), &options().with_base(Some(base)));
    let lost =
        Archive::open(path(4), &options().restoring()).unwrap().verify(&options().restoring());
    assert!(matches!(lost, Err(Error::BaseMismatch(e)) if e.contains("step3.lmc")));
    // A tensor out of the middle of it.
    let base = Base::open_with(&moved[3], &moved, &options()).unwrap();
    let archive = Archive::open(path(4), &options().restoring()).unwrap();
    archive.attach_base(&base).unwrap();
    let (_, bytes) = archive.tensor("master.safetensors:norm.weight").unwrap();
    assert!(bytes == f32s(&run.w[2]));
    let checkpoint = Checkpoint::open(&path(4), &options().with_base(Some(base))).unwrap();
    let out = dir.path().join("one.safetensors");
    let names = ["model.safetensors:layers.0.up.weight".to_owned()];
    extract(&checkpoint, &names, &out, &options()).unwrap();
    assert!(fs::read(out).unwrap().ends_with(&bf16s(&run.w[0])));
}

#[test]
fn whatever_became_of_the_tensors_the_bytes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = Training::new();
    let tensors = run.tensors(&run.w, false);
    let base = write(&dir.path().join("base"), &[("model.safetensors", safetensors(&tensors))]);
    let mut later = run.clone();
    later.step();
    let new = later.tensors(&later.w, false);
    let len = safetensors(&new).len();
    let grown = |t: &Tensor| {
        let mut t = t.clone();
        t.3.extend(f32s(&vec![0.25; 20 * t.2[1]]));
        t.2[0] += 20;
        t
    };
    let narrow = |t: &Tensor, values: &[f32]| (t.0, "BF16", t.2.clone(), bf16s(values));
    let cases: Vec<(&str, Vec<Tensor>, usize)> = vec![
        ("other order", new.iter().rev().cloned().collect(), len * 7 / 10),
        (
            "added",
            [&new[..], &[("more", "F32", vec![40, 96], f32s(&run.m[0][..3840]))]].concat(),
            len,
        ),
        ("removed", new[1..].to_vec(), len / 2),
        (
            "renamed",
            vec![
                ("a", "F32", new[0].2.clone(), new[0].3.clone()),
                ("b", "F32", new[1].2.clone(), new[1].3.clone()),
            ],
            len * 7 / 10,
        ),
        (
            "reshaped",
            vec![("layers.0.up.weight", "F32", vec![128, 160], new[0].3.clone())],
            len / 2,
        ),
        ("grown", new.iter().map(grown).collect(), len),
        (
            "shrunk",
            vec![(NAMES[0], "F32", vec![150, 128], new[0].3[..150 * 128 * 4].to_vec())],
            len / 2,
        ),
        ("narrowed", vec![narrow(&new[0], &run.w[0]), narrow(&new[1], &run.w[1])], 2000),
        ("other type", vec![(NAMES[0], "I32", SHAPES[0].to_vec(), new[0].3.clone())], len),
        ("other bytes", vec![(NAMES[0], "U8", vec![81920], new[0].3.clone())], len),
    ];
    for (what, tensors, most) in cases {
        let file = safetensors(&tensors);
        let delta = round_trip(dir.path(), &[("model.safetensors", file)], Some(&base));
        assert!(delta < most, "{what}: {delta}, at most {most}");
    }
    // A file that is not the same kind of thing at all, and none.
    round_trip(dir.path(), &[("notes.txt", b"hello".to_vec()), ("empty", vec![])], Some(&base));
    // The same bytes again cost next to nothing, whatever they are.
    let odd: Vec<u8> = (0..300_000).map(|i| (random(i, 9) * 255.0) as u8).collect();
    let base = write(&dir.path().join("odd"), &[("x.bin", odd.clone())]);
    assert!(round_trip(dir.path(), &[("x.bin", odd)], Some(&base)) < 500);
}

/// The files of a checkpoint in two shards: tensors here or there, or half the rows of each.
fn sharded(run: &Training, by_row: bool) -> Vec<(&'static str, Vec<u8>)> {
    let shard = |of: &[Vec<f32>; 3], narrow, second: bool| {
        let tensors = run.tensors(of, narrow);
        let half = |mut t: Tensor| {
            let rows = t.2[0].div_ceil(2);
            let row = t.3.len() / t.2[0];
            let (first, rest) = t.3.split_at(rows * row);
            t.3 = if second { rest.to_vec() } else { first.to_vec() };
            t.2[0] = t.3.len() / row;
            t
        };
        match by_row {
            true => safetensors(&tensors.into_iter().map(half).collect::<Vec<_>>()),
            false => safetensors(if second { &tensors[..1] } else { &tensors[1..] }),
        }
    };
    vec![
        ("exp_avg-00001-of-00002.safetensors", shard(&run.m, false, false)),
        ("exp_avg-00002-of-00002.safetensors", shard(&run.m, false, true)),
        ("exp_avg_sq-00001-of-00002.safetensors", shard(&run.v, false, false)),
        ("exp_avg_sq-00002-of-00002.safetensors", shard(&run.v, false, true)),
        ("master-00001-of-00002.safetensors", shard(&run.w, false, false)),
        ("master-00002-of-00002.safetensors", shard(&run.w, false, true)),
        ("model-00001-of-00002.safetensors", shard(&run.w, true, false)),
        ("model-00002-of-00002.safetensors", shard(&run.w, true, true)),
    ]
}

#[test]
fn odd_states_of_the_optimizer_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = Training::new();
    let base = write(&dir.path().join("base"), &run.files());
    let mut next = run.clone();
    next.step();
    type Change<'c> = (&'c str, &'c dyn Fn(&mut Training));
    let changes: [Change; 6] = [
        ("NaN and infinity", &|t| {
            for (i, x) in
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-42].iter().enumerate()
            {
                for k in [0, 64, 5000, 20400] {
                    t.m[0][k + i * 7 % 20] = *x;
                    t.v[0][k.saturating_sub(i)] = *x;
                    t.w[0][(k + i * 3) % 20480] = *x;
                }
            }
            t.m[1].fill(f32::from_bits(0x7fc0_1234));
        }),
        ("no learning rate", &|t| {
            *t = run.clone();
            t.lr = 0.0;
            t.step();
        }),
        ("frozen", &|t| {
            t.w[0].clone_from(&run.w[0]);
            t.m[0].fill(0.0);
            t.v[0].fill(0.0);
        }),
        ("nothing new", &|t| *t = run.clone()),
        ("another step count", &|t| t.t = 7),
        ("negative second moments", &|t| t.v[1].iter_mut().for_each(|v| *v = -*v)),
    ];
    let plain = round_trip(dir.path(), &next.files(), None);
    for (what, files) in [("by tensor", sharded(&next, false)), ("by row", sharded(&next, true))] {
        let alone = round_trip(dir.path(), &files, None);
        let delta = round_trip(dir.path(), &files, Some(&base));
        assert!(delta < alone + 1000, "sharded {what}: {delta}, {alone} alone");
        assert!(what == "by row" || delta < plain, "sharded {what}: {delta}, {plain}");
    }
    for (what, change) in changes {
        let mut changed = next.clone();
        change(&mut changed);
        let delta = round_trip(dir.path(), &changed.files(), Some(&base));
        assert!(delta < plain, "{what}: {delta}, {plain}");
    }
}

#[test]
fn a_wrong_changed_or_missing_base_is_named_with_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let base = write(&dir.path().join("base"), &run.files());
    run.step();
    let new = write(&dir.path().join("new"), &run.files());
    let out = dir.path().join("sub").join("x.lmc");
    fs::create_dir(out.parent().unwrap()).unwrap();
    compress_path(&new, &out, &with_base(&base).compressing()).unwrap();
    let back = dir.path().join("back");
    let refused = |options: Options| {
        let archive = Archive::open(&out, &options.restoring()).unwrap();
        let mut text = String::new();
        for result in
            [archive.verify(&options.restoring()), archive.restore(&back, &options.restoring())]
        {
            match result {
                Err(Error::BaseMismatch(e)) => text = e.to_string(),
                other => panic!("{other:?}"),
            }
        }
        let bytes = fs::read(&out).unwrap();
        let piped = decompress_stream(&mut &bytes[..], &back, &options.restoring());
        assert!(matches!(piped, Err(Error::BaseMismatch(_))), "{piped:?}");
        assert!(!back.exists());
        text
    };
    let text = refused(options());
    assert!(text.contains("\"base\"") && text.contains("x.lmc"), "{text}");
    let wrong = write(&dir.path().join("wrong"), &[("model.safetensors", vec![1; 100])]);
    let text = refused(with_base(&wrong));
    assert!(text.contains("\"base\"") && text.contains("wrong"), "{text}");
    // One bit of every file, anywhere, in turn: a bit that no chunk was coded with may change.
    let mut found = 0;
    for (name, bytes) in fs::read_dir(&base)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.clone(), fs::read(p).unwrap()))
    {
        for k in [1, 2, 3] {
            let mut changed = bytes.clone();
            let at = bytes.len() * k / 4;
            changed[at] ^= 4;
            fs::write(&name, &changed).unwrap();
            let options = with_base(&base);
            let archive = Archive::open(&out, &options.restoring()).unwrap();
            match archive.restore(&back, &options.restoring()) {
                Err(Error::BaseMismatch(e)) => {
                    assert!(e.contains("base"), "{e}");
                    found += 1;
                }
                Ok(_) => {
                    for (name, bytes) in run.files() {
                        assert!(fs::read(back.join(name)).unwrap() == bytes);
                    }
                    fs::remove_dir_all(&back).unwrap();
                }
                Err(e) => panic!("{e}"),
            }
            assert!(!back.exists());
        }
        fs::write(&name, &bytes).unwrap();
    }
    assert!(found >= 9, "{found}");
    check(&out, &run.files(), &with_base(&base));
}

#[test]
fn no_flipped_bit_of_a_delta_goes_unnoticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    for p in 0..3 {
        let n = run.w[p].len().min(17_000);
        for of in [&mut run.w, &mut run.m, &mut run.v] {
            of[p].truncate(n);
        }
    }
    let file = |run: &Training| {
        let tensors = (0..2).map(|p| (NAMES[p], "F32", vec![run.w[p].len()], f32s(&run.w[p])));
        let moments = [("x.state.0.exp_avg", &run.m[0]), ("x.state.0.exp_avg_sq", &run.v[0])];
        let moments = moments.map(|(n, v)| (n, "F32", vec![v.len()], f32s(v)));
        safetensors(&tensors.chain(moments).collect::<Vec<_>>())
    };
    let old = file(&run);
    run.step();
    let new = file(&run);
    let base = Base::from_bytes("old", old.into(), None);
    let options = options().with_threads(1).with_base(Some(base));
    let archive = lmc_gpu::compress(&new, &options.compressing()).unwrap();
    assert!(lmc_gpu::decompress(&archive, &options.restoring()).unwrap() == new);
    let out = dir.path().join("out");
    for i in
        (0..archive.len()).step_by(1 + archive.len() / 300).chain(archive.len() - 60..archive.len())
    {
        let mut bad = archive.clone();
        bad[i] ^= 1 << (i % 8);
        assert!(
            lmc_gpu::decompress(&bad, &options.restoring()).is_err(),
            "bit {} of byte {i}",
            i % 8
        );
        assert!(
            decompress_stream(&mut &bad[..], &out, &options.restoring()).is_err(),
            "byte {i}, piped"
        );
        let cut = &archive[..i];
        assert!(lmc_gpu::decompress(cut, &options.restoring()).is_err(), "cut at {i}");
    }
}

/// A `.npy` file of big-endian `f32`.
fn big_endian_npy(values: &[f32]) -> Vec<u8> {
    let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (N,), }";
    let header = header.replace('N', &values.len().to_string());
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{header:117}\n").bytes());
    file.extend(values.iter().flat_map(|v| v.to_be_bytes()));
    file
}

#[test]
fn big_endian_floats_come_back_whether_a_base_helps_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let values = |key| -> Vec<f32> { (0..40_000).map(|i| random(i, key)).collect() };
    let base = write(&dir.path().join("base"), &[("w.npy", big_endian_npy(&values(1)))]);
    let near: Vec<f32> = values(1).iter().map(|v| v * 1.0001).collect();
    let mut sparse = values(1);
    sparse[777] = 1.5;
    for values in [values(1), sparse, near, values(2)] {
        round_trip(dir.path(), &[("w.npy", big_endian_npy(&values))], Some(&base));
    }
}

#[test]
fn every_method_takes_a_base() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let base = write(&dir.path().join("base"), &run.files());
    run.step();
    let new = write(&dir.path().join("new"), &run.files());
    for method in Method::ALL {
        let options = with_base(&base).with_method(method);
        let out = dir.path().join("x.lmc");
        compress_path(&new, &out, &options.compressing()).unwrap();
        check(&out, &run.files(), &options);
    }
}

#[test]
fn keep_going_restores_what_does_not_need_the_damaged_base() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Training::new();
    let base = write(&dir.path().join("base"), &run.files());
    run.step();
    let new = write(&dir.path().join("new"), &run.files());
    let out = dir.path().join("x.lmc");
    compress_path(&new, &out, &with_base(&base).compressing()).unwrap();
    let options = with_base(&base);
    let archive = Archive::open(&out, &options.restoring()).unwrap();
    archive.ensure_base(&options).unwrap();
    // The base changes after it was looked at.
    let path = base.join("master.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 4;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let back = dir.path().join("back");
    let restored =
        archive.restore(&back, &options.restoring().with_damage(OnDamage::Fill)).unwrap();
    assert!(!restored.damage.is_empty());
    assert!(fs::read(back.join("exp_avg.safetensors")).unwrap() == run.files()[0].1);
}

/// Archives of a run, each a delta to the one before it.
fn chain(dir: &Path, n: usize) -> Vec<PathBuf> {
    let mut run = Training::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    for i in 0..n {
        let new = write(&dir.join("new"), &run.files());
        let path = dir.join(format!("step{i}.lmc"));
        let options = paths.last().map_or(options(), |base| with_base(base));
        compress_path(&new, &path, &options.compressing()).unwrap();
        paths.push(path);
        run.step();
    }
    paths
}

#[test]
fn the_bases_of_a_long_chain_may_be_given_in_any_order_and_under_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = chain(dir.path(), 9);
    let last = paths.pop().unwrap();
    for renamed in [false, true] {
        let other = dir.path().join(if renamed { "renamed" } else { "moved" });
        fs::create_dir(&other).unwrap();
        for (i, path) in paths.iter_mut().enumerate() {
            let name = if renamed { format!("{}", i * 5 % 8) } else { format!("step{i}.lmc") };
            let to = other.join(name);
            fs::rename(&*path, &to).unwrap();
            *path = to;
        }
        let (below, first) = (&paths[..7], &paths[7]);
        let newest: Vec<_> = below.iter().rev().cloned().collect();
        let mixed: Vec<_> = (0..7).map(|i| below[i * 3 % 7].clone()).collect();
        let doubled = [&mixed[..], &newest, std::slice::from_ref(first)].concat();
        for others in [below.to_vec(), newest, mixed, doubled] {
            let base = Base::open_with(first, &others, &options()).unwrap();
            let archive = Archive::open(&last, &options().restoring()).unwrap();
            archive.verify(&options().with_base(Some(base)).restoring()).unwrap();
        }
    }
    // Whatever is missing is named.
    let e = Base::open_with(&paths[7], &paths[1..7], &options()).unwrap_err().to_string();
    assert!(e.contains("step") || e.contains("is not the base"), "{e}");
}

#[test]
fn archives_that_are_deltas_to_each_other_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let paths = chain(dir.path(), 3);
    // Step 2 remembers step 1, which remembers what is now called step 0.
    fs::rename(&paths[2], &paths[0]).unwrap();
    let both = |e: Error| {
        let text = e.to_string();
        assert!(matches!(e, Error::BaseMismatch(_)), "{text}");
        assert!(text.contains("step0.lmc") && text.contains("step1.lmc"), "{text}");
    };
    both(Base::open_with(&paths[1], &[], &options()).unwrap_err());
    both(Base::open_with(&paths[0], &paths[..2], &options()).unwrap_err());
    let archive = Archive::open(&paths[0], &options().restoring()).unwrap();
    both(archive.verify(&options().restoring()).unwrap_err());
    // The one that is missing mends it, wherever it comes from.
    let (old, elsewhere) = (dir.path().join("old"), dir.path().join("elsewhere.lmc"));
    let run = Training::new();
    compress_path(write(&old, &run.files()), &elsewhere, &options().compressing()).unwrap();
    let base = Base::open_with(&paths[1], &[paths[0].clone(), elsewhere], &options());
    archive.verify(&options().with_base(Some(base.unwrap())).restoring()).unwrap();
}

#[test]
fn opening_a_chain_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let paths = chain(dir.path(), 3);
    let options = options();
    options.cancel.cancel();
    let e = Base::open_with(&paths[2], &paths, &options).unwrap_err();
    assert!(
        matches!(e, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::Interrupted)
    );
}
