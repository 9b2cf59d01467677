//! Tensors that lie anywhere, read as one safetensors file.

use super::Bytes;
use crate::{Error, Result, dtype::Dtype, format, source::Source};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, io, sync::Arc};

/// A tensor and where its bytes are.
pub(super) struct Described<'a> {
    pub name: &'a str,
    pub dtype: Dtype,
    pub shape: &'a [u64],
    pub source: Arc<dyn Source>,
}

/// Shared bytes as a source.
pub(super) struct Memory(pub Bytes);

impl Source for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        (*self.0).read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// Stretches of memory read as one file.
pub(super) struct Image {
    parts: Vec<Arc<dyn Source>>,
    /// End of each part in the file.
    ends: Vec<u64>,
}

impl Image {
    pub fn new(parts: Vec<Arc<dyn Source>>) -> Image {
        let mut end = 0;
        let ends = parts.iter().map(|p| {
            end += p.len();
            end
        });
        Image { ends: ends.collect(), parts }
    }

    /// A safetensors file. Its header ends on a multiple of 8.
    pub fn of_tensors(
        tensors: &[Described<'_>],
        metadata: &BTreeMap<String, String>,
    ) -> Result<Image> {
        let mut object = Map::new();
        if !metadata.is_empty() {
            object.insert("__metadata__".into(), json!(metadata));
        }
        let mut at = 0;
        for t in tensors {
            let end = at + t.source.len();
            let place = json!({
                "dtype": t.dtype.name(), "shape": t.shape, "data_offsets": [at, end],
            });
            at = end;
            if t.name == "__metadata__" || object.insert(t.name.into(), place).is_some() {
                let name = t.name;
                return Err(Error::InvalidArgument(
                    format!("the tensor name \"{name}\" is taken").into(),
                ));
            }
        }
        let mut json = Value::Object(object).to_string().into_bytes();
        json.resize(json.len().next_multiple_of(8), b' ');
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.append(&mut json);
        let (found, _) = (format::safetensors::from_header(&header[8..])).map_err(|_| {
            Error::InvalidArgument("a tensor has a type that safetensors files do not have".into())
        })?;
        debug_assert_eq!(found.tensors.len(), tensors.len());
        let mut parts: Vec<Arc<dyn Source>> = vec![Arc::new(header)];
        parts.extend(tensors.iter().map(|t| t.source.clone()));
        Ok(Image::new(parts))
    }
}

impl Source for Image {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len() => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let (mut at, mut buf) = (offset, buf);
        let mut i = self.ends.partition_point(|&end| end <= at);
        while !buf.is_empty() {
            let part = &self.parts[i];
            let from = at - (self.ends[i] - part.len());
            let n = (part.len() - from).min(buf.len() as u64) as usize;
            let (head, tail) = buf.split_at_mut(n);
            part.read_at(from, head)?;
            buf = tail;
            at += n as u64;
            i += 1;
        }
        Ok(())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        match &self.parts[..] {
            [whole] => whole.as_slice(),
            _ => None,
        }
    }
}
