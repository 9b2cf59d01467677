//! Order-0 coding of symbols of up to 12 bits by one static table: what "the entropy of the
//! exponent" costs once its table is paid for.
//!
//! ```text
//! stream   n: u16, (symbol: u16, frequency - 1: u16) × n, state: u32, renormalisation bytes
//! ```
//!
//! Range variant of asymmetric numeral systems with frequencies out of 2^16, renormalised by
//! bytes; symbols are coded from the last to the first so that they decode forward.

use super::{corrupt, take};
use crate::error::Result;

const TOTAL_LOG2: u32 = 16;
/// States lie in `LOW..LOW << 8` between symbols.
const LOW: u32 = 1 << 23;

pub(super) fn encode(symbol_bits: u32, symbols: &[u16], out: &mut Vec<u8>) {
    let frequencies = frequencies(symbol_bits, symbols);
    let used = frequencies.iter().enumerate().filter(|(_, f)| **f > 0);
    out.extend_from_slice(&(used.clone().count() as u16).to_le_bytes());
    for (symbol, &frequency) in used {
        out.extend_from_slice(&(symbol as u16).to_le_bytes());
        out.extend_from_slice(&((frequency - 1) as u16).to_le_bytes());
    }
    let mut starts = vec![0u32; frequencies.len()];
    let mut sum = 0;
    for (start, frequency) in starts.iter_mut().zip(&frequencies) {
        *start = sum;
        sum += frequency;
    }
    let mut state = LOW;
    let mut reversed = Vec::with_capacity(symbols.len());
    for &symbol in symbols.iter().rev() {
        let (start, frequency) = (starts[usize::from(symbol)], frequencies[usize::from(symbol)]);
        let limit = u64::from(LOW >> TOTAL_LOG2 << 8) * u64::from(frequency);
        while u64::from(state) >= limit {
            reversed.push(state as u8);
            state >>= 8;
        }
        state = ((state / frequency) << TOTAL_LOG2) + state % frequency + start;
    }
    out.extend_from_slice(&state.to_le_bytes());
    out.extend(reversed.iter().rev());
}

pub(super) fn decode(symbol_bits: u32, stream: &[u8], symbols: &mut [u16]) -> Result<()> {
    let mut rest = stream;
    let n = u16::from_le_bytes([take(&mut rest, 1)?[0], take(&mut rest, 1)?[0]]);
    // Which symbol each of the 2^16 places belongs to, with its start and frequency.
    let mut places = Vec::with_capacity(1 << TOTAL_LOG2);
    for entry in take(&mut rest, 4 * usize::from(n))?.chunks_exact(4) {
        let symbol = u16::from_le_bytes([entry[0], entry[1]]);
        let frequency = u32::from(u16::from_le_bytes([entry[2], entry[3]])) + 1;
        let start = places.len() as u32;
        if u32::from(symbol) >> symbol_bits != 0 || start + frequency > 1 << TOTAL_LOG2 {
            return Err(corrupt("a frequency table of sem"));
        }
        places.extend((0..frequency).map(|_| (symbol, start, frequency)));
    }
    if places.len() != 1 << TOTAL_LOG2 && !(symbols.is_empty() && places.is_empty()) {
        return Err(corrupt("a frequency table of sem"));
    }
    let state = take(&mut rest, 4)?;
    let mut state = u32::from_le_bytes([state[0], state[1], state[2], state[3]]);
    let mut rest = rest.iter();
    for out in symbols {
        let place = state & ((1 << TOTAL_LOG2) - 1);
        let (symbol, start, frequency) = places[place as usize];
        *out = symbol;
        // At most 2^16 × 2^15 from a state below 2^31; a larger one is not from the encoder.
        state = frequency.wrapping_mul(state >> TOTAL_LOG2).wrapping_add(place - start);
        while state < LOW {
            let Some(&byte) = rest.next() else {
                return Err(corrupt("the classes of sem end too early"));
            };
            state = state << 8 | u32::from(byte);
            if state == 0 {
                return Err(corrupt("the classes of sem"));
            }
        }
    }
    if state != LOW || rest.next().is_some() {
        return Err(corrupt("the classes of sem"));
    }
    Ok(())
}

/// Counts scaled to a sum of 2^16, none of those that occur to 0.
fn frequencies(symbol_bits: u32, symbols: &[u16]) -> Vec<u32> {
    let mut counts = vec![0u32; 1 << symbol_bits];
    for &symbol in symbols {
        counts[usize::from(symbol)] += 1;
    }
    let n = symbols.len() as u64;
    let total = 1u32 << TOTAL_LOG2;
    let mut sum = 0;
    for count in counts.iter_mut().filter(|c| **c > 0) {
        *count = ((u64::from(*count) << TOTAL_LOG2) / n).max(1) as u32;
        sum += *count;
    }
    // What rounding left over goes to, or comes from, the largest, which feels it least.
    while sum != total && n > 0 {
        let Some(largest) = counts.iter_mut().max_by_key(|c| **c) else { break };
        if sum < total {
            *largest += total - sum;
            sum = total;
        } else {
            let less = (sum - total).min(*largest / 2);
            *largest -= less;
            sum -= less;
        }
    }
    counts
}
