//! The named methods.

/// How chunks are coded. Every method stores a chunk as it is where it would not shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Measures a sample of each chunk and takes what pays: the default.
    Auto,
    /// `cascade` on exponents, the rest packed: memory speed.
    Fast,
    /// Tries everything on whole chunks.
    Max,
    /// Stores the bytes.
    Raw,
    /// Interleaved rANS on exponents with 0 to 3 mantissa bits.
    Rans,
    /// The digit cascade on exponents.
    Cascade,
    /// Huffman on exponents, a codebook every 64 KiB.
    Huffman,
    /// Run lengths on exponents.
    Runs,
    /// XOR with the base, a plane a byte; chunks without a base as `auto`.
    Xor,
    /// Order-preserving difference from the base; chunks without a base as `auto`.
    Diff,
    /// zstd on the bytes.
    Zstd,
    /// xz (LZMA2) on the bytes.
    Xz,
}

impl Method {
    /// Every method, in the order in which they are listed.
    pub const ALL: [Method; 12] = [
        Method::Auto,
        Method::Fast,
        Method::Max,
        Method::Raw,
        Method::Rans,
        Method::Cascade,
        Method::Huffman,
        Method::Runs,
        Method::Xor,
        Method::Diff,
        Method::Zstd,
        Method::Xz,
    ];

    /// Its name, as `--method` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Auto => "auto",
            Method::Fast => "fast",
            Method::Max => "max",
            Method::Raw => "raw",
            Method::Rans => "rans",
            Method::Cascade => "cascade",
            Method::Huffman => "huffman",
            Method::Runs => "runs",
            Method::Xor => "xor",
            Method::Diff => "diff",
            Method::Zstd => "zstd",
            Method::Xz => "xz",
        }
    }

    /// The method with this name.
    pub fn parse(name: &str) -> Option<Method> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Bytes of a chunk, where the method asks for a size of its own.
    pub fn chunk_len(self) -> Option<u64> {
        match self {
            Method::Xz => Some(16 << 20),
            _ => None,
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
