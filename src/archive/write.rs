//! Input → archive: which chunks it is cut into, how each is coded, and the records of them.
//!
//! Uses `access` for the input and the base, `disk` for where the archive goes. Nothing here
//! knows how archives are restored.

mod bundle;
pub(in crate::archive) mod chunk;
pub(in crate::archive) mod coder;
mod compress;
mod cut;
mod derivation;
mod equality;
mod hints;
mod pairing;
mod pipe;
pub(in crate::archive) mod plan;
mod siblings;
mod spare;
mod stream;
mod stretch;
mod writer;

pub use compress::{
    Summary, compress, compress_files, compress_into, compress_path, compress_stream,
    compress_to_writer,
};
pub use pipe::Writer;
pub use stream::compress_reader;
