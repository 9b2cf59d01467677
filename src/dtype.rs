//! Element types and their bit fields.

/// Type of the elements of a tensor.
///
/// `BYTES` stands for bytes of no known type: headers, JSON, unknown files.
/// The numbers are the codes stored in archives (`docs/FORMAT.md`, "Element types").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, missing_docs, reason = "the names are the field's own")]
#[repr(u8)]
pub enum Dtype {
    BYTES = 0,
    BOOL = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    U32 = 6,
    I32 = 7,
    U64 = 8,
    I64 = 9,
    F4 = 16,
    F6_E2M3 = 17,
    F6_E3M2 = 18,
    F8_E4M3 = 19,
    F8_E5M2 = 20,
    F8_E8M0 = 21,
    F8_E4M3FNUZ = 22,
    F8_E5M2FNUZ = 23,
    F16 = 24,
    BF16 = 25,
    F32 = 26,
    F64 = 27,
    C64 = 28,
    C128 = 29,
    Q4_0 = 40,
    Q4_1 = 41,
    Q5_0 = 42,
    Q5_1 = 43,
    Q8_0 = 44,
    Q8_1 = 45,
    Q2_K = 46,
    Q3_K = 47,
    Q4_K = 48,
    Q5_K = 49,
    Q6_K = 50,
    Q8_K = 51,
}

/// How the bits of one element are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Sign bit on top, then `exponent` bits, then the mantissa; `bits` in all (8, 16, 32 or 64).
    Float {
        /// Width of the whole element.
        bits: u8,
        /// Width of the exponent field.
        exponent: u8,
    },
    /// An integer or bool of `bits` bits (8, 16, 32 or 64), or packed sub-byte values (8).
    Integer {
        /// Width of the whole element.
        bits: u8,
    },
    /// A quantised layout: groups of `bytes` bytes with scales and quants.
    Quantised {
        /// Length of one group.
        bytes: u16,
    },
    /// Bytes of no known structure.
    Opaque,
}

impl Dtype {
    /// Every type, in the order of their codes.
    pub const ALL: [Dtype; 36] = [
        Dtype::BYTES,
        Dtype::BOOL,
        Dtype::U8,
        Dtype::I8,
        Dtype::U16,
        Dtype::I16,
        Dtype::U32,
        Dtype::I32,
        Dtype::U64,
        Dtype::I64,
        Dtype::F4,
        Dtype::F6_E2M3,
        Dtype::F6_E3M2,
        Dtype::F8_E4M3,
        Dtype::F8_E5M2,
        Dtype::F8_E8M0,
        Dtype::F8_E4M3FNUZ,
        Dtype::F8_E5M2FNUZ,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
        Dtype::C64,
        Dtype::C128,
        Dtype::Q4_0,
        Dtype::Q4_1,
        Dtype::Q5_0,
        Dtype::Q5_1,
        Dtype::Q8_0,
        Dtype::Q8_1,
        Dtype::Q2_K,
        Dtype::Q3_K,
        Dtype::Q4_K,
        Dtype::Q5_K,
        Dtype::Q6_K,
        Dtype::Q8_K,
    ];

