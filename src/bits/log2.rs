//! Base-2 logarithms in integers, so that every machine makes the same choices.

/// log2(1 + i/256) in units of 2^-16, for i in 0..=256.
const FRACTIONS: [u32; 257] = {
    let mut table = [0; 257];
    let mut i = 0;
    while i < 257 {
        // Squares x in [1, 2): each time it reaches 2, the next bit of the logarithm is one.
        let mut x = (256 + i as u64) << 23;
        let mut log = 0;
        let mut bit = 0;
        if x >= 1 << 32 {
            log = 1 << 16;
        }
        while bit < 16 && log < 1 << 16 {
            x = (x * x) >> 31;
            if x >= 1 << 32 {
                x >>= 1;
                log |= 1 << (15 - bit);
            }
            bit += 1;
        }
        table[i] = log;
        i += 1;
    }
    table
};

/// log2(x) in units of 2^-16, within 2^-14; 0 for x = 0.
pub fn log2_q16(x: u32) -> u32 {
    if x < 2 {
        return 0;
    }
    let octave = x.ilog2();
    let mantissa = ((u64::from(x) << 32) >> octave) as u32; // below the leading one, 32 bits
    let (i, rest) = ((mantissa >> 24) as usize, u64::from(mantissa & 0xff_ffff));
    let (low, high) = (u64::from(FRACTIONS[i]), u64::from(FRACTIONS[i + 1]));
    (octave << 16) + (low + (((high - low) * rest) >> 24)) as u32
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_logarithm() {
        for x in (1..5000).chain((0..1000).map(|i| 1 + i * 4_294_967)).chain([u32::MAX]) {
            let want = f64::from(x).log2() * 65536.0;
            let got = f64::from(super::log2_q16(x));
            assert!((got - want).abs() < 4.0, "{x}: {got} {want}");
        }
    }
}
