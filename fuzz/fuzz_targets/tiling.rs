//! What holds for every file, whatever is in it.

use lmc_gpu::internals::format::{Parsed, parse};

/// Parses a file and checks that its spans tile it and its tensors lie inside.
pub fn check(bytes: &[u8]) {
    let parsed = parse(&bytes.to_vec()).expect("reading memory does not fail");
    check_parsed(&parsed, bytes.len() as u64);
}

/// Checks spans and tensors against the length of their file.
pub fn check_parsed(parsed: &Parsed, len: u64) {
    let mut end = 0;
    for s in &parsed.spans {
        assert_eq!(s.offset, end);
        assert!(s.len > 0 && s.len % s.dtype.word_len() as u64 == 0);
        end += s.len;
    }
    assert_eq!(end, len);
    let mut names = std::collections::HashSet::new();
    for t in &parsed.tensors {
        assert!(t.offset + t.extent().expect("tensors have a size") <= len);
        assert!(names.insert(&t.name));
    }
}
