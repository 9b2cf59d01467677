//! From a description and the places of storages to spans and tensors.

use std::collections::HashMap;

use super::{Description, Storage, View, optimizer::Number};
use crate::{
    dtype::Dtype,
    format::{
        Span, Tensor,
        fault::{Fault, Found, quote},
        row_words,
    },
    predict::cast::{self, Narrow},
    simd::Level,
    source::Source,
};

/// Where storages lie in the file: key → first byte and length.
pub(super) type Places = HashMap<Vec<u8>, (u64, u64)>;

/// Adds everything described to `found`. Storages that are missing or too short leave their bytes
/// opaque and their tensors unlisted, with a note.
pub(super) fn place(
    source: &dyn Source,
    description: Description,
    places: &Places,
    big_endian: bool,
    found: &mut Found,
) -> Result<(), Fault> {
    let Description { storages, views, groups } = description;
    let rows = rows(&storages, &views);
    let mut offsets = Vec::with_capacity(storages.len());
    for (storage, row_words) in storages.iter().zip(rows) {
        offsets.push(match locate(storage, places) {
            Ok((offset, len)) => {
                let Storage { dtype, .. } = *storage;
                let whole = len - len % dtype.word_len() as u64;
                found.spans.push(Span { offset, len: whole, dtype, row_words, big_endian });
                Some((offset, len))
            }
            Err(why) => {
                found.notes.push(format!("storage {} {why}", quote(&storage.key)));
                None
            }
        });
    }
    let mut tensors = Vec::with_capacity(views.len());
    for view in views {
        let place = offsets[view.storage];
        let View { name, dtype, offset, shape, strides, .. } = view;
        let mut tensor = Tensor { name, dtype, shape, strides, offset, big_endian };
        let end = tensor.extent().and_then(|n| n.checked_add(offset));
        tensors.push(place.and_then(|(start, len)| {
            if end.is_none_or(|end| end > len) {
                let name = quote(tensor.name.as_bytes());
                found.notes.push(format!("tensor {name} reaches past its storage"));
                return None;
            }
            tensor.offset += start;
            Some(tensor)
        }));
    }
    for g in groups {
        let mut group = g.group;
        group.lr = number(source, g.lr, &tensors)?;
        for (param, step) in group.params.iter_mut().zip(g.steps) {
            param.step = number(source, step, &tensors)?;
        }
        found.optimizer.push(group);
    }
    found.tensors.extend(tensors.into_iter().flatten());
    Ok(())
}

fn locate(storage: &Storage, places: &Places) -> Result<(u64, u64), String> {
    let Some(&(offset, len)) = places.get(&storage.key) else {
        return Err("is not in the file".into());
    };
    match storage.len() {
        Some(wanted) if wanted <= len => Ok((offset, wanted)),
        _ => Err(format!(
            "has {len} bytes, too few for {} elements of {}",
            storage.n_elements, storage.dtype
        )),
    }
}

/// The row length of each storage: that of the first dense tensor with rows that covers it.
fn rows(storages: &[Storage], views: &[View]) -> Vec<u64> {
    let mut rows = vec![0; storages.len()];
    for view in views {
        let storage = &storages[view.storage];
        if rows[view.storage] == 0
            && view.offset == 0
            && view.dtype == storage.dtype
            && let Some(shape) = dense_order(view)
            && view.dtype.tensor_len(&shape) == storage.len()
        {
            rows[view.storage] = row_words(view.dtype, &shape);
        }
    }
    rows
}

/// The dimensions in the order in which they lie in memory, outermost first, if they do so
/// without gaps (a transposed matrix, channels last).
fn dense_order(view: &View) -> Option<Vec<u64>> {
    let Some(strides) = &view.strides else { return Some(view.shape.clone()) };
    let mut dims: Vec<(u64, u64)> =
        strides.iter().copied().zip(view.shape.iter().copied()).filter(|(_, d)| *d != 1).collect();
    dims.sort_by_key(|(stride, _)| std::cmp::Reverse(*stride));
    let mut expected = Some(1u64);
    for (stride, dim) in dims.iter().rev() {
        if Some(*stride) != expected {
            return None;
        }
        expected = stride.checked_mul(*dim);
    }
    Some(dims.into_iter().map(|(_, d)| d).collect())
}

/// A number, read from its tensor where it stands in one.
fn number(
    source: &dyn Source,
    number: Option<Number>,
    tensors: &[Option<Tensor>],
) -> Result<Option<f64>, Fault> {
    let tensor = match number {
        None => return Ok(None),
        Some(Number::Known(n)) => return Ok(Some(n)),
        Some(Number::View(i)) => tensors.get(i).and_then(Option::as_ref),
    };
    let Some(tensor) = tensor else { return Ok(None) };
    let mut bytes = [0; 8];
    let word = &mut bytes[..tensor.dtype.word_len().min(8)];
    source.read_at(tensor.offset, word)?;
    if tensor.big_endian {
        word.reverse();
    }
    let bits = u64::from_le_bytes(bytes);
    let widened = |from| {
        let mut wide = [0; 4];
        cast::widen(Level::SCALAR, from, &bytes[..2], &mut wide);
        Some(f32::from_le_bytes(wide).into())
    };
    Ok(match tensor.dtype {
        Dtype::F32 => Some(f32::from_bits(bits as u32).into()),
        Dtype::F64 => Some(f64::from_bits(bits)),
        Dtype::I64 => Some(bits as i64 as f64),
        Dtype::I32 => Some(bits as u32 as i32 as f64),
        Dtype::F16 => widened(Narrow::F16),
        Dtype::BF16 => widened(Narrow::Bf16),
        _ => None,
    })
}
