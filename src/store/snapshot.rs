//! Checkpoints in memory: tensors by name, laid out as safetensors files without being copied.
//!
//! A file of tensors is [the length of the header in 8 bytes][header][tensor 0][tensor 1]…, and
//! only the header is made; the tensors stay where they are and are read from there.

#[cfg(feature = "gpu")]
use super::DeviceTensor;
use super::image::{Described, Image, Memory};
use crate::{
    Error, RestoreOptions, Result,
    archive::{Archive, Input},
    container::EntryKind,
    dtype::Dtype,
    format::{self, Format},
    source::Source,
};
use std::{collections::BTreeMap, io, ops::Deref, sync::Arc};

/// Bytes with shared ownership: cloning them copies a pointer. Made of a `Vec<u8>`, an
/// `Arc<[u8]>`, a memory map, or whatever else lends its bytes.
#[derive(Clone)]
pub struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl<T: AsRef<[u8]> + Send + Sync + 'static> From<T> for Bytes {
    fn from(owner: T) -> Bytes {
        Bytes(Arc::new(owner))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl Bytes {
    /// The bytes of numbers, least significant first, which is how files have them. Where memory
    /// has them in that order too, nothing is copied.
    pub fn from_words<T: bytemuck::NoUninit + Send + Sync>(words: Vec<T>) -> Bytes {
        struct Words<T>(Vec<T>);
        impl<T: bytemuck::NoUninit> AsRef<[u8]> for Words<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        if cfg!(target_endian = "big") {
            let mut bytes = bytemuck::cast_slice::<T, u8>(&words).to_vec();
            for word in bytes.chunks_mut(size_of::<T>().max(1)) {
                word.reverse();
            }
            return Bytes::from(bytes);
        }
        Bytes::from(Words(words))
    }
}

/// A tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tensor {
    /// Its name, unique within its file.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Its elements in row-major order.
    pub bytes: Bytes,
}

impl Tensor {
    /// A tensor of these bytes.
    ///
    /// # Errors
    /// `InvalidArgument` where their number does not fit type and shape.
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: &[u64],
        bytes: impl Into<Bytes>,
    ) -> Result<Tensor> {
        let (name, bytes) = (name.into(), bytes.into());
        if dtype.tensor_len(shape) != Some(bytes.len() as u64) {
            return Err(Error::InvalidArgument(
                format!(
                    "tensor \"{name}\": {} bytes do not make a tensor of type {dtype} and shape \
                 {shape:?}",
                    bytes.len()
                )
                .into(),
            ));
        }
        Ok(Tensor { name, dtype, shape: shape.to_vec(), bytes })
    }

    fn described(&self) -> Described<'_> {
        let (dtype, shape, source) =
            (self.dtype, &self.shape[..], Arc::new(Memory(self.bytes.clone())));
        Described { name: &self.name, dtype, shape, source }
    }
}

/// What a file of a snapshot holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Content {
    /// Tensors, stored as a safetensors file in this order.
    Tensors(Vec<Tensor>),
    /// Tensors in device memory, stored in the same way.
    #[cfg(feature = "gpu")]
    Device(Vec<DeviceTensor>),
    /// Any bytes.
    Bytes(Bytes),
}

/// A checkpoint in memory: files of tensors, and others.
///
/// ```
/// use lmc_gpu::{dtype::Dtype, store::{Bytes, Snapshot, Tensor}};
/// let weights = Bytes::from_words(vec![1f32, 2.0, 3.0, 4.0]);
/// let snapshot = Snapshot::new()
///     .with_tensors("master.safetensors", vec![Tensor::new("w", Dtype::F32, &[2, 2], weights)?])
///     .with_bytes("meta.json", br#"{"lr": 0.001}"#.to_vec());
/// assert_eq!(snapshot.tensor("master.safetensors", "w").unwrap().shape, [2, 2]);
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Paths of the files, with `/` between the parts, and what they hold.
    pub files: Vec<(String, Content)>,
}

