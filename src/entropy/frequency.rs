//! Frequency tables of 12 bits.

/// Bits of a frequency: the frequencies of a table sum to `1 << SCALE_BITS`.
pub const SCALE_BITS: u32 = 12;

/// Frequencies of the 256 symbols, which sum to 4096; at least two of them are not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    freq: [u16; 256],
}

impl Table {
    /// A table of these frequencies, if they sum to 4096 and at least two are not zero.
    pub fn new(freq: [u16; 256]) -> Option<Table> {
        let sum: u32 = freq.iter().map(|&f| u32::from(f)).sum();
        let one = freq.iter().any(|&f| u32::from(f) == 1 << SCALE_BITS);
        (sum == 1 << SCALE_BITS && !one).then_some(Table { freq })
    }

    /// The frequency of each symbol.
    pub fn freq(&self) -> &[u16; 256] {
        &self.freq
    }
}

/// The table closest to `counts`: of all tables that give every present symbol at least one, the
/// one that (but for the last bit of the comparison) codes `counts` in the fewest bits.
/// `None` where fewer than two symbols are present.
///
/// Shares are rounded to the nearest, then single units move to where they gain the most. The
/// gain `c · log(1 + 1/f)` of a unit is taken as `c / (f + 1/2)`.
pub fn normalise(counts: &[u32; 256]) -> Option<Table> {
    const SCALE: u64 = 1 << SCALE_BITS;
    let present = counts.iter().filter(|&&c| c > 0).count();
    if present < 2 {
        return None;
    }
    let share = |c: u32, units: u64, total: u64| (2 * u64::from(c) * units + total) / (2 * total);
    // Symbols below half a unit still take a whole one, so the others share what is left.
    let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    let (mut units, mut rest) = (SCALE, total);
    for &c in counts {
        if c > 0 && share(c, SCALE, total) == 0 {
            units -= 1;
            rest -= u64::from(c);
        }
    }
    let mut freq = counts.map(|c| match share(c, SCALE, total) {
        0 => u64::from(c > 0),
        _ => share(c, units, rest).max(1),
    });
    let mut sum: u64 = freq.iter().sum();
    let mut heap = std::collections::BinaryHeap::with_capacity(256);
    let grow = sum < SCALE;
    // Twice the gain of the next unit, or minus twice the loss of the last one.
    let priority = |s: usize, f: u64| {
        let c = (u64::from(counts[s]) << 20) as i64;
        let gain = if grow { c / (2 * f as i64 + 1) } else { -c / (2 * f as i64 - 1) };
        (gain, std::cmp::Reverse(s))
    };
    for (s, &f) in freq.iter().enumerate() {
        if f > u64::from(!grow) {
            heap.push(priority(s, f));
        }
    }
    while sum != SCALE {
        let (_, std::cmp::Reverse(s)) = heap.pop()?;
        if grow {
            freq[s] += 1;
            sum += 1;
        } else {
            freq[s] -= 1;
            sum -= 1;
        }
        if freq[s] > u64::from(!grow) {
            heap.push(priority(s, freq[s]));
        }
    }
    Table::new(freq.map(|f| f as u16))
}
pub fn cost(counts: &[u32; 256], t: &Table) -> u64 {
    let mut s = 0;
    for i in 0..256 {
        if counts[i] > 0 {
            s += u64::from(counts[i])
                * u64::from((12 << 16) - crate::bits::log2_q16(u32::from(t.freq[i].max(1))));
        }
    }
    s >> 8
}
pub fn entropy(counts: &[u32; 256]) -> u64 {
    let n: u32 = counts.iter().sum();
    let l = crate::bits::log2_q16(n);
    let mut s = 0;
    for &c in counts {
        if c > 0 {
            s += u64::from(c) * u64::from(l - crate::bits::log2_q16(c).min(l));
        }
    }
    s >> 8
}
pub fn write(t: &Table, out: &mut Vec<u8>) {
    let lo = t.freq.iter().position(|&f| f > 0).unwrap();
    let hi = t.freq.iter().rposition(|&f| f > 0).unwrap();
    out.push(lo as u8);
    out.push(hi as u8);
    let mut w = crate::bits::BitWriter::new(out);
    let mut p = 4;
    for &f in &t.freq[lo..=hi] {
        let l = 16 - f.leading_zeros() as i32;
        let d = l - p;
        p = l;
        let z = if d > 0 { 2 * d - 1 } else { -2 * d };
        w.write_rice(z as u32, 0);
        if l > 1 {
            w.write(u32::from(f) & ((1 << (l - 1)) - 1), l as u32 - 1);
        }
    }
    w.finish();
}
pub fn read(b: &[u8]) -> Option<(Table, usize)> {
    let (lo, hi) = (*b.first()? as usize, *b.get(1)? as usize);
    if lo > hi {
        return None;
    }
    let mut r = crate::bits::BitReader::new(&b[2..]);
    let mut f = [0u16; 256];
    let mut p = 4i32;
    for x in &mut f[lo..=hi] {
        let z = r.read_rice(0, 40)? as i32;
        let d = if z & 1 == 1 { (z + 1) / 2 } else { -z / 2 };
        p += d;
        if !(0..=12).contains(&p) {
            return None;
        }
        *x = if p == 0 { 0 } else { (1 << (p - 1)) | r.read(p as u32 - 1)? as u16 };
    }
    let n = r.finish()?;
    Some((Table::new(f)?, n + 2))
}
pub fn write_delta(t: &Table, _: &Table, out: &mut Vec<u8>) {
    write(t, out)
}
pub fn read_delta(b: &[u8], _: &Table) -> Option<(Table, usize)> {
    read(b)
}
