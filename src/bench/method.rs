//! Our methods, and those of the studies, as users get them: through whole archives, with every
//! header, checksum and index counted in size and time.

use super::Codec;
use crate::{
    archive::{Options, compress_into, decompress_into},
    codec::Method,
    dtype::Dtype,
    error::Result,
};

/// A method of ours.
pub struct Ours {
    name: String,
    options: Options,
}

impl Ours {
    /// The method with these options; their method is replaced.
    pub fn new(method: Method, options: Options) -> Ours {
        let name = match options.threads {
            1 => method.name().into(),
            n => format!("{}-t{n}", method.name()),
        };
        Ours { name, options: options.with_method(method) }
    }
}

impl Codec for Ours {
    fn name(&self) -> &str {
        &self.name
    }

    fn threads(&self) -> usize {
        self.options.threads
    }

    fn takes_files(&self) -> bool {
        true
    }

    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        // Bytes of no known type are looked at for formats inside, which tensors are not.
        self.options.dtype = (dtype != Dtype::BYTES).then_some(dtype);
        compress_into(input, &self.options, out).map(|_| ())
    }

    fn decode(&mut self, _: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()> {
        decompress_into(coded, out, &self.options)
    }
}

/// The method of this name, on `threads` threads.
pub fn by_name(name: &str, threads: usize) -> Option<Box<dyn Codec>> {
    let method = Method::parse(name)?;
    Some(Box::new(Ours::new(method, Options::default().with_threads(threads.max(1)))))
}

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<String> {
    Method::ALL.iter().map(|m| m.name().into()).collect()
}
