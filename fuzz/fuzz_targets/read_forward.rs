#![no_main]
//! Bytes as an archive that arrives through a pipe: decoded or refused.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{
    Limits, OnDamage,
    internals::archive::{Options, decompress_to_writer, verify_stream},
};

#[allow(clippy::needless_update, reason = "other limits keep their defaults")]
fn limits() -> Limits {
    Limits { chunk_len: 1 << 20, table_len: 1 << 20, ..Limits::default() }
}

fuzz_target!(|data: &[u8]| {
    let options = Options::default().with_threads(1).with_limits(limits());
    let _ = verify_stream(&mut &data[..], &options.restoring().with_damage(OnDamage::Fill));
    let mut out = Vec::new();
    let _ = decompress_to_writer(&mut &data[..], &mut out, &options.restoring());
});
