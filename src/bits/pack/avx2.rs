//! BMI2 variant: `pext` and `pdep` move eight values, one 64-bit word, at a time.
//!
//! Words are written and read eight bytes wide although only `width` of them belong to the
//! group, so the last groups go through the scalar code.
use std::arch::x86_64::*;

/// Lowest `width` bits of every byte.
fn mask_of(width: u8) -> u64 {
    0x0101_0101_0101_0101 * ((1 << width) - 1)
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn pack(width: u8, values: &[u8], out: &mut [u8]) {
    let (mask, step) = (mask_of(width), usize::from(width));
    let groups = if out.len() < 8 { 0 } else { (out.len() - 8) / step + 1 };
    let groups = groups.min(values.len() / 8);
    let (words, _) = values.as_chunks::<8>();
    for (i, word) in words[..groups].iter().enumerate() {
        let bits = _pext_u64(u64::from_le_bytes(*word), mask);
        out[i * step..][..8].copy_from_slice(&bits.to_le_bytes());
    }
    super::pack_scalar(width, &values[groups * 8..], &mut out[groups * step..]);
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn unpack(width: u8, bytes: &[u8], values: &mut [u8]) {
    let (mask, step) = (mask_of(width), usize::from(width));
    let groups = if bytes.len() < 8 { 0 } else { (bytes.len() - 8) / step + 1 };
    let groups = groups.min(values.len() / 8);
    let (words, _) = values.as_chunks_mut::<8>();
    for (i, word) in words[..groups].iter_mut().enumerate() {
        let mut bits = [0; 8];
        bits.copy_from_slice(&bytes[i * step..][..8]);
        *word = _pdep_u64(u64::from_le_bytes(bits), mask).to_le_bytes();
    }
    super::unpack_scalar(width, &bytes[groups * step..], &mut values[groups * 8..]);
}
