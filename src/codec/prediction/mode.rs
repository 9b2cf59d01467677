//! What follows a predictor in a payload.

/// How the residuals of a prediction are stored, by the number behind the predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// There are none: the words are the prediction.
    Equal = 0,
    /// Of the words that differ.
    Sparse = 1,
    /// Of every word.
    Dense = 2,
    /// Of the words that differ, which their contexts help to tell.
    Masked = 12,
}

impl Mode {
    /// The mode with this number.
    pub fn from_code(code: u8) -> Option<Mode> {
        [Mode::Equal, Mode::Sparse, Mode::Dense, Mode::Masked]
            .into_iter()
            .find(|m| *m as u8 == code)
    }
}
