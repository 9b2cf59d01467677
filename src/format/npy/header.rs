//! The header of an array: a Python dict of a string, a bool and a tuple.

use crate::{dtype::Dtype, format::fault::quote};

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) dtype: Dtype,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

/// The most dimensions NumPy knows.
const MAX_RANK: usize = 64;

/// Reads a header. The error completes "looks like npy, but …".
pub(super) fn parse(bytes: &[u8]) -> Result<Header, String> {
    let mut text = Text(bytes);
    let (mut descr, mut fortran_order, mut shape, mut fields) = (None, None, None, None);
    let bad = || "its header is not valid".to_string();
    text.expect(b'{').ok_or_else(bad)?;
    while text.expect(b'}').is_none() {
        let key = text.string().ok_or_else(bad)?;
        text.expect(b':').ok_or_else(bad)?;
        match key {
            b"descr" => {
                descr = Some(match text.peek() {
                    Some(b'[') => {
                        let (kind, n) = text.fields()?;
                        fields = Some(n);
                        read_descr(kind)?
                    }
                    _ => read_descr(text.string().ok_or("its elements have a structured type")?)?,
                });
            }
            b"fortran_order" => fortran_order = Some(text.bool().ok_or_else(bad)?),
            b"shape" => shape = Some(text.tuple().ok_or_else(bad)?),
            _ => return Err(format!("its header has the unknown key {}", quote(key))),
        }
        if text.expect(b',').is_none() && text.peek() != Some(b'}') {
            return Err(bad());
        }
    }
    match (descr, fortran_order, shape) {
        (Some(_), Some(true), Some(_)) if fields.is_some() => {
            Err("its elements have a structured type, in Fortran order".into())
        }
        (Some((dtype, big_endian)), Some(fortran_order), Some(mut shape)) => {
            // The fields of an element lie side by side.
            shape.extend(fields);
            Ok(Header { dtype, big_endian, fortran_order, shape })
        }
        _ => Err("its header lacks a key".into()),
    }
}

/// Reads a type such as `<f4`, and whether it is big endian.
fn read_descr(descr: &[u8]) -> Result<(Dtype, bool), String> {
    let unknown = || format!("its elements have the unknown type {}", quote(descr));
    let (order, kind) = descr.split_first().ok_or_else(unknown)?;
    let big_endian = match order {
        b'<' | b'|' => false,
        b'>' => true,
        _ => return Err(unknown()),
    };
    let dtype = match kind {
        b"b1" => Dtype::BOOL,
        b"u1" => Dtype::U8,
        b"i1" => Dtype::I8,
        b"u2" => Dtype::U16,
        b"i2" => Dtype::I16,
        b"u4" => Dtype::U32,
        b"i4" => Dtype::I32,
        b"u8" => Dtype::U64,
        b"i8" => Dtype::I64,
        b"f2" => Dtype::F16,
        b"f4" => Dtype::F32,
        b"f8" => Dtype::F64,
        b"c8" => Dtype::C64,
        b"c16" => Dtype::C128,
        _ => return Err(unknown()),
    };
    Ok((dtype, big_endian))
}

/// What is left of the header.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        if self.peek() != Some(byte) {
            return None;
        }
        self.0 = &self.0[1..];
        Some(())
    }

    /// A string in single or double quotes, without escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let quote = self.peek().filter(|b| matches!(b, b'\'' | b'"'))?;
        let inner = &self.0[1..];
        let n = inner.iter().position(|b| *b == quote)?;
        self.0 = &inner[n + 1..];
        Some(&inner[..n])
    }

    /// A list of fields `(name, type)` or `(name, type, shape)`, all of one type, and how many values
    /// of it they are.
    fn fields(&mut self) -> Result<(&'a [u8], u64), String> {
        let bad = || "its header is not valid".to_string();
        let (mut kind, mut count) = (None, 0u64);
        self.expect(b'[').ok_or_else(bad)?;
        while self.expect(b']').is_none() {
            self.expect(b'(').ok_or_else(bad)?;
            self.string().ok_or_else(bad)?;
            self.expect(b',').ok_or_else(bad)?;
            let this = self.string().ok_or("its elements have a nested type")?;
            if *kind.get_or_insert(this) != this {
                return Err("its elements have fields of several types".into());
            }
            let mut values = 1;
            if self.expect(b',').is_some() && self.peek() == Some(b'(') {
                let shape = self.tuple().ok_or_else(bad)?;
                let product = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
                values = product.ok_or_else(bad)?;
                self.expect(b',');
            }
            count = count.checked_add(values).ok_or_else(bad)?;
            self.expect(b')').ok_or_else(bad)?;
            if self.expect(b',').is_none() && self.peek() != Some(b']') {
                return Err(bad());
            }
        }
        kind.map(|kind| (kind, count)).ok_or_else(bad)
    }

    fn bool(&mut self) -> Option<bool> {
        self.peek()?;
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Some(value);
            }
        }
        None
    }

    /// A tuple of numbers, perhaps with the `L` of Python 2.
    fn tuple(&mut self) -> Option<Vec<u64>> {
        self.expect(b'(')?;
        let mut numbers = Vec::new();
        while self.expect(b')').is_none() {
            self.peek()?;
            let n = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
            let (digits, rest) = self.0.split_at(n);
            numbers.push(std::str::from_utf8(digits).ok()?.parse().ok()?);
            self.0 = rest.strip_prefix(b"L").unwrap_or(rest);
            if self.expect(b',').is_none() && self.peek() != Some(b')') {
                return None;
            }
            if numbers.len() > MAX_RANK {
                return None;
            }
        }
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_layout_are_read() {
        let parsed = parse(b"{'descr': '>f4', 'fortran_order': True, 'shape': (3, 4L), }   \n");
        let shape = vec![3, 4];
        let want = Header { dtype: Dtype::F32, big_endian: true, fortran_order: true, shape };
        assert_eq!(parsed.unwrap(), want);
        let parsed = parse(b"{\"shape\":(5,),\"descr\":\"|b1\",\"fortran_order\":False}");
        assert_eq!(parsed.unwrap().shape, [5]);
        assert_eq!(
            parse(b"{'descr':'<c16','fortran_order':False,'shape':()}").unwrap().dtype,
            Dtype::C128
        );
    }

    #[test]
    fn fields_of_one_type_are_a_dimension() {
        let header = |descr: &str| {
            parse(format!("{{'descr':{descr},'fortran_order':False,'shape':(7,)}}").as_bytes())
        };
        let parsed = header("[('x', '<f4'), ('y', '<f4'), ('z', '<f4')]").unwrap();
        assert_eq!((parsed.dtype, parsed.shape), (Dtype::F32, vec![7, 3]));
        let parsed = header("[('w', '>f8', (2, 3)), ('b', '>f8',),]").unwrap();
        assert_eq!((parsed.dtype, parsed.big_endian, parsed.shape), (Dtype::F64, true, vec![7, 7]));
        assert!(header("[('w', '<f4', (9999999999, 9999999999))]").is_err());
    }

    #[test]
    fn bad_headers_are_refused() {
        for bad in [
            &b""[..],
            b"{",
            b"{}",
            b"{'descr': '<f4', 'fortran_order': False}",
            b"{'descr': [('a', '<f4'), ('b', '<f8')], 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': [('a', '<f4')], 'fortran_order': True, 'shape': (1,)}",
            b"{'descr': [('a', [('b', '<f4')])], 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': [('a', '<f4' ('b', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': [], 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': '<f4', 'fortran_order': None, 'shape': (1,)}",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            b"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            b"{'descr': '<f4', 'other': False, 'shape': (1,)}",
        ] {
            assert!(parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