    /// The type with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Dtype> {
        Self::ALL.into_iter().find(|d| *d as u8 == code)
    }

    /// The field's usual name, as in safetensors headers and GGUF.
    pub fn name(self) -> &'static str {
        use Dtype::*;
        match self {
            BYTES => "BYTES",
            BOOL => "BOOL",
            U8 => "U8",
            I8 => "I8",
            U16 => "U16",
            I16 => "I16",
            U32 => "U32",
            I32 => "I32",
            U64 => "U64",
            I64 => "I64",
            F4 => "F4",
            F6_E2M3 => "F6_E2M3",
            F6_E3M2 => "F6_E3M2",
            F8_E4M3 => "F8_E4M3",
            F8_E5M2 => "F8_E5M2",
            F8_E8M0 => "F8_E8M0",
            F8_E4M3FNUZ => "F8_E4M3FNUZ",
            F8_E5M2FNUZ => "F8_E5M2FNUZ",
            F16 => "F16",
            BF16 => "BF16",
            F32 => "F32",
            F64 => "F64",
            C64 => "C64",
            C128 => "C128",
            Q4_0 => "Q4_0",
            Q4_1 => "Q4_1",
            Q5_0 => "Q5_0",
            Q5_1 => "Q5_1",
            Q8_0 => "Q8_0",
            Q8_1 => "Q8_1",
            Q2_K => "Q2_K",
            Q3_K => "Q3_K",
            Q4_K => "Q4_K",
            Q5_K => "Q5_K",
            Q6_K => "Q6_K",
            Q8_K => "Q8_K",
        }
    }

    /// Parses a name as users write it: any case, with the usual synonyms (`fp16`, `half`,
    /// `bfloat16`, `float32`, `uint8`, …).
    pub fn parse(name: &str) -> Option<Dtype> {
        let upper = name.to_ascii_uppercase();
        if let Some(d) = Self::ALL.into_iter().find(|d| d.name() == upper) {
            return Some(d);
        }
        Some(match upper.as_str() {
            "FP16" | "FLOAT16" | "HALF" => Dtype::F16,
            "BFLOAT16" => Dtype::BF16,
            "FP32" | "FLOAT32" | "FLOAT" => Dtype::F32,
            "FP64" | "FLOAT64" | "DOUBLE" => Dtype::F64,
            "FP8" | "FP8_E4M3" | "F8_E4M3FN" | "FLOAT8_E4M3FN" => Dtype::F8_E4M3,
            "FP8_E5M2" | "FLOAT8_E5M2" => Dtype::F8_E5M2,
            "INT8" => Dtype::I8,
            "UINT8" => Dtype::U8,
            "INT16" => Dtype::I16,
            "UINT16" => Dtype::U16,
            "INT32" => Dtype::I32,
            "UINT32" => Dtype::U32,
            "INT64" => Dtype::I64,
            "UINT64" => Dtype::U64,
            _ => return None,
        })
    }

    /// Bit fields of one coded element. Complex numbers are coded as their real components,
    /// packed sub-byte types as bytes.
    pub fn fields(self) -> Fields {
        use Dtype::*;
        let float = |bits, exponent| Fields::Float { bits, exponent };
        match self {
            BYTES => Fields::Opaque,
            BOOL | U8 | I8 | F4 | F6_E2M3 | F6_E3M2 | F8_E8M0 => Fields::Integer { bits: 8 },
            U16 | I16 => Fields::Integer { bits: 16 },
            U32 | I32 => Fields::Integer { bits: 32 },
            U64 | I64 => Fields::Integer { bits: 64 },
            F8_E4M3 | F8_E4M3FNUZ => float(8, 4),
            F8_E5M2 | F8_E5M2FNUZ => float(8, 5),
            F16 => float(16, 5),
            BF16 => float(16, 8),
            F32 | C64 => float(32, 8),
            F64 | C128 => float(64, 11),
            Q4_0 => Fields::Quantised { bytes: 18 },
            Q4_1 => Fields::Quantised { bytes: 20 },
            Q5_0 => Fields::Quantised { bytes: 22 },
            Q5_1 => Fields::Quantised { bytes: 24 },
            Q8_0 => Fields::Quantised { bytes: 34 },
            Q8_1 => Fields::Quantised { bytes: 36 },
            Q2_K => Fields::Quantised { bytes: 84 },
            Q3_K => Fields::Quantised { bytes: 110 },
            Q4_K => Fields::Quantised { bytes: 144 },
            Q5_K => Fields::Quantised { bytes: 176 },
            Q6_K => Fields::Quantised { bytes: 210 },
            Q8_K => Fields::Quantised { bytes: 292 },
        }
    }

    /// Whether its words are floats.
    pub fn is_float(self) -> bool {
        matches!(self.fields(), Fields::Float { .. })
    }

    /// Bytes of one coded word: the unit that chunks hold whole numbers of.
    pub fn word_len(self) -> usize {
        match self.fields() {
            Fields::Float { bits, .. } | Fields::Integer { bits } => usize::from(bits / 8),
            Fields::Quantised { bytes } => usize::from(bytes),
            Fields::Opaque => 1,
        }
    }

    /// Bits of one element as the user counts elements (4 for `F4`, 64 for `C64`).
    /// Quantised layouts: bits of one group.
    pub fn element_bits(self) -> u64 {
        match self {
            Dtype::F4 => 4,
            Dtype::F6_E2M3 | Dtype::F6_E3M2 => 6,
            Dtype::C64 => 64,
            Dtype::C128 => 128,
            _ => 8 * self.word_len() as u64,
        }
    }

    /// Elements in the unit that [`Dtype::element_bits`] measures: more than 1 only for
    /// quantised layouts (32 or 256).
    pub fn group_elements(self) -> u64 {
        use Dtype::*;
        match self {
            Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q8_1 => 32,
            Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | Q8_K => 256,
            _ => 1,
        }
    }

    /// Bytes of a contiguous tensor of this shape; `None` where the product overflows or does
    /// not come to whole bytes or groups.
    pub fn tensor_len(self, shape: &[u64]) -> Option<u64> {
        let elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        let group = self.group_elements();
        if elements % group != 0 {
            return None;
        }
        let bits = (elements / group).checked_mul(self.element_bits())?;
        (bits % 8 == 0).then_some(bits / 8)
    }
}

impl std::fmt::Display for Dtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
