//! Forms: how payloads are coded, by the numbers that chunk metadata holds.

/// How a payload is coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// There is none: the chunk is a copy of an earlier one.
    #[default]
    Copy = 0,
    /// The bytes as they are.
    Stored = 1,
    /// One word, repeated.
    Constant = 2,
    /// A zstd frame.
    Zstd = 3,
    /// Floats split into symbols, rest and tails.
    Split = 4,
    /// One plane a byte of the word.
    Group = 5,
    /// Quantised groups as a plane for each kind of field.
    Quantised = 6,
    /// Residuals of a prediction.
    Delta = 7,
    /// The XOR with the base, a plane a byte.
    Xor = 8,
    /// A first moment, in the contexts of the second one.
    Moment = 9,
    /// A first moment, as the gradient that made it of the base's.
    Gradient = 10,
    /// Of the studies: sign and exponent by their order-0 entropy.
    Sem = 128,
    /// Of the studies: LZMA.
    Xz = 129,
    /// Of the studies: LZMA of each byte of the word.
    ByteplaneXz = 130,
    /// Of the studies: LZMA of each bit of the word.
    BitplaneXz = 131,
    /// Of the studies: LZMA of each bit, mantissas sorted by sign and exponent.
    ClassGroupXz = 132,
    /// Of the studies: LZMA of each bit, mantissas sorted by exponent.
    ExponentGroupXz = 133,
    /// Of the studies: byte groups, runs shortened, Huffman.
    Lmc = 134,
    /// Of the studies: the same without grouping.
    LmcPlain = 135,
}

impl Form {
    const ALL: [Form; 19] = [
        Form::Copy,
        Form::Stored,
        Form::Constant,
        Form::Zstd,
        Form::Split,
        Form::Group,
        Form::Quantised,
        Form::Delta,
        Form::Xor,
        Form::Moment,
        Form::Gradient,
        Form::Sem,
        Form::Xz,
        Form::ByteplaneXz,
        Form::BitplaneXz,
        Form::ClassGroupXz,
        Form::ExponentGroupXz,
        Form::Lmc,
        Form::LmcPlain,
    ];

    /// The form with this number.
    pub fn from_code(code: u8) -> Option<Form> {
        Self::ALL.into_iter().find(|form| *form as u8 == code)
    }

    /// Whether decoding needs something that is known of the chunk.
    pub fn is_predicted(self) -> bool {
        matches!(self, Form::Delta | Form::Xor | Form::Moment | Form::Gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_that_of_one_form_or_none() {
        let known: Vec<u8> = (0..=255).filter(|code| Form::from_code(*code).is_some()).collect();
        assert_eq!(known, Vec::from_iter((0..=10).chain(128..=135)));
        assert!(known.iter().all(|code| Form::from_code(*code).is_some_and(|f| f as u8 == *code)));
    }
}
