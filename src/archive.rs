//! Whole archives: the public API for compressing, decompressing and looking into them.

mod base;
mod chain;
mod checkpoint;
mod coder;
mod compress;
mod cost;
mod damage;
mod decode;
mod digest;
mod directory;
mod extract;
mod file;
mod forward;
mod hints;
mod in_order;
mod input;
mod inspect;
mod known;
mod lineage;
mod open;
mod options;
mod output;
mod parameter;
mod plan;
mod protected;
mod receive;
mod relate;
mod restore;
mod same;
mod siblings;
mod spare;
mod spool;
mod stream;
mod sync;
mod target;
mod temporary;
mod writer;

pub use base::Base;
pub use checkpoint::{Checkpoint, CheckpointFile, is_archive};
pub use compress::{
    Summary, compress, compress_files, compress_into, compress_path, compress_stream,
    compress_to_writer,
};
pub use damage::{Damage, is_salvageable};
pub use extract::{Extracted, extract, extract_to};
pub use file::ArchivedFile;
pub use forward::{decompress_stream, decompress_to_writer, verify_stream};
pub use input::Input;
pub use inspect::{FileInfo, Inspection, SpanInfo, inspect};
pub use open::{Archive, ChunkInfo};
pub(crate) use options::with_methods;
pub use options::{Options, Overwrite, Progress};
pub use output::AtomicFile;
pub use plan::CHUNK_WORDS;
pub use restore::{Restored, decompress, decompress_into};
pub use stream::compress_reader;
pub use temporary::remove_temporaries;
pub(crate) use temporary::{Holder, holder};
