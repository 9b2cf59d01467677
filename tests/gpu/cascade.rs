//! The chain of dispatches of a cascade against the CPU's encoder and decoder.

use super::{LENGTHS, device, noise};
use lmc_gpu::{
    gpu::{Device, Recorder},
    internals::{entropy::cascade, shader::CascadeParams, simd::Level},
};

/// Symbols as common as those of trained weights, every value possible.
fn exponents(n: usize, seed: u64) -> Vec<u8> {
    let bits = noise(2 * n, seed);
    let value = |b: &[u8]| 120 - b[0].leading_zeros() as u8 + (b[1] & 1);
    bits.chunks_exact(2).map(|b| if b[0] == b[1] { b[0] } else { value(b) }).collect()
}

/// The cascade of `symbols` as the device makes it, assembled as the CPU writes it.
fn encode(device: &Device, symbols: &[u8]) -> Vec<u8> {
    let n = symbols.len();
    let n_tiles = n.div_ceil(4096);
    let params = CascadeParams {
        n_symbols: n as u32,
        n_tiles: n_tiles as u32,
        stride: n.div_ceil(16) as u32 + 1,
        ..Default::default()
    };
    let storage = |len| device.storage("test", len as u64).unwrap();
    let (input, counts, order) = (storage(n), storage(1024), storage(1028));
    let (tiles, totals) = (storage(16 * n_tiles), storage(16));
    let (digits, raw) = (storage(n.div_ceil(4)), storage(n + 4));
    let levels = storage(3 * 4 * params.stride as usize);
    // What is there before must not matter.
    device.write_at(&levels, 0, &vec![0xff; levels.size() as usize]).unwrap();
    device.write_at(&raw, 0, &vec![0xff; raw.size() as usize]).unwrap();
    device.write_at(&input, 0, symbols).unwrap();

    let uniforms = Recorder::uniforms(device).unwrap();
    let mut recorder = Recorder::new(device, &uniforms).folded_at(3);
    let mut pass = recorder.pass(None);
    let whole = 256 * n_tiles as u64;
    pass.dispatch("sample", &params, n.div_ceil(4) as u64, &[&input, &counts]).unwrap();
    pass.dispatch("plan", &params, 256, &[&counts, &order]).unwrap();
    pass.dispatch("count", &params, whole, &[&input, &order, &tiles]).unwrap();
    pass.dispatch("scan", &params, 256, &[&tiles, &totals]).unwrap();
    let meeting = n_tiles as u64 + 1;
    pass.dispatch("clear", &params, meeting, &[&order, &tiles, &totals, &levels, &raw]).unwrap();
    let all = [&input, &order, &tiles, &digits, &levels, &raw];
    pass.dispatch("emit", &params, whole, &all).unwrap();
    drop(pass);
    recorder.submit().unwrap();

    let words = |buffer, len| -> Vec<u32> {
        let bytes = device.read(buffer, len).unwrap();
        bytes.chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect()
    };
    let (order, totals) = (words(&order, 1028), words(&totals, 16));
    let n_levels = order[256] as usize;
    let mut out = vec![n_levels as u8];
    out.extend(order[..3 * n_levels].iter().map(|s| *s as u8));
    out.extend(totals[..n_levels].iter().flat_map(|n| n.to_le_bytes()));
    out.extend(device.read(&digits, n.div_ceil(4) as u64).unwrap());
    let levels = device.read(&levels, levels.size()).unwrap();
    for (level, n) in totals[..n_levels - 1].iter().enumerate() {
        let at = 4 * params.stride as usize * level;
        out.extend(&levels[at..at + n.div_ceil(4) as usize]);
    }
    out.extend(device.read(&raw, totals[n_levels - 1].into()).unwrap());
    out
}

fn encode_on_cpu(symbols: &[u8]) -> Vec<u8> {
    let plan = cascade::plan(&cascade::sample(symbols));
    let mut scratch = vec![0; cascade::scratch_len(symbols.len())];
    let mut out = vec![0; 2 * symbols.len() + 100];
    let len = cascade::encode(Level::best(), &plan, symbols, &mut scratch, &mut out).unwrap();
    out.truncate(len);
    out
}

#[test]
fn a_cascade_has_the_bytes_that_the_cpu_writes() {
    let Some(device) = device() else { return };
    for n in LENGTHS.into_iter().skip(1).chain([65_535, 65_536, 200_003, 1_200_000]) {
        let flat = noise(n, 7);
        let constant = vec![9; n];
        for symbols in [exponents(n, 8), flat, constant] {
            assert!(encode(&device, &symbols) == encode_on_cpu(&symbols), "{n}");
        }
    }
}

/// The symbols of a cascade as the device decodes it.
fn decode(device: &Device, cascade: &[u8], n: usize) -> Vec<u8> {
    let n_levels = usize::from(cascade[0]);
    let (symbols, rest) = cascade[1..].split_at(3 * n_levels);
    let (counts, mut rest) = rest.split_at(4 * n_levels);
    let mut sizes = vec![n];
    sizes.extend(counts.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap()) as usize));
    // Digits of each level from a word of its own on.
    let (mut digits, mut starts) = (Vec::new(), Vec::new());
    for size in &sizes[..n_levels] {
        let (level, below) = rest.split_at(size.div_ceil(4));
        starts.push(digits.len() / 4);
        digits.extend(level);
        digits.resize(digits.len().next_multiple_of(4), 0);
        rest = below;
    }
    let order: Vec<u8> = symbols.iter().flat_map(|s| u32::from(*s).to_le_bytes()).collect();
    let storage = |bytes: &[u8], len| {
        let buffer = device.storage("test", len as u64).unwrap();
        device.write_at(&buffer, 0, bytes).unwrap();
        buffer
    };
    let (digits, order) = (storage(&digits, digits.len()), storage(&order, order.len()));
    let tiles = storage(&[], 16 * n.div_ceil(4096));
    let totals = storage(&[], 16);
    let mut below = storage(rest, n);

    let uniforms = Recorder::uniforms(device).unwrap();
    let mut recorder = Recorder::new(device, &uniforms).folded_at(3);
    let mut pass = recorder.pass(None);
    for level in (0..n_levels).rev() {
        let n_tiles = sizes[level].div_ceil(4096);
        let params = CascadeParams {
            n_symbols: sizes[level] as u32,
            n_tiles: n_tiles as u32,
            first: 3 * level as u32,
            digits_at: starts[level] as u32,
            ..Default::default()
        };
        let whole = 256 * n_tiles as u64;
        let out = storage(&[], n.next_multiple_of(16));
        pass.dispatch("count_digits", &params, whole, &[&tiles, &digits]).unwrap();
        pass.dispatch("scan", &params, 256, &[&tiles, &totals]).unwrap();
        pass.dispatch("expand", &params, whole, &[&out, &order, &tiles, &digits, &below]).unwrap();
        below = out;
    }
    drop(pass);
    recorder.submit().unwrap();
    device.read(&below, n as u64).unwrap()
}

#[test]
fn a_cascade_of_the_cpu_is_expanded_on_the_device() {
    let Some(device) = device() else { return };
    for n in LENGTHS.into_iter().skip(1).chain([65_535, 200_003, 1_200_000]) {
        for symbols in [exponents(n, 18), noise(n, 17), vec![9; n]] {
            assert!(decode(&device, &encode_on_cpu(&symbols), n) == symbols, "{n}");
        }
    }
}
