//! Single tensors out of a checkpoint, as a safetensors file.
//!
//! Of an archive only the chunks are read that hold a file's header or the tensors asked for.
//! Tensors that are strided views become contiguous, big-endian ones little-endian.

use crate::{
    Error, Result,
    archive::{
        access::Archive,
        checkpoint::Checkpoint,
        disk::{AtomicFile, Protected},
        options::Options,
    },
    container::{EntryKind, Name},
    dtype::Dtype,
    format::Tensor,
    source::Source,
};
use std::{collections::HashMap, io::Write, path::Path};

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
/// listed), or `out` exists and is not to be replaced ([`Options::overwrite`]) or
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

impl Archive<'_> {
    /// The elements of a tensor, contiguous and little-endian, by its name (`FILE:TENSOR` where
    /// several files have it), with its type and shape.
    ///
    /// # Errors
    /// As for [`extract`].
    pub fn tensor(&self, name: &str) -> Result<(Dtype, Vec<u64>, Vec<u8>)> {
        let files = (0..self.manifest.entries.len()).map(|i| {
            let entry = &self.manifest.entries[i];
            if entry.kind == EntryKind::Directory || entry.flat.is_some() {
                return Ok((&entry.path, Vec::new()));
            }
            let parsed = crate::format::parse(&self.file(i)).map_err(|e| e.in_file(&entry.path))?;
            Ok((&entry.path, parsed.tensors))
        });
        let names = [name.to_owned()];
        let found = find_in(&files.collect::<Result<Vec<_>>>()?, &names)?;
        let [Found { file, tensor, .. }] = &found[..] else {
            return Err(Error::InvalidArgument(format!("no tensor \"{name}\"").into()));
        };
        let mut bytes = Vec::new();
        copy(&self.file(*file), tensor, &mut bytes, &Options::default())?;
        Ok((tensor.dtype, tensor.shape.clone(), bytes))
    }
}

/// A tensor that was asked for.
struct Found {
    file: usize,
    name: String,
    tensor: Tensor,
}

fn find(checkpoint: &Checkpoint, names: &[String]) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    for (i, entry) in checkpoint.manifest().entries.iter().enumerate() {
        files.push((&entry.path, checkpoint.parse(i)?.tensors));
    }
    find_in(&files, names)
}

fn find_in(files: &[(&Name, Vec<Tensor>)], names: &[String]) -> Result<Vec<Found>> {
    let mut by_name: HashMap<&str, Vec<(usize, &Tensor)>> = HashMap::new();
    for (i, (_, tensors)) in files.iter().enumerate() {
        for tensor in tensors {
            by_name.entry(&tensor.name).or_default().push((i, tensor));
        }
    }
    let mut found = Vec::new();
    for name in names {
        let all = by_name.get(&name[..]).map_or(&[][..], |v| v);
        let (file, tensor) = match all {
            [one] => *one,
            [] => qualified(files, &by_name, name).ok_or_else(|| unknown(&by_name, name))?,
            several => {
                let list: Vec<String> = several
                    .iter()
                    .take(8)
                    .map(|(i, _)| format!("{}:{name}", files[*i].0))
                    .collect();
                return Err(Error::InvalidArgument(
                    format!(
                        "several files have a tensor \"{name}\": ask for one of {}{}",
                        list.join(", "),
                        if several.len() > 8 { ", …" } else { "" }
                    )
                    .into(),
                ));
            }
        };
        let is_new = found.iter().all(|f: &Found| f.file != file || f.tensor != *tensor);
        if is_new {
            let taken = found.iter().any(|f: &Found| f.name == tensor.name);
            let plain = tensor.name.clone();
            let name = if taken { format!("{}:{plain}", files[file].0) } else { plain };
            found.push(Found { file, name, tensor: tensor.clone() });
        }
    }
    Ok(found)
}

/// The tensor meant by `FILE:TENSOR`, wherever the colon stands.
fn qualified<'t>(
    files: &[(&Name, Vec<Tensor>)],
    by_name: &HashMap<&str, Vec<(usize, &'t Tensor)>>,
    name: &str,
) -> Option<(usize, &'t Tensor)> {
    name.match_indices(':').find_map(|(at, _)| {
        let (file, tensor) = (&name[..at], &name[at + 1..]);
        let is_file = |path: &Name| *path == file || format!("{path}") == file;
        by_name.get(tensor)?.iter().find(|(i, _)| is_file(files[*i].0)).copied()
    })
}

fn unknown(by_name: &HashMap<&str, Vec<(usize, &Tensor)>>, name: &str) -> Error {
    let mut near: Vec<(usize, &str)> =
        by_name.keys().map(|known| (distance(name, known), *known)).collect();
    near.sort();
    let list: Vec<String> = near.iter().take(3).map(|(_, n)| format!("\"{n}\"")).collect();
    let nearest = match list.is_empty() {
        true => ", nor any other".to_owned(),
        false => format!("; the nearest are {}", list.join(", ")),
    };
    Error::InvalidArgument(format!("there is no tensor \"{name}\"{nearest}").into())
}

/// Characters to insert, remove or replace to turn one name into another; a name that contains
/// the other is near.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (a, b) = (&a[..a.len().min(200)], &b[..b.len().min(200)]);
    if !a.is_empty() && b.windows(a.len()).any(|w| w == a) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
fn gather(bytes: &[u8], tensor: &Tensor, out: &mut Vec<u8>) {
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
