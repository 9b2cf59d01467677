//! Every module uses only modules of its own layer or further down.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Layer of every top-level module; kernels of layer 1 are ordered among themselves below.
const LAYERS: [(&str, u32); 26] = [
    ("error", 0),
    ("text", 0),
    ("dtype", 0),
    ("bits", 0),
    ("source", 0),
    ("simd", 0),
    ("hash", 1),
    ("shader", 0),
    ("transform", 10),
    ("predict", 11),
    ("entropy", 11),
    ("codec", 12),
    ("format", 20),
    ("remote", 20),
    ("container", 20),
    ("gpu", 21),
    ("pipeline", 30),
    ("archive", 40),
    ("store", 50),
    ("json", 55),
    ("study", 60),
    ("cli", 61),
    ("internals", 99),
    ("lib", 99),
    ("main", 99),
    ("python", 99),
];

fn layer(module: &str) -> u32 {
    let found = LAYERS.iter().find(|(name, _)| *name == module);
    found.unwrap_or_else(|| panic!("module {module} has no layer in tests/layers.rs")).1
}

fn rust_files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Paths that begin with `crate::` or `super::` in the source text of a module, from the top of the
/// crate: also those inside braces, of any depth.
fn named(module: &[String], text: &str) -> Vec<Vec<String>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut starts: Vec<usize> =
        ["crate::", "super::"].iter().flat_map(|s| text.match_indices(s)).map(|m| m.0).collect();
    starts.sort_unstable();
    let mut done = 0;
    for at in starts {
        let before = &text[..at];
        if at < done || before.ends_with(is_word) || before.ends_with("(in ") {
            continue;
        }
        let (mut rest, mut path) = (&text[at..], module.to_vec());
        if let Some(below) = rest.strip_prefix("crate::") {
            (rest, path) = (below, Vec::new());
        }
        while let Some(above) = rest.strip_prefix("super::") {
            path.pop();
            rest = above;
        }
        expand(&mut path, &mut rest, &mut found);
        done = text.len() - rest.len();
    }
    found
}

/// Adds the paths of a use tree that begins after `path`, and moves `rest` behind it.
fn expand(path: &mut Vec<String>, rest: &mut &str, found: &mut Vec<Vec<String>>) {
    let whole = path.clone();
    loop {
        *rest = rest.trim_start();
        if let Some(list) = rest.strip_prefix('{') {
            *rest = list;
            loop {
                *rest = rest.trim_start().trim_start_matches(',').trim_start();
                if rest.is_empty() {
                    break;
                }
                if let Some(after) = rest.strip_prefix('}') {
                    *rest = after;
                    break;
                }
                let before = rest.len();
                expand(path, rest, found);
                if rest.len() == before {
                    // Something that no use tree has.
                    *rest = &rest[rest.chars().next().unwrap().len_utf8()..];
                }
            }
            break;
        }
        if let Some(above) = rest.strip_prefix("super::") {
            path.pop();
            *rest = above;
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        if word != "self" && !word.is_empty() {
            path.push(word.to_owned());
        }
        *rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(below) if !below.starts_with('<') => *rest = below,
            _ => {
                found.push(path.clone());
                break;
            }
        }
    }
    *path = whole;
}

/// Every file of `src/` with the path of its module and its text without tests.
fn modules() -> Vec<(PathBuf, Vec<String>, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20);
    let of = |file: PathBuf| {
        let below = file.strip_prefix(&src).unwrap().to_owned();
        let path = below.with_extension("");
        let module = path.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        // Words and documentation name whatever they like.
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        (below, module, code.collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().map(of).filter(|(path, ..)| !path.ends_with("tests.rs")).collect()
}

#[test]
fn every_module_uses_only_what_is_below_it() {
    let mut wrong = Vec::new();
    for (file, module, code) in modules() {
        for path in named(&module, &code) {
            let Some(used) = path.first().filter(|u| LAYERS.iter().any(|(name, _)| name == u))
            else {
                continue;
            };
            let door = file == Path::new("codec/study.rs") && used == "study";
            if layer(used) > layer(&module[0]) && !door {
                wrong.push(format!("{} uses {used}", file.display()));
            }
        }
        if module[0] != "gpu" && code.contains("wgpu::") {
            wrong.push(format!("{} names wgpu", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_the_door_of_the_codec_and_the_command_bench_name_the_laboratory() {
    let doors = ["codec/study.rs", "cli/bench.rs", "internals.rs", "lib.rs"];
    let named: Vec<_> = modules()
        .into_iter()
        .filter(|(_, module, _)| module[0] != "study")
        .filter(|(_, module, code)| named(module, code).iter().any(|p| p[0] == "study"))
        .map(|(file, ..)| file.to_str().unwrap().replace('\\', "/"))
        .filter(|file| !doors.contains(&&file[..]))
        .collect();
    assert!(named.is_empty(), "{named:?}");
}

/// The rooms of a module, each of which uses only those further down: never one of its own height.
const ROOMS: [(&str, &[(&str, u32)]); 1] = [(
    "archive",
    &[
        ("access", 0),
        ("options", 1),
        ("lineage", 2),
        ("checkpoint", 3),
        ("disk", 4),
        ("write", 5),
        ("read", 5),
        ("inspection", 6),
    ],
)];

#[test]
fn rooms_use_only_rooms_below_them_and_by_name() {
    let mut wrong = Vec::new();
    for (house, rooms) in ROOMS {
        for (file, module, code) in modules() {
            if module[0] != house || module.len() < 2 {
                continue;
            }
            let height = |room: &str| rooms.iter().find(|(name, _)| *name == room).map(|r| r.1);
            let own =
                height(&module[1]).unwrap_or_else(|| panic!("{} has no room", file.display()));
            for path in named(&module, &code).into_iter().filter(|p| p[0] == house) {
                let Some(used) = path.get(1) else {
                    wrong.push(format!("{} uses all of {house}", file.display()));
                    continue;
                };
                let below = height(used).is_some_and(|height| height < own);
                if *used != module[1] && !below {
                    wrong.push(format!("{} uses {house}::{used}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn paths_are_found_inside_braces_and_from_where_they_stand() {
    let module = ["archive", "read", "forward"].map(String::from);
    let text =
        "use super::{a::{self, B}, super::c};\nuse crate::{d, e::{F, g}}; crate::h::i::<J>()";
    let found: Vec<String> = named(&module, text).iter().map(|p| p.join("::")).collect();
    assert_eq!(
        found,
        ["archive::read::a", "archive::read::a::B", "archive::c", "d", "e::F", "e::g", "h::i"]
    );
}

#[test]
fn every_file_is_short() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let long: Vec<_> = files
        .iter()
        .map(|f| (f, fs::read_to_string(f).unwrap().lines().count()))
        .filter(|(_, lines)| *lines > 400)
        .collect();
    assert!(long.is_empty(), "more than 400 lines: {long:?}");
}
