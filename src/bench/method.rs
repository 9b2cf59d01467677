//! The methods of the studies behind the interface of the benchmarks.

use rayon::prelude::*;

use super::Codec;
use crate::{
    codec::study::{self, Method},
    dtype::Dtype,
    error::{Error, Result},
};

/// Bytes of a chunk where the method asks for no other: 256 Ki words.
fn chunk_len(method: Method, dtype: Dtype) -> usize {
    let word = study::group_len(dtype);
    let len = method.chunk_len().unwrap_or(word << 18);
    len - len % word
}

/// A method of the studies on chunks, each preceded by its length (u32).
pub struct Study {
    method: Method,
    name: String,
    threads: usize,
    pool: Option<rayon::ThreadPool>,
}

impl Study {
    /// The method, with its chunks spread over `threads`. Chunks have the size that the method
    /// asks for whatever the threads, so an input of one chunk occupies one thread only.
    pub fn new(method: Method, threads: usize) -> Result<Study> {
        let threads = threads.max(1);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = (threads > 1).then(|| pool.build()).transpose();
        let pool = pool.map_err(|e| Error::InvalidArgument(format!("threads: {e}")))?;
        let name = match threads {
            1 => method.name().into(),
            n => format!("{}-t{n}", method.name()),
        };
        Ok(Study { method, name, threads, pool })
    }
}

impl Codec for Study {
    fn name(&self) -> &str {
        &self.name
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let chunks = input.chunks(chunk_len(self.method, dtype));
        let method = self.method;
        let Some(pool) = &self.pool else {
            for chunk in chunks {
                let mark = out.len();
                out.extend([0; 4]);
                study::encode(method, dtype, chunk, out)?;
                let len = (out.len() - mark - 4) as u32;
                out[mark..mark + 4].copy_from_slice(&len.to_le_bytes());
            }
            return Ok(());
        };
        let chunks: Vec<&[u8]> = chunks.collect();
        let coded: Vec<Result<Vec<u8>>> = pool.install(|| {
            let encode = |chunk: &&[u8]| {
                let mut out = Vec::with_capacity(chunk.len());
                study::encode(method, dtype, chunk, &mut out).map(|()| out)
            };
            chunks.par_iter().map(encode).collect()
        });
        for coded in coded {
            let coded = coded?;
            out.extend_from_slice(&(coded.len() as u32).to_le_bytes());
            out.extend_from_slice(&coded);
        }
        Ok(())
    }

    fn decode(&mut self, dtype: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let len = chunk_len(self.method, dtype);
        let mut rest = coded;
        let mut chunks = Vec::new();
        for out in out.chunks_mut(len) {
            let truncated = || Error::Truncated("a chunk".into());
            let (len, after) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
            let len = u32::from_le_bytes(*len) as usize;
            let (payload, after) = after.split_at_checked(len).ok_or_else(truncated)?;
            rest = after;
            chunks.push((payload, out));
        }
        let decode =
            |(payload, out): (&[u8], &mut [u8])| study::decode(self.method, dtype, payload, out);
        match &self.pool {
            None => chunks.into_iter().try_for_each(decode),
            Some(pool) => pool.install(|| chunks.into_par_iter().try_for_each(decode)),
        }
    }
}

/// The method of the studies of this name.
pub fn by_name(name: &str, threads: usize) -> Option<Result<Box<dyn Codec>>> {
    let method = Method::parse(name)?;
    Some(Study::new(method, threads).map(|s| Box::new(s) as Box<dyn Codec>))
}

/// Every name that [`by_name`] knows.
pub fn names() -> Vec<String> {
    Method::ALL.iter().map(|m| m.name().into()).collect()
}
