//! Moves bytes between a place at any byte offset and one that starts on a word.
//!
//! On the CPU that is a copy. On a GPU, where memory is words of four bytes, every word of the
//! result is put together from two neighbours; a tensor may start anywhere in its buffer.
//!
//! ```text
//! unaligned, shift 3   .. .. .. b0   b1 b2 b3 b4   b5 .. .. ..      dots: other tensors' bytes
//! aligned              b0 b1 b2 b3   b4 b5 00 00
//! ```

/// Writes the bytes from `shift` on to the start of `aligned`, and zeros after them up to a whole
/// word. `aligned.len()` is the number of bytes, rounded up to four.
///
/// # Panics
/// Where `unaligned` holds fewer than `shift + n_bytes` bytes or `aligned` has another length.
pub fn take(n_bytes: usize, shift: usize, unaligned: &[u8], aligned: &mut [u8]) {
    assert!(aligned.len() == n_bytes.next_multiple_of(4));
    let (bytes, padding) = aligned.split_at_mut(n_bytes);
    bytes.copy_from_slice(&unaligned[shift..shift + n_bytes]);
    padding.fill(0);
}

/// Inverse of [`take`]: writes the first `n_bytes` bytes of `aligned` to `unaligned` from `shift`
/// on, and leaves what lies around them as it was.
///
/// # Panics
/// As [`take`].
pub fn put(n_bytes: usize, shift: usize, unaligned: &mut [u8], aligned: &[u8]) {
    unaligned[shift..shift + n_bytes].copy_from_slice(&aligned[..n_bytes]);
}
