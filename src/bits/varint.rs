//! Variable-length integers: LEB128, seven bits a byte, low bits first, shortest form only.

/// Appends `value` in 1 to 10 bytes.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a value off the front of `bytes`; `None` where they end early, the value needs more
/// than 64 bits or is not in its shortest form.
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 || (byte == 0 && shift > 0) {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_inverts_write_and_refuses_other_forms() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, !0 >> shift] {
                let mut bytes = Vec::new();
                write_varint(&mut bytes, value);
                let mut rest = bytes.as_slice();
                assert_eq!(read_varint(&mut rest), Some(value));
                assert!(rest.is_empty());
                assert_eq!(read_varint(&mut &bytes[..bytes.len() - 1]), None);
            }
        }
        assert_eq!(read_varint(&mut [0x80, 0x00].as_slice()), None);
        assert_eq!(read_varint(&mut [0xff; 10].as_slice()), None);
    }
}
