//! Single tensors out of a checkpoint, as a safetensors file.
//!
//! Of an archive only the chunks are read that hold a file's header or the tensors asked for.
//! Tensors that are strided views become contiguous, big-endian ones little-endian.

use crate::{
    Error, Result,
    archive::{
        access::{TensorInfo, tensor::Tensors},
        checkpoint::Checkpoint,
        disk::{AtomicFile, Protected},
        options::Options,
    },
    dtype::Dtype,
    format::Tensor,
    source::Source,
};
use std::{io::Write, path::Path};

/// What extracting did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Extracted {
    /// The tensors by the names they were given in the output.
    pub tensors: Vec<String>,
    /// Bytes of their elements.
    pub bytes: u64,
    /// Length of the output.
    pub output_bytes: u64,
}

/// Writes the named tensors of a checkpoint to the safetensors file `out`. A name is `TENSOR`
/// or, where several files have that tensor, `FILE:TENSOR`.
///
/// # Errors
/// `InvalidArgument` where a name is unknown (the nearest ones are listed) or ambiguous (all are
/// listed), or `out` exists and is not to be replaced, or
/// is read itself; `Unsupported` for element types
/// that safetensors cannot hold; everything that reading can report.
pub fn extract(
    checkpoint: &Checkpoint,
    names: &[String],
    out: &Path,
    options: &Options,
) -> Result<Extracted> {
    let found = find(checkpoint, names)?;
    let protected = Protected::of(options);
    let protected = match checkpoint {
        Checkpoint::Raw(input) => protected.with_input(input),
        Checkpoint::Archive(archive) => protected.with_archive(archive),
    };
    protected.refuse(out)?;
    let mut file = AtomicFile::create(out, options.overwrite)?;
    let extracted = write(checkpoint, &found, &mut file, options)?;
    file.commit()?;
    Ok(extracted)
}

/// As [`extract`], to a writer.
///
/// # Errors
/// As for [`extract`].
pub fn extract_to(
    checkpoint: &Checkpoint,
    names: &[String],
    out: &mut dyn Write,
    options: &Options,
) -> Result<Extracted> {
    write(checkpoint, &find(checkpoint, names)?, out, options)
}

/// A tensor that was asked for.
struct Found {
    file: usize,
    name: String,
    tensor: Tensor,
}

fn find(checkpoint: &Checkpoint, names: &[String]) -> Result<Vec<Found>> {
    let mut list = Vec::new();
    for (entry, e) in checkpoint.manifest().entries.iter().enumerate() {
        let tensors = checkpoint.parse(entry)?.tensors.into_iter();
        list.extend(tensors.map(|tensor| TensorInfo { entry, file: e.path.clone(), tensor }));
    }
    let tensors = Tensors::new(list);
    let mut found: Vec<Found> = Vec::new();
    for name in names {
        let TensorInfo { entry, file, tensor } = &tensors.list[tensors.find(name)?];
        if found.iter().all(|f| f.file != *entry || f.tensor != *tensor) {
            let taken = found.iter().any(|f| f.name == tensor.name);
            let plain = tensor.name.clone();
            let name = if taken { format!("{file}:{plain}") } else { plain };
            found.push(Found { file: *entry, name, tensor: tensor.clone() });
        }
    }
    Ok(found)
}

