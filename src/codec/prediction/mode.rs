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
    Masked = 3,
}

impl Mode {
    /// The mode with this number.
    pub fn from_code(code: u8) -> Option<Mode> {
        [Mode::Equal, Mode::Sparse, Mode::Dense, Mode::Masked]
            .into_iter()
            .find(|m| *m as u8 == code)
    }
}

/// The predictor, for people, from the first bytes of a payload.
pub fn describe(payload: &[u8]) -> &'static str {
    let mode = payload.get(1).and_then(|&code| Mode::from_code(code));
    match (payload.first(), mode) {
        (Some(0 | 1), Some(Mode::Equal)) => "unchanged",
        (Some(0 | 1), Some(Mode::Sparse)) => "diff, sparse",
        (Some(0 | 1), Some(Mode::Masked)) => "diff, masked",
        (Some(0 | 1), _) => "diff",
        (Some(2 | 6), _) => "cast",
        (Some(3), _) => "widen",
        (Some(4 | 5), _) => "adam",
        (Some(7), _) => "average",
        _ => "unknown",
    }
}
