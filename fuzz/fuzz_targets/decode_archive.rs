#![no_main]
//! Bytes as an archive: opened, read at random and decoded, or refused.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{Archive, Limits, OnDamage, RestoreOptions};

fuzz_target!(|data: &[u8]| {
    let limits = Limits { chunk_len: 1 << 20, table_len: 1 << 20, memory: 16 << 20 };
    let options = RestoreOptions::default().with_threads(1).with_limits(limits);
    if let Ok(archive) = Archive::from_bytes(data, &options)
        && archive.total_len() <= 16 << 20
    {
        let _ = archive.verify(&options.with_damage(OnDamage::Fill));
        for tensor in archive.tensors().unwrap_or_default().iter().take(8) {
            let _ = archive.tensor(tensor.name());
        }
    }
});
