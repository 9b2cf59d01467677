//! Trials of one tensor as what was made of another.

use super::{Candidate, Derived, Finder, bytes_of, elements, row_elements};
use crate::{
    Result,
    codec::{Agreement, ChunkSpec, Predictor, Quantise, Recipe},
    container::Piece,
    dtype::Dtype,
    format::Span,
    predict::{
        cast::{self, Narrow},
        quantise::{
            Source, origin_of_row,
            scaled::{self, FORMULAS, ROUND_RESULT, ROUND_SCALE, Scaled, Share},
            widen,
        },
    },
};

/// Sources of other names that are tried for one tensor: as casts, and as what was quantised.
const STRANGERS_CAST: usize = 16;
const STRANGERS: usize = 128;
/// Values that a trial predicts, unless it takes a whole row.
const SAMPLE: u64 = 4096;
/// The longest row that a trial takes.
const LONGEST_ROW: u64 = 256 << 10;
/// Rows that a trial of scales takes, if they are short.
const SCALED_ROWS: u64 = 8;
/// Rows of half heads whose rows may be interleaved.
const HALVES: [u32; 8] = [32, 64, 16, 48, 40, 128, 24, 96];
/// Rows and columns that share a scale: all columns where there are 0.
const BLOCKS: [(u32, u32); 6] = [(1, 0), (128, 128), (1, 128), (1, 64), (1, 32), (1, 16)];
/// Bytes read at a time.
const STEP: u64 = 1 << 20;

/// A stretch of values that stand in some columns of some rows.
#[derive(Clone, Copy)]
struct Stretch {
    row: u64,
    rows: u64,
    column: u64,
    columns: u64,
}

impl Stretch {
    /// Where it stands in a span, row `row` of which comes from elsewhere where heads have so many
    /// rows in each half.
    fn pieces(self, span: &Span, half: u32) -> Vec<Piece> {
        let one = |row: u64| {
            let row = origin_of_row(row as usize, half as usize) as u64;
            let at = bytes_of(span, row * row_elements(span) + self.column);
            Piece { offset: span.offset + at, len: bytes_of(span, self.columns) }
        };
        (self.row..self.row + self.rows).map(one).collect()
    }

    fn spec(self, dtype: Dtype) -> ChunkSpec {
        let row_words = self.columns / dtype.group_elements();
        ChunkSpec { dtype, big_endian: false, row_words }
    }
}

/// Words of a target, and those of a candidate that they may be made of.
#[derive(Clone, Copy)]
struct Seen<'a> {
    stretch: Stretch,
    words: &'a [u8],
    known: &'a [u8],
    dtype: Dtype,
}

