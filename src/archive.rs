//! Whole archives: the public API for compressing, decompressing and looking into them.
//!
//! Rooms, each using only those further down; `tests/layers.rs` holds them:
//!
//! ```text
//! inspection      what a checkpoint consists of, and what its parts cost
//! write | read    input → archive | archive → output; neither knows the other
//! disk            output that appears whole or not at all
//! checkpoint      raw or compressed, opened to look into
//! lineage         finds the bases of a delta
//! options         what a caller can choose
//! access          input, archives that are open, and bases
//! ```

mod access;
mod checkpoint;
mod disk;
mod inspection;
mod lineage;
mod options;
mod read;
mod write;

pub use access::{Archive, ArchivedFile, Base, Input, TensorInfo};
// What the command takes besides.
#[cfg(feature = "cli")]
pub use self::{
    access::is_archive,
    inspection::{Changed, Difference, difference, inspect_open, stored_bytes},
    read::Extracted,
};
pub use checkpoint::{Checkpoint, CheckpointFile};
pub use disk::{AtomicFile, remove_temporaries};
pub(crate) use disk::{Holder, holder};
pub use inspection::{BaseFile, BaseInfo, FileInfo, Inspection, SpanInfo, inspect};
pub(crate) use options::with_methods;
pub use options::{
    Changes, CompressOptions, OnDamage, Options, Overwrite, Progress, RestoreOptions, Symlinks,
};
pub use read::{
    Damage, Reader, Restored, decompress, decompress_into, decompress_stream, decompress_to_writer,
    extract, extract_to, is_salvageable, verify_stream,
};
pub use write::{
    Summary, Writer, compress, compress_files, compress_into, compress_path, compress_reader,
    compress_stream, compress_to_writer,
};
