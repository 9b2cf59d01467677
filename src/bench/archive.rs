//! The methods of this crate, measured as whole archives: header, index and checksums included.

use super::Codec;
use crate::{Options, archive, codec::Method, dtype::Dtype, error::Result};

/// One method through [`crate::compress_into`].
struct Archived {
    options: Options,
    threads: usize,
}

impl Codec for Archived {
    fn name(&self) -> &str {
        self.options.method.name()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.options.dtype = (dtype != Dtype::BYTES).then_some(dtype);
        archive::compress_into(input, &self.options, out).map(|_| ())
    }

    fn decode(&mut self, _: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()> {
        archive::decompress_into(coded, out, &self.options)
    }
}

/// The method of this name.
pub fn by_name(name: &str, threads: usize) -> Option<Box<dyn Codec>> {
    let method = Method::parse(name)?;
    let options = Options::default().with_method(method).with_threads(threads.max(1));
    Some(Box::new(Archived { options, threads: threads.max(1) }))
}

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<String> {
    Method::ALL.iter().map(|m| m.name().into()).collect()
}