/// Writes header and elements. Wide types come first, so that all lie aligned.
fn write(
    checkpoint: &Checkpoint,
    found: &[Found],
    out: &mut (impl Write + ?Sized),
    options: &Options,
) -> Result<Extracted> {
    let mut order: Vec<&Found> = found.iter().collect();
    order.sort_by_key(|f| (std::cmp::Reverse(f.tensor.dtype.element_bits()), &f.name));
    let mut header = serde_json::Map::new();
    let mut extracted = Extracted::default();
    for f in &order {
        let dtype = f.tensor.dtype;
        let is_legal = dtype != Dtype::BYTES && dtype != Dtype::C128 && dtype.group_elements() == 1;
        if !is_legal {
            return Err(Error::Unsupported(
                format!(
                    "tensor \"{}\" is {dtype}, which safetensors cannot hold: decompress the whole \
                 file instead",
                    f.name
                )
                .into(),
            ));
        }
        let begin = extracted.bytes;
        let len = dtype.tensor_len(&f.tensor.shape);
        let end = len.and_then(|n| begin.checked_add(n)).ok_or_else(|| {
            Error::Unsupported(format!("tensor \"{}\" is not whole bytes", f.name).into())
        })?;
        extracted.bytes = end;
        let entry = serde_json::json!({
            "dtype": dtype.name(), "shape": f.tensor.shape, "data_offsets": [begin, end],
        });
        header.insert(f.name.clone(), entry);
        extracted.tensors.push(f.name.clone());
    }
    let mut json = serde_json::Value::Object(header).to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    let failed = |source| Error::Io { context: "cannot write the tensors".into(), source };
    out.write_all(&(json.len() as u64).to_le_bytes()).map_err(failed)?;
    out.write_all(&json).map_err(failed)?;
    for f in &order {
        let place = &checkpoint.manifest().entries[f.file].path;
        copy(&checkpoint.file(f.file), &f.tensor, out, options)
            .map_err(|e| e.in_tensor(&f.name).in_file(place))?;
    }
    out.flush().map_err(failed)?;
    extracted.output_bytes = 8 + json.len() as u64 + extracted.bytes;
    Ok(extracted)
}

/// Bytes read at a time.
const STEP: u64 = 1 << 20;

/// Writes the elements of a tensor, contiguous and little-endian.
fn copy(
    source: &(impl Source + ?Sized),
    tensor: &Tensor,
    out: &mut (impl Write + ?Sized),
    options: &Options,
) -> Result<()> {
    let extent = tensor.extent().unwrap_or(0);
    let mut buffer = Vec::new();
    if tensor.strides.is_some() {
        let len = tensor.dtype.tensor_len(&tensor.shape).unwrap_or(u64::MAX);
        if len > source.len() {
            return Err(Error::Unsupported(
                format!("the view repeats elements to {len} bytes, more than its file has").into(),
            ));
        }
        let bytes = source.read_vec(tensor.offset, extent)?;
        gather(&bytes, tensor, &mut buffer);
        return put(&mut buffer, tensor, out);
    }
    let mut at = 0;
    while at < extent {
        if options.cancel.is_cancelled() {
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
        }
        buffer.resize(STEP.min(extent - at) as usize, 0);
        source.read_at(tensor.offset + at, &mut buffer)?;
        put(&mut buffer, tensor, out)?;
        at += STEP;
    }
    Ok(())
}

fn put(buffer: &mut [u8], tensor: &Tensor, out: &mut (impl Write + ?Sized)) -> Result<()> {
    if tensor.big_endian {
        let words = buffer.chunks_exact_mut(tensor.dtype.word_len());
        words.for_each(|word| word.reverse());
    }
    out.write_all(buffer)
        .map_err(|source| Error::Io { context: "cannot write the tensors".into(), source })
}

/// Appends the elements of a strided view, in order, whose extent `bytes` is.
pub(in crate::archive) fn gather(bytes: &[u8], tensor: &Tensor, out: &mut Vec<u8>) {
    let Some(strides) = &tensor.strides else { return };
    if bytes.is_empty() {
        return;
    }
    let len = (tensor.dtype.element_bits() / 8).max(1);
    let mut index = vec![0u64; tensor.shape.len()];
    loop {
        let at: u64 = index.iter().zip(strides).map(|(i, s)| i * s * len).sum();
        out.extend_from_slice(&bytes[at as usize..][..len as usize]);
        let Some(d) = (0..index.len()).rfind(|&d| index[d] + 1 < tensor.shape[d]) else { return };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
}
