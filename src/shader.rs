//! The WGSL modules and the facts about them that Rust relies on.
//!
//! `shaders/P.wgsl` is the twin of `src/P.rs`: an entry point computes what the Rust function of
//! the same name computes, bit for bit. Every module has the same shape:
//!
//! ```text
//! binding 0      uniform Params, a struct of u32 fields, the same as the Rust struct here
//! binding 1 …    storage buffers of u32 words, read_write, in the order of [`Shader::bindings`]
//! ```
//!
//! Byte strings lie in the words of a buffer in little-endian order. A dispatch is a list of
//! workgroups folded into (x, y), so that more than 65,535 of them fit. Modules use nothing
//! beyond what every WebGPU device has. `tests/shaders.rs` compares this file with the WGSL.

/// A WGSL module under `shaders/`.
#[derive(Clone, Copy, Debug)]
pub struct Shader {
    /// Path below `shaders/`, without the extension: also the path of the CPU twin below `src/`.
    pub path: &'static str,
    /// WGSL source.
    pub source: &'static str,
    /// Invocations per workgroup, for every entry point.
    pub workgroup_size: u32,
    /// Names of the fields of `Params`, in order.
    pub params: &'static [&'static str],
    /// Names of the storage buffers at bindings 1, 2, …
    pub bindings: &'static [&'static str],
    /// The entry points.
    pub entries: &'static [Entry],
}

/// An entry point of a [`Shader`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Names of the storage buffers that it uses, in the order of their bindings.
    pub uses: &'static [&'static str],
}

/// Embeds `shaders/<path>.wgsl`.
#[macro_export]
macro_rules! wgsl {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $path, ".wgsl"))
    };
}

/// Declares a shader and the Rust side of its `Params`.
macro_rules! shader {
    (
        $(#[$doc:meta])*
        $shader:ident = $path:literal, workgroup $size:literal;
        $params:ident { $($(#[$field_doc:meta])* $field:ident,)* }
        buffers $bindings:expr;
        $($entry:ident($($uses:ident),*);)*
    ) => {
        $(#[$doc])*
        pub const $shader: Shader = Shader {
            path: $path,
            source: wgsl!($path),
            workgroup_size: $size,
            params: &[$(stringify!($field)),*],
            bindings: &$bindings,
            entries: &[$(Entry { name: stringify!($entry), uses: &[$(stringify!($uses)),*] }),*],
        };

        #[doc = concat!("Uniform of `shaders/", $path, ".wgsl`.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $params { $($(#[$field_doc])* pub $field: u32,)* }

        impl Params for $params {
            const SHADER: &'static Shader = &$shader;

            fn words(&self) -> Vec<u32> {
                vec![$(self.$field),*]
            }
        }
    };
}

/// The Rust side of the `Params` of a shader.
pub trait Params {
    /// The shader they belong to.
    const SHADER: &'static Shader;

    /// The fields in order, as they lie in the uniform.
    fn words(&self) -> Vec<u32>;
}

/// Every shader of the crate.
pub const SHADERS: &[Shader] =
    &[ALIGN, GROUP, SPLIT, BITPLANE, DELTA, CHANGE, PACK, HISTOGRAM, CASCADE];

shader! {
    /// Moves bytes by less than a word.
    ALIGN = "transform/align", workgroup 256;
    AlignParams {
        /// Bytes to move.
        n_bytes,
        /// Where they begin in the first word of the unaligned side: 0 to 3.
        shift,
    }
    buffers ["unaligned", "aligned"];
    take(unaligned, aligned);
    put(unaligned, aligned);
}

shader! {
    /// Byte planes of words of 2, 4 or 8 bytes.
    GROUP = "transform/group", workgroup 256;
    GroupParams {
        /// Number of words.
        n_words,
        /// Bytes of a word: 2, 4 or 8.
        word_len,
        /// Distance between planes, in u32 words.
        stride,
    }
    buffers ["words", "planes"];
    split(words, planes);
    join(words, planes);
}

shader! {
    /// Symbols, rests and tails of words of 8 to 64 bits.
    SPLIT = "transform/split", workgroup 256;
    SplitParams {
        /// Number of words.
        n_words,
        /// Bits of a word: 8, 16, 32 or 64.
        word_bits,
        /// Bits of the head left to the rest.
        rest_bits,
        /// First value of the window.
        base,
        /// 0 where the rest keeps the sign; 1 or 2 where all words share sign 0 or 1.
        sign,
        /// Distance between planes, in u32 words.
        stride,
    }
    buffers ["words", "planes", "n_escapes"];
    split(words, planes, n_escapes);
    join(words, planes);
}

shader! {
    /// Bit planes of words of 1, 2, 4 or 8 bytes.
    BITPLANE = "transform/bitplane", workgroup 256;
    BitplaneParams {
        /// Number of words.
        n_words,
        /// Bits of a word: 8, 16, 32 or 64.
        word_bits,
    }
    buffers ["words_in", "planes_out", "planes_in", "words_out"];
    planes(words_in, planes_out);
    words(planes_in, words_out);
}

shader! {
    /// XOR and order-preserving difference of words and base.
    DELTA = "transform/delta", workgroup 256;
    DeltaParams {
        /// Number of bytes.
        n_bytes,
        /// Bits of a word: 8, 16, 32 or 64; of no effect on `xor`.
        word_bits,
    }
    buffers ["a", "b", "result"];
    xor(a, b, result);
    diff(a, b, result);
    undo(a, b, result);
}

shader! {
    /// Which words are not zero.
    CHANGE = "transform/change", workgroup 256;
    ChangeParams {
        /// Number of words.
        n_words,
        /// Bits of a word: 8, 16, 32 or 64.
        word_bits,
    }
    buffers ["delta", "changed", "n_changed"];
    bitmap(delta, changed, n_changed);
}

shader! {
    /// Values of 1 to 8 bits packed into a bit string.
    PACK = "bits/pack", workgroup 256;
    PackParams {
        /// Number of values.
        n_values,
        /// Bits of a value, 1 to 8.
        width,
        /// First u32 word of the values in their buffer.
        at,
    }
    buffers ["values", "packed"];
    pack(values, packed);
    unpack(values, packed);
}

shader! {
    /// Counts of byte symbols.
    HISTOGRAM = "entropy/histogram", workgroup 256;
    HistogramParams {
        /// Number of symbols.
        n_symbols,
        /// u32 words of symbols that each invocation counts.
        per_invocation,
    }
    buffers ["symbols", "contexts", "counts"];
    count(symbols, counts);
    count_contexts(symbols, contexts, counts);
}

shader! {
    /// Levels of two-bit digits of byte symbols.
    CASCADE = "entropy/cascade", workgroup 256;
    CascadeParams {
        /// Number of symbols; of those that reach the level when decoding one.
        n_symbols,
        /// Tiles of 4096 symbols.
        n_tiles,
        /// Decoding: where the level's three symbols begin in `order`.
        first,
        /// Decoding: first u32 word of the level's digits.
        digits_at,
        /// Encoding: distance between the further levels' digits, in u32 words.
        stride,
    }
    buffers [
        "symbols", "counts", "order", "tiles", "totals", "digits", "levels", "raw", "below",
    ];
    sample(symbols, counts);
    plan(counts, order);
    count(symbols, order, tiles);
    scan(tiles, totals);
    clear(order, tiles, totals, levels, raw);
    emit(symbols, order, tiles, digits, levels, raw);
    count_digits(tiles, digits);
    expand(symbols, order, tiles, digits, below);
}
