//! The named methods.

use super::study;

/// How chunks are coded. Every method stores a chunk as it is where it would not shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Measures a sample of each chunk and takes what pays: the default.
    Auto,
    /// `cascade` on exponents, less the mean of every row or so of all but bf16; the rest packed: memory
    /// speed.
    Fast,
    /// Tries everything on whole chunks.
    Max,
    /// Stores the bytes.
    Raw,
    /// Interleaved rANS on exponents with 0 to 3 mantissa bits.
    Rans,
    /// The digit cascade on exponents.
    Cascade,
    /// XOR with the base, a plane a byte; chunks without a base as `auto`.
    Xor,
    /// Order-preserving difference from the base; chunks without a base as `auto`.
    Diff,
    /// zstd on the bytes.
    Zstd,
    /// A method of one of the studies this codec descends from.
    Study(study::Method),
}

const N_METHODS: usize = if cfg!(feature = "study") { 18 } else { 9 };

impl Method {
    /// Every method of this build, in the order in which they are listed. Those of the studies
    /// need the feature `study`.
    pub const ALL: [Method; N_METHODS] = [
        Method::Auto,
        Method::Fast,
        Method::Max,
        Method::Raw,
        Method::Rans,
        Method::Cascade,
        Method::Xor,
        Method::Diff,
        Method::Zstd,
        #[cfg(feature = "study")]
        Method::Study(study::Method::Lmc),
        #[cfg(feature = "study")]
        Method::Study(study::Method::LmcPlain),
        #[cfg(feature = "study")]
        Method::Study(study::Method::Plmc),
        #[cfg(feature = "study")]
        Method::Study(study::Method::Sem),
        #[cfg(feature = "study")]
        Method::Study(study::Method::Xz),
        #[cfg(feature = "study")]
        Method::Study(study::Method::ByteplaneXz),
        #[cfg(feature = "study")]
        Method::Study(study::Method::BitplaneXz),
        #[cfg(feature = "study")]
        Method::Study(study::Method::ClassGroupXz),
        #[cfg(feature = "study")]
        Method::Study(study::Method::ExponentGroupXz),
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
            Method::Xor => "xor",
            Method::Diff => "diff",
            Method::Zstd => "zstd",
            Method::Study(method) => method.name(),
        }
    }

    /// The method with this name, whether this build has it or not.
    pub fn parse(name: &str) -> Option<Method> {
        let own = Self::ALL.into_iter().find(|m| m.name() == name);
        own.or_else(|| study::Method::parse(name).map(Method::Study))
    }

    /// Whether chunks are coded against a base, where there is one.
    pub fn uses_base(self) -> bool {
        use Method::{Auto, Diff, Fast, Max, Xor};
        matches!(self, Auto | Fast | Max | Xor | Diff)
    }

    /// Whether the tensors of a parameter are coded with each other's help.
    pub fn uses_siblings(self) -> bool {
        matches!(self, Method::Auto | Method::Max)
    }

    /// Whether bytes that no parser knows are looked at for floats: not where floats are coded as
    /// bytes anyway, nor for the methods of the studies, which take files as they are.
    pub fn guesses(self) -> bool {
        !matches!(self, Method::Raw | Method::Zstd | Method::Study(_))
    }

    /// Words of `word_len` bytes in a chunk, where the method asks for more than the usual
    /// 256 Ki: tables are a smaller part of larger chunks, which matters most for short words.
    pub fn chunk_words(self, word_len: usize) -> Option<u64> {
        (self == Method::Max && word_len <= 2).then_some(1 << 20)
    }

    /// Bytes of a chunk, where the method asks for a size of its own.
    pub fn chunk_len(self) -> Option<u64> {
        match self {
            Method::Study(method) => method.chunk_len().map(|n| n as u64),
            _ => None,
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