impl Finder<'_> {
    /// The float that large span `i` is the rounding of.
    pub(super) fn find_cast(
        &mut self,
        i: usize,
        known: &[Candidate],
        names: &[String],
    ) -> Result<Option<Derived>> {
        let span = self.span(i);
        if known.is_empty() {
            return Ok(None);
        }
        let (stretch, words) = self.sample(i, 1, SAMPLE)?;
        for c in ordered(known, names, STRANGERS_CAST) {
            let Some(predictor) = cast_from(span.dtype, c.source) else { continue };
            let bytes = self.read(&c.from, &stretch.pieces(&c.span, 0))?;
            let mut made = vec![0; words.len()];
            match (&predictor, span.dtype) {
                (Predictor::Narrow, Dtype::F16) => {
                    cast::round(self.level, Narrow::F16, &bytes, &mut made);
                }
                (Predictor::Narrow, _) => {
                    cast::round(self.level, Narrow::Bf16, &bytes, &mut made);
                }
                (_, Dtype::F16) => {
                    cast::convert_narrow(self.level, Narrow::Bf16, &bytes, &mut made);
                }
                _ => cast::convert_narrow(self.level, Narrow::F16, &bytes, &mut made),
            }
            let pairs = made.as_chunks::<2>().0.iter().zip(words.as_chunks::<2>().0);
            let equal = pairs.filter(|(a, b)| a == b).count();
            if equal * 128 >= words.len() * 63 {
                return Ok(Some(Derived { large: i, from: c.from.clone(), predictor, rows: 1 }));
            }
        }
        Ok(None)
    }

    /// The float that large span `i` was quantised from.
    pub(super) fn find_source(
        &mut self,
        i: usize,
        known: &[Candidate],
        names: &[String],
    ) -> Result<Option<Derived>> {
        let span = self.span(i);
        let is_scaled = span.dtype.group_elements() == 1;
        // One row may have the scale of all.
        let (rows, most) = if is_scaled { (SCALED_ROWS, LONGEST_ROW) } else { (1, SAMPLE) };
        let (stretch, words) = self.sample(i, rows, most)?;
        let mut similar: Option<(Quantise, &Candidate)> = None;
        for c in ordered(known, names, STRANGERS) {
            let is_named = names.iter().any(|n| c.names.contains(n));
            let found = if is_scaled {
                self.try_scales(i, c, stretch, &words, is_named)?
            } else {
                let rotates = is_named || names.iter().any(|n| n.contains("attn_q.weight"));
                let rotates = rotates || names.iter().any(|n| n.contains("attn_k.weight"));
                self.try_layout(i, c, stretch, &words, rotates)?
            };
            match found {
                Some((how, a)) if a.is_exact() => return Ok(Some(derived(i, c, how))),
                Some((how, a)) if is_named && a.helps() => {
                    similar.get_or_insert((how, c));
                }
                _ => {}
            }
        }
        Ok(similar.map(|(how, c)| derived(i, c, how)))
    }

    /// A stretch of large span `i` that is more than constant, and its words.
    fn sample(&self, i: usize, rows: u64, most: u64) -> Result<(Stretch, Vec<u8>)> {
        let span = self.span(i);
        let row_len = row_elements(&span).max(1);
        let n_rows = elements(&span) / row_len;
        let unit = span.dtype.group_elements();
        let columns = (row_len.min(most) / unit * unit).max(unit);
        let mut best = (0, Stretch { row: 0, rows: 0, column: 0, columns: 0 }, Vec::new());
        // Rows of even number may stand where they came from.
        for row in [1, (n_rows / 2) | 1, (n_rows / 4) | 1, 0] {
            if row >= n_rows {
                continue;
            }
            let rows = rows.min(n_rows - row).min(most / columns).max(1);
            let stretch = Stretch { row, rows, column: 0, columns };
            let mut words = vec![0; bytes_of(&span, rows * columns) as usize];
            self.input.read(&stretch.pieces(&span, 0), &mut words)?;
            let mut seen = [false; 256];
            words.iter().for_each(|&b| seen[usize::from(b)] = true);
            let kinds = seen.iter().filter(|s| **s).count();
            if kinds > best.0 {
                best = (kinds, stretch, words);
            }
            if kinds > 12 {
                break;
            }
        }
        Ok((best.1, best.2))
    }

    /// Tries the orders of a layout, and of rows.
    fn try_layout(
        &mut self,
        i: usize,
        c: &Candidate,
        stretch: Stretch,
        words: &[u8],
        rotates: bool,
    ) -> Result<Option<(Quantise, Agreement)>> {
        let span = self.span(i);
        let n_rows = elements(&span) / row_elements(&span).max(1);
        let mut best: Option<(Quantise, Agreement)> = None;
        for half in [0].into_iter().chain(HALVES) {
            if half > 0 && (!rotates || !n_rows.is_multiple_of(2 * u64::from(half))) {
                continue;
            }
            let known = self.read(&c.from, &stretch.pieces(&c.span, half))?;
            for order in 0..2 {
                // The rows are in order here already.
                let how = Quantise { source: c.source, half: 0, recipe: Recipe::Layout(order) };
                let spec = stretch.spec(span.dtype);
                let found = self.trial.agreement(self.level, &spec, &how, words, &known);
                keep(&mut best, found.map(|a| (Quantise { half, ..how }, a)));
            }
            if best.is_some_and(|(_, a)| a.is_exact()) {
                break;
            }
        }
        Ok(best)
    }

    /// Tries scales of blocks, and one for the whole tensor.
    fn try_scales(
        &mut self,
        i: usize,
        c: &Candidate,
        stretch: Stretch,
        words: &[u8],
        is_named: bool,
    ) -> Result<Option<(Quantise, Agreement)>> {
        let span = self.span(i);
        let known = self.read(&c.from, &stretch.pieces(&c.span, 0))?;
        if !signs_agree(c.source, words, &known) {
            return Ok(None);
        }
        let mut best = None;
        let (n, row) = (elements(&span), row_elements(&span));
        for (rows, columns) in BLOCKS {
            let share = Share::Block { rows, columns };
            if rows == 1 {
                let seen = Seen { stretch, words, known: &known, dtype: span.dtype };
                self.try_formulas(c, share, None, &seen, &mut best);
            } else {
                // Two blocks, one of which may have the scale of all, below each other.
                let (rows, columns) = (u64::from(rows), u64::from(columns));
                let (bands, columns) = (n / row.max(1) / rows, columns.min(row));
                let block = |band: u64, column| Stretch { row: band * rows, rows, column, columns };
                let last = block(bands.saturating_sub(1), (row / columns - 1) * columns);
                let blocks = [block(0, 0), last];
                if bands == 0 {
                    continue;
                }
                let pieces = |span: &Span| blocks.map(|b| b.pieces(span, 0)).concat();
                let mut words = vec![0; bytes_of(&span, 2 * rows * columns) as usize];
                self.input.read(&pieces(&span), &mut words)?;
                let known = self.read(&c.from, &pieces(&c.span))?;
                let seen = Seen { stretch: last, words: &words, known: &known, dtype: span.dtype };
                self.try_formulas(c, share, None, &seen, &mut best);
            }
            if best.is_some_and(|(_, a)| a.is_exact()) {
                return Ok(best);
            }
        }
        if is_named || best.is_some_and(|(_, a)| a.helps()) {
            let most = self.largest(c)?;
            let share = Share::All(0.0);
            let seen = Seen { stretch, words, known: &known, dtype: span.dtype };
            self.try_formulas(c, share, Some(most), &seen, &mut best);
        }
        Ok(best)
    }

    /// Tries all formulas with scales of these blocks, or of the largest magnitude of all.
    fn try_formulas(
        &mut self,
        c: &Candidate,
        share: Share,
        most: Option<f32>,
        seen: &Seen<'_>,
        best: &mut Option<(Quantise, Agreement)>,
    ) {
        let Seen { stretch, words, known, dtype } = *seen;
        let kind = match dtype {
            Dtype::F8_E4M3 => scaled::Kind::E4m3,
            Dtype::F8_E5M2 => scaled::Kind::E5m2,
            _ => scaled::Kind::I8,
        };
        let rounds: &[u8] = match c.source {
            Source::F32 => &[0],
            _ => &[0, ROUND_SCALE | ROUND_RESULT, ROUND_SCALE, ROUND_RESULT],
        };
        for formula in 0..FORMULAS {
            for &rounds in rounds {
                let mut s = Scaled { formula, rounds, share };
                if let Some(most) = most {
                    s.share = Share::All(s.factor(kind, c.source, most));
                }
                let how = Quantise { source: c.source, half: 0, recipe: Recipe::Scaled(s) };
                let spec = stretch.spec(dtype);
                let found = self.trial.agreement(self.level, &spec, &how, words, known);
                keep(best, found.map(|a| (how, a)));
            }
        }
    }

    /// The largest magnitude of a candidate.
    fn largest(&self, c: &Candidate) -> Result<f32> {
        let (mut at, mut most, mut wide) = (0, 0, Vec::new());
        while at < c.span.len {
            let piece = Piece { offset: c.span.offset + at, len: STEP.min(c.span.len - at) };
            let bytes = self.read(&c.from, &[piece])?;
            widen(self.level, c.source, &bytes, (0, 0), &mut wide);
            most = most.max(scaled::largest(self.level, &wide));
            at += piece.len;
        }
        Ok(f32::from_bits(most))
    }
}

