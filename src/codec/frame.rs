//! What a zstd frame in an archive may be, of a chunk or a table: one way to be written, and no
//! memory that its content does not ask for.

/// First bytes of a frame.
pub const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest window, as a power of two.
pub const MOST_WINDOW_LOG: u8 = 23;
/// Bits of the descriptor: the window is the content; checksum, dictionary, and what is reserved.
const SINGLE_SEGMENT: u8 = 0x20;
const OTHERS: u8 = 0x1f;

/// Whether bytes are exactly one frame, which states that its content has `len` bytes and asks for
/// neither a dictionary nor a checksum nor a large window.
pub fn is_plain(frame: &[u8], len: u64) -> bool {
    let (Some(start), Some(&descriptor), Some(&window)) =
        (frame.first_chunk(), frame.get(4), frame.get(5))
    else {
        return false;
    };
    *start == FRAME
        && descriptor & OTHERS == 0
        && (descriptor & SINGLE_SEGMENT != 0 || window >> 3 <= MOST_WINDOW_LOG - 10)
        && matches!(zstd::zstd_safe::get_frame_content_size(frame), Ok(Some(n)) if n == len)
        && zstd::zstd_safe::find_frame_compressed_size(frame) == Ok(frame.len())
}
