//! Copies past the caches, for large output that is not read soon: a line that is written whole
//! need not be fetched first, and nothing that is in use is driven out.

#[cfg(target_arch = "x86_64")]
use std::mem::MaybeUninit;

/// Bytes of output in memory from which on it is written past the caches.
pub(crate) const FROM: usize = 8 << 20;

/// Appends `bytes` to `to`.
pub(crate) fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 1024 {
        to.reserve(bytes.len());
        let end = to.as_ptr().addr() + to.len();
        let (first, rest) = bytes.split_at(end.wrapping_neg() % 64);
        let (lines, last) = rest.as_chunks();
        to.extend_from_slice(first);
        let len = to.len() + 64 * lines.len();
        x86::stream(lines, to.spare_capacity_mut().as_chunks_mut().0);
        x86::fence();
        // SAFETY: as many bytes behind the old end were just written.
        unsafe { to.set_len(len) };
        to.extend_from_slice(last);
        return;
    }
    to.extend_from_slice(bytes);
}

/// Copies lines to where they start at multiples of 64, as many as `to` has. [`fence`] follows
/// before others read them.
pub(crate) fn stream(from: &[[u8; 64]], to: &mut [[u8; 64]]) {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: bytes are as good as bytes that may be uninitialised, and stay initialised.
        let to = unsafe { &mut *(std::ptr::from_mut(to) as *mut [[MaybeUninit<u8>; 64]]) };
        x86::stream(&from[..to.len()], to);
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(&from[..to.len()]);
}

/// What [`stream`] wrote is seen before what is written from here on.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    x86::fence();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::{arch::x86_64::*, mem::MaybeUninit};

    /// Copies `from` to the beginning of `to`, which starts at a multiple of 64.
    ///
    /// # Panics
    /// If it does not, or is too short.
    pub(super) fn stream(from: &[[u8; 64]], to: &mut [[MaybeUninit<u8>; 64]]) {
        assert!(to.is_empty() || to.as_ptr().addr().is_multiple_of(64), "aligned");
        for (line, place) in from.iter().zip(&mut to[..from.len()]) {
            let line = line.as_ptr().cast::<__m128i>();
            let place = place.as_mut_ptr().cast::<__m128i>();
            // SAFETY: both are 64 bytes, the second ones aligned to 64; SSE2 is part of x86-64.
            unsafe {
                let quarters = [0, 1, 2, 3].map(|i| _mm_loadu_si128(line.add(i)));
                for (i, quarter) in quarters.into_iter().enumerate() {
                    _mm_stream_si128(place.add(i), quarter);
                }
            }
        }
    }

    pub(super) fn fence() {
        // SAFETY: SSE is part of x86-64.
        unsafe { _mm_sfence() };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn appending_is_appending_at_every_alignment() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for start in 0..130 {
            for len in [0, 1, 1023, 1024, 1025, 1087, 1088, 4000] {
                let mut to = bytes[..start].to_vec();
                super::append(&mut to, &bytes[start..start + len]);
                assert_eq!(to, bytes[..start + len]);
            }
        }
    }
}
