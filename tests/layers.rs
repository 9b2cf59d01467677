//! Every module uses only modules of its own layer or further down.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Layer of every top-level module; kernels of layer 1 are ordered among themselves below.
const LAYERS: [(&str, u32); 23] = [
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
    ("container", 20),
    ("gpu", 21),
    ("pipeline", 30),
    ("archive", 40),
    ("store", 50),
    ("bench", 60),
    ("cli", 61),
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

/// Top-level modules named after `crate::` in a source text, also inside `crate::{…}`.
fn used(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut item) = (1, String::new());
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 || (depth == 1 && c == ',') {
                    found.push(std::mem::take(&mut item));
                    if depth == 0 {
                        break;
                    }
                } else {
                    item.push(c);
                }
            }
        } else {
            found.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    let name = |s: String| s.trim().split("::").next().unwrap_or("").trim().to_owned();
    let is_module = |s: &String| s.starts_with(|c: char| c.is_ascii_lowercase());
    found.into_iter().map(name).filter(is_module).collect()
}

#[test]
fn every_module_uses_only_what_is_below_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20);
    let mut wrong = Vec::new();
    for file in files {
        let below = file.strip_prefix(&src).unwrap();
        let module = below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for used in used(code) {
            let known = LAYERS.iter().any(|(name, _)| *name == used);
            if known && layer(&used) > layer(module) {
                wrong.push(format!("{} uses {used}", below.display()));
            }
        }
        if module != "gpu" && code.contains("wgpu::") {
            wrong.push(format!("{} names wgpu", below.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