impl Snapshot {
    /// An empty one.
    pub fn new() -> Snapshot {
        Snapshot::default()
    }

    /// With a file of tensors more. A name for each stream helps: `model.safetensors`, `master…`,
    /// `exp_avg…`, `exp_avg_sq…`, with the same tensor names in each.
    #[must_use]
    pub fn with_tensors(mut self, path: impl Into<String>, tensors: Vec<Tensor>) -> Snapshot {
        self.files.push((path.into(), Content::Tensors(tensors)));
        self
    }

    /// With another file more.
    #[must_use]
    pub fn with_bytes(mut self, path: impl Into<String>, bytes: impl Into<Bytes>) -> Snapshot {
        self.files.push((path.into(), Content::Bytes(bytes.into())));
        self
    }

    /// A tensor of a file.
    pub fn tensor(&self, path: &str, name: &str) -> Option<&Tensor> {
        match &self.files.iter().find(|f| f.0 == path)?.1 {
            Content::Tensors(tensors) => tensors.iter().find(|t| t.name == name),
            _ => None,
        }
    }

    /// The bytes of a file that holds no tensors.
    pub fn bytes(&self, path: &str) -> Option<&Bytes> {
        match &self.files.iter().find(|f| f.0 == path)?.1 {
            Content::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Bytes of memory that it holds, on host and device.
    pub fn len(&self) -> u64 {
        let of = |content: &Content| match content {
            Content::Tensors(tensors) => tensors.iter().map(|t| t.bytes.len() as u64).sum(),
            #[cfg(feature = "gpu")]
            Content::Device(tensors) => tensors.iter().map(|t| t.len()).sum(),
            Content::Bytes(bytes) => bytes.len() as u64,
        };
        self.files.iter().map(|f| of(&f.1)).sum()
    }

    /// Whether it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files as input for an archive.
    ///
    /// # Errors
    /// `InvalidArgument` for bad paths, types that safetensors files do not have, and names that
    /// stand twice.
    #[doc(hidden)]
    pub fn to_input(&self) -> Result<Input<'static>> {
        let mut files: Vec<(String, Box<dyn Source>)> = Vec::new();
        for (path, content) in &self.files {
            let image = image_of(content).map_err(|e| e.in_file(path))?;
            files.push((path.clone(), Box::new(image)));
        }
        Input::from_files(files)
    }

    /// Reads every file of an archive, tensors out of safetensors files. All of them share one
    /// stretch of memory.
    ///
    /// # Errors
    /// What decoding reports; `LimitExceeded` where memory does not suffice.
    pub fn from_archive(archive: &Archive<'_>, options: &RestoreOptions) -> Result<Snapshot> {
        let mut all = Vec::new();
        let room = usize::try_from(archive.total_len()).map(|len| all.try_reserve_exact(len));
        if !matches!(room, Ok(Ok(()))) {
            return Err(Error::LimitExceeded("the checkpoint does not fit into memory".into()));
        }
        all.resize(archive.total_len() as usize, 0);
        archive.restore_all_into(&mut all, options)?;
        let all = Arc::new(all);
        let mut snapshot = Snapshot::new();
        let mut start = 0;
        for entry in &archive.manifest.entries {
            let part = Part { all: all.clone(), from: start, to: start + entry.len as usize };
            start = part.to;
            if entry.kind != EntryKind::Directory {
                let content = content_of(&part).map_err(|e| e.in_file(&entry.path))?;
                let path = entry.path.as_str().ok_or_else(|| {
                    let why = "a snapshot has only files whose names are UTF-8";
                    Error::Unsupported(why.into()).in_file(&entry.path)
                })?;
                snapshot.files.push((path.to_owned(), content));
            }
        }
        Ok(snapshot)
    }
}

/// Tensors in memory as a safetensors file, in this order and with this `__metadata__`. Only the
/// header is made; the tensors are read where they are.
///
/// # Errors
/// `InvalidArgument` for types that safetensors files do not have and names that stand twice.
pub fn safetensors(
    tensors: &[Tensor],
    metadata: &BTreeMap<String, String>,
) -> Result<impl Source + use<>> {
    Image::of_tensors(&tensors.iter().map(Tensor::described).collect::<Vec<_>>(), metadata)
}

fn image_of(content: &Content) -> Result<Image> {
    let described = match content {
        Content::Bytes(bytes) => return Ok(Image::new(vec![Arc::new(Memory(bytes.clone()))])),
        Content::Tensors(tensors) => tensors.iter().map(Tensor::described).collect::<Vec<_>>(),
        #[cfg(feature = "gpu")]
        Content::Device(tensors) => tensors.iter().map(DeviceTensor::described).collect(),
    };
    Image::of_tensors(&described, &BTreeMap::new())
}

/// A stretch of shared memory.
#[derive(Clone)]
struct Part {
    all: Arc<Vec<u8>>,
    from: usize,
    to: usize,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.all[self.from..self.to]
    }
}

