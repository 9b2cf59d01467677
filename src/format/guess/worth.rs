//! Whether a stretch is worth being coded as floats: samples are, in both ways.

use super::{Guess, Stretch};
use crate::{
    Result,
    codec::{self, Chunk, ChunkSpec, Method, Scratch},
    simd::Level,
    source::Source,
};

/// Bytes of a sample.
const SAMPLE: u64 = 128 << 10;
/// Bytes of a sample where the short ones shrink much: what repeats may do so far apart.
const LONG_SAMPLE: u64 = 1 << 20;
/// Bytes of a stretch that are spoken for by one sample.
const SPOKEN_FOR: u64 = 16 << 20;
/// The most samples of a stretch.
const MOST_SAMPLES: u64 = 32;

/// Buffers of one search.
#[derive(Default)]
pub(super) struct Judge {
    scratch: Scratch,
    sample: Vec<u8>,
    coded: Vec<u8>,
}

impl Judge {
    /// The stretch as a guess, if its floats take less than its bytes by a hundredth.
    pub(super) fn judge(
        &mut self,
        source: &dyn Source,
        stretch: &Stretch,
    ) -> Result<Option<Guess>> {
        let mut guess = self.sample(source, stretch, SAMPLE)?;
        if guess.as_bytes < guess.sampled / 4 * 3 && guess.len > SAMPLE {
            guess = self.sample(source, stretch, LONG_SAMPLE)?;
        }
        let pays = guess.as_floats + guess.as_floats / 100 < guess.as_bytes;
        Ok((pays && guess.len > 0).then_some(guess))
    }

    /// Codes samples of so many bytes in both ways.
    fn sample(&mut self, source: &dyn Source, stretch: &Stretch, sample: u64) -> Result<Guess> {
        let Stretch { from, to, kind } = *stretch;
        let (dtype, big_endian) = (kind.dtype, kind.big_endian);
        let word = kind.word_len() as u64;
        let len = (to - from) / word * word;
        let mut guess =
            Guess { offset: from, len, dtype, big_endian, sampled: 0, as_floats: 0, as_bytes: 0 };
        let spec = ChunkSpec { dtype, big_endian, row_words: 0 };
        let n = len.min(sample);
        let samples = (len / SPOKEN_FOR + 1).min(MOST_SAMPLES);
        for k in 0..samples {
            // In the middle of what it speaks for.
            let at = (len - n) / (2 * samples) * (2 * k + 1) / word * word;
            self.sample.resize(n as usize, 0);
            source.read_at(from + at, &mut self.sample)?;
            self.coded.clear();
            codec::encode(
                Level::best(),
                Method::Auto,
                &Chunk::alone(spec, &self.sample),
                &mut self.scratch,
                &mut self.coded,
            )?;
            guess.sampled += n;
            guess.as_floats += self.coded.len() as u64;
            guess.as_bytes += n.min(zstd::bulk::compress(&self.sample, 3)?.len() as u64);
        }
        Ok(guess)
    }
}