/// Those of a name first, then a few others.
fn ordered<'c>(known: &'c [Candidate], names: &[String], strangers: usize) -> Vec<&'c Candidate> {
    let is_named = |c: &&Candidate| names.iter().any(|n| c.names.contains(n));
    let strangers = known.iter().filter(|c| !is_named(c)).take(strangers);
    known.iter().filter(is_named).chain(strangers).collect()
}

/// How words of one type are the rounding of words of the other.
fn cast_from(to: Dtype, from: Source) -> Option<Predictor> {
    match (to, from) {
        (Dtype::BF16 | Dtype::F16, Source::F32) => Some(Predictor::Narrow),
        (Dtype::BF16, Source::F16) | (Dtype::F16, Source::Bf16) => Some(Predictor::Convert),
        _ => None,
    }
}

fn keep(best: &mut Option<(Quantise, Agreement)>, found: Option<(Quantise, Agreement)>) {
    if let Some(found) = found
        && best.is_none_or(|(_, a)| found.1.equal * a.n > a.equal * found.1.n)
    {
        *best = Some(found);
    }
}

/// Whether words of eight bits have the signs of these floats.
fn signs_agree(source: Source, words: &[u8], known: &[u8]) -> bool {
    let tops = known.chunks_exact(source.word_len()).map(|w| w[w.len() - 1] & 0x80);
    let pairs = words.iter().zip(tops).filter(|(w, _)| **w & 0x7f != 0);
    let (mut n, mut equal) = (0, 0);
    for (w, top) in pairs {
        n += 1;
        equal += usize::from(w & 0x80 == top);
    }
    equal * 16 >= n * 15
}

fn derived(large: usize, c: &Candidate, how: Quantise) -> Derived {
    let rows = match how.recipe {
        Recipe::Scaled(Scaled { share: Share::Block { rows, .. }, .. }) => u64::from(rows),
        _ => 2 * u64::from(how.half),
    };
    let predictor = Predictor::Quantise(how);
    Derived { large, from: c.from.clone(), predictor, rows: rows.max(1) }
}
