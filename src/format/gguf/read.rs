//! Reading forward through a header of unknown length.

use crate::{format::fault::Fault, source::Source};

/// Width of counts and lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

/// Bytes fetched at a time.
const WINDOW: u64 = 1 << 18;

/// A position in the file with a window of its bytes.
pub(super) struct Reader<'a> {
    source: &'a dyn Source,
    /// The window, from `start` on.
    window: Vec<u8>,
    start: u64,
    at: u64,
    pub(super) big_endian: bool,
    pub(super) width: Width,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a dyn Source) -> Self {
        let window = Vec::new();
        Reader { source, window, start: 0, at: 0, big_endian: false, width: Width::Wide }
    }

    /// The next byte's offset.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn left(&self) -> u64 {
        self.source.len().saturating_sub(self.at)
    }

    /// Steps over `n` bytes.
    pub(super) fn skip(&mut self, n: u64) -> Result<(), Fault> {
        if n > self.left() {
            return Err("its header is cut off".into());
        }
        self.at += n;
        Ok(())
    }

    /// The next `n` bytes, at most a window.
    fn take(&mut self, n: u64) -> Result<&[u8], Fault> {
        let from = self.at;
        self.skip(n)?;
        let end = self.start + self.window.len() as u64;
        if from < self.start || self.at > end {
            let left = self.source.len() - from;
            self.window = self.source.read_vec(from, left.min(WINDOW.max(n)))?;
            self.start = from;
        }
        // The window holds these bytes, so the differences fit.
        Ok(&self.window[(from - self.start) as usize..(self.at - self.start) as usize])
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        let big_endian = self.big_endian;
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        let big_endian = self.big_endian;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(if big_endian { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A count, length or dimension in the version's width.
    pub(super) fn size(&mut self) -> Result<u64, Fault> {
        match self.width {
            Width::Narrow => Ok(self.u32()?.into()),
            Width::Wide => self.u64(),
        }
    }

    /// A count of things that take at least `least` bytes each, checked against what is left.
    pub(super) fn count(&mut self, least: u64) -> Result<u64, Fault> {
        let n = self.size()?;
        if n > self.left() / least {
            return Err(format!("it counts {n} things in {} bytes", self.left()).into());
        }
        Ok(n)
    }

    /// A string of at most `limit` bytes, which is less than a window.
    pub(super) fn string(&mut self, limit: u64) -> Result<Vec<u8>, Fault> {
        let n = self.size()?;
        if n > limit {
            return Err(format!("it has a name of {n} bytes").into());
        }
        Ok(self.take(n)?.to_vec())
    }

    /// Steps over a string.
    pub(super) fn skip_string(&mut self) -> Result<(), Fault> {
        let n = self.size()?;
        self.skip(n)
    }
}
