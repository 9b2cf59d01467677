//! Whole archives: the public API for compressing, decompressing and looking into them.

mod compress;
mod digest;
mod file;
mod input;
mod open;
mod options;
mod output;
mod plan;
mod restore;
mod writer;

pub use compress::{
    Summary, compress, compress_files, compress_into, compress_path, compress_stream,
};
pub use file::ArchivedFile;
pub use input::Input;
pub use open::{Archive, ChunkInfo};
pub use options::{Options, Progress};
pub use output::AtomicFile;
pub use plan::CHUNK_WORDS;
pub use restore::{Damage, Restored, decompress, decompress_into};