impl Source for Part {
    fn len(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.as_ref().read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }
}

fn content_of(file: &Part) -> Result<Content> {
    let parsed = format::parse(file)?;
    // What is odd about a file is not in its tensors.
    if parsed.format != Format::Safetensors || !parsed.notes.is_empty() {
        return Ok(Content::Bytes(file.clone().into()));
    }
    let mut found = parsed.tensors;
    found.sort_by_key(|t| t.offset);
    let tensors = found.into_iter().map(|t| {
        let from = file.from + t.offset as usize;
        let len = t.dtype.tensor_len(&t.shape).unwrap_or(0) as usize;
        let bytes = Part { from, to: (from + len).min(file.to), ..file.clone() };
        Tensor::new(t.name, t.dtype, &t.shape, bytes)
    });
    Ok(Content::Tensors(tensors.collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_safetensors_file_of_its_tensors() {
        let tensors = vec![
            Tensor::new("b", Dtype::BF16, &[3], vec![1, 2, 3, 4, 5, 6]).unwrap(),
            Tensor::new("empty", Dtype::F32, &[0, 4], vec![]).unwrap(),
            Tensor::new("a \"quoted\"", Dtype::F32, &[], Bytes::from_words(vec![1f32])).unwrap(),
        ];
        let image = image_of(&Content::Tensors(tensors.clone())).unwrap();
        let bytes = image.read_vec(0, image.len()).unwrap();
        assert_eq!(&bytes[bytes.len() - 10..], [1, 2, 3, 4, 5, 6, 0, 0, 0x80, 0x3f]);
        let part = Part { all: Arc::new(bytes.clone()), from: 0, to: bytes.len() };
        let Content::Tensors(back) = content_of(&part).unwrap() else { panic!() };
        assert_eq!(back.len(), 3);
        for t in &tensors {
            let same = back.iter().find(|b| b.name == t.name).unwrap();
            assert_eq!((same.dtype, &same.shape, &*same.bytes), (t.dtype, &t.shape, &*t.bytes));
        }
        for at in 0..bytes.len() {
            for len in [0, 1, 7, bytes.len() - at] {
                let read = image.read_vec(at as u64, len as u64);
                assert_eq!(read.ok().as_deref(), bytes.get(at..at + len));
            }
        }
    }

    #[test]
    fn tensors_that_no_file_can_hold_are_refused() {
        assert!(Tensor::new("t", Dtype::F32, &[2], vec![0; 7]).is_err());
        let t = || Tensor::new("t", Dtype::F32, &[1], vec![0; 4]).unwrap();
        assert!(image_of(&Content::Tensors(vec![t(), t()])).is_err());
        let q = Tensor::new("q", Dtype::BYTES, &[4], vec![0; 4]).unwrap();
        assert!(image_of(&Content::Tensors(vec![q])).is_err());
    }
}
