#![no_main]
//! Bytes as an archive, in front of the reader that seeks and of the one that does not: they
//! restore the same, or both refuse.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{
    Archive, Limits,
    internals::archive::{Options, decompress_to_writer, verify_stream},
};

#[allow(clippy::needless_update, reason = "other limits keep their defaults")]
fn limits() -> Limits {
    Limits { chunk_len: 1 << 20, table_len: 1 << 20, ..Limits::default() }
}

/// More than this is not restored.
const MOST: u64 = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let options = Options::default().with_threads(1).with_limits(limits());
    let opened = Archive::from_bytes(data, &options.restoring());
    if opened.as_ref().is_ok_and(|archive| archive.total_len() > MOST) {
        return;
    }
    let seeking = opened.and_then(|archive| archive.verify(&options.restoring()));
    let forward = verify_stream(&mut &data[..], &options.restoring());
    match (&seeking, &forward) {
        (Ok(a), Ok(b)) => assert_eq!((a.bytes, a.files), (b.bytes, b.files)),
        (Ok(_), Err(e)) => panic!("only the seeking reader accepts: {e}"),
        (Err(e), Ok(_)) => panic!("only the forward reader accepts: {e}"),
        (Err(_), Err(_)) => return,
    }
    if let Ok(whole) = lmc_gpu::decompress(data, &options.restoring()) {
        let mut out = Vec::new();
        decompress_to_writer(&mut &data[..], &mut out, &options.restoring()).unwrap();
        assert!(out == whole);
    }
});
