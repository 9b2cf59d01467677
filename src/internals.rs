//! What tests, benchmarks, fuzz targets and the Python extension use beside the public interface.
//!
//! Nothing here is promised: it changes without notice. Items are listed one by one, so that the
//! compiler still sees what nobody uses.

pub mod archive {
    pub use crate::archive::{
        AtomicFile, Checkpoint, CheckpointFile, FileInfo, Input, Inspection, Options, Progress,
        SpanInfo, compress_files, compress_reader, compress_stream, compress_to_writer,
        decompress_stream, decompress_to_writer, extract, extract_to, inspect, is_salvageable,
        verify_stream,
    };
}

pub mod bits {
    pub mod pack {
        pub use crate::bits::pack::{pack, packed_len, unpack};
    }
}

pub mod codec {
    pub use crate::codec::{
        Chunk, ChunkSpec, Encoded, Form, Offer, Payload, Predictor, Quantise, Recipe, Scratch,
        decode, encode,
    };
}

pub mod container {
    pub use crate::container::{
        ChunkMeta, Header, Index, Manifest, Origin, Piece, RecordHeader, RecordType, Reference,
        Trailer, digest_of, hash64, hash128,
    };
    pub mod header {
        pub use crate::container::header::{FEATURE_BASE, HEADER_LEN, MAGIC, TRAILER_LEN, VERSION};
    }
    pub mod index {
        pub use crate::container::index::IndexedRecord;
    }
}

pub mod entropy {
    pub mod cascade {
        pub use crate::entropy::cascade::{
            decode_bf16, encode, encode_bf16, plan, sample, sample_bf16, scratch_len,
        };
    }
    pub mod frequency {
        pub use crate::entropy::frequency::{normalise, read, write};
    }
    pub mod histogram {
        pub use crate::entropy::histogram::{count, count_contexts, sample, sample_contexts};
    }
    pub mod rans {
        pub use crate::entropy::rans::{
            DecodeTable, Decoder, EncodeTable, Lanes, bound, encode, encode_contexts,
        };
    }
}

pub mod format {
    pub use crate::format::{
        Format, Param, Parsed, PrefixResult, Tensor, parse, parse_and_guess, parse_flat,
        parse_prefix,
    };
}

pub mod hash {
    pub use crate::hash::{digest_of, hash64};
}

pub mod json {
    pub use crate::json::{
        inspection, listing, record, removed, report, restored, restored_in, saved, stats, summary,
        verified,
    };
}

pub mod pipeline {
    pub use crate::pipeline::worker_count;
}

pub mod predict {
    pub mod quantise {
        pub use crate::predict::quantise::Source;
        pub mod scaled {
            pub use crate::predict::quantise::scaled::{Scaled, Share};
        }
    }
}

pub mod shader {
    pub use crate::shader::*;
}

pub mod simd {
    pub use crate::simd::Level;
}

pub mod source {
    pub use crate::source::Source;
}

#[cfg(feature = "study")]
pub mod study {
    pub mod bench {
        pub mod synthetic {
            pub use crate::study::bench::synthetic::{Family, Spec, generate};
        }
    }
    pub mod huffman {
        pub use crate::study::huffman::{Scratch, decode, encode};
    }
}

pub mod text {
    pub use crate::text::{is_shown_as_is, json, lines, shown};
}

pub mod transform {
    pub mod align {
        pub use crate::transform::align::{put, take};
    }
    pub mod bitplane {
        pub use crate::transform::bitplane::{plane_len, planes, words};
    }
    pub mod change {
        pub use crate::transform::change::{bitmap, masks};
    }
    pub mod delta {
        pub use crate::transform::delta::{diff, undo, xor};
    }
    pub mod group {
        pub use crate::transform::group::{join, split};
    }
    pub mod split {
        pub use crate::transform::split::{Planes, PlanesMut, Split, escapes, join, sign, split};
    }
}

pub mod remote {
    pub use crate::remote::clean;
}
